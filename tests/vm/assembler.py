"""A few lines of assembler and ELF writer for tests, independent of the package.

``asm("addi", rd, rs1, imm)`` and so on give instruction words; ``elf(...)`` a static executable.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

ZERO, RA, SP, T0, T1, T2, A0, A1, A2, A7 = 0, 1, 2, 5, 6, 7, 10, 11, 12, 17
BASE = 0x10000
M64 = (1 << 64) - 1

R_TYPE = {  # opcode, funct3, funct7
    "add": (0x33, 0, 0), "sub": (0x33, 0, 0x20), "sll": (0x33, 1, 0), "slt": (0x33, 2, 0), "sltu": (0x33, 3, 0),
    "xor": (0x33, 4, 0), "srl": (0x33, 5, 0), "sra": (0x33, 5, 0x20), "or": (0x33, 6, 0), "and": (0x33, 7, 0),
    "mul": (0x33, 0, 1), "mulh": (0x33, 1, 1), "mulhsu": (0x33, 2, 1), "mulhu": (0x33, 3, 1),
    "div": (0x33, 4, 1), "divu": (0x33, 5, 1), "rem": (0x33, 6, 1), "remu": (0x33, 7, 1),
    "addw": (0x3B, 0, 0), "subw": (0x3B, 0, 0x20), "sllw": (0x3B, 1, 0), "srlw": (0x3B, 5, 0), "sraw": (0x3B, 5, 0x20),
    "mulw": (0x3B, 0, 1), "divw": (0x3B, 4, 1), "divuw": (0x3B, 5, 1), "remw": (0x3B, 6, 1), "remuw": (0x3B, 7, 1),
}
I_TYPE = {  # opcode, funct3
    "addi": (0x13, 0), "slti": (0x13, 2), "sltiu": (0x13, 3), "xori": (0x13, 4), "ori": (0x13, 6), "andi": (0x13, 7),
    "addiw": (0x1B, 0), "jalr": (0x67, 0),
    "lb": (0x03, 0), "lh": (0x03, 1), "lw": (0x03, 2), "ld": (0x03, 3), "lbu": (0x03, 4), "lhu": (0x03, 5),
    "lwu": (0x03, 6),
}
SHIFTS = {  # opcode, funct3, upper six bits, amounts
    "slli": (0x13, 1, 0, 64), "srli": (0x13, 5, 0, 64), "srai": (0x13, 5, 0x10, 64),
    "slliw": (0x1B, 1, 0, 32), "srliw": (0x1B, 5, 0, 32), "sraiw": (0x1B, 5, 0x10, 32),
}
STORES = {"sb": 0, "sh": 1, "sw": 2, "sd": 3}
BRANCHES = {"beq": 0, "bne": 1, "blt": 4, "bge": 5, "bltu": 6, "bgeu": 7}
ECALL = 0x73


def asm(name: str, *args: int) -> int:
    """An instruction word. Operands: rd rs1 rs2; rd rs1 imm; stores rs2 rs1 imm; branches rs1 rs2 offset;
    lui, auipc rd imm20; jal rd offset."""
    if name in R_TYPE:
        opcode, f3, f7 = R_TYPE[name]
        rd, rs1, rs2 = args
        return f7 << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode
    if name in I_TYPE:
        opcode, f3 = I_TYPE[name]
        rd, rs1, imm = args
        assert -2048 <= imm < 2048
        return (imm & 0xFFF) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode
    if name in SHIFTS:
        opcode, f3, upper, amounts = SHIFTS[name]
        rd, rs1, k = args
        assert 0 <= k < amounts
        return upper << 26 | k << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode
    if name in STORES:
        rs2, rs1, imm = args
        assert -2048 <= imm < 2048
        return (imm >> 5 & 0x7F) << 25 | rs2 << 20 | rs1 << 15 | STORES[name] << 12 | (imm & 31) << 7 | 0x23
    if name in BRANCHES:
        rs1, rs2, at = args
        assert -4096 <= at < 4096 and at % 2 == 0
        return ((at >> 12 & 1) << 31 | (at >> 5 & 63) << 25 | rs2 << 20 | rs1 << 15 | BRANCHES[name] << 12
                | (at >> 1 & 15) << 8 | (at >> 11 & 1) << 7 | 0x63)
    if name == "jal":
        rd, at = args
        assert -(1 << 20) <= at < 1 << 20 and at % 2 == 0
        return ((at >> 20 & 1) << 31 | (at >> 1 & 1023) << 21 | (at >> 11 & 1) << 20 | (at >> 12 & 255) << 12
                | rd << 7 | 0x6F)
    rd, imm = args
    return (imm & 0xFFFFF) << 12 | rd << 7 | {"lui": 0x37, "auipc": 0x17}[name]


def li(rd: int, value: int) -> list[int]:
    """Any 64-bit constant, in as many instructions as it takes."""
    value = (value & M64) - (1 << 64 if value >> 63 & 1 else 0)
    if -2048 <= value < 2048:
        return [asm("addi", rd, ZERO, value)]
    low = (value & 0xFFF) - ((value & 0x800) << 1)
    if -(1 << 31) <= value < (1 << 31) - 0x800:
        return [asm("lui", rd, (value - low) >> 12), asm("addi", rd, rd, low)]
    return [*li(rd, (value - low) >> 12), asm("slli", rd, rd, 12), asm("addi", rd, rd, low)]


def call(number: int, a0: int | None = None, a1: int | None = None, a2: int | None = None) -> list[int]:
    """ECALL with constant arguments; None leaves a register alone."""
    words = [w for r, v in ((A0, a0), (A1, a1), (A2, a2)) if v is not None for w in li(r, v)]
    return [*words, *li(A7, number), ECALL]


def halt(code: int = 0) -> list[int]:
    return call(93, code)


def elf(words: Sequence[int], data: dict[int, bytes] | None = None, base: int = BASE, entry: int | None = None,
        flags: int = 0) -> bytes:
    """A static executable: code at ``base``, and read-write segments ``data`` by address."""
    code = struct.pack(f"<{len(words)}I", *words)
    parts = [(5, base, code, len(code)), *((6, a, d, len(d)) for a, d in (data or {}).items())]
    return elf_of_segments(parts, base if entry is None else entry, flags)


def elf_of_segments(parts: Sequence[tuple[int, int, bytes, int]], entry: int, flags: int = 0) -> bytes:
    """Parts are (p_flags, address, bytes in the file, bytes in memory)."""
    head = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 2, 243, 1, entry, 64, 0, flags, 64, 56,
                       len(parts), 64, 0, 0)
    at, headers, body = 64 + 56 * len(parts), b"", b""
    for p_flags, address, content, size in parts:
        headers += struct.pack("<IIQQQQQQ", 1, p_flags, at + len(body), address, address, len(content), size, 1)
        body += content
    return head + headers + body
