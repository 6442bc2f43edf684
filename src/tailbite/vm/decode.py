"""The decoder: what each word of a program means. It defines the ROM, and with it ``program_id``.

One function for each instruction format, in typed Python: interpreted it is the definition, compiled it decodes
2^20 words in milliseconds. Source: The RISC-V Instruction Set Manual, volume I, chapters RV32I, RV64I, M and
Zifencei, and its listing "RV32/64G Instruction Set Listings".

A word that is reserved, or outside RV64IM (compressed, CSR, EBREAK, FENCE.I, floating point, atomics), has no row:
executing it is an error and cannot be proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..lang import Function, Slice, cpu, function, length, select, u32, u64, unroll
from .ops import SINK, Op

MASK32 = 0xFFFFFFFF


class Row(NamedTuple):
    """What a word does; ``op`` 0 means that it has no row.

    rd: register written, 32 in place of x0. s1, s2: registers read; CONST has its next pc in ``s1``.
    i0, i1: low and high 32 bits of the immediate; a branch has its target pc in ``i0``.
    """

    op: u64
    rd: u64
    s1: u64
    s2: u64
    i0: u64
    i1: u64


# ---------------------------------------------------------------- fields of a word


def rd(word: Any) -> Any: return word >> 7 & 31
def rs1(word: Any) -> Any: return word >> 15 & 31
def rs2(word: Any) -> Any: return word >> 20 & 31
def funct3(word: Any) -> Any: return word >> 12 & 7
def funct7(word: Any) -> Any: return word >> 25
def shamt(word: Any) -> Any: return word >> 20 & 63


def extended(x: Any, bits: int) -> Any:
    """Sign extension of a value of ``bits`` bits to 64."""
    top = 1 << (bits - 1)
    return (x ^ top) - top


def imm_i(word: Any) -> Any: return extended(word >> 20, 12)
def imm_s(word: Any) -> Any: return extended(word >> 25 << 5 | word >> 7 & 31, 12)
def imm_u(word: Any) -> Any: return extended(word & 0xFFFFF000, 32)


def imm_b(word: Any) -> Any:
    return extended((word >> 31) << 12 | (word >> 7 & 1) << 11 | (word >> 25 & 63) << 5 | (word >> 8 & 15) << 1, 13)


def imm_j(word: Any) -> Any:
    low = (word >> 20 & 1) << 11 | (word >> 21 & 1023) << 1
    return extended((word >> 31) << 20 | (word >> 12 & 255) << 12 | low, 21)


# ---------------------------------------------------------------- rows


NOTHING = Row(u64(0), u64(0), u64(0), u64(0), u64(0), u64(0))


def destination(word: Any) -> Any:
    """Register 32, which nobody reads, stands in for x0."""
    return select(rd(word) == 0, u64(SINK), rd(word))


def register_row(op: Any, word: Any) -> Row:
    """Two registers in, one out."""
    return Row(op, destination(word), rs1(word), rs2(word), u64(0), u64(0))


def immediate_row(op: Any, word: Any, imm: Any) -> Row:
    """One register and an immediate in, one register out."""
    return Row(op, destination(word), rs1(word), u64(0), imm & MASK32, imm >> 32)


def constant_row(register: Any, next_pc: Any, value: Any) -> Row:
    """Nothing in; result and next pc are known now."""
    return Row(u64(Op.CONST), register, next_pc, u64(0), value & MASK32, value >> 32)


def no_effect(pc: Any) -> Row:
    return constant_row(u64(SINK), pc + 4, u64(0))


def choice(table: dict[int, Op]) -> Function:
    """The function from keys to operations that ``table`` lists; 0 for other keys."""

    @function
    def choose(key: u64) -> u64:
        for k, op in unroll(table.items()):
            if key == k:
                return u64(op)
        return u64(0)

    return choose


# ---------------------------------------------------------------- formats; R-type keys are funct7 << 3 | funct3


op_of_op = choice({
    0x000: Op.ADD, 0x100: Op.SUB, 0x001: Op.SLL, 0x002: Op.SLT, 0x003: Op.SLTU, 0x004: Op.XOR, 0x005: Op.SRL,
    0x105: Op.SRA, 0x006: Op.OR, 0x007: Op.AND,
    0x008: Op.MUL, 0x009: Op.MULH, 0x00A: Op.MULHSU, 0x00B: Op.MULHU,
    0x00C: Op.DIV, 0x00D: Op.DIVU, 0x00E: Op.REM, 0x00F: Op.REMU,
})
op_of_op32 = choice({
    0x000: Op.ADDW, 0x100: Op.SUBW, 0x001: Op.SLLW, 0x005: Op.SRLW, 0x105: Op.SRAW,
    0x008: Op.MULW, 0x00C: Op.DIVW, 0x00D: Op.DIVUW, 0x00E: Op.REMW, 0x00F: Op.REMUW,
})
op_of_load = choice({0: Op.LB, 1: Op.LH, 2: Op.LW, 3: Op.LD, 4: Op.LBU, 5: Op.LHU, 6: Op.LWU})
op_of_store = choice({0: Op.SB, 1: Op.SH, 2: Op.SW, 3: Op.SD})
op_of_branch = choice({0: Op.BEQ, 1: Op.BNE, 4: Op.BLT, 5: Op.BGE, 6: Op.BLTU, 7: Op.BGEU})
op_of_logic = choice({4: Op.XORI, 6: Op.ORI, 7: Op.ANDI})


@function
def decode_register(pc: u64, word: u64, op: u64) -> Row:
    """OP and OP-32."""
    if op == 0:
        return NOTHING
    if rd(word) == 0:
        return no_effect(pc)
    return register_row(op, word)


@function
def decode_op_imm(pc: u64, word: u64) -> Row:
    """ADDI, SLTI, SLTIU, XORI, ORI, ANDI, SLLI, SRLI, SRAI."""
    kind, imm = funct3(word), imm_i(word)
    if kind == 1 or kind == 5:
        return decode_shift(pc, word)
    if rd(word) == 0:
        return no_effect(pc)
    if kind == 0:
        if rs1(word) == 0:
            return constant_row(destination(word), pc + 4, imm)
        if imm == 0:
            return immediate_row(u64(Op.MV), word, imm)
        return immediate_row(u64(Op.ADDI), word, imm)
    if kind == 2:
        return immediate_row(u64(Op.SLT), word, imm)
    if kind == 3:
        return immediate_row(u64(Op.SLTU), word, imm)
    return immediate_row(op_of_logic(kind), word, imm)


@function
def decode_shift(pc: u64, word: u64) -> Row:
    """SLLI, SRLI, SRAI; bits 26 to 31 of the word say which."""
    left, k = funct3(word) == 1, shamt(word)
    upper = word >> 26
    arithmetic = upper == 16
    if upper != 0 and (left or upper != 16):
        return NOTHING
    if rd(word) == 0:
        return no_effect(pc)
    if k == 0:
        return immediate_row(u64(Op.MV), word, u64(0))
    if arithmetic:
        return immediate_row(u64(Op.SRA), word, k)
    if k == 32:
        return immediate_row(select(left, u64(Op.SL32), u64(Op.SR32)), word, u64(0))
    one = u64(1)
    if left:
        if k < 32:
            return immediate_row(u64(Op.SHI2_L), word, one << k)
        return immediate_row(u64(Op.SHI1_LH), word, one << (k - 32))
    if k < 32:
        return immediate_row(u64(Op.SHI2_R), word, one << (32 - k))
    return immediate_row(u64(Op.SHI1_RH), word, one << (64 - k))


@function
def decode_op_imm32(pc: u64, word: u64) -> Row:
    """ADDIW, SLLIW, SRLIW, SRAIW."""
    kind, upper, k = funct3(word), funct7(word), rs2(word)
    shift = (kind == 1 and upper == 0) or (kind == 5 and (upper == 0 or upper == 32))
    if kind != 0 and not shift:
        return NOTHING
    if rd(word) == 0:
        return no_effect(pc)
    if kind == 0:
        if rs1(word) == 0:
            return constant_row(destination(word), pc + 4, imm_i(word))
        return immediate_row(u64(Op.ADDIW), word, imm_i(word) & MASK32)
    if k == 0:
        return immediate_row(u64(Op.ADDIW), word, u64(0))
    if upper == 32:
        return immediate_row(u64(Op.SRAW), word, k)
    one = u64(1)
    if kind == 1:
        return immediate_row(u64(Op.SHI1_LW), word, one << k)
    return immediate_row(u64(Op.SHI1_RW), word, one << (32 - k))


@function
def decode_load(word: u64) -> Row:
    op = op_of_load(funct3(word))
    if op == 0:
        return NOTHING
    return immediate_row(op, word, imm_i(word))


@function
def decode_store(word: u64) -> Row:
    op, imm = op_of_store(funct3(word)), imm_s(word)
    if op == 0:
        return NOTHING
    return Row(op, u64(0), rs1(word), rs2(word), imm & MASK32, imm >> 32)


@function
def decode_branch(pc: u64, word: u64) -> Row:
    op, target = op_of_branch(funct3(word)), pc + imm_b(word)
    if op == 0 or target > MASK32:
        return NOTHING
    return Row(op, u64(0), rs1(word), rs2(word), target, u64(0))


@function
def decode_jal(pc: u64, word: u64) -> Row:
    target = pc + imm_j(word)
    if target > MASK32:
        return NOTHING
    return constant_row(destination(word), target, pc + 4)


@function
def decode_word(pc: u64, word: u64) -> Row:
    """The row of the 32-bit ``word`` at ``pc``, a multiple of 4 below 2^32 - 4."""
    match word & 0x7F:
        case 0x33:
            return decode_register(pc, word, op_of_op(funct7(word) << 3 | funct3(word)))
        case 0x3B:
            return decode_register(pc, word, op_of_op32(funct7(word) << 3 | funct3(word)))
        case 0x13:
            return decode_op_imm(pc, word)
        case 0x1B:
            return decode_op_imm32(pc, word)
        case 0x03:
            return decode_load(word)
        case 0x23:
            return decode_store(word)
        case 0x63:
            return decode_branch(pc, word)
        case 0x6F:
            return decode_jal(pc, word)
        case 0x67:
            if funct3(word) == 0:
                return immediate_row(u64(Op.JALR), word, imm_i(word))
        case 0x37:
            return constant_row(destination(word), pc + 4, imm_u(word))
        case 0x17:
            return constant_row(destination(word), pc + 4, pc + imm_u(word))
        case 0x0F:
            if funct3(word) == 0:  # FENCE: one hart, in order
                return no_effect(pc)
        case 0x73:
            if word == 0x73:
                return Row(u64(Op.ECALL), u64(0), u64(0), u64(0), u64(0), u64(0))
        case _:
            return NOTHING
    return NOTHING


# ---------------------------------------------------------------- whole programs


@function
def decode_words(pcs: Slice[u64], words: Slice[u32], columns: Slice[u64]) -> u64:
    """Fill seven columns, one after another, with the rows of the words that have one; returns their number."""
    stride, rows = length(pcs), u64(0)
    for i in range(length(pcs)):
        row = decode_word(pcs[i], u64(words[i]))
        if row.op != 0:
            columns[rows] = pcs[i]
            for k, x in unroll(enumerate(row)):
                columns[(k + 1) * stride + rows] = x
            rows += 1
    return rows


library = cpu.Library("decode", [decode_words], packaged=True)


@dataclass(frozen=True)
class Rom:
    """The decoded program: uint64 arrays, one element for each word that has a row, by ascending pc.

    The seven columns are the ROM table of the machine; all entries are below 2^32.
    """

    pc: NDArray[np.uint64]
    op: NDArray[np.uint64]
    rd: NDArray[np.uint64]
    s1: NDArray[np.uint64]
    s2: NDArray[np.uint64]
    i0: NDArray[np.uint64]
    i1: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.pc)

    @property
    def immediate(self) -> NDArray[np.uint64]:
        """The 64-bit immediate, i0 + 2^32 i1."""
        return self.i0 | self.i1 << np.uint64(32)


def decode(pcs: NDArray[np.uint64], words: NDArray[np.uint32]) -> Rom:
    """Decode ``words`` (uint32) at ``pcs`` (uint64, ascending multiples of 4 below 2^32 - 4)."""
    columns = np.zeros(7 * len(pcs), dtype=np.uint64)
    rows = library.decode_words(pcs, words, columns)
    return Rom(*columns.reshape(7, len(pcs))[:, :rows])


def describe(pc: int, word: int) -> str:
    """A word in hex and, if it decodes, as its operation; for error messages."""
    row = [int(x) for x in decode_word(pc, word)]
    if row[0] == 0:
        return f"{word:#010x} (not an instruction of RV64IM)"
    op, imm = Op(row[0]), row[4] | row[5] << 32
    if op is Op.CONST:
        return f"{word:#010x} (CONST x{row[1]} = {imm:#x}, next {row[2]:#x})"
    return f"{word:#010x} ({op.name} rd=x{row[1]} rs1=x{row[2]} rs2=x{row[3]} imm={imm:#x})"
