"""The compiled loop of the executor: fetch, execute and, in builds of their own, record or profile.

Instructions are decoded beforehand. A row of :class:`Code` is a row of the ROM or, after those, one of

* NO_INSTRUCTION: an address to which a row leads, but where there is none; arriving is a fault;
* COMMIT_BYTE: a commit in progress, one byte and one cycle at a time.

All state lies in arrays of the caller, so the loop can stop anywhere: when a slice of cycles is over, when the caller
must enlarge the memory, or at a fault, before the instruction at fault has had any effect.
"""

from __future__ import annotations

import functools
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..hash import keccak
from ..lang import Array, Function, Slice, cpu, function, length, select, u8, u32, u64, unroll
from . import calltree
from .calltree import Tree, follow
from .decode import Rom
from .isa import MASK32, compute, shift_right_arithmetic
from .memory import FULL, PAGE_BITS, Memory, copy_bytes, count_unaligned, fill, rehash, slot_of, touch
from .ops import BRANCHES, COUNTER, LOADS, READS_RS1, READS_RS2, REGISTERS, STORES, WIDTH, WRITES_RD, Call, Op

ONES = 0xFFFFFFFFFFFFFFFF
STACK = 0xFFFF_FFFF_FFFF_FFF0  # x2 at the start
MAX_OUTPUT = 1 << 20
MAX_GAP = 1 << 16  # between two accesses to a register
NOBODY = REGISTERS  # register that is written by operations that write none
NOWHERE = ONES  # instead of a row: no instruction is there
CALL_COST = 256  # a call may take as long as 64 instructions


class Extra(IntEnum):
    """Operations of rows that are not in the ROM."""

    NO_INSTRUCTION = 0
    COMMIT_BYTE = 255


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
EVENTS = 7  # calls so far, permutations, records of refreshes
KECCAKS = 8
REFRESHES = 9
HALTS, COMMITS, PRINTS, READS = 10, 11, 12, 13  # calls so far; KECCAKS counts the fifth kind
STATE_WORDS = 14
COUNT_OF = {Call.HALT: HALTS, Call.COMMIT: COMMITS, Call.PRINT: PRINTS, Call.CYCLES: READS, Call.KECCAK: KECCAKS}

# words of a record
EVENT = 12  # call, ts, row, x10, x11, x12, x33, old times of x17, x10, x11, x12, x33
KECCAK = 50  # dwords before, old times
BYTE = 4  # ts, address, dword, old time
REFRESH = 4  # register, value, old time, new time

# columns of the record of all instructions, one after another; see executor.Log
WORDS = A, B, R, OLD, M0, M1 = range(6)
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
    """What the recording build writes: WORDS and TIMES columns of ``capacity`` elements, and rarer records; and
    ``tree``, which the profiling build writes."""

    capacity: u64
    words: Slice[u64]
    times: Slice[u32]
    events: Slice[u64]
    keccaks: Slice[u64]
    bytes: Slice[u64]
    refreshes: Slice[u64]
    tree: Tree


class Forge(NamedTuple):
    """A wrong machine, for tests: each ``op`` gives a result, stored value or branch decision that is off by one
    bit; with ``jump``, CONST and JALR instead continue one instruction beyond their target. ECALL cannot be forged."""

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

    faults = np.array([SPECIAL] * len(missing) + [SPECIAL | Extra.COMMIT_BYTE], np.uint64)
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


def put(array: Any, at: Any, values: tuple[Any, ...]) -> None:
    """Store values one after another."""
    for k, x in enumerate(values):
        array[at + k] = x


def put_word(log: Any, column: int, n: Any, x: Any) -> None:
    log.words[log.capacity * column + n] = x


def put_time(log: Any, column: int, n: Any, x: Any) -> None:
    log.times[log.capacity * column + n] = u32(x)


@function
def access(s: Slice[u64], g: Registers, log: Records, r: u64, now: u64) -> u64:
    """Register ``r`` is accessed at ``now``: its old time. A gap over 2^16 is bridged by an access at now - 1."""
    t = u64(g.last[r])
    g.last[r] = u32(now)
    if now - t <= MAX_GAP:
        return t
    put(log.refreshes, s[REFRESHES] * REFRESH, (r, g.x[r], t, now - 1))
    s[REFRESHES] += 1
    return now - 1


@function
def record(s: Slice[u64], g: Registers, log: Records, head: u64, row: u64, ts: u64, n: u64, r: u64) -> None:
    """Instruction ``n`` and its accesses to registers, before its result ``r`` is written."""
    put_time(log, IX, n, row)
    put_time(log, T, n, ts)
    put_word(log, R, n, r)
    if head & READS_A != 0:
        rs1 = head >> 16 & 255
        put_word(log, A, n, g.x[rs1])
        put_time(log, TA, n, access(s, g, log, rs1, ts))
    if head & READS_B != 0:
        rs2 = head >> 24 & 255
        put_word(log, B, n, g.x[rs2])
        put_time(log, TB, n, access(s, g, log, rs2, ts + 1))
    if head & WRITES != 0:
        rd = head >> 8 & 255
        put_word(log, OLD, n, g.x[rd])
        put_time(log, TD, n, access(s, g, log, rd, ts + 3))


@function
def record_call(s: Slice[u64], g: Registers, log: Records, row: u64, ts: u64) -> None:
    """A call and its accesses to registers, before it changes any; the slots are documented in ``executor``."""
    number, at = g.x[17], (s[EVENTS] - 1) * EVENT
    put(log.events, at, (number, ts, row, g.x[10], g.x[11], g.x[12], g.x[COUNTER]))
    log.events[at + 7] = access(s, g, log, u64(17), ts)
    if number == Call.HALT or number == Call.KECCAK:
        log.events[at + 8] = access(s, g, log, u64(10), ts + 1)
    if number == Call.CYCLES or number == Call.COMMIT:
        log.events[at + 8] = access(s, g, log, u64(10), ts + 3)
    if number == Call.COMMIT:
        log.events[at + 9] = access(s, g, log, u64(11), ts + 1)
        log.events[at + 10] = access(s, g, log, u64(12), ts + 2)
        log.events[at + 11] = access(s, g, log, u64(COUNTER), ts + 3)


# ---------------------------------------------------------------- execution


@function
def status_of_call(g: Registers) -> u64:
    """How the call that the registers ask for ends, without memory being short."""
    number, a0, a1, a2 = g.x[17], g.x[10], g.x[11], g.x[12]
    match number:
        case Call.CYCLES:
            return u64(Status.RUNNING)
        case Call.PRINT:
            return u64(Status.PRINT)
        case Call.HALT:
            return select(a0 == 0, u64(Status.HALTED), u64(Status.EXIT))
        case Call.PANIC:
            return u64(Status.PANIC)
        case Call.KECCAK:
            fits = (a0 & 7 == 0) & ((a0 & MASK32) <= (1 << 32) - 200)
            return select(fits, u64(Status.RUNNING), u64(Status.KECCAK_POINTER))
        case Call.COMMIT:
            if a0 != 1:
                return u64(Status.COMMIT_STREAM)
            if a2 > MASK32 or (a1 & MASK32) + a2 > 1 << 32:
                return u64(Status.COMMIT_BUFFER)
            return select(g.x[COUNTER] + a2 > MAX_OUTPUT, u64(Status.OUTPUT_FULL), u64(Status.RUNNING))
    return u64(Status.UNKNOWN_CALL)


def functions(recording: bool, forge: Forge | None, profiling: bool = False) -> list[Function]:
    """The loop and what the host needs besides, in one of its builds."""
    forged = 0 if forge is None or forge.jump else int(forge.op)
    forged_jump = 0 if forge is None or not forge.jump else int(forge.op)

    def wrong(op: Any) -> Any:
        """The bit by which the result of ``op`` is off: 0, but for tests."""
        return select(op == forged, u64(1), u64(0)) if forged else u64(0)

    @function
    def permute(s: Slice[u64], m: Memory, log: Records, address: u64, ts: u64) -> u64:
        """Keccak-f on the 25 dwords at ``address``, which lie in one page or two."""
        first, second = slot_of(m, address >> 9), slot_of(m, (address + 192) >> 9)
        if first == FULL or second == FULL:
            return u64(Status.GROW)
        state, places = Array[u64, 25](), Array[u64, 25]()
        for k in range(25):
            dword = (address >> 3) + k
            place = select(dword >> PAGE_BITS == address >> 9, first, second) << PAGE_BITS | dword & 63
            touch(m, place)
            places[k] = place
            state[k] = m.data[place]
            if recording:
                at = s[KECCAKS] * KECCAK + k
                log.keccaks[at] = m.data[place]
                log.keccaks[at + 25] = u64(m.when[place])
                m.when[place] = u32(ts + 2)
        keccak.permute(state)
        for k in range(25):
            m.data[places[k]] = state[k]
        s[KECCAKS] += 1
        return u64(Status.RUNNING)

    @function
    def call(s: Slice[u64], code: Code, g: Registers, m: Memory, log: Records, row: u64, ts: u64) -> tuple[u64, u64]:
        """ECALL: status, and the next row."""
        number, a0, a1, a2, count = g.x[17], g.x[10], g.x[11], g.x[12], g.x[COUNTER]
        following, status = code.next[row] & MASK32, status_of_call(g)
        if number == Call.KECCAK and status == Status.RUNNING:
            status = permute(s, m, log, a0, ts)
        if status >= Status.GROW:
            return status, row
        s[EVENTS] += 1
        for kind, word in unroll(COUNT_OF.items()):
            if kind != Call.KECCAK and number == kind:  # permute has counted that
                s[word] += 1
        if recording:
            record_call(s, g, log, row, ts)
        if number == Call.CYCLES:
            g.x[10] = (ts - 4) >> 2
        if number == Call.COMMIT:
            g.x[10] = a2
            g.x[COUNTER] = count + a2
            if a2 != 0:
                put(s, POINTER, (a1, a2, following))
                following = length(code.head) - 1
        return status, following

    @function
    def commit_byte(s: Slice[u64], g: Registers, m: Memory, log: Records, output: Slice[u8], ts: u64) -> u64:
        """One byte of the commit in progress: status."""
        pointer, left = s[POINTER], s[LEFT]
        slot = slot_of(m, pointer >> 9)
        if slot == FULL:
            return u64(Status.GROW)
        place = slot << PAGE_BITS | pointer >> 3 & 63
        touch(m, place)
        at = g.x[COUNTER] - left
        output[at] = u8(m.data[place] >> ((pointer & 7) << 3))
        if recording:
            put(log.bytes, at * BYTE, (ts, pointer, m.data[place], u64(m.when[place])))
            m.when[place] = u32(ts + 2)
        put(s, POINTER, (pointer + 1, left - 1))
        return u64(Status.RUNNING)

    @function
    def visit(m: Memory, log: Records, place: u64, ts: u64, n: u64, second: u64) -> u64:
        """Instruction ``n`` accesses a dword, its first or ``second`` one: the content."""
        touch(m, place)
        old = m.data[place]
        if recording:
            log.words[log.capacity * (M0 + second) + n] = old
            log.times[log.capacity * (TM0 + second) + n] = m.when[place]
            m.when[place] = u32(ts + 2)
        return old

    @function
    def transfer(m: Memory, log: Records, head: u64, address: u64, b: u64, ts: u64, n: u64) -> tuple[u64, u64]:
        """Load or store: status, and the value that is loaded or stored."""
        top, shift, dword = head >> WIDTH_AT, (address & 7) << 3, address >> 3
        if shift & top != 0:
            count_unaligned(m, address, address + (top >> 3))
            if shift + top > 63:
                return transfer_across(m, log, head, address, b, ts, n)
        slot = slot_of(m, dword >> PAGE_BITS)
        if slot == FULL:
            return u64(Status.GROW), address
        place = slot << PAGE_BITS | dword & 63
        old = visit(m, log, place, ts, n, u64(0))
        if head & STORE == 0:
            return u64(Status.RUNNING), loaded(head, old >> shift)
        mask = u64(ONES) >> (63 - top)
        m.data[place] = old ^ ((old >> shift ^ b) & mask) << shift
        return u64(Status.RUNNING), b

    @function
    def transfer_across(m: Memory, log: Records, head: u64, address: u64, b: u64, ts: u64,
                        n: u64) -> tuple[u64, u64]:
        """A load or store that crosses into the next dword."""
        if address > ONES - 7:
            return u64(Status.WRAPS), address
        shift, dword, up = (address & 7) << 3, address >> 3, (address >> 3) + 1
        slot, slot_up = slot_of(m, dword >> PAGE_BITS), slot_of(m, up >> PAGE_BITS)
        if slot == FULL or slot_up == FULL:
            return u64(Status.GROW), address
        place, place_up = slot << PAGE_BITS | dword & 63, slot_up << PAGE_BITS | up & 63
        old, old_up = visit(m, log, place, ts, n, u64(0)), visit(m, log, place_up, ts, n, u64(1))
        window = old >> shift | old_up << (64 - shift)
        if head & STORE == 0:
            return u64(Status.RUNNING), loaded(head, window)
        change = (window ^ b) & u64(ONES) >> (63 - (head >> WIDTH_AT))
        m.data[place] = old ^ change << shift
        m.data[place_up] = old_up ^ change >> (64 - shift)
        return u64(Status.RUNNING), b

    def loaded(head: Any, x: Any) -> Any:
        """The low bits of ``x`` that a load takes, extended."""
        spare = 63 - (head >> WIDTH_AT)
        high = x << spare
        return select(head & SIGNED != 0, shift_right_arithmetic(high, spare), high >> spare) ^ wrong(head & 255)

    @function
    def run(s: Slice[u64], code: Code, g: Registers, m: Memory, log: Records, output: Slice[u8], stop: u64) -> u64:
        """Execute while the time is below ``stop``: status."""
        ts, row, n = s[TS], s[ROW], s[INSTRUCTIONS]
        status = u64(Status.RUNNING)
        while ts < stop and status == Status.RUNNING:
            head, imm, after = code.head[row], code.imm[row], code.next[row]
            a, b, op = g.x[head >> 16 & 255], g.x[head >> 24 & 255], head & 255
            following = after & MASK32
            r = u64(0)
            if head & SPECIAL == 0:
                r = compute(op, a, b, imm) ^ wrong(op)
                following = select(r != 0, after >> 32, following)  # the same but for branches
                if forged_jump == Op.CONST:
                    following += select(op == Op.CONST, u64(1), u64(0))
            else:
                match op:
                    case Op.JALR:
                        r = (code.pc[row] + 4) ^ wrong(op)
                        target = (a + imm) & (ONES - 1)
                        if forged_jump == Op.JALR:
                            target += 4
                        following = row_at(code, target)
                        if following == NOWHERE:
                            s[FAULTY] = target
                            status = u64(Status.BAD_JUMP)
                    case Op.ECALL:
                        status, following = call(s, code, g, m, log, row, ts)
                        stop = select(stop - ts > CALL_COST, stop - CALL_COST, ts)
                    case Extra.COMMIT_BYTE:
                        status = commit_byte(s, g, m, log, output, ts)
                        if status == Status.RUNNING:
                            if profiling:
                                log.tree.cycles[log.tree.state[calltree.NODE]] += 1
                            ts += 4
                            row = select(s[LEFT] == 0, s[RESUME], row)
                        continue
                    case Extra.NO_INSTRUCTION:
                        status = u64(Status.NO_INSTRUCTION)
                    case _:
                        status, r = transfer(m, log, head, a + imm, b ^ wrong(op), ts, n)
                        if status == Status.WRAPS:
                            s[FAULTY] = a + imm
                if status >= Status.GROW:
                    break
            if recording:
                record(s, g, log, head, row, ts, n, r)
            else:
                code.hits[row] += 1
            if profiling:
                follow(log.tree, row, following, code.pc[row], code.pc[following], s[KECCAKS])
            g.x[head >> 8 & 255] = r
            row = following
            n += 1
            ts += 4
        s[TS] = ts
        s[ROW] = row
        s[INSTRUCTIONS] = n
        return status

    return [run, fill, rehash, copy_bytes]


@functools.cache
def library(recording: bool, forge: Forge | None = None, profiling: bool = False) -> cpu.Library:
    """The compiled build; a forging one is not kept in the cache of the package."""
    name = f"executor{'-recording' * recording}{'-profiling' * profiling}{'' if forge is None else f'-{forge}'}"
    return cpu.Library(name, lambda _: functions(recording, forge, profiling), packaged=forge is None)
