"""Guests: types, public and private arguments, output, errors; the interpreter and the machine agree."""

from __future__ import annotations

import random

import pytest

import tailbite
from tailbite import Array, Bytes, Private, TailbiteError, commit, i64, u8, u16, u32, u64
from tailbite.guest import ArgumentError


@tailbite.guest
def mix(a: u32, secret: Private[u64], xs: Array[u32, 3], data: Bytes, f: bool) -> tuple[u64, bool]:
    t = secret
    for i in range(3):
        t += u64(xs[i])
        xs[i] = u32(7)
    for i in range(tailbite.length(data)):
        t = t * 31 + u64(data[i])
    commit(u8(0xAA))
    commit(xs)
    return t + u64(a), f


@tailbite.guest
def signed(a: i64, b: i64) -> i64:
    return tailbite.sdiv(a, b) + tailbite.srem(a, b)


@tailbite.guest
def narrow(a: u8, b: u16) -> u16:
    return u16(a) * b


@tailbite.guest
def nothing() -> None:
    pass


@tailbite.guest
def refuses(n: u64) -> u64:
    assert n < 10, "n is too large"
    return n


def both(g: tailbite.Guest, *args: object) -> object:
    """Run as a program; the output is what the interpreter says, and decodes to what Python returns."""
    run = g.run(*args)
    assert run.output == g.expected_output(*args)
    assert run.result == g(*args)
    return run.result


def test_program_means_what_the_function_means() -> None:
    assert both(mix, 5, 77, [1, 2, 3], b"hello", True) is not None
    assert both(signed, -7, 2) == -4
    assert both(signed, -(1 << 63), -1) == -(1 << 63)
    assert both(signed, 5, 0) == 4
    assert both(narrow, 255, 65535) == 255 * 65535 & 0xFFFF
    assert both(nothing) is None


def test_random_arguments() -> None:
    rng = random.Random(1)
    for _ in range(20):
        data = rng.randbytes(rng.randrange(0, 40))
        both(mix, rng.getrandbits(32), rng.getrandbits(64), [rng.getrandbits(32) for _ in range(3)], data,
             bool(rng.getrandbits(1)))


def test_public_arguments_are_committed_and_private_ones_are_not() -> None:
    one, two = mix.run(5, 0x1122334455667788, [1, 2, 3], b"x", True), mix.run(5, 1, [1, 2, 3], b"x", True)
    assert one.args == two.args == (5, [1, 2, 3], b"x", True)
    assert (0x1122334455667788).to_bytes(8, "little") not in one.output
    assert len(one.output) == 4 + 12 + 5 + 1 + 1 + 12 + 9  # arguments, commits, result
    decoded = mix.decode(one.output)
    assert decoded.committed == b"\xaa" + (7).to_bytes(4, "little") * 3


def test_array_argument_is_committed_as_given() -> None:
    """The guest changes its copy; what is public is what the caller passed."""
    assert mix.run(1, 2, [9, 8, 7], b"", False).args[1] == [9, 8, 7]


@pytest.mark.parametrize("args", [
    (1 << 32, 0, [1, 2, 3], b"", True), (-1, 0, [1, 2, 3], b"", True), (1, 0, [1, 2], b"", True),
    (1, 0, [1, 2, 1 << 32], b"", True), (1, 0, [1, 2, 3], "text", True), (1, 0, [1, 2, 3], b"", 2), (1,),
    (1.5, 0, [1, 2, 3], b"", True)])
def test_unfit_arguments_are_named(args: tuple[object, ...]) -> None:
    with pytest.raises(ArgumentError):
        mix.encode(*args)


def test_input_that_is_not_the_encoding_panics() -> None:
    good = mix.encode(1, 2, [1, 2, 3], b"abc", True)
    mix.program.run(good)
    for bad in (good + b"\0", good[:-1], b"", good[:-1] + b"\2", b"\1" + good[1:]):
        with pytest.raises(tailbite.ExecutionError):
            mix.program.run(bad)
    long = bytearray(good)
    long[28:32] = (0xFFFFFFFF).to_bytes(4, "little")  # the length of Bytes
    with pytest.raises(tailbite.ExecutionError):
        mix.program.run(bytes(long))


def test_failed_assertion_is_a_panic_with_its_message() -> None:
    assert refuses.run(9).result == 9
    with pytest.raises(tailbite.ExecutionError, match="n is too large"):
        refuses.run(10)
    with pytest.raises(tailbite.Trap, match="n is too large"):
        refuses(10)


def test_proof_shows_arguments_and_result() -> None:
    proof = signed.prove(-7, 2, params="fast", allow_insecure=True)
    assert proof.args == (-7, 2) and proof.result == -4
    statement = tailbite.verify(proof, signed, allow_insecure=True)
    assert statement.args == (-7, 2) and statement.result == -4
    with pytest.raises(tailbite.VerificationError):
        tailbite.verify(proof, narrow, allow_insecure=True)


def test_elf_is_reproducible() -> None:
    assert mix.elf() == mix.elf()
    assert signed.elf() != narrow.elf()


@tailbite.guest
def scribbles(data: Bytes) -> u64:
    data[0] = u8(9)
    return u64(data[0]) + u64(data[1])


def test_what_a_guest_changes_is_its_own_copy() -> None:
    given = b"\1\2"
    assert both(scribbles, given) == 11
    assert given == b"\1\2" and scribbles.run(given).args == (given,)


@tailbite.guest
def takes_int(n: int) -> u64:
    return u64(1)


@tailbite.guest
def returns_array(n: u64) -> Array[u64, 2]:
    return Array[u64, 2]()


def test_types_that_a_guest_cannot_have_are_refused() -> None:
    with pytest.raises(TailbiteError):
        takes_int.elf()
    with pytest.raises(TailbiteError, match="a guest returns"):
        returns_array.elf()
