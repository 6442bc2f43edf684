"""For every operation: a machine that computes it wrongly, with a witness that is consistent otherwise, is refused.

The forged run goes on with the wrong value, so all other rows, later ones included, agree with it; only what is said
about the forged operation itself can fail. Each forged proof has an honest twin that is accepted.
"""

from __future__ import annotations

from typing import Any

import pytest
from assembler import ECALL, asm, elf, li

from tailbite.air.check import check
from tailbite.program import Program
from tailbite.proof import Proof, VerificationError, verify
from tailbite.stark.params import preset
from tailbite.stark.prove import prove as prove_words
from tailbite.vm.core import Forge
from tailbite.vm.executor import execute
from tailbite.vm.machine import verifier_terms
from tailbite.vm.ops import BRANCHES, TABLES_OF_OP, Op
from tailbite.vm.trace import fill

DATA, RESULT = 0x400, 0x440  # addresses that one instruction can load
A, B = 0x9234567887654321, 0xFEDCBA9800000007
RD, RA1, RA2, BASE_REG = 5, 6, 7, 8


def rrr(name: str) -> list[int]:
    return [asm(name, RD, RA1, RA2)]


def imm(name: str, k: int) -> list[int]:
    return [asm(name, RD, RA1, k)]


def branch(name: str) -> list[int]:
    """rd tells whether the branch was taken."""
    return [asm("andi", RD, RA1, 0), asm(name, RA1, RA2, 8), asm("xori", RD, RD, 5)]


SNIPPETS: dict[Op, list[int]] = {
    Op.ADD: rrr("add"), Op.SUB: rrr("sub"), Op.ADDW: rrr("addw"), Op.SUBW: rrr("subw"),
    Op.ADDI: imm("addi", -77), Op.ADDIW: imm("addiw", 1234), Op.MV: imm("addi", 0),
    Op.SL32: imm("slli", 32), Op.SR32: imm("srli", 32), Op.CONST: [asm("lui", RD, 0x12345)],
    Op.JALR: [asm("auipc", RA1, 0), asm("jalr", RD, RA1, 8), asm("xori", RA2, RA2, 1), asm("xori", RA2, RA2, 2)],
    Op.BEQ: branch("beq"), Op.BNE: branch("bne"), Op.BLTU: branch("bltu"), Op.BGEU: branch("bgeu"),
    Op.BLT: branch("blt"), Op.BGE: branch("bge"),
    Op.SLT: rrr("slt"), Op.SLTU: rrr("sltu"), Op.AND: rrr("and"), Op.OR: rrr("or"), Op.XOR: rrr("xor"),
    Op.ANDI: imm("andi", -5), Op.ORI: imm("ori", 99), Op.XORI: imm("xori", -100),
    Op.SHI1_LW: imm("slliw", 7), Op.SHI1_RW: imm("srliw", 9), Op.SHI1_LH: imm("slli", 40),
    Op.SHI1_RH: imm("srli", 45), Op.SHI2_L: imm("slli", 3), Op.SHI2_R: imm("srli", 11),
    Op.SLL: rrr("sll"), Op.SRL: rrr("srl"), Op.SRA: rrr("sra"),
    Op.SLLW: rrr("sllw"), Op.SRLW: rrr("srlw"), Op.SRAW: rrr("sraw"),
    Op.MUL: rrr("mul"), Op.MULW: rrr("mulw"), Op.MULH: rrr("mulh"), Op.MULHSU: rrr("mulhsu"), Op.MULHU: rrr("mulhu"),
    Op.DIVU: rrr("divu"), Op.REMU: rrr("remu"), Op.DIV: rrr("div"), Op.REM: rrr("rem"),
    Op.DIVUW: rrr("divuw"), Op.REMUW: rrr("remuw"), Op.DIVW: rrr("divw"), Op.REMW: rrr("remw"),
    **{op: [asm(op.name.lower(), RD, BASE_REG, 0)] for op in
       (Op.LD, Op.LW, Op.LWU, Op.LB, Op.LBU, Op.LH, Op.LHU)},
    **{op: [asm(op.name.lower(), RA1, BASE_REG, 16), asm("ld", RD, BASE_REG, 16)] for op in
       (Op.SD, Op.SW, Op.SB, Op.SH)},
}
MISALIGNED: dict[Op, list[int]] = {
    **{op: [asm(op.name.lower(), RD, BASE_REG, 7)] for op in (Op.LD, Op.LW, Op.LWU, Op.LH, Op.LHU)},
    **{op: [asm(op.name.lower(), RA1, BASE_REG, 23), asm("ld", RD, BASE_REG, 24)] for op in (Op.SD, Op.SW, Op.SH)},
}


def program(op: Op, snippet: list[int]) -> Program:
    """Load two operands, run the snippet, commit rd, halt; constants come from an operation other than ``op``."""
    def const(rd: int, x: int) -> list[int]:
        return [asm("ori", rd, 0, x)] if op == Op.CONST else li(rd, x)

    words = [*const(BASE_REG, DATA), asm("ld", RA1, BASE_REG, 0), asm("ld", RA2, BASE_REG, 8), *snippet,
             asm("sd", RD, BASE_REG, RESULT - DATA),
             *const(10, 1), *const(11, RESULT), *const(12, 8), *const(17, 64), ECALL,
             *const(10, 0), *const(17, 93), ECALL]
    data = A.to_bytes(8, "little") + B.to_bytes(8, "little") + bytes(range(0xE0, 0x100))
    return Program.from_elf(elf(words, {DATA: data}))


def prove(p: Program, forge: Forge | None) -> tuple[Proof, list[Any]]:
    """A proof of the run, honest or forged, and what the trace check says of it."""
    execution = execute(p.image, b"", 10_000, True, None, forge)
    filled = fill(execution, p.image, b"")
    failures = check(filled.traces(p.image), (), verifier_terms(p.image.entry, execution.output))
    keyed, fixed, key = p.keyed(preset("fast"))
    words, channel = prove_words(keyed, key, fixed, execution.output, filled.columns)
    return Proof(words, channel.events), failures


def refused(p: Program, op: Op, forge: Forge) -> None:
    """The forged proof is refused, for a reason that lies in a table of ``op``."""
    proof, failures = prove(p, forge)
    with pytest.raises(VerificationError) as e:
        verify(proof, p, allow_insecure=True)
    assert e.value.category in ("constraints", "balance")
    assert failures
    own = [f for f in failures if f.table in TABLES_OF_OP[op] or any(f"{n} row" in f.name for n in TABLES_OF_OP[op])]
    buses = {f.name.split(" (")[0] for f in own if f.name.startswith("bus ")}
    for f in failures:  # a tuple that the row should have taken is left over on the same bus
        assert f in own or f.name.split(" (")[0] in buses, str(f)


def accepted(p: Program) -> None:
    proof, failures = prove(p, None)
    assert not failures
    verify(proof, p, allow_insecure=True)


def test_every_operation_has_a_forger() -> None:
    assert set(SNIPPETS) == set(Op) - {Op.ECALL}


@pytest.mark.parametrize("op", SNIPPETS, ids=lambda op: op.name)
def test_forged_result(op: Op) -> None:
    p = program(op, SNIPPETS[op])
    accepted(p)
    refused(p, op, Forge(op))


@pytest.mark.parametrize("op", MISALIGNED, ids=lambda op: op.name)
def test_forged_misaligned_access(op: Op) -> None:
    p = program(op, MISALIGNED[op])
    accepted(p)
    refused(p, op, Forge(op))


@pytest.mark.parametrize("op", [Op.CONST, Op.JALR], ids=lambda op: op.name)
def test_forged_jump(op: Op) -> None:
    jump = [asm("jal", RD, 4), asm("xori", RD, RD, 1)] if op == Op.CONST else SNIPPETS[op]
    p = program(op, jump)
    accepted(p)
    refused(p, op, Forge(op, jump=True))


def test_branches_are_covered_both_ways() -> None:
    """The operands make some branches taken and others not, so the forger turns both kinds."""
    taken = {op: execute(program(op, SNIPPETS[op]).image).output[0] == 0 for op in BRANCHES}
    assert set(taken.values()) == {True, False}
