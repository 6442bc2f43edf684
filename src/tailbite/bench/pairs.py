"""Processes in A B B A order: each run is a process of its own, with its times and peak memory."""

from __future__ import annotations

import contextlib
import os
import signal
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
LAUNCH = Path(__file__).with_name("launch.py")
POSIX = hasattr(os, "wait4")
TAIL = 2000  # characters of a failed run's messages that are shown


class RunFailed(TailbiteError):
    """A benchmarked process ended badly. There is no figure for it, least of all zero."""


@dataclass(frozen=True)
class Sample:
    """One run: wall, user and system seconds, peak memory in bytes, stdout.

    User, system and peak are 0 where the system does not tell them. A peak below about 10 MiB is the launcher's.
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
    with tempfile.TemporaryDirectory(prefix="tailbite-bench-") as name:
        home = Path(name)
        (home / "in").write_text(stdin)
        launch = [sys.executable, "-I", "-S", str(LAUNCH), str(home / "report"), ",".join(map(str, cpus or []))]
        began = time.perf_counter()
        with open(home / "in", "rb") as given, open(home / "out", "wb") as out, open(home / "err", "wb") as err:
            try:
                process = subprocess.Popen([*(launch if POSIX else []), *command], stdin=given, stdout=out, stderr=err,
                                           env=environment, cwd=cwd, start_new_session=POSIX)
            except OSError as e:
                raise RunFailed(f"cannot run {command[0]}: {e.strerror or e}") from None
            try:
                code = process.wait()
            except BaseException:
                _end(process)
                raise
        wall, user, system, peak = time.perf_counter() - began, 0.0, 0.0, 0
        said, told = (home / "out").read_text(errors="replace"), (home / "err").read_text(errors="replace")
        if POSIX and code == 0:
            figures = (home / "report").read_text().split()
            code, wall, user, system, peak = int(figures[0]), *map(float, figures[1:4]), int(figures[4])
        if code:
            tail = (told or said)[-TAIL:].strip()
            raise RunFailed(f"{' '.join(command)} ended with {code}" + (f":\n{tail}" if tail else ""))
        return Sample(wall, user, system, peak, said)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a run, and what it started."""
    if POSIX:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def one_cpu() -> list[int] | None:
    """A CPU for runs of one thread: the last one that this process may use, as the first is often the busiest."""
    return [max(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else None
