"""The decoder against a second decoder written from the specification's instruction table."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from assembler import BRANCHES, I_TYPE, R_TYPE, SHIFTS, STORES, asm

from tailbite.vm.decode import decode, decode_word, describe
from tailbite.vm.ops import OPS_OF_TABLE, TABLES_OF_OP, Op, Table

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
Row = tuple[int, int, int, int, int, int]


# ---------------------------------------------------------------- the second decoder


def sign(x: int, bits: int) -> int:
    return (x & (1 << bits) - 1) - ((x >> (bits - 1) & 1) << bits)


def name_of(word: int) -> str | None:
    """The mnemonic; None for words that are reserved or not RV64IM."""
    opcode, f3, f7 = word & 0x7F, word >> 12 & 7, word >> 25
    for name, key in R_TYPE.items():
        if key == (opcode, f3, f7):
            return name
    for name, (code, kind, upper, amounts) in SHIFTS.items():
        if (code, kind) == (opcode, f3):
            if word >> 26 == upper and (amounts == 64 or not f7 & 1):
                return name
            continue
    for name, key2 in I_TYPE.items():
        if key2 == (opcode, f3):
            return name
    if opcode == 0x23:
        return next((n for n, k in STORES.items() if k == f3), None)
    if opcode == 0x63:
        return next((n for n, k in BRANCHES.items() if k == f3), None)
    if word == 0x73:
        return "ecall"
    return {0x37: "lui", 0x17: "auipc", 0x6F: "jal"}.get(opcode, "fence" if opcode == 0x0F and f3 == 0 else None)


RENAMED = {"slti": "SLT", "sltiu": "SLTU"}


def row_of(pc: int, word: int) -> Row | None:
    name = name_of(word)
    if name is None:
        return None
    rd, rs1, rs2 = word >> 7 & 31, word >> 15 & 31, word >> 20 & 31
    to, imm = rd or 32, sign(word >> 20, 12)

    def constant(register: int, npc: int, value: int) -> Row:
        return (Op.CONST, register, npc, 0, value & M32, value >> 32 & M32)

    def one(op: Op, value: int = 0) -> Row:
        return (op, to, rs1, 0, value & M32, value >> 32 & M32)

    if name == "fence":
        return constant(32, pc + 4, 0)
    if name == "ecall":
        return (Op.ECALL, 0, 0, 0, 0, 0)
    if name == "lui":
        return constant(to, pc + 4, sign(word & 0xFFFFF000, 32))
    if name == "auipc":
        return constant(to, pc + 4, pc + sign(word & 0xFFFFF000, 32))
    if name == "jal":
        bits = f"{word:032b}"
        target = pc + sign(int(bits[0] + bits[12:20] + bits[11] + bits[1:11] + "0", 2), 21)
        return constant(to, target, pc + 4) if 0 <= target <= M32 else None
    if name in BRANCHES:
        bits = f"{word:032b}"
        target = pc + sign(int(bits[0] + bits[24] + bits[1:7] + bits[20:24] + "0", 2), 13)
        return (Op[name.upper()], 0, rs1, rs2, target, 0) if 0 <= target <= M32 else None
    if name in STORES:
        value = sign(word >> 25 << 5 | word >> 7 & 31, 12)
        return (Op[name.upper()], 0, rs1, rs2, value & M32, value >> 32 & M32)
    if name in ("jalr", "lb", "lh", "lw", "ld", "lbu", "lhu", "lwu"):
        return one(Op[name.upper()], imm)
    if rd == 0:
        return constant(32, pc + 4, 0)
    if name in ("addi", "addiw") and rs1 == 0:
        return constant(rd, pc + 4, imm)
    if name in R_TYPE:
        return (Op[name.upper()], rd, rs1, rs2, 0, 0)
    if name in SHIFTS:
        return shift_row(name, word >> 20 & 63, one)
    if name == "addi" and imm == 0:
        return one(Op.MV)
    return one(Op[RENAMED.get(name, name.upper())], imm & M32 if name == "addiw" else imm)


def shift_row(name: str, k: int, one: object) -> Row:
    if k == 0:
        return one(Op.ADDIW if name.endswith("w") else Op.MV)
    if name in ("srai", "sraiw"):
        return one(Op.SRA if name == "srai" else Op.SRAW, k)
    if name in ("slliw", "srliw"):
        return one(Op.SHI1_LW, 1 << k) if name == "slliw" else one(Op.SHI1_RW, 1 << (32 - k))
    left = name == "slli"
    if k == 32:
        return one(Op.SL32 if left else Op.SR32)
    if k < 32:
        return one(Op.SHI2_L, 1 << k) if left else one(Op.SHI2_R, 1 << (32 - k))
    return one(Op.SHI1_LH, 1 << (k - 32)) if left else one(Op.SHI1_RH, 1 << (64 - k))


# ---------------------------------------------------------------- words to try


def structured() -> list[int]:
    """Every opcode with every funct3 and funct7, and destination 0 and another."""
    out, rng = [], random.Random(7)
    for opcode, f3, f7 in itertools.product(range(128), range(8), range(128)):
        if opcode & 3 == 3 or (f7, f3) == (0, 0):
            rs1, rs2 = rng.choices((0, 1, 31, 17), k=2)
            out += [f7 << 25 | rs2 << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode for rd in (0, 9)]
    return out


def immediates() -> list[int]:
    """All shift amounts, special immediates and registers of the immediate formats."""
    out = []
    for opcode, f3, imm in itertools.product((0x13, 0x1B, 0x03, 0x67), range(8), (*range(-1, 68), -2048, 2047, 1024)):
        out += [(imm & 0xFFF) << 20 | rs1 << 15 | f3 << 12 | rd << 7 | opcode for rd in (0, 9) for rs1 in (0, 9)]
    for k, f3, opcode in itertools.product(range(4096), (1, 5), (0x13, 0x1B)):
        out.append(k << 20 | 7 << 15 | f3 << 12 | 5 << 7 | opcode)
    return out


def words() -> np.ndarray:
    rng = random.Random(1)
    some = [rng.getrandbits(32) for _ in range(20000)] + [rng.getrandbits(32) | 3 for _ in range(20000)]
    system = [0x73, 0x100073, 0x200073, 0x30200073, 0x10500073, 0xC0001073, 0x0FF0000F, 0x8330000F, 0x0100000F,
              0x0000100F, 0, M32, 0x00000013]
    return np.array(structured() + immediates() + some + system, dtype=np.uint32)


def as_rows(rom) -> dict[int, Row]:
    columns = (rom.op, rom.rd, rom.s1, rom.s2, rom.i0, rom.i1)
    return {int(pc): tuple(int(c[i]) for c in columns) for i, pc in enumerate(rom.pc)}


@pytest.mark.parametrize("base", [0, 0x10000, 0x7FFF_0000, 0xFEF0_0000])
def test_compiled_decoder_agrees_with_the_second_one(base):
    w = words()
    pcs = np.uint64(base) + 4 * np.arange(len(w), dtype=np.uint64)
    got = as_rows(decode(pcs, w))
    want = {pc: row for pc, word in zip(map(int, pcs), map(int, w), strict=True) if (row := row_of(pc, word))}
    assert got == want
    assert {r[0] for r in got.values()} == set(Op)


def test_interpreted_decoder_is_the_compiled_one():
    w = np.random.default_rng(2).choice(words(), 4000)
    pcs = np.uint64(0xFE00_0000) + 4 * np.arange(len(w), dtype=np.uint64)
    got = as_rows(decode(pcs, w))
    for pc, word in zip(map(int, pcs), map(int, w), strict=True):
        row = tuple(int(x) for x in decode_word(pc, word))
        assert got.get(pc, (0,) * 6) == row


@pytest.mark.parametrize("word", [0x00100073, 0x30200073, 0x0000100F, 0x00000001, 0x4501, 0, 0xFFFFFFFF,
                                  asm("add", 1, 2, 3) | 0x40 << 25, asm("slliw", 1, 2, 3) | 1 << 25,
                                  asm("jalr", 1, 2, 3) | 1 << 12, asm("ld", 1, 2, 3) | 7 << 12, 0x1005202F])
def test_words_without_a_row(word):
    assert len(decode(np.array([0x1000], np.uint64), np.array([word], np.uint32))) == 0
    assert "not an instruction" in describe(0x1000, word)


def test_targets_outside_the_first_4_gib_have_no_row():
    word = np.array([asm("beq", 0, 0, -8)], np.uint32)
    assert len(decode(np.array([4], np.uint64), word)) == 0
    assert len(decode(np.array([8], np.uint64), word)) == 1
    word = np.array([asm("jal", 1, -8)], np.uint32)
    assert len(decode(np.array([4], np.uint64), word)) == 0
    assert len(decode(np.array([8], np.uint64), word)) == 1


def test_empty_program():
    rom = decode(np.zeros(0, np.uint64), np.zeros(0, np.uint32))
    assert len(rom) == 0 and rom.immediate.dtype == np.uint64


def test_rows_of_known_words():
    """Hand-assembled, from the listing of a GNU disassembler."""
    pc = 0x10000
    known = {0x00A58533: (Op.ADD, 10, 11, 10, 0, 0),  # add a0, a1, a0
             0xFFF00513: (Op.CONST, 10, pc + 4, 0, M32, M32),  # li a0, -1
             0x00050513: (Op.MV, 10, 10, 0, 0, 0),  # mv a0, a0
             0x02051513: (Op.SL32, 10, 10, 0, 0, 0),  # slli a0, a0, 32
             0x00008067: (Op.JALR, 32, 1, 0, 0, 0),  # ret
             0xFE519CE3: (Op.BNE, 0, 3, 5, pc - 8, 0),  # bne gp, t0, .-8
             0x41F5551B: (Op.SRAW, 10, 10, 0, 31, 0)}  # sraiw a0, a0, 31
    for word, row in known.items():
        assert tuple(int(x) for x in decode_word(pc, word)) == row, hex(word)


def test_numbering():
    assert 0 not in set(Op) and [int(op) for op in Op] == list(range(1, len(Op) + 1))
    for left, word in ((Op.SLL, Op.SLLW), (Op.SRL, Op.SRLW), (Op.SRA, Op.SRAW)):
        assert left % 2 == 0 and word == left + 1
    names = ("DIVU", "REMU", "DIV", "REM", "DIVUW", "REMUW", "DIVW", "REMW")
    assert [Op[n] - Op.DIVU for n in names] == list(range(8))


def test_every_operation_has_a_table():
    assert all(TABLES_OF_OP[op] for op in Op)
    assert set(OPS_OF_TABLE) == set(Table)
    assert TABLES_OF_OP[Op.LW] == (Table.LW, Table.MLOAD)
    assert TABLES_OF_OP[Op.AND] == (Table.LOGIC, Table.LOGIC32)
    assert set(TABLES_OF_OP[Op.ECALL]) == {Table.HALT, Table.COMMIT, Table.PRINT, Table.CYCLES, Table.KCALL}
