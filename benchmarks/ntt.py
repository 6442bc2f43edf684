"""Low-degree extension by two: time per column, and its ratio to a floor measured in the same run.

The floor is the number of radix-2 butterflies of an inverse transform of n and a forward one of 2n values, times the
time of one butterfly that stays in registers.

    python benchmarks/ntt.py [log n ...]
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from tailbite.field import P, canon, lazy_add_canonical, lazy_mul, lazy_sub_canonical
from tailbite.lang import Ptr, cpu, function, u64, unroll
from tailbite.stark.ntt import extension

PAIRS = 8
ROUNDS = 20_000


def radix2(a: Any, b: Any, w: Any) -> tuple[Any, Any]:
    """a + b w and a - b w."""
    c = canon(lazy_mul(b, w))
    return lazy_add_canonical(a, c), lazy_sub_canonical(a, c)


@function
def butterflies(x: Ptr[u64], n: u64) -> None:
    """``n`` rounds of independent radix-2 butterflies on eight pairs of vectors."""
    w = x.load8(0)
    pairs = tuple((x.load8(16 * m), x.load8(16 * m + 8)) for m in range(PAIRS))
    for _ in range(n):
        pairs = tuple(radix2(a, b, w) for a, b in pairs)
    for m, (a, b) in unroll(enumerate(pairs)):
        x.store8(16 * m, a)
        x.store8(16 * m + 8, b)


LIBRARY = cpu.Library("floor", [butterflies])


def seconds(f: Callable[[], Any], repeats: int) -> list[float]:
    """Sorted times of ``repeats`` calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return sorted(times)


def butterfly_ns() -> float:
    """Nanoseconds per butterfly of one element."""
    x = np.arange(16 * PAIRS, dtype=np.uint64)
    return seconds(lambda: LIBRARY.butterflies(x, ROUNDS), 5)[0] * 1e9 / (ROUNDS * PAIRS * 8)


def column(n: int, rng: np.random.Generator) -> np.ndarray:
    """Random canonical values on a 64-byte boundary."""
    a = np.empty(n + 8, dtype=np.uint64)
    a = a[-(a.ctypes.data // 8) % 8:][:n]
    a[:] = rng.integers(0, P, n, dtype=np.uint64)
    return a


def measure(log_n: int, pool: ThreadPoolExecutor) -> str:
    """One line of the table; two columns at a time in the last part."""
    n, rng, plan = 1 << log_n, np.random.default_rng(1), extension(log_n, 1)
    work = [(column(n, rng), column(2 * n, rng)) for _ in range(2)]
    repeats = max(5, min(50, (1 << 24) // n))
    list(pool.map(lambda w: plan.extend(*w), work))
    ns = min(butterfly_ns(), butterfly_ns())
    single = seconds(lambda: plan.extend(*work[0]), repeats)
    double = [t / 2 for t in seconds(lambda: list(pool.map(lambda w: plan.extend(*w), work)), repeats)]
    floor = ((n // 2) * log_n + n * (log_n + 1)) * ns * 1e-9
    parts = [f"2^{log_n:<3}{ns:8.3f}{floor * 1e3:9.3f}"]
    for times in (single, double):
        low, middle = times[0], statistics.median(times)
        parts.append(f"{low * 1e3:9.3f}{middle * 1e3:9.3f}{low / floor:7.2f}")
    return "  ".join(parts)


def machine() -> str:
    """The CPU as the system names it."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")] \
        if info.exists() else []
    return f"{len(names)} x {names[0]}" if names else platform.processor() or platform.machine()


def main() -> None:
    sizes = [int(a) for a in sys.argv[1:]] or [14, 16, 18, 20]
    print(f"{machine()}, {platform.system()}, Python {platform.python_version()}")
    print("n     butterfly ns, floor ms;  1 thread: min, median, ratio;  2 threads, per column: min, median, ratio")
    with ThreadPoolExecutor(2) as pool:
        for log_n in sizes:
            print(measure(log_n, pool), flush=True)


if __name__ == "__main__":
    main()
