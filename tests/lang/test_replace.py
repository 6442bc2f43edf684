"""``replace``: one function compiled in place of another wherever that is called, and nowhere else."""

from __future__ import annotations

import pytest
from rv_oracle import run_elf

from tailbite.errors import CompileError
from tailbite.guest.commit import commit
from tailbite.lang import cpu, function, u32, u64
from tailbite.lang.riscv import link


@function
def plain(x: u64) -> u64:
    return x + 1


@function
def other(x: u64) -> u64:
    return x * 10


@function
def twin(x: u64) -> u64:
    return x * 100


@function
def middle(x: u64) -> u64:
    return plain(x) + plain(plain(x))


@function
def program() -> None:
    commit(middle(u64(5)))


@function
def narrow(x: u32) -> u64:
    return u64(x)


@function
def silent(x: u64) -> None:
    return


def test_replaced_wherever_it_is_called() -> None:
    assert cpu.Library("replace-none", [middle]).middle(5) == 6 + 7
    assert cpu.Library("replace-one", [middle], replace={plain: other}).middle(5) == 50 + 500
    assert cpu.Library("replace-another", [middle], replace={other: plain}).middle(5) == 6 + 7
    assert middle(u64(5)) == 6 + 7


def test_replaced_in_a_guest() -> None:
    def output(**options: object) -> int:
        return int.from_bytes(run_elf(link(program, **options)).output, "little")

    assert output() == 6 + 7
    assert output(replace={plain: other}) == 50 + 500
    assert link(program) == link(program, replace={})


def test_a_replacement_has_its_own_twin_on_guests() -> None:
    @function
    def with_twin(x: u64) -> u64:
        return x * 10

    with_twin.on_guest(twin)
    output = run_elf(link(program, {plain: with_twin})).output
    assert int.from_bytes(output, "little") == 500 + 50000
    assert cpu.Library("replace-twin", [middle], replace={plain: with_twin}).middle(5) == 50 + 500


@pytest.mark.parametrize("wrong", [narrow, silent, middle])
def test_what_cannot_replace(wrong: object) -> None:
    """Other types; a function that calls what it replaces."""
    with pytest.raises(CompileError, match=r"other types|recursion"):
        cpu.Library("replace-wrong", [middle], replace={plain: wrong}).load()


def test_packaged_code_is_never_replaced() -> None:
    """Its objects are found by name, so they must not depend on anything else."""
    cpu.Library("replace-packaged", [middle], packaged=True)
    with pytest.raises(CompileError, match="part of the package"):
        cpu.Library("replace-packaged", [middle], packaged=True, replace={plain: other})
