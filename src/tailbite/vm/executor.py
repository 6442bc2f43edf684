"""The executor: runs an image and records what the tables prove.

A run is deterministic, so it happens twice: first without a record, which finds every fault and the size of everything,
then, if a log is wanted, again into arrays of exactly that size. The compiled loop is in :mod:`.core`; a profile, by
:mod:`.calltree`, takes a build of it that counts every cycle.

Time. An instruction is one cycle and so is each committed byte; cycle k = 1, 2, ... has time ts = 4 k. An instruction
reads rs1 at ts and rs2 at ts + 1, accesses memory at ts + 2 and writes rd at ts + 3; the slots of the calls stand with
their logs. What registers and memory hold at first has time 0. The *old time* of an access is that of the access before
it to the same register or dword.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TailbiteError
from . import calltree, core
from .calltree import PROFILE_SLICE, CallTree
from .core import Forge, Records, Status
from .decode import Rom, describe
from .elf import INPUT_BASE, Image
from .memory import PAGE_BITS, Memory, enlarged
from .ops import COUNTER, REGISTERS, Call, Op

MAX_CYCLES = (1 << 30) - 1
MAX_INPUT = (1 << 24) - 4
MAX_DWORDS = 1 << 24
SLICE = 4 << 20  # time of one compiled call, well under 0.2 s
FREE_PAGES = 1 << 10  # room for them at first, beyond what the program starts with
LONGEST_TEXT = 1 << 16  # bytes of a printed text or panic message; longer ones are cut

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
Progress = Callable[[int, int | None], None]


# ---------------------------------------------------------------- errors


class ExecutionError(TailbiteError):
    """The program did what the machine cannot prove: at ``pc``, after ``cycles`` cycles (None if it did not start)."""

    def __init__(self, message: str, pc: int | None = None, cycles: int | None = None) -> None:
        super().__init__(message)
        self.pc, self.cycles = pc, cycles


class IllegalInstruction(ExecutionError):
    """Control came to an address without an instruction."""


class MemoryFault(ExecutionError):
    """An access beyond the end of memory, or a pointer that a call does not take."""


class UnsupportedCall(ExecutionError):
    """An ECALL with an unknown number, or with arguments that it does not take."""


class Panic(ExecutionError):
    """The program called panic."""


class ExitCode(ExecutionError):
    """The program halted with an exit code other than 0."""


class CycleLimit(ExecutionError):
    """The program did not halt within the cycles allowed."""


class LimitExceeded(ExecutionError):
    """More input, output or memory than one proof can hold."""


# ---------------------------------------------------------------- what a run leaves


class Halts(NamedTuple):
    """HALT rows, one: reads x17 at ts and x10 at ts + 1."""

    ts: U64
    pc: U64
    t17: U64
    t10: U64


class Commits(NamedTuple):
    """COMMIT rows: reads x17 at ts, x11 = ``address`` at ts + 1 and x12 = ``length`` at ts + 2; at ts + 3 changes x10
    from 1 to ``length`` and register 33 from ``idx`` to ``idx + length``.

    The bytes follow at ts + 4, ts + 8, ...; the row that ends the commit (rem = 0) has time ts + 4 + 4 length.
    """

    ts: U64
    pc: U64
    address: U64
    length: U64
    idx: U64
    t17: U64
    t11: U64
    t12: U64
    t10: U64
    t33: U64


class Prints(NamedTuple):
    """PRINT rows: reads x17 at ts."""

    ts: U64
    pc: U64
    t17: U64


class CycleReads(NamedTuple):
    """CYCLES rows: reads x17 at ts; at ts + 3 changes x10 from ``old`` to (ts - 4) / 4."""

    ts: U64
    pc: U64
    t17: U64
    t10: U64
    old: U64


class Keccaks(NamedTuple):
    """KCALL rows: reads x17 at ts and x10 = ``address`` at ts + 1; at ts + 2 permutes 25 dwords from there.

    ``state``, shape (n, 25): before the permutation; ``tm``, shape (n, 25): old times.
    """

    ts: U64
    pc: U64
    address: U64
    t17: U64
    t10: U64
    state: U64
    tm: U64


class CommittedBytes(NamedTuple):
    """CBYTE rows that carry a byte: at ts + 2 reads the dword ``value`` of old time ``tm``, which holds ``address``.

    ``byte`` is the byte; ``rem``: bytes to come, this one included; ``idx``: its place in the output; ``pcn``: the pc
    after the commit.
    """

    ts: U64
    address: U64
    value: U64
    tm: U64
    byte: U64
    rem: U64
    idx: U64
    pcn: U64


class Refreshes(NamedTuple):
    """REFRESH rows: register ``r`` with ``value``, last accessed at ``t``, is accessed at ``new`` without change.

    The access that needs it follows at new + 1, and would else be more than 2^16 after ``t``.
    """

    r: U64
    value: U64
    t: U64
    new: U64


class Registers(NamedTuple):
    """Registers 0 to 33 at the end: time of the last access, and value."""

    t: U64
    value: U64


class Dwords(NamedTuple):
    """Memory at the end, ascending: each dword that was accessed, or is not zero in the image, or holds input.

    ``t``: time of the last access, 0 if none; ``zero``: starts as zero, so neither image nor input send it.
    """

    h: U64
    w: U64
    t: U64
    value: U64
    zero: NDArray[np.bool_]


@dataclass(frozen=True)
class Log:
    """One element for each executed instruction, ECALL included, in order; what an operation lacks is 0.

    ECALL has only ``ix`` and ``ts`` here. Calls, committed bytes and refreshes have logs of their own.
    """

    ix: U32  # row of the ROM
    ts: U32
    a: U64  # value read through rs1
    b: U64  # value read through rs2
    r: U64  # value written to rd; of stores b; of branches 1 if taken
    o: U64  # old value of rd
    ta: U32  # old times of rs1, rs2, rd
    tb: U32
    td: U32
    m0: U64  # old content of the dword that holds the effective address, and of the next one if the access crosses
    m1: U64
    tm0: U32  # their old times
    tm1: U32
    halts: Halts
    commits: Commits
    prints: Prints
    cycle_reads: CycleReads
    keccaks: Keccaks
    bytes: CommittedBytes
    refreshes: Refreshes
    registers: Registers
    memory: Dwords

    def __len__(self) -> int:
        return len(self.ix)


@dataclass(frozen=True)
class Execution:
    """A run that halted with exit code 0. ``hits``: executions of each row of the ROM.

    ``calls``: accelerator and other calls by kind. ``unaligned``: loads and stores at an address that is not a multiple
    of their width; ``crossing``: those of them that reach into a second dword. ``tree``: the profile, if asked for.
    """

    output: bytes
    cycles: int
    instructions: int
    printed: tuple[str, ...]
    hits: U32
    rom: Rom
    calls: dict[Call, int]
    unaligned: int
    crossing: int
    log: Log | None = None
    tree: CallTree | None = None

    @property
    def counts(self) -> dict[Op, int]:
        """Executed instructions by operation."""
        n = np.bincount(self.rom.op.astype(np.int64), weights=self.hits, minlength=len(Op) + 1)
        return {op: int(n[op]) for op in Op if n[op]}


def execute(image: Image, private_input: bytes = b"", max_cycles: int = MAX_CYCLES, log: bool = True,
            progress: Progress | None = None, forge: Forge | None = None, profile: bool = False) -> Execution:
    """Run ``image`` to its halt; an :class:`ExecutionError` names any other end.

    ``progress(cycles, total)`` is called after each slice, with total None while it is not known. ``forge`` makes the
    machine compute wrongly, for tests. ``profile`` counts cycles by call stack, at about a third of the speed.
    """
    if len(private_input) > MAX_INPUT:
        raise LimitExceeded(f"the private input has {len(private_input)} bytes; at most {MAX_INPUT} are possible")
    first = _Run(image, private_input, forge, profiling=profile)
    first.finish(min(max_cycles, MAX_CYCLES), progress, None)
    recorded = None
    if log:
        second = _Run(image, private_input, forge, first)
        second.finish(first.cycles, progress, first.cycles)
        recorded = _log(second)
    calls = {kind: int(first.state[k]) for kind, k in core.COUNT_OF.items()}
    unaligned, crossing = (int(n) for n in first.memory.used[2:])
    tree = CallTree.of(first.records.tree, image) if profile else None
    return Execution(first.output, first.cycles, int(first.state[core.INSTRUCTIONS]), tuple(first.printed),
                     first.code.hits[:len(image.rom)], image.rom, calls, unaligned, crossing, recorded, tree)


# ---------------------------------------------------------------- one run


class _Run:
    """A machine in its initial state; one that records needs the same run ``measured``."""

    memory: Memory

    def __init__(self, image: Image, private_input: bytes, forge: Forge | None, measured: _Run | None = None,
                 profiling: bool = False) -> None:
        recording = measured is not None
        self.image, self.profiling = image, profiling
        self.library = core.library(recording, forge, profiling)
        self.code, row = core.predecode(image.rom, image.entry)
        self.state = np.zeros(core.STATE_WORDS, np.uint64)
        self.state[core.TS], self.state[core.ROW] = 4, row
        self.registers = core.Registers(np.zeros(core.NOBODY + 1, np.uint64), np.zeros(core.NOBODY + 1, np.uint32))
        self.registers.x[2] = core.STACK
        self.initial, values = _initial_dwords(image, private_input)
        pages = int(measured.memory.used[0]) if measured else FREE_PAGES + len(np.unique(self.initial >> PAGE_BITS))
        self.memory = Memory.of(pages, recording)
        self.library.fill(self.memory, self.initial, values)
        self.records = _records(measured)
        if profiling:
            self.records = self.records._replace(tree=calltree.new_tree(image, len(self.code.head)))
        self.output_buffer = np.zeros(core.MAX_OUTPUT, np.uint8)
        self.printed: list[str] = []

    @property
    def cycles(self) -> int:
        """Cycles completed."""
        return int(self.state[core.TS]) // 4 - 1

    @property
    def output(self) -> bytes:
        return self.output_buffer[:int(self.registers.x[COUNTER])].tobytes()

    def finish(self, max_cycles: int, progress: Progress | None, total: int | None) -> None:
        """Run to the halt."""
        end, status = 4 * (max_cycles + 1), Status.RUNNING
        step = PROFILE_SLICE if self.profiling else SLICE
        while status is not Status.HALTED:
            now = int(self.state[core.TS])
            if now >= end and status is Status.RUNNING:
                raise self.error(CycleLimit, f"the program did not halt within {max_cycles} cycles")
            status = Status(self.library.run(self.state, self.code, self.registers, self.memory, self.records,
                                             self.output_buffer, min(now + step, end)))
            self.attend(status)
            if progress is not None:
                progress(self.cycles, total)

    def attend(self, status: Status) -> None:
        """What the loop leaves to the host."""
        if int(self.memory.used[1]) > MAX_DWORDS:
            raise self.error(LimitExceeded, f"more than 2^24 = {MAX_DWORDS} dwords of memory are in use")
        if self.profiling:
            tree = self.records.tree
            if int(tree.state[calltree.NODES]) > calltree.MAX_NODES:
                raise self.error(LimitExceeded, f"a profile has at most 2^22 = {calltree.MAX_NODES} call stacks")
            self.records = self.records._replace(tree=calltree.with_room(tree))
        if status is Status.PRINT:
            self.printed.append(self.text())
        elif status is Status.GROW:
            self.memory = enlarged(self.memory)
            self.library.rehash(self.memory)
        elif status > Status.GROW:
            raise self.fault(status)

    def text(self) -> str:
        """The bytes at x10, x11 of them."""
        address, size = (int(x) for x in self.registers.x[10:12])
        out = np.zeros(min(size, LONGEST_TEXT, (1 << 64) - address), np.uint8)
        self.library.copy_bytes(self.memory, address, out)
        return out.tobytes().decode(errors="replace")

    # -- errors

    def error(self, kind: type[ExecutionError], message: str, pc: int | None = None) -> ExecutionError:
        """An error that says where: at ``pc``, or at the instruction to come."""
        pc = int(self.code.pc[int(self.state[core.ROW])]) if pc is None else pc
        word, symbol = self.image.word_at(pc), self.image.symbol_at(pc)
        what = "no code" if word is None else describe(pc, word)
        where = f"pc {pc:#x}" + (f" in {symbol}" if symbol else "")
        return kind(f"{message}: {where}, {what}, after {self.cycles} cycles", pc, self.cycles)

    def fault(self, status: Status) -> ExecutionError:
        x = [int(v) for v in self.registers.x]
        faulty = int(self.state[core.FAULTY])
        if status is Status.NO_INSTRUCTION or status is Status.BAD_JUMP:
            hint = "; the ELF uses compressed instructions: compile for rv64im" if self.image.compressed else ""
            return self.error(IllegalInstruction, f"there is no RV64IM instruction to execute{hint}",
                              faulty if status is Status.BAD_JUMP else None)
        if status is Status.PANIC:
            return self.error(Panic, f"the program panicked: {self.text()}")
        kind, message = {
            Status.WRAPS: (MemoryFault, f"an access at {faulty:#x} crosses the end of memory"),
            Status.EXIT: (ExitCode, f"the program halted with exit code {_signed(x[10])}"),
            Status.UNKNOWN_CALL: (UnsupportedCall, f"there is no call {_signed(x[17])}"),
            Status.COMMIT_STREAM: (UnsupportedCall, f"commit needs a0 = 1, not {_signed(x[10])}"),
            Status.COMMIT_BUFFER: (MemoryFault, f"commit of {x[12]} bytes at {x[11]:#x}: a buffer is shorter than 2^32 "
                                                f"bytes and does not cross a multiple of 2^32"),
            Status.OUTPUT_FULL: (LimitExceeded, f"commit of {x[12]} bytes after {x[COUNTER]}: at most 2^20 = "
                                                f"{core.MAX_OUTPUT} bytes of public output are possible"),
            Status.KECCAK_POINTER: (MemoryFault, f"keccak_permute at {x[10]:#x}: the pointer is a multiple of 8, and "
                                                 f"the 200 bytes do not cross a multiple of 2^32"),
        }[status]
        return self.error(kind, message)


def _signed(x: int) -> int:
    return x - (1 << 64) if x >> 63 else x


def _initial_dwords(image: Image, private_input: bytes) -> tuple[U64, U64]:
    """Indices (address / 8) and contents of the non-zero dwords of the image and of all dwords of the input.

    The input is its length as a u32 and its bytes, then zeros to a multiple of 8.
    """
    d = image.dwords
    region = len(private_input).to_bytes(4, "little") + private_input
    region += bytes(-len(region) % 8)
    words = np.frombuffer(region, "<u8").astype(np.uint64)
    indices = np.arange(len(words), dtype=np.uint64) + np.uint64(INPUT_BASE // 8)
    return (np.concatenate([d.h << np.uint64(29) | d.w, indices]),
            np.concatenate([d.lo | d.hi << np.uint64(32), words]))


# ---------------------------------------------------------------- the log


def _records(measured: _Run | None) -> Records:
    """Room for what ``measured`` did: zeros, of which the system provides memory only where something is written."""
    done = measured.state if measured else np.zeros(core.STATE_WORDS, np.uint64)
    n, calls, keccaks = (int(done[k]) for k in (core.INSTRUCTIONS, core.EVENTS, core.KECCAKS))
    committed = len(measured.output) if measured else 0
    refreshes = (REGISTERS * int(done[core.TS])) // core.MAX_GAP + 1  # each spans more than MAX_GAP
    sizes = (calls * core.EVENT, keccaks * core.KECCAK, committed * core.BYTE, refreshes * core.REFRESH)
    arrays: list[Any] = [n, np.zeros(n * len(core.WORDS), np.uint64), np.zeros(n * len(core.TIMES), np.uint32),
                         *(np.zeros(size, np.uint64) for size in sizes), calltree.empty_tree()]
    return Records(*arrays)


def _log(run: _Run) -> Log:
    records = run.records
    a, b, r, o, m0, m1 = records.words.reshape(len(core.WORDS), -1)
    ix, ts, ta, tb, td, tm0, tm1 = records.times.reshape(len(core.TIMES), -1)
    number, at, row, x10, x11, x12, x33, t17, t10, t11, t12, t33 = _columns(records.events, core.EVENT)
    pc = run.code.pc[row.astype(np.int64)]

    def of(call: Call, *columns: U64) -> list[U64]:
        chosen = number == np.uint64(call)
        return [c[chosen] for c in columns]

    state, tm = np.split(records.keccaks.reshape(-1, core.KECCAK), 2, axis=1)
    commits = Commits(*of(Call.COMMIT, at, pc, x11, x12, x33, t17, t11, t12, t10, t33))
    refreshes = _columns(records.refreshes, core.REFRESH)[:, :int(run.state[core.REFRESHES])]
    return Log(
        ix, ts, a, b, r, o, ta, tb, td, m0, m1, tm0, tm1,
        Halts(*of(Call.HALT, at, pc, t17, t10)), commits, Prints(*of(Call.PRINT, at, pc, t17)),
        CycleReads(*of(Call.CYCLES, at, pc, t17, t10, x10)),
        Keccaks(*[*of(Call.KECCAK, at, pc, x10, t17, t10), state, tm]),
        _committed_bytes(commits, _columns(records.bytes, core.BYTE)), Refreshes(*refreshes),
        Registers(run.registers.last[:REGISTERS].astype(np.uint64), run.registers.x[:REGISTERS]), _dwords(run))


def _columns(records: U64, width: int) -> U64:
    return np.ascontiguousarray(records.reshape(-1, width).T)


def _committed_bytes(commits: Commits, columns: U64) -> CommittedBytes:
    ts, address, value, tm = columns
    size = commits.length.astype(np.int64)
    idx = np.arange(len(ts), dtype=np.uint64)
    return CommittedBytes(ts, address, value, tm, value >> (address % np.uint64(8) * np.uint64(8)) & np.uint64(255),
                          np.repeat(commits.idx + commits.length, size) - idx, idx,
                          np.repeat(commits.pc + np.uint64(4), size))


def _dwords(run: _Run) -> Dwords:
    """All touched dwords, by ascending address."""
    m, pages = run.memory, int(run.memory.used[0])
    touched: NDArray[np.uint8] = np.asarray(m.touched[:pages], "<u8").view(np.uint8)
    place = np.flatnonzero(np.unpackbits(touched, bitorder="little"))
    index = m.page[place >> PAGE_BITS] << np.uint64(PAGE_BITS) | (place % 64).astype(np.uint64)
    order = np.argsort(index)
    index, place = index[order], place[order]
    return Dwords(index >> np.uint64(29), index & np.uint64((1 << 29) - 1), m.when[place].astype(np.uint64),
                  m.data[place], np.isin(index, run.initial, invert=True))
