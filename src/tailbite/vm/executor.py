"""The executor: runs an image and records what the tables prove.

A run is deterministic, so it happens twice: first without a record, which finds every fault and the size of
everything, then, if a log is wanted, again into arrays of exactly that size. The machine itself is :mod:`.interpret`.

Time. An instruction is one cycle and so is each committed byte; cycle k = 1, 2, ... has time ts = 4 k. An instruction
reads rs1 at ts, rs2 at ts + 1, accesses memory at ts + 2 and writes rd at ts + 3. The initial content of registers and
memory has time 0. "Old time" of an access is the time of the access before it to the same register or dword.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TailbiteError
from . import interpret
from .decode import Rom, describe
from .elf import INPUT_BASE, Image
from .interpret import MAX_OUTPUT, Code, Index, Memory, Records, Status
from .ops import REGISTERS, Call, Op

MAX_CYCLES = (1 << 30) - 1
MAX_INPUT = (1 << 24) - 4
MAX_DWORDS = 1 << 24
SLICE = 1 << 22  # cycles of one compiled call
LONGEST_TEXT = 1 << 16  # bytes of a printed text or panic message; longer ones are cut

U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
Progress = Callable[[int, int | None], None]


# ---------------------------------------------------------------- errors


class ExecutionError(TailbiteError):
    """The program did what the machine cannot prove. ``pc`` and ``cycle`` say where and when."""

    def __init__(self, message: str, pc: int | None = None, cycle: int | None = None) -> None:
        super().__init__(message)
        self.pc, self.cycle = pc, cycle


class IllegalInstruction(ExecutionError):
    """Control came to an address without an instruction."""


class MemoryFault(ExecutionError):
    """An access beyond the end of memory, or a pointer that a call does not take."""


class UnsupportedCall(ExecutionError):
    """An ECALL with an unknown number, or with arguments that it does not take."""


class Panic(ExecutionError):
    """The program called panic; the text is its own."""


class ExitCode(ExecutionError):
    """The program halted with an exit code other than 0, ``code``."""

    code = 0


class CycleLimit(ExecutionError):
    """More cycles than allowed."""


class LimitExceeded(ExecutionError):
    """More input, output or memory than one proof can hold."""


# ---------------------------------------------------------------- what a run leaves


class Halts(NamedTuple):
    """HALT rows, one: reads x17 at ts, x10 at ts + 1."""

    ts: U64
    pc: U64
    t17: U64
    t10: U64


class Commits(NamedTuple):
    """COMMIT rows: reads x17 at ts, x11 at ts + 1, x12 at ts + 2; x10 turns from 1 to ``length`` at ts + 3;
    register 33 from ``idx`` to ``idx + length`` at ts + 3.

    Bytes follow at ts + 4, ts + 8, ...; the row that ends them (rem = 0) has time ts + 4 + 4 length.
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
    """CYCLES rows: reads x17 at ts; x10 turns from ``old`` to (ts - 4) / 4 at ts + 3."""

    ts: U64
    pc: U64
    t17: U64
    t10: U64
    old: U64


class Keccaks(NamedTuple):
    """KCALL rows: reads x17 at ts, x10 = ``address`` at ts + 1; 25 dwords from there change at ts + 2.

    ``state`` (n, 25): before the permutation; ``tm`` (n, 25): old times.
    """

    ts: U64
    pc: U64
    address: U64
    t17: U64
    t10: U64
    state: U64
    tm: U64


class CommittedBytes(NamedTuple):
    """CBYTE rows of bytes: at ts + 2 reads the dword ``value`` that holds ``address``, of old time ``tm``.

    ``byte``: the byte; ``rem``: bytes to come, this one included; ``idx``: its place in the output; ``pcn``: pc after
    the commit.
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
    """REFRESH rows: register ``r`` holding ``value``, last accessed at ``t``, is accessed at ``new`` without change.

    They stand before the access at new + 1, which would otherwise be more than 2^16 after ``t``.
    """

    r: U64
    value: U64
    t: U64
    new: U64


class Registers(NamedTuple):
    """Registers 0 to 33 at the end: time of the last access and value."""

    t: U64
    value: U64


class Dwords(NamedTuple):
    """Memory at the end, ascending: every dword that was accessed, or not zero in the image, or part of the input.

    ``t``: time of the last access, 0 if there was none; ``zero``: neither image nor input initialise it.
    """

    h: U64
    w: U64
    t: U64
    value: U64
    zero: NDArray[np.bool_]


@dataclass
class Log:
    """One entry for each executed instruction, ECALL included, in order; a field an operation lacks is 0.

    Calls, committed bytes and refreshes have logs of their own.
    """

    ix: U32  # row of the ROM
    ts: U32
    a: U64  # value read through rs1
    b: U64  # value read through rs2
    r: U64  # value written to rd; for stores b; for branches 1 if taken
    o: U64  # old value of rd
    ta: U32  # old times of rs1, rs2, rd
    tb: U32
    td: U32
    m0: U64  # old content of the dword at the effective address, and of the next one if the access crosses
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


@dataclass
class Execution:
    """A run that halted with exit code 0. ``hits``: how often each row of the ROM was executed."""

    output: bytes
    cycles: int
    instructions: int
    printed: tuple[str, ...]
    hits: U32
    rom: Rom
    log: Log | None

    @property
    def counts(self) -> dict[Op, int]:
        """Executed instructions by operation."""
        n = np.bincount(self.rom.op.astype(np.int64), weights=self.hits, minlength=len(Op) + 1)
        return {op: int(n[op]) for op in Op if n[op]}


def execute(image: Image, private_input: bytes = b"", max_cycles: int = MAX_CYCLES, log: bool = True,
            progress: Progress | None = None, forge: interpret.Forge | None = None) -> Execution:
    """Run ``image`` to its halt; an :class:`ExecutionError` names any other end.

    ``progress(cycles, total)`` is called between slices; ``total`` is None in the first of the two runs. ``forge`` is
    for tests: a machine that computes wrongly.
    """
    if len(private_input) > MAX_INPUT:
        raise LimitExceeded(f"the private input has {len(private_input)} bytes; at most {MAX_INPUT} are possible")
    first = _Machine(image, private_input, min(max_cycles, MAX_CYCLES), progress, forge)
    first.run()
    done = Execution(first.output.tobytes(), first.cycles, first.instructions, tuple(first.printed), first.code.hits,
                     image.rom, None)
    if log:
        second = _Machine(image, private_input, first.cycles, progress, forge, first)
        second.run()
        done.log = second.log()
    return done


# ---------------------------------------------------------------- the machine


class _Machine:
    """State of one run. With ``measured``, a finished run of the same program, it records."""

    def __init__(self, image: Image, private_input: bytes, max_cycles: int, progress: Progress | None,
                 forge: interpret.Forge | None, measured: _Machine | None = None) -> None:
        self.image, self.max_cycles, self.progress, self.measured = image, max_cycles, progress, measured
        self.library = interpret.library(measured is not None, forge)
        self.initial = _initial_memory(image, private_input)
        self.state = np.zeros(len(Index), dtype=np.uint64)
        self.x = np.zeros(interpret.SLOTS, dtype=np.uint64)
        self.x[2] = interpret.STACK
        self.last = np.zeros(interpret.SLOTS, dtype=np.uint32)
        self.code, row = interpret.predecode(image.rom, image.entry)
        self.state[Index.TS], self.state[Index.ROW] = 4, row
        self.printed: list[str] = []
        self._output = np.zeros(MAX_OUTPUT, dtype=np.uint8)
        self.records = Records.of(measured.sizes if measured else None)
        index, values = self.initial
        pages = len(np.unique(index >> np.uint64(6)))
        self.memory = Memory.of(int(measured.state[Index.PAGES]) if measured else 2 * pages + 1024, bool(measured))
        self.library.fill(self.state, self.memory, index, values)

    # -- results

    @property
    def cycles(self) -> int:
        return int(self.state[Index.TS]) // 4 - 1

    @property
    def instructions(self) -> int:
        return int(self.state[Index.INSTRUCTIONS])

    @property
    def output(self) -> NDArray[np.uint8]:
        return self._output[: int(self.x[interpret.COUNTER])]
