"""The compiled loop of the executor: fetch, execute and, in one of its two builds, record.

Instructions are decoded beforehand. A row of :class:`Code` is a row of the ROM or, after those, one of

* an address without an instruction to which a row leads (operation 0: arriving there is a fault);
* COMMIT_BYTE: a commit in progress, one byte and one cycle at a time.

All state lies in arrays of the caller, so the loop can stop anywhere: when a slice of cycles is over, when the caller
must enlarge the memory, or at a fault, before the instruction at fault has had any effect.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hash import keccak
from ..lang import Array, Function, Slice, cpu, function, length, select, u8, u32, u64, unroll
from .decode import Rom
from .isa import MASK32, compute, shift_right_arithmetic
from .memory import FULL, PAGE_BITS, Memory, copy_bytes, fill, rehash, slot_of, touch
from .ops import BRANCHES, COUNTER, LOADS, READS_RS1, READS_RS2, REGISTERS, STORES, WIDTH, WRITES_RD, Call, Op

ONES = 0xFFFFFFFFFFFFFFFF
STACK = 0xFFFF_FFFF_FFFF_FFF0  # x2 at the start
MAX_OUTPUT = 1 << 20
MAX_GAP = 1 << 16  # between two accesses to a register
NOBODY = REGISTERS  # register that is written by operations that write none
NOWHERE = ONES  # instead of a row: no instruction is there
COMMIT_BYTE = 255  # operation
CALL_COST = 256  # a call may take as long as 64 instructions


class Status(IntEnum):
    """Why the loop stopped. From GROW on, the current instruction has had no effect."""

    RUNNING = 0  # the slice is over
    HALTED = 1
    PRINT = 2  # the text lies at x10, x11 bytes
    GROW = 3  # another page of memory is needed
    NO_INSTRUCTION = 4
    BAD_JUMP = 5  # to the address FAULTY
    WRAPS = 6  # the access at FAULTY crosses 2^64
    EXIT = 7  # halt with x10 other than 0
    PANIC = 8
    UNKNOWN_CALL = 9
    COMMIT_STREAM = 10  # x10 is not 1
    COMMIT_BUFFER = 11  # crosses a multiple of 2^32
    OUTPUT_FULL = 12
    KECCAK_POINTER = 13


# words of the state
TS = 0  # time of the next instruction
ROW = 1  # its row
INSTRUCTIONS = 2  # executed so far
FAULTY = 3  # address at fault
POINTER = 4  # commit in progress: address of the next byte,
LEFT = 5  # bytes to come,
RESUME = 6  # row after it
EVENTS = 7  # number of records of each kind
KECCAKS = 8
BYTES = 9
REFRESHES = 10
STATE_WORDS = 11

# words of a record
EVENT = 12  # call, ts, row, x10, x11, x12, x33, old times of x17, x10, x11, x12, x33
KECCAK = 50  # dwords before, old times
BYTE = 4  # ts, address, dword, old time
REFRESH = 4  # register, value, old time, new time

# columns of the record of all instructions, one after another; see executor.Log
WORDS = A, B, R, O, M0, M1 = range(6)
TIMES = IX, T, TA, TB, TD, TM0, TM1 = range(7)


class Code(NamedTuple):
    """Predecoded program; see :func:`predecode`."""

    head: Slice[u64]  # op, rd, rs1, rs2: a byte each from the lowest; flags; from WIDTH_AT on, bits accessed less 1
    imm: Slice[u64]
    next: Slice[u64]  # row of the next instruction, and 2^32 times that of the target of a branch
    pc: Slice[u64]
    hits: Slice[u32]  # executions of each row
    start: Slice[u64]  # first pc of each stretch of code
    first: Slice[u64]  # its first element in rows
    rows: Slice[u32]  # row of each word, MASK32 for none


class Registers(NamedTuple):
    """x0 to x31, the sink, the output counter and NOBODY: values, and times of the last access."""

    x: Slice[u64]
    last: Slice[u32]


class Records(NamedTuple):
    """What the recording build writes: WORDS and TIMES columns of ``capacity`` elements, and rarer records."""

    capacity: u64
    words: Slice[u64]
    times: Slice[u32]
    events: Slice[u64]
    keccaks: Slice[u64]
    bytes: Slice[u64]
    refreshes: Slice[u64]


class Forge(NamedTuple):
    """A wrong machine, for tests: each ``op`` gives a result, stored value or branch decision that is off by one
    bit; with ``jump``, CONST and JALR instead continue 4 bytes further."""

    op: Op
    jump: bool = False


# ---------------------------------------------------------------- predecoding

READS_A, READS_B, WRITES, STORE, SIGNED, SPECIAL = (1 << k for k in range(32, 38))
WIDTH_AT = 40
SPECIALS = LOADS | STORES | {Op.JALR, Op.ECALL}  # operations that isa.compute does not know


def predecode(rom: Rom, entry: int) -> tuple[Code, int]:
    """The program as arrays for the loop, and the row of ``entry``."""
    constant, branch = rom.op == np.uint64(Op.CONST), np.isin(rom.op, [int(op) for op in BRANCHES])
    following = np.where(constant, rom.s1, rom.pc + np.uint64(4))
    target = np.where(branch, rom.i0, following)
    missing = np.setdiff1d(np.concatenate([following, target, np.array([entry], np.uint64)]), rom.pc)
    pc = np.concatenate([rom.pc, missing])
    order = np.argsort(pc)

    def row_of(pcs: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return order[np.searchsorted(pc, pcs, sorter=order)].astype(np.uint64)

    faults = np.array([SPECIAL] * len(missing) + [SPECIAL | COMMIT_BYTE], np.uint64)
    nothing = np.zeros_like(faults)
    head = _heads(rom, np.where(constant, np.uint64(0), rom.s1))
    code = Code(np.concatenate([head, faults]), np.concatenate([rom.immediate, nothing]),
                np.concatenate([row_of(following) | row_of(target) << np.uint64(32), nothing]),
                np.append(pc, np.uint64(0)), np.zeros(len(pc) + 1, np.uint32), *_stretches(rom.pc))
    return code, int(row_of(np.array([entry], np.uint64))[0])


def _heads(rom: Rom, rs1: NDArray[np.uint64]) -> NDArray[np.uint64]:
    flags = np.array([0, *(_flags(op) for op in Op)], np.uint64)[rom.op.astype(np.int64)]
    rd = np.where(flags & np.uint64(WRITES) != 0, rom.rd, np.uint64(NOBODY))
    return flags | rom.op | rd << np.uint64(8) | rs1 << np.uint64(16) | rom.s2 << np.uint64(24)


def _flags(op: Op) -> int:
    members = {READS_A: READS_RS1, READS_B: READS_RS2, WRITES: WRITES_RD, STORE: STORES,
               SIGNED: {Op.LB, Op.LH, Op.LW}, SPECIAL: SPECIALS}
    return sum(bit for bit, ops in members.items() if op in ops) | (8 * WIDTH.get(op, 1) - 1) << WIDTH_AT


def _stretches(pc: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]:
    """``start, first, rows`` of :class:`Code`: the program is split at gaps of 16 words or more."""
    if len(pc) == 0:
        return np.zeros(1, np.uint64), np.zeros(2, np.uint64), np.zeros(0, np.uint32)
    new = np.concatenate([[True], np.diff(pc) > np.uint64(64)])
    start = pc[new]
    last = pc[np.roll(new, -1)]
    first = np.concatenate([np.zeros(1, np.uint64), np.cumsum((last - start) // np.uint64(4) + np.uint64(1))])
    stretch = np.cumsum(new) - 1
    rows = np.full(int(first[-1]), MASK32, np.uint32)
    rows[first[stretch] + (pc - start[stretch]) // np.uint64(4)] = np.arange(len(pc), dtype=np.uint32)
    return start, first, rows


@function
def row_at(code: Code, pc: u64) -> u64:
    """Row of the instruction at ``pc``, or NOWHERE."""
    low, high = u64(0), length(code.start)
    while high - low > 1:
        middle = (low + high) >> 1
        if code.start[middle] <= pc:
            low = middle
        else:
            high = middle
    place = code.first[low] + ((pc - code.start[low]) >> 2)
    if pc & 3 != 0 or pc < code.start[low] or place >= code.first[low + 1]:
        return u64(NOWHERE)
    row = u64(code.rows[place])
    return select(row == MASK32, u64(NOWHERE), row)


# ---------------------------------------------------------------- recording


@function
def refresh(s: Slice[u64], g: Registers, log: Records, r: u64, t: u64, new: u64) -> u64:
    """Register ``r`` is accessed at ``new`` without change; returns ``new``."""
    at = s[REFRESHES] * REFRESH
    s[REFRESHES] += 1
    for k, value in unroll(enumerate(("r", "x", "t", "new"))):
        log.refreshes[at + k] = {"r": r, "x": g.x[r], "t": t, "new": new}[value]
    return new
