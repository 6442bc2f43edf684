"""Processes in A B B A order: each run is a process of its own, with its times and peak memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ..errors import TailbiteError

T = TypeVar("T")
MIN_PAIRS, MAX_PAIRS = 6, 40
TAIL = 2000  # characters of a failed run's messages that are shown


class RunFailed(TailbiteError):
    """A benchmarked process ended badly. There is no figure for it, least of all zero."""


@dataclass(frozen=True)
class Sample:
    """One run: wall, user and system seconds, peak memory in bytes, stdout.

    The peak is 0 where the system does not say it: also for a command that takes less than this process, from which
    it was forked, as Linux then reports the peak of the latter.
    """

    wall: float
    user: float
    system: float
    peak: int
    stdout: str


def check_pairs(pairs: int) -> int:
    """``pairs``, or ValueError: an even number, so that each side goes first equally often."""
    if not MIN_PAIRS <= pairs <= MAX_PAIRS or pairs % 2:
        raise ValueError(f"--pairs is an even number from {MIN_PAIRS} to {MAX_PAIRS}, not {pairs}")
    return pairs


def order(pairs: int) -> Iterator[tuple[int, str]]:
    """(pair, side) in the order of the runs: A B, B A, A B, ..., so that a steady drift hits both sides alike."""
    for k in range(pairs):
        for side in ("AB", "BA")[k % 2]:
            yield k, side


def interleave(pairs: int, run: Callable[[str], T], tell: Callable[[int, int], None]) -> dict[str, list[T]]:
    """Run both sides in order, after one run of each that does not count; results by side, paired by position."""
    for side in "AB":
        run(side)
    out: dict[str, list[T]] = {"A": [], "B": []}
    for done, (_, side) in enumerate(order(pairs)):
        out[side].append(run(side))
        tell(done + 1, 2 * pairs)
    return out


def measure(command: Sequence[str], *, stdin: str = "", cpus: Sequence[int] | None = None,
            environment: dict[str, str] | None = None, cwd: Path | None = None) -> Sample:
    """Run a command to its end. ``cpus``: run on these only, where the system can. Raises :class:`RunFailed`.

    An interruption ends the command too.
    """
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, \
            tempfile.TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        began = time.perf_counter()
        try:
            process = subprocess.Popen(command, stdin=given, stdout=out, stderr=err, env=environment, cwd=cwd)
        except OSError as e:
            raise RunFailed(f"cannot run {command[0]}: {e.strerror or e}") from None
        try:
            if cpus and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(process.pid, cpus)
            code, user, system, peak = _wait(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        wall = time.perf_counter() - began
        for stream in (out, err):
            stream.seek(0)
        if code:
            said = (err.read() or out.read())[-TAIL:].strip()
            raise RunFailed(f"{' '.join(command)} ended with {code}" + (f":\n{said}" if said else ""))
        return Sample(wall, user, system, peak, out.read())


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, float, float, int]:
    """Exit code, user and system seconds, peak bytes."""
    if not hasattr(os, "wait4"):
        return process.wait(), 0.0, 0.0, 0
    import resource  # POSIX, as wait4 is

    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) if usage.ru_maxrss > own else 0
    return process.returncode, usage.ru_utime, usage.ru_stime, peak


def one_cpu() -> list[int] | None:
    """A CPU for runs of one thread: the last one that this process may use, as the first is often the busiest."""
    return [max(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else None
