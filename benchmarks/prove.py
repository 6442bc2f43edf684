"""What proving costs on this machine: ``python benchmarks/prove.py [--full] [--suite] [--growth]``.

Proves the pinned Fibonacci loop (add, mv, mv, addi, bne; exactly 2^20 cycles, and 2^16) six times in a process of its
own: the first time is printed apart, then the median of five. Prints the machine, the commit, the preset and its proven
bits; committed cells per cycle by table, quotient included; the executor's speed; the second verification in a process
with preprocessing of the ELF; and compile times in an empty cache, each in processes of their own.

--full    also 2^16 cycles, and the preset strong
--suite   also programs of about 2^20 cycles: SHA-256, copying, sorting, divisions, branches; and Keccak calls
--growth  also Fibonacci loops of about 2^14 to 2^22 cycles
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tailbite import Program, verify
from tailbite.bench.suite import benchmark, give
from tailbite.cost import table_costs
from tailbite.lang import function, riscv, u64
from tailbite.lang.backend import host
from tailbite.program import default_threads
from tailbite.vm.executor import execute

GUESTS = Path(__file__).parent / "guests"


SUITE = {"sorting": 5, "memcpy": 45, "divisions": 24, "branches": 9, "keccak": 22}  # scales, for 2^20 cycles
GROWTH = range(14, 23, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", default="standard")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        proving(options.case, options.params, options.repeats)
        return
    print(describe_machine())
    startup()
    executor()
    cases = [("loop 20", options.params)]
    if options.full:
        cases += [("loop 16", options.params), ("loop 20", "strong")]
    if options.suite:
        cases += [(name, options.params) for name in ("sha256", *SUITE)]
    if options.growth:
        cases += [(f"growth {log}", options.params) for log in GROWTH]
    for name, params in cases:
        sys.stdout.flush()
        subprocess.run([sys.executable, __file__, "--case", name, "--params", params, "--repeats",
                        str(options.repeats)], check=True)


def case(name: str) -> tuple[bytes, bytes]:
    """ELF and private input of a case."""
    kind, _, log = name.partition(" ")
    if kind == "loop":
        return (GUESTS / f"fib_loop_{log}.elf").read_bytes(), b""
    if kind == "sha256":
        return (GUESTS.parents[1] / "examples/c/elf/sha256.gcc.elf").read_bytes(), bytes(12 << 10)
    if kind == "growth":
        loops = (1 << int(log)) // 5

        @function
        def rounds() -> None:
            a, b = u64(0), u64(1)
            for _i in range(loops):
                a, b = b, a + b
            give(a)

        return riscv.link(rounds), b""
    made = benchmark(name, SUITE[name])
    return made.elf, made.input


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


def proving(name: str, params: str, repeats: int) -> None:
    """Prove, print rates, then verify."""
    elf, data = case(name)
    program = Program.from_elf(elf)
    first, proof = timed(lambda: program.prove(data, params))
    runs = [timed(lambda: program.prove(data, params)) for _ in range(repeats)]
    times, cycles = [seconds for seconds, _ in runs], program.run(data).cycles
    median = statistics.median(times)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(f"\n{name}: {cycles} cycles at {params} ({proof.soundness.total:g} proven bits, "
          f"{proof.soundness.regime}), {len(proof) / 1024:.0f} KiB")
    print(f"  prove: first {first:.2f} s; then median of {repeats} {median:.2f} s ({min(times):.2f} to "
          f"{max(times):.2f}) = {cycles / median:,.0f} cycles a second; peak memory {peak:.2f} GiB")
    costs = sorted(runs, key=lambda run: run[0])[repeats // 2][1].costs
    busy = sum(c.cpu for c in costs) / sum(c.wall for c in costs) / default_threads()
    print(f"  phases, CPU {busy:.0%}: " + ", ".join(f"{c.name} {1000 * c.wall:.0f} ms" for c in costs))
    cells(program, data, cycles)
    for k in ("first", "second"):
        fresh = Program.from_elf(elf)
        seconds, _ = timed(lambda p=fresh: verify(proof, p))
        print(f"  verify, {k} in this process, ELF preprocessing included: {1000 * seconds:.1f} ms")


def cells(program: Program, data: bytes, cycles: int) -> None:
    """Committed base cells per cycle."""
    by_table = {name: t.cells for name, t in table_costs(program, data).items()}
    parts = sorted(by_table.items(), key=lambda kv: -kv[1])
    print(f"  committed cells per cycle: {sum(by_table.values()) / cycles:.2f} = " + " + ".join(
        f"{n} {c / cycles:.2f}" for n, c in parts if c / cycles >= 0.05))


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
