"""Whole runs through all tables: every operation and call in one proof, table heights at their borders."""

from __future__ import annotations

from typing import Any

import pytest
from assembler import ECALL, asm, call, elf, halt, li
from test_forgers import DATA, MISALIGNED, RESULT, SNIPPETS, A, B

from tailbite.air.check import check
from tailbite.air.lint import lint
from tailbite.program import Program
from tailbite.proof import verify
from tailbite.vm.executor import execute
from tailbite.vm.machine import TABLES, machine, verifier_terms
from tailbite.vm.ops import OPS_OF_TABLE, Op
from tailbite.vm.ops import Table as Name
from tailbite.vm.trace import fill


def everything() -> Program:
    """Each operation once, aligned and not, both branches, all provable calls."""
    words = [*li(8, DATA), asm("ld", 6, 8, 0), asm("ld", 7, 8, 8)]
    for snippet in (*SNIPPETS.values(), *MISALIGNED.values()):
        words += [*snippet, asm("ld", 6, 8, 0), asm("ld", 7, 8, 8), asm("sd", 5, 8, RESULT - DATA)]
    words += [0x0000000F, asm("and", 5, 0, 0), asm("addi", 0, 6, 1)]  # fence, LOGIC32, a result for x0
    words += [*call(1, RESULT, 8), *call((-32) & (1 << 64) - 1), *call((-2) & (1 << 64) - 1, 0x800)]
    words += [*call(64, 1, RESULT, 8), *call(64, 1, DATA, 3),
              *call(64, 1, DATA, 0), *halt()]
    data = A.to_bytes(8, "little") + B.to_bytes(8, "little") + bytes(range(0xE0, 0x100))
    return Program.from_elf(elf(words, {DATA: data}))


def prove(p: Program, private_input: bytes = b"") -> Any:
    proof = p.prove(private_input, "fast", allow_insecure=True)
    verify(proof, p, allow_insecure=True)
    return proof


def test_linter_passes_and_tables_match_operations() -> None:
    system = machine()
    lint(system.tables, system.buses)
    names = {t.name for t in TABLES}
    assert set(OPS_OF_TABLE) <= names
    for t in system.tables:
        ops = {Op(int(c.extra["op"])) for c in t.declared if c.kind == "selector" and c.extra["op"]}
        if ops:
            assert ops <= set(OPS_OF_TABLE[Name(t.name)]), t.name


def test_every_operation_and_call_in_one_proof() -> None:
    p = everything()
    run = execute(p.image)
    assert set(run.counts) == set(Op)
    filled = fill(run, p.image, b"")
    assert not check(filled.traces(p.image), (), verifier_terms(p.image.entry, run.output))
    assert {n for n, _ in prove(p).tables} == {t.name for t in TABLES} - {"REFRESH"}


@pytest.mark.parametrize("count", [1, 31, 32, 33, 63, 64, 65, 96, 97])
def test_heights_at_their_borders(count: int) -> None:
    """A table exactly full, one row over, and split over two instances."""
    words = [asm("addi", 5, 5, 1)] * count + [asm("sd", 5, 8, 0x400)] + [*call(64, 1, 0x400, 8), *halt()]
    proof = prove(Program.from_elf(elf(words)))
    assert int.from_bytes(proof.output, "little") == count
    heights = [log for n, log in proof.tables if n == "ADDI"]
    assert sum(1 << h for h in heights) >= count and len(heights) <= 2


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 12, 251, 252, 253, 300])
def test_private_input_of_any_length(size: int) -> None:
    """The program commits the first byte of its input region, which is the length's lowest."""
    words = [asm("lui", 8, 0xFF000), asm("slli", 8, 8, 32), asm("srli", 8, 8, 32), *li(10, 1),
             asm("addi", 11, 8, 0), *li(12, 4), *li(17, 64), ECALL, *halt()]
    proof = prove(Program.from_elf(elf(words)), bytes(range(256))[:size % 256] + bytes(max(0, size - 255)))
    assert int.from_bytes(proof.output, "little") == len(bytes(range(256))[:size % 256]) + max(0, size - 255)


def test_program_without_nonzero_data_segment_has_an_image_of_its_code() -> None:
    proof = prove(Program.from_elf(elf(halt())))
    assert "IMAGE" in dict(proof.tables) and proof.output == b""


def test_long_gaps_between_accesses_are_refreshed() -> None:
    """A register that rests for more than 2^16 time units is bridged by REFRESH."""
    loop = [*li(6, 6000), asm("addi", 6, 6, -1), asm("addi", 0, 0, 0), asm("bne", 6, 0, -8)]
    words = [*li(9, 77), *loop, *loop, asm("sd", 9, 0, 0x400), *call(64, 1, 0x400, 8), *halt()]
    proof = prove(Program.from_elf(elf(words)))
    assert int.from_bytes(proof.output, "little") == 77 and "REFRESH" in dict(proof.tables)


def test_stack_at_the_end_of_memory_and_code_everywhere() -> None:
    """sp starts 16 bytes below 2^64; code may lie at any 4-aligned address below 0xFF000000."""
    for base in (0x1000, 0x7FFFF000, 0x80000000, 0xFEFFF000, 0x55555554 & ~3):
        words = [asm("addi", 5, 0, 42), asm("sd", 5, 2, 8), asm("ld", 6, 2, 8), asm("auipc", 7, 0),
                 asm("sd", 6, 0, 0x400), *call(64, 1, 0x400, 8), *halt()]
        proof = prove(Program.from_elf(elf(words, base=base)))
        assert int.from_bytes(proof.output, "little") == 42
