"""What the parts of the prover share: one table's data, the thread pool, progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..air.program import Program
from ..field import ExtInts, P
from ..hash import merkle
from ..hash.keccak import RATE_WORDS
from .kernels import library
from .ntt import extension
from .params import Params
from .system import extend_columns

Progress = Callable[[str, float], None]
TOGETHER = 8192  # elements that share one inversion
LONGEST = 1 << 16  # narrow rows that one compiled call handles, so that an interruption is noticed soon


@dataclass
class Instance:
    """One table of a proof, by slot, with what the prover has of it: values on the trace domain, and their extensions
    if they are kept."""

    slot: int
    table: int
    program: Program
    fixed: Any
    fixed_ext: Any
    main: Any
    main_ext: Any = None
    logup: Any = None
    logup_ext: Any = None
    sigma: ExtInts = (0, 0, 0)

    def __post_init__(self) -> None:
        self.height = int((self.main if self.program.main_count else self.fixed).shape[1])
        self.log = self.height.bit_length() - 1


@dataclass
class PhaseCost:
    """What one phase of proving took: wall seconds, CPU seconds of all threads, and bytes of columns that it made or
    read through."""

    name: str
    wall: float = 0.0
    cpu: float = 0.0
    bytes: int = 0


class Stopwatch:
    """Costs of the phases of proving, in order."""

    def __init__(self) -> None:
        self.phases: list[PhaseCost] = []
        self._since = (0.0, 0.0)

    def start(self, phase: str) -> None:
        """A phase begins, and the one before ends."""
        now = (time.perf_counter(), time.process_time())
        if self.phases:
            self.phases[-1].wall += now[0] - self._since[0]
            self.phases[-1].cpu += now[1] - self._since[1]
        self._since = now
        self.phases.append(PhaseCost(phase))

    def account(self, size: int) -> None:
        """The phase in hand went through ``size`` more bytes."""
        self.phases[-1].bytes += size

    def stop(self) -> list[PhaseCost]:
        """All costs; the last phase ends."""
        self.start("done")
        return [p for p in self.phases if p.name != "done"]


class Job:
    """Shared state of one proof: preset, thread pool, progress, costs; and whether extensions are kept in memory."""

    def __init__(self, params: Params, threads: int, progress: Progress | None, keep: bool = True,
                 watch: Stopwatch | None = None) -> None:
        self.params, self.blowup, self.threads, self.keep = params, 1 << params.log_blowup, threads, keep
        self.watch = watch or Stopwatch()
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._progress = progress

    def tell(self, phase: str, fraction: float = 0.0) -> None:
        """Report the phase that begins, and the part of the work that is done."""
        self.watch.start(phase)
        if self._progress is not None:
            self._progress(phase, fraction)

    def map(self, fn: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Apply ``fn`` to all items, on all threads."""
        return [fn(x) for x in items] if self.pool is None else list(self.pool.map(fn, items))

    def ranges(self, n: int, least: int, work: int = 1) -> list[tuple[int, int]]:
        """Split 0..n in pieces, multiples of ``least``, a few for each thread, none longer than a moment.

        ``work``: about how many columns or operations one row takes.
        """
        longest = max(least, (LONGEST >> max(0, work.bit_length() - 10)) // least * least)
        step = min(max(least, -(-n // (4 * self.threads)) // least * least), longest)
        return [(lo, min(lo + step, n)) for lo in range(0, n, step)]

    def extend(self, columns: Any) -> Any:
        """Extensions of an array of columns; None if they are not kept."""
        self.watch.account(columns.nbytes * self.blowup * self.keep)
        return extend_columns(columns, self.params.log_blowup, self.pool) if self.keep else None

    def commit(self, parts: Sequence[tuple[Any, Any]]) -> merkle.Tree | None:
        """One tree over arrays of columns with their extensions, which join in order at each height."""
        heights: dict[int, list[Any]] = {}
        for columns, extended in parts:
            if len(columns):
                heights.setdefault(columns.shape[1], []).extend(columns if extended is None else extended)
                self.watch.account(columns.nbytes * self.blowup)
        matrices: dict[int, merkle.Matrix] = {
            n << self.params.log_blowup: columns if self.keep else StreamedExtensions(self, columns)
            for n, columns in heights.items()}
        return merkle.commit(matrices, self.pool) if matrices else None

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True)


class StreamedExtensions:
    """Extensions of columns of one height, made whenever they are read (``merkle.Streamed``)."""

    def __init__(self, job: Job, columns: list[Any]) -> None:
        n = len(columns[0])
        self.job, self.columns, self.width, self.size = job, columns, len(columns), job.blowup * n
        self._extend = extension(n.bit_length() - 1, job.params.log_blowup).extend

    def pieces(self) -> Iterator[list[Any]]:
        """All columns, RATE_WORDS at a time."""
        room = np.empty((min(RATE_WORDS, self.width), self.size), dtype=np.uint64)
        for at in range(0, self.width, RATE_WORDS):
            part = self.columns[at:at + RATE_WORDS]
            self.job.map(lambda k, p=part: self._extend(p[k], room[k]), range(len(part)))
            yield list(room[:len(part)])

    def rows(self, which: Any) -> Any:
        """Chosen rows, shape (rows, width)."""
        out = np.empty((len(which), self.width), dtype=np.uint64)
        local = threading.local()

        def column(c: int) -> None:
            if not hasattr(local, "room"):
                local.room = np.empty(self.size, dtype=np.uint64)
            self._extend(self.columns[c], local.room)
            out[:, c] = local.room[which]

        self.job.map(column, range(self.width))
        return out


def powers(ratio: int, n: int, first: int = 1) -> Any:
    """first * ratio^i for i < n, n a multiple of 8."""
    head = np.array([first * pow(ratio, i, P) % P for i in range(8)], dtype=np.uint64)
    out = np.empty(n, dtype=np.uint64)
    library.geometric(out, n, head, pow(ratio, 8, P))
    return out


def addresses(columns: Sequence[Any]) -> Any:
    """Table of the columns' addresses, for kernels."""
    return np.array([c.ctypes.data for c in columns] or [0], dtype=np.uint64)


def split_weight(w: Sequence[int]) -> list[int]:
    """An extension weight as six words: low 52 and high 12 bits of each coordinate."""
    return [x for c in w for x in (c & (1 << 52) - 1, c >> 52)]


def words(xs: Sequence[int]) -> Any:
    """Integers as an array of words."""
    return np.array(list(xs) or [0], dtype=np.uint64)


def inverse_differences(job: Job, xs: Any, point: ExtInts, lead: int) -> Any:
    """1 / (x - point) for every x, shape (3, lead + n); the last ``lead`` values (a multiple of 8) are in front too."""
    n = len(xs)
    out = np.empty((3, lead + n), dtype=np.uint64)
    target = words(point)

    def invert(bounds: tuple[int, int]) -> None:
        lo, hi = bounds
        piece = out.reshape(-1)[lead:]
        library.subtract_point(xs, target, piece, lead + n, lo, hi)
        scratch = np.empty(2 * min(hi - lo, TOGETHER) + 32, dtype=np.uint64)
        for a in range(lo, hi, TOGETHER):
            library.invert_ext(piece[a:], lead + n, scratch, min(TOGETHER, hi - a))

    job.map(invert, job.ranges(n, 64))
    out[:, :lead] = out[:, n:]
    return out
