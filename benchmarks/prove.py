"""What proving costs on this machine: ``python benchmarks/prove.py [--full]``.

Proves the pinned Fibonacci loop (add, mv, mv, addi, bne; exactly 2^20 cycles, and 2^16) six times in one process: the
first time is printed apart, then the median of five. Prints the machine, the commit, the preset and its proven bits;
committed cells per cycle by table, quotient included; the executor's speed; the second verification in a process with
preprocessing of the ELF; and compile times in an empty cache, each in processes of their own.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tailbite import Program, verify
from tailbite.lang.backend import host
from tailbite.program import default_threads
from tailbite.vm.executor import execute
from tailbite.vm.machine import machine
from tailbite.vm.trace import fill

GUESTS = Path(__file__).parent / "guests"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", default="standard")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--full", action="store_true", help="also 2^16 cycles and the preset strong")
    options = parser.parse_args()
    print(describe_machine())
    startup()
    executor()
    cases = [("fib_loop_20.elf", options.params)]
    if options.full:
        cases += [("fib_loop_16.elf", options.params), ("fib_loop_20.elf", "strong")]
    for name, params in cases:
        proving(GUESTS / name, params, options.repeats)


def describe_machine() -> str:
    """One line: CPU, threads, Python, commit."""
    def git(*args: str) -> str:
        done = subprocess.run(["git", *args], capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
        return done.stdout.strip()

    commit = git("rev-parse", "--short", "HEAD") or "unknown"
    if git("status", "--porcelain"):
        commit += " with changes"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    m = host()
    simd = "AVX-512 IFMA" if m.has("avx512ifma") else "AVX-512" if m.has("avx512f") else "AVX2 or less"
    return (f"machine: {m.cpu} ({simd}), {default_threads()} threads, {memory} GiB, {platform.system()}, "
            f"Python {platform.python_version()}; commit {commit}")


def executor() -> None:
    """Instructions a second, without and with the record that proving needs."""
    image = Program.from_elf(GUESTS / "fib_loop_20.elf").image
    for log in (False, True):
        execute(image, log=log)
        best = min(timed(lambda record=log: execute(image, log=record))[0] for _ in range(5))
        rate = (1 << 20) / best / 1e6
        print(f"executor, {'recording' if log else 'plain'}: {rate:.0f} million instructions a second")


def proving(elf: Path, params: str, repeats: int) -> None:
    """Prove, print rates, then verify."""
    program = Program.from_elf(elf)
    first, proof = timed(lambda: program.prove(params=params))
    times = [timed(lambda: program.prove(params=params))[0] for _ in range(repeats)]
    cycles = program.run().cycles
    median = statistics.median(times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(f"\n{elf.name}: {cycles} cycles at {params} ({proof.soundness.total:g} proven bits, "
          f"{proof.soundness.regime}), {len(proof) / 1024:.0f} KiB")
    print(f"  prove: first {first:.2f} s; then median of {repeats} {median:.2f} s ({min(times):.2f} to "
          f"{max(times):.2f}) = {cycles / median:,.0f} cycles a second; peak memory {peak:.2f} GiB")
    phases(program, params)
    cells(program, cycles)
    for k in ("first", "second"):
        fresh = Program.from_elf(elf)
        seconds, _ = timed(lambda p=fresh: verify(proof, p))
        print(f"  verify, {k} in this process, ELF preprocessing included: {1000 * seconds:.1f} ms")


def phases(program: Program, params: str) -> None:
    """Where the time goes, for one proof."""
    marks: list[tuple[str, float]] = []
    program.prove(params=params, progress=lambda phase, _: marks.append((phase, time.perf_counter())))
    spans = [(name, b - a) for (name, a), (_, b) in itertools.pairwise(marks)]
    total = sum(s for _, s in spans)
    print("  phases: " + ", ".join(f"{n} {1000 * s:.0f} ms ({s / total:.0%})" for n, s in spans))


def cells(program: Program, cycles: int) -> None:
    """Committed base cells per cycle."""
    system = machine()
    with ThreadPoolExecutor(default_threads()) as pool:
        filled = fill(execute(program.image), program.image, b"", pool)
    by_table: dict[str, int] = {}
    heights = set()
    for slot, main_columns in filled.columns.items():
        p = system.programs[system.slots[slot][0]]
        height = main_columns.shape[1]
        heights.add(height)
        by_table[p.name] = by_table.get(p.name, 0) + (p.main_count + 3 * p.pairs) * height
    by_table["quotient"] = 6 * sum(heights)
    total = sum(by_table.values())
    parts = sorted(by_table.items(), key=lambda kv: -kv[1])
    print(f"  committed cells per cycle: {total / cycles:.2f} = " + " + ".join(
        f"{n} {c / cycles:.2f}" for n, c in parts if c / cycles >= 0.005))


def startup() -> None:
    """Compile times in an empty cache, and the start of the command with a full one."""
    elf = GUESTS / "fib_loop_16.elf"
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as cold:
        proof = Path(cache) / "p.proof"
        command = [sys.executable, "-m", "tailbite"]
        prove = [*command, "prove", str(elf), "-o", str(proof), "-q"]
        check = [*command, "verify", str(proof), str(elf), "-q"]
        runs: list[tuple[str, list[str], str]] = [
            ("prove, empty cache", prove, cache), ("prove, full cache", prove, cache),
            ("verify, empty cache", check, cold), ("verify, full cache", check, cold),
            ("tailbite --help", [*command, "--help"], cache)]
        for name, line, where in runs:
            seconds, _ = timed(lambda a=line, w=where: subprocess.run(
                a, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": w}))
            print(f"command: {name}: {seconds:.2f} s")


def timed(fn: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and its result."""
    began = time.perf_counter()
    result = fn()
    return time.perf_counter() - began, result


if __name__ == "__main__":
    main()
