"""The prover's kernels, each beside its floor in the same run: ``python benchmarks/kernels.py [--levels native avx2]``.

lde         low-degree extension by two of columns of 2^20 rows; floor: its radix-2 butterflies, in registers
leaves      digests of rows of some widths; floor: as many bare permutations
deep        weighted sums of columns, as for batched openings; ns a cell
constraints the interpreter of constraint programs; ns an operation and row, bus messages counted as operations
logup       bus columns; ns a message and row

For each: the time on one thread, what it is to its floor, and how much faster two threads are.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import numpy as np
from ntt import LIBRARY as FLOOR
from ntt import butterflies, butterfly_ns, column, seconds
from prove import describe_machine

from tailbite.field import P
from tailbite.hash import merkle
from tailbite.hash.keccak import ROUND_CONSTANTS, keccak_round
from tailbite.lang import Ptr, cpu, function, u64, u64x8, unroll
from tailbite.stark import kernels, ntt, ntt_kernels, prove_logup, prove_quotient
from tailbite.stark.job import Instance, Job, addresses, split_weight, words
from tailbite.stark.params import preset
from tailbite.vm.machine import machine

LOG = 20
REPEATS = 5
PERMUTATIONS = 400


@function
def permutations(x: Ptr[u64], n: u64) -> None:
    """``n`` permutations of eight states that stay in registers, as far as they can."""
    s = tuple([x.load8(8 * k) for k in range(25)])
    for _ in range(n):
        for r in range(24):
            s = keccak_round(s, u64x8(ROUND_CONSTANTS[r]))
    for k in unroll(range(25)):
        x.store8(8 * k, s[k])


def best(f: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median seconds after one call that does not count."""
    f()
    return statistics.median(seconds(f, repeats))


def columns(count: int, n: int) -> list[Any]:
    rng = np.random.default_rng(1)
    return [column(n, rng) for _ in range(count)]


class Bench:
    """All kernels at one level of the processor, by one and two threads."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.libraries = {
            name: cpu.Library(f"bench-{name}", functions, level=level) for name, functions in (
                ("ntt", ntt_kernels.KERNELS), ("kernels", kernels.kernels),
                ("merkle", [merkle.hash_rows, merkle.hash_nodes, merkle.hash_top]),
                ("floor", [butterflies, permutations]))}
        self.jobs = [Job(preset("standard"), threads, None) for threads in (1, 2)]

    def run(self) -> None:
        print(f"\n{self.level}")
        libs = self.libraries
        with mock.patch.multiple(prove_quotient, library=libs["kernels"]), \
                mock.patch.multiple(prove_logup, library=libs["kernels"]), \
                mock.patch.object(ntt, "LIBRARY", libs["ntt"]), mock.patch.object(merkle, "library", libs["merkle"]), \
                mock.patch.object(FLOOR, "butterflies", libs["floor"].butterflies, create=True):
            self.lde()
            for width in (8, 17, 40, 200):
                self.leaves(width)
            for count in (50, 400):
                self.deep(count)
            for name in ("ADDSUB", "DIVREM"):
                self.constraints(name)
                self.logup(name)

    def line(self, name: str, times: list[float], units: float, unit: str, floor: float | None, target: str) -> None:
        """Print one kernel: times by one and two threads."""
        part = f"{times[0] * 1e9 / units:8.3f} ns {unit}"
        against = f"{times[0] / floor:5.2f} of the floor" if floor else " " * 18
        print(f"  {name:24}{times[0] * 1e3:9.1f} ms {part:28} {against}   two threads {times[0] / times[1]:.2f} times"
              f"   target {target}", flush=True)

    def lde(self) -> None:
        n = 1 << LOG
        work = [(column(n, np.random.default_rng(k)), column(2 * n, np.random.default_rng(k))) for k in range(8)]
        plan = ntt.extension(LOG, 1)
        floors, times = [], []
        for job in self.jobs:
            floors.append(butterfly_ns())
            times.append(best(lambda j=job: j.map(lambda w: plan.extend(*w), work)) / len(work))  # type: ignore[misc]
        floor = ((n // 2) * LOG + n * (LOG + 1)) * min(floors) * 1e-9
        self.line("lde, a column", times, 2 * n, "a value", floor, "<= 1")

    def leaves(self, width: int) -> None:
        rows = 1 << 16
        data = columns(width, rows)
        state = np.arange(200, dtype=np.uint64)
        bare = best(lambda: self.libraries["floor"].permutations(state, PERMUTATIONS)) / (8 * PERMUTATIONS)
        pools: list[Any] = [None, ThreadPoolExecutor(2)]
        times = [best(lambda p=p: merkle._row_digests(data, rows, p)) for p in pools]  # type: ignore[misc]
        count = rows * (width // 17 + 1)
        self.line(f"leaves of {width} words", times, count, "a permutation", bare * count, "<= 1.15")

    def deep(self, count: int) -> None:
        n = 1 << 16
        data, rng = columns(count, n), np.random.default_rng(2)
        random = rng.integers(0, P, (count, 3), dtype=np.uint64).tolist()
        weights = words([x for w in random for x in split_weight(w)])
        table, out, lib = addresses(data), np.zeros((3, n), dtype=np.uint64), self.libraries["kernels"]
        times = [best(lambda j=job: j.map(  # type: ignore[misc]
            lambda r: lib.weighted_sum(table, count, weights, out, n, *r), j.ranges(n, 64))) for job in self.jobs]
        self.line(f"deep, {count} columns", times, count * n, "a cell", None, "<= 1 ns")

    def instance(self, name: str, job: Job) -> Instance:
        """A table full of random values: the kernels do the same work whatever they find."""
        system, n = machine(), 1 << 15
        k = system.index(name)
        p = system.programs[k]
        t = Instance(0, k, p, np.zeros((0, n), np.uint64), np.zeros((0, 0), np.uint64), np.stack(
            columns(p.main_count, n)))
        t.main_ext = job.extend(t.main)
        prove_logup.fill(job, t, (1, 2, 3), (4, 5, 6))
        t.logup_ext = job.extend(t.logup)
        return t

    def constraints(self, name: str) -> None:
        times = []
        for job in self.jobs:
            job.watch.start("constraints")
            t = self.instance(name, job)
            values = np.zeros((3, 2 * t.height), dtype=np.uint64)
            part = next(iter(prove_quotient._parts(job, t.log, values)))
            coefficients = [(k, 1, 2) for k in range(t.program.constraint_count)]
            times.append(best(lambda: prove_quotient.add_table(  # type: ignore[misc]
                job, t, part, coefficients, (1, 2, 3), (4, 5, 6), [])))  # noqa: B023
        p = t.program
        operations = len(p.ops) + len(p.zeros) + sum(2 + len(i.multiplicity.terms) + sum(
            len(e.terms) for e in i.entries) for i in p.interactions)
        self.line(f"constraints of {name}", times, operations * 2 * t.height, "an op and row", None, "<= 0.5 ns")

    def logup(self, name: str) -> None:
        times = []
        for job in self.jobs:
            job.watch.start("logup")
            t = self.instance(name, job)
            times.append(best(lambda: prove_logup.fill(job, t, (1, 2, 3), (4, 5, 6))))  # noqa: B023
        self.line(f"logup of {name}", times, len(t.program.interactions) * t.height, "a message and row", None, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="+", default=["native", "avx2", "baseline"],
                        help="of the processor: native, avx2, baseline")
    options = parser.parse_args()
    print(describe_machine())
    for level in options.levels:
        Bench(level).run()


if __name__ == "__main__":
    main()
