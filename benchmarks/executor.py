"""Speed of the executor, in million cycles a second: alone, and with its log. Best of five.

    python benchmarks/executor.py

The floor is an empty compiled loop of the same number of steps; the aim 50 million cycles a second without a log on the
Fibonacci loop (add, mv, mv, addi, bne).
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tailbite.lang import cpu, function, u64
from tailbite.vm.elf import load_elf
from tailbite.vm.executor import execute

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "fib_loop (add, mv, mv, addi, bne)": ("benchmarks/guests/fib_loop_20.elf", b""),
    "sha256, gcc, 64 KiB": ("examples/c/elf/sha256.gcc.elf", bytes(1 << 16)),
    "sha256, clang, 64 KiB": ("examples/c/elf/sha256.clang.elf", bytes(1 << 16)),
}


@function
def count(n: u64) -> u64:
    """Steps that depend on each other."""
    x = u64(1)
    for i in range(n):
        x = (x ^ i) * 5
    return x


def best(action: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    library = cpu.Library("executor-floor", [count])
    n = 10_000_000
    print(f"{'floor: xor, multiply':36} {n / best(lambda: library.count(n)) / 1e6:8.1f} M/s")
    for name, (path, private_input) in PROGRAMS.items():
        image = load_elf((ROOT / path).read_bytes())
        cycles = execute(image, private_input, log=False).cycles
        plain, logged = (best(partial(execute, image, private_input, log=log)) for log in (False, True))
        print(f"{name:36} {cycles / plain / 1e6:8.1f} M/s {cycles / logged / 1e6:8.1f} M/s with log "
              f"({cycles:,} cycles)")


if __name__ == "__main__":
    main()
