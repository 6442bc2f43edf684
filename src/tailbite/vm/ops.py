"""The operation numbers that decoder, executor and tables share, and the tables that may prove each of them.

An operation names semantics *and* the encoding of its immediate, never a mnemonic: ``slli`` is MV, SL32, SHI1_LH or
SHI2_L depending on the amount, and ``sra`` and ``srai`` are both SRA. Number 0 is never used, so a row of zeros
fetches nothing.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

SINK = 32  # the register that takes what would be written to x0
COUNTER = 33  # the register that counts committed bytes
REGISTERS = 34


class Op(IntEnum):
    """Operation numbers; `program_id` depends on them."""

    ADD = 1
    SUB = 2
    ADDW = 3
    SUBW = 4
    ADDI = 5
    ADDIW = 6
    MV = 7  # result a
    SL32 = 8  # a << 32
    SR32 = 9  # a >> 32
    CONST = 10  # result and next pc are constants of the row
    JALR = 11
    BEQ = 12
    BNE = 13
    BLTU = 14
    BGEU = 15
    BLT = 16
    BGE = 17
    SLT = 18
    SLTU = 19
    AND = 20
    OR = 21
    XOR = 22
    ANDI = 23
    ORI = 24
    XORI = 25
    SHI1_LW = 26  # slliw 1..31, immediate 2^k
    SHI1_RW = 27  # srliw 1..31, immediate 2^(32-k)
    SHI1_LH = 28  # slli 33..63, immediate 2^(k-32)
    SHI1_RH = 29  # srli 33..63, immediate 2^(64-k)
    SHI2_L = 30  # slli 1..31, immediate 2^k
    SHI2_R = 31  # srli 1..31, immediate 2^(32-k)
    # shifts by a register or an arithmetic shift by a constant: even number + word
    SLL = 32
    SLLW = 33
    SRL = 34
    SRLW = 35
    SRA = 36
    SRAW = 37
    MUL = 38
    MULW = 39
    MULH = 40
    MULHSU = 41
    MULHU = 42
    # DIVU + rem + 2 signed + 4 word
    DIVU = 43
    REMU = 44
    DIV = 45
    REM = 46
    DIVUW = 47
    REMUW = 48
    DIVW = 49
    REMW = 50
    LD = 51
    SD = 52
    LW = 53
    LWU = 54
    SW = 55
    LB = 56
    LBU = 57
    LH = 58
    LHU = 59
    SB = 60
    SH = 61
    ECALL = 62


class Table(StrEnum):
    """The tables that fetch an instruction."""

    ADDSUB = "ADDSUB"
    ADDI = "ADDI"
    ADDW = "ADDW"
    ADDIW = "ADDIW"
    MV = "MV"
    CONST = "CONST"
    JALR = "JALR"
    BEQ = "BEQ"
    BLTU = "BLTU"
    BLT = "BLT"
    SLT = "SLT"
    LOGIC = "LOGIC"
    LOGIC32 = "LOGIC32"
    LOGICI = "LOGICI"
    SHI1 = "SHI1"
    SHI2 = "SHI2"
    SHR = "SHR"
    MUL = "MUL"
    MULH = "MULH"
    DIVREM = "DIVREM"
    LD = "LD"
    SD = "SD"
    LW = "LW"
    SW = "SW"
    LBH = "LBH"
    SBH = "SBH"
    MLOAD = "MLOAD"
    MSTORE = "MSTORE"
    HALT = "HALT"
    COMMIT = "COMMIT"
    PRINT = "PRINT"
    CYCLES = "CYCLES"
    KCALL = "KCALL"


class Call(IntEnum):
    """What ECALL does, by x17."""

    PRINT = 1
    PANIC = 2  # unprovable
    COMMIT = 64
    HALT = 93
    CYCLES = 2**64 - 32
    KECCAK = 2**64 - 2


OPS_OF_TABLE: dict[Table, tuple[Op, ...]] = {
    Table.ADDSUB: (Op.ADD, Op.SUB),
    Table.ADDI: (Op.ADDI,),
    Table.ADDW: (Op.ADDW, Op.SUBW),
    Table.ADDIW: (Op.ADDIW,),
    Table.MV: (Op.MV, Op.SL32, Op.SR32),
    Table.CONST: (Op.CONST,),
    Table.JALR: (Op.JALR,),
    Table.BEQ: (Op.BEQ, Op.BNE),
    Table.BLTU: (Op.BLTU, Op.BGEU),
    Table.BLT: (Op.BLT, Op.BGE),
    Table.SLT: (Op.SLT, Op.SLTU),
    Table.LOGIC: (Op.AND, Op.OR, Op.XOR),
    Table.LOGIC32: (Op.AND, Op.OR, Op.XOR),
    Table.LOGICI: (Op.ANDI, Op.ORI, Op.XORI),
    Table.SHI1: (Op.SHI1_LW, Op.SHI1_RW, Op.SHI1_LH, Op.SHI1_RH),
    Table.SHI2: (Op.SHI2_L, Op.SHI2_R),
    Table.SHR: (Op.SLL, Op.SLLW, Op.SRL, Op.SRLW, Op.SRA, Op.SRAW),
    Table.MUL: (Op.MUL, Op.MULW),
    Table.MULH: (Op.MULH, Op.MULHSU, Op.MULHU),
    Table.DIVREM: (Op.DIVU, Op.REMU, Op.DIV, Op.REM, Op.DIVUW, Op.REMUW, Op.DIVW, Op.REMW),
    Table.LD: (Op.LD,),
    Table.SD: (Op.SD,),
    Table.LW: (Op.LW, Op.LWU),
    Table.SW: (Op.SW,),
    Table.LBH: (Op.LB, Op.LBU, Op.LH, Op.LHU),
    Table.SBH: (Op.SB, Op.SH),
    Table.MLOAD: (Op.LH, Op.LHU, Op.LW, Op.LWU, Op.LD),
    Table.MSTORE: (Op.SH, Op.SW, Op.SD),
    Table.HALT: (Op.ECALL,),
    Table.COMMIT: (Op.ECALL,),
    Table.PRINT: (Op.ECALL,),
    Table.CYCLES: (Op.ECALL,),
    Table.KCALL: (Op.ECALL,),
}

TABLES_OF_OP: dict[Op, tuple[Table, ...]] = {
    op: tuple(t for t, ops in OPS_OF_TABLE.items() if op in ops) for op in Op
}

BRANCHES = frozenset({Op.BEQ, Op.BNE, Op.BLTU, Op.BGEU, Op.BLT, Op.BGE})
LOADS = frozenset({Op.LD, Op.LW, Op.LWU, Op.LB, Op.LBU, Op.LH, Op.LHU})
STORES = frozenset({Op.SD, Op.SW, Op.SB, Op.SH})

# Which registers the tables of an operation access; ECALL's depend on the call.
READS_RS1 = frozenset(Op) - {Op.CONST, Op.ECALL}
READS_RS2 = BRANCHES | STORES | frozenset(
    op for t in (Table.ADDSUB, Table.ADDW, Table.SLT, Table.LOGIC, Table.SHR, Table.MUL, Table.MULH, Table.DIVREM)
    for op in OPS_OF_TABLE[t])
WRITES_RD = frozenset(Op) - BRANCHES - STORES - {Op.ECALL}

# Bytes of memory that an operation accesses, at any alignment.
WIDTH: dict[Op, int] = {
    Op.LD: 8, Op.SD: 8, Op.LW: 4, Op.LWU: 4, Op.SW: 4, Op.LH: 2, Op.LHU: 2, Op.SH: 2, Op.LB: 1, Op.LBU: 1, Op.SB: 1,
}
