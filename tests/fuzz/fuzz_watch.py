"""Run cases in a worker process and watch it: what a case may not do, and who notices.

A case is made and judged by a :class:`Target` from (seed, number) alone. It must end within 2 s of CPU time, take no
more than 1 GiB, raise nothing but a :class:`TailbiteError`, and leave nothing accepted that is not the original. The
worker notices a wrong verdict and an unexpected exception itself. A timer of the system ends a case that hangs, a
limit of the address space one that allocates; the parent sees that the worker died and which case it was at, and
starts another behind it. So each violation costs a worker and no case is left out.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import random
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from tailbite import TailbiteError

CPU_SECONDS = 2.0
WALL_SECONDS = 120.0  # without CPU time, as in a deadlock
GIB = 1 << 30
REPORT_EVERY = 500
MAX_VIOLATIONS = 50
NUMBER = re.compile(r"0x[0-9a-f]+|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
SKIPPED = "skipped: the mutant is the original"


class Violation(Exception):
    """A case did what none may do."""


class Target(Protocol):
    """What is fuzzed. Making one loads all that its cases share."""

    def case(self, rng: random.Random) -> str:
        """Make a case and judge it: how it was answered. TailbiteError counts as an answer."""
        ...


def plain(text: str) -> str:
    """An answer without its numbers, so that equal reasons count as one."""
    return NUMBER.sub("N", text.partition("\n")[0])[:160]


def judge(target: Target, seed: int, number: int) -> str:
    """The answer to one case; whatever else it raises is a violation."""
    try:
        return target.case(random.Random(f"{seed}/{number}"))
    except TailbiteError as e:
        return f"{type(e).__name__}: {e}"


# ---------------------------------------------------------------- worker


def address_space() -> int:
    """Bytes of address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def peak() -> int:
    """Bytes of memory that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def restrict() -> None:
    """From here on a case has 2 s of CPU, after which SIGPROF tells where it hangs, and 1 GiB."""
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)  # the default action, which follows, ends the process
    limit = address_space() + GIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def work(target: Target, seed: int, numbers: Iterator[int], place: str) -> None:
    """Judge the cases, writing the number of each to the file ``place`` and results to stdout."""
    with open(place, "r+b") as f:
        shared = mmap.mmap(f.fileno(), 8)
    out, sys.stdout = sys.stdout, sys.stderr  # nothing that a case prints may get between the results
    for warm_up in range(5):
        with contextlib.suppress(Exception):
            judge(target, -1, warm_up)
    restrict()
    start, counts, slowest, done = peak(), Counter[str](), (0.0, -1), -1

    def report(**more: Any) -> None:
        out.write(json.dumps({"done": done, "counts": counts, "slowest": slowest, "growth": peak() - start,
                              **more}) + "\n")
        out.flush()

    for done in numbers:
        shared[:] = done.to_bytes(8, "little")
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        violation = {}
        try:
            counts[plain(judge(target, seed, done))] += 1
        except Exception as e:
            where = traceback.format_exc(limit=-4)
            violation = {"violation": {"number": done, "kind": type(e).__name__, "text": str(e)[:500], "where": where}}
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, (time.process_time() - began, done))
        if violation or (done + 1) % REPORT_EVERY == 0:
            report(**violation)
            counts.clear()
            slowest = (0.0, -1)
    report(end=True)


# ---------------------------------------------------------------- parent


class Session:
    """Counts over all workers of a run."""

    def __init__(self, target: str, seed: int, start: int, count: int) -> None:
        self.target, self.seed, self.start, self.count = target, seed, start, count
        self.next, self.counts, self.violations = start, Counter[str](), list[dict[str, Any]]()
        self.slowest, self.growth, self.began = (0.0, -1), 0, time.monotonic()

    @property
    def complete(self) -> bool:
        return self.next >= self.start + self.count

    def take(self, report: dict[str, Any]) -> None:
        """Add a worker's report."""
        self.counts.update(report["counts"])
        self.next = max(self.next, report["done"] + 1)
        self.slowest = max(self.slowest, (report["slowest"][0], report["slowest"][1]))
        self.growth = max(self.growth, report["growth"])
        if "violation" in report:
            self.violations.append(report["violation"])

    def died(self, number: int, code: int, messages: str) -> None:
        """A worker ended at this case: by a signal, or because it was silent."""
        if code > 0:
            raise RuntimeError(f"the worker could not begin or go on:\n{messages}")
        kind = "hang" if code in (-signal.SIGPROF, -signal.SIGKILL) else "crash"
        self.violations.append({"number": number, "kind": kind, "text": f"the worker ended with {code}",
                                "where": messages[-2000:]})

    def summary(self) -> dict[str, Any]:
        """All that a run found. The run is good if there are no violations."""
        seconds = time.monotonic() - self.began
        done = self.next - self.start
        return {"target": self.target, "seed": self.seed, "start": self.start, "next": self.next, "cases": done,
                "skipped": self.counts[SKIPPED], "violations": self.violations, "seconds": round(seconds, 1),
                "per_second": round(done / max(seconds, 1e-9), 1), "slowest_ms": round(1000 * self.slowest[0], 1),
                "slowest_case": self.slowest[1], "memory_growth_mib": self.growth >> 20,
                "answers": dict(self.counts.most_common())}


def fuzz(target: str, count: int, seed: int = 1, start: int = 0,
         progress: Callable[[Session], None] = lambda session: None) -> dict[str, Any]:
    """Judge ``count`` cases from number ``start`` on in workers; returns the summary."""
    session = Session(target, seed, start, count)
    skip: set[int] = set()
    while not session.complete and len(session.violations) < MAX_VIOLATIONS:
        dead = _one_worker(session, skip, progress)
        if dead is not None:
            skip.add(dead)
    return session.summary()


def _one_worker(session: Session, skip: set[int], progress: Callable[[Session], None]) -> int | None:
    """Start a worker for all that is left; the number of the case at which it died, if it did."""
    with tempfile.NamedTemporaryFile() as place, tempfile.TemporaryFile("w+") as messages:
        place.write((session.next).to_bytes(8, "little"))
        place.flush()
        job = {"target": session.target, "seed": session.seed, "start": session.next,
               "stop": session.start + session.count, "skip": sorted(skip), "place": place.name}
        process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("run.py")), "--work",
                                    json.dumps(job)], stdout=subprocess.PIPE, stderr=messages)
        assert process.stdout is not None
        ended = False
        try:
            while line := _next_line(process):
                report = json.loads(line)
                session.take(report)
                ended = ended or "end" in report
                progress(session)
                if len(session.violations) >= MAX_VIOLATIONS:
                    return None
        finally:
            process.kill()
            code = process.wait()
            process.stdout.close()
        if ended:
            session.next = session.start + session.count  # the last cases may have been skipped
            return None
        number = int.from_bytes(os.pread(place.fileno(), 8, 0), "little")
        messages.seek(0)
        session.died(number, code, messages.read())
        return number


def _next_line(process: subprocess.Popen[bytes]) -> bytes:
    """The worker's next line; nothing if it ended, or is silent for so long that it must be stuck."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], WALL_SECONDS)
    return process.stdout.readline() if ready else b""
