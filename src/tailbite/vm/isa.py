"""What each operation computes from its operands: RV64IM, after the RISC-V unprivileged specification.

Sources: The RISC-V Instruction Set Manual, volume I: RV32I (2.4 integer computation, 2.5 branches), RV64I (4.2), M
(13.1 multiplication, 13.2 division: no traps, x / 0 = -1, x % 0 = x, MIN / -1 = MIN, MIN % -1 = 0).
"""
# ruff: noqa: E701  (one line for each instruction)

from __future__ import annotations

from typing import Any

from ..lang import function, i64, mulhi, sdiv, select, srem, u32, u64
from .ops import Op

MASK32 = 0xFFFFFFFF


def signed32(x: Any) -> Any:
    """The low 32 bits, sign-extended."""
    return ((x & MASK32) ^ 0x80000000) - 0x80000000


def mulhsu(a: Any, b: Any) -> Any:
    """High half of the product of signed a and unsigned b."""
    return mulhi(a, b) - select(i64(a) < 0, b, u64(0))


def mulh(a: Any, b: Any) -> Any:
    """High half of the signed product."""
    return mulhsu(a, b) - select(i64(b) < 0, a, u64(0))


def divide(a: Any, b: Any) -> Any: return u64(sdiv(i64(a), i64(b)))
def remainder(a: Any, b: Any) -> Any: return u64(srem(i64(a), i64(b)))
def shift_right_arithmetic(a: Any, k: Any) -> Any: return u64(i64(a) >> i64(k))


@function
def compute(op: u64, a: u64, b: u64, imm: u64) -> u64:
    """The result of ``op`` for operands ``a`` (rs1) and ``b`` (rs2), 0 if not read; of a branch 1 if it is taken.

    JALR, loads, stores and ECALL, which do more, are not here.
    """
    match op:
        case Op.ADD: return a + b
        case Op.SUB: return a - b
        case Op.ADDW: return signed32(a + b)
        case Op.SUBW: return signed32(a - b)
        case Op.ADDI: return a + imm
        case Op.ADDIW: return signed32(a + imm)
        case Op.MV: return a
        case Op.SL32: return a << 32
        case Op.SR32: return a >> 32
        case Op.CONST: return imm
        case Op.BEQ: return u64(a == b)
        case Op.BNE: return u64(a != b)
        case Op.BLTU: return u64(a < b)
        case Op.BGEU: return u64(a >= b)
        case Op.BLT: return u64(i64(a) < i64(b))
        case Op.BGE: return u64(i64(a) >= i64(b))
        case Op.SLT: return u64(i64(a) < i64(b + imm))
        case Op.SLTU: return u64(a < b + imm)
        case Op.AND: return a & b
        case Op.OR: return a | b
        case Op.XOR: return a ^ b
        case Op.ANDI: return a & imm
        case Op.ORI: return a | imm
        case Op.XORI: return a ^ imm
        case Op.SHI1_LW: return signed32(a * imm)
        case Op.SHI1_RW: return (a & MASK32) * imm >> 32
        case Op.SHI1_LH: return a * imm << 32
        case Op.SHI1_RH: return (a >> 32) * imm >> 32
        case Op.SHI2_L: return a * imm
        case Op.SHI2_R: return mulhi(a, imm << 32)
        case Op.SLL: return a << (b + imm & 63)
        case Op.SLLW: return signed32(a << (b + imm & 31))
        case Op.SRL: return a >> (b + imm & 63)
        case Op.SRLW: return signed32((a & MASK32) >> (b + imm & 31))
        case Op.SRA: return shift_right_arithmetic(a, b + imm & 63)
        case Op.SRAW: return shift_right_arithmetic(signed32(a), b + imm & 31)
        case Op.MUL: return a * b
        case Op.MULW: return signed32(a * b)
        case Op.MULH: return mulh(a, b)
        case Op.MULHSU: return mulhsu(a, b)
        case Op.MULHU: return mulhi(a, b)
        case Op.DIVU: return a // b
        case Op.REMU: return a % b
        case Op.DIV: return divide(a, b)
        case Op.REM: return remainder(a, b)
        case Op.DIVUW: return signed32(u64(u32(a) // u32(b)))
        case Op.REMUW: return signed32(u64(u32(a) % u32(b)))
        case Op.DIVW: return signed32(divide(signed32(a), signed32(b)))
        case Op.REMW: return signed32(remainder(signed32(a), signed32(b)))
    return u64(0)
