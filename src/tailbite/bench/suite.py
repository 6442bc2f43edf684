"""Programs for proving benchmarks. Together they use every table of the machine; a test counts.

All are deterministic and small, 2^14 to 2^18 cycles, so that a pair of runs takes seconds. Both sides of a benchmark
prove the same ELF, which the side that drives it compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..hash.keccak import permute
from ..lang import Array, Function, Slice, function, i64, length, mulhi, riscv, rotl, sdiv, srem, u8, u16, u32, u64
from ..lang.riscv import address_of, ecall, slice_at

BUFFER = 0x40000000
INPUT = 0xFF000000
PRINT, COMMIT = 1, 64
CYCLES = -32


class Benchmark(NamedTuple):
    """A program to prove: its name, ELF and private input."""

    name: str
    elf: bytes
    input: bytes = b""


@function
def give(x: u64) -> None:
    """Commit a result, so that nothing before it can be left out."""
    word = Array[u64, 1]()
    word[0] = x
    ecall(COMMIT, 1, address_of(word), 8)


def fibonacci(scale: int) -> Function:
    """Additions modulo 2^64."""
    @function
    def main() -> None:
        a, b = u64(0), u64(1)
        for _i in range(30_000 * scale):
            a, b = b, a + b
        give(a)

    return main


@function
def random(x: u64) -> u64:
    """One step of xorshift64 (Marsaglia 2003)."""
    x ^= x << 13
    x ^= x >> 7
    return x ^ x << 17


@function
def sift(xs: Slice[u64], start: u64, end: u64) -> None:
    """Let ``xs[start]`` sink in the heap ``xs[:end]``."""
    root = start
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and xs[child] < xs[child + 1]:
            child += 1
        if xs[root] >= xs[child]:
            return
        xs[root], xs[child] = xs[child], xs[root]
        root = child


def sorting(scale: int) -> Function:
    """Heapsort of 500 numbers, or more."""
    n = 500 * scale

    @function
    def main() -> None:
        xs = Array[u64, n]()
        x = u64(1)
        for i in range(n):
            x = random(x)
            xs[i] = x
        for i in range(n // 2):
            sift(xs, n // 2 - 1 - i, u64(n))
        for i in range(n - 1):
            end = n - 1 - i
            xs[0], xs[end] = xs[end], xs[0]
            sift(xs, u64(0), end)
        give(xs[n // 2])

    return main


def memcpy(scale: int) -> Function:
    """Copies of the private input, aligned and not, by 8, 4, 2 and 1 bytes."""
    @function
    def main() -> None:
        size = u64(slice_at(INPUT, 1, u32)[0])
        source, target = slice_at(INPUT + 8, size >> 3, u64), slice_at(BUFFER, size >> 3, u64)
        askew, words = slice_at(INPUT + 5, size >> 3, u64), slice_at(BUFFER + 3, size >> 3, u64)
        halves, shorts = slice_at(BUFFER + 4, size >> 3, u32), slice_at(BUFFER + 2, size >> 3, u16)
        octets, out = slice_at(BUFFER + 1, size >> 3, u8), slice_at(BUFFER + 0x10000, size, u8)
        total = u64(0)
        for _k in range(scale):
            for i in range(length(source)):
                target[i] = source[i]
            for i in range(length(askew)):
                words[i] = askew[i]
            for i in range(length(halves)):
                halves[i] = halves[i] + 1
                shorts[i] = shorts[i] ^ 0x5555
                out[i] = octets[i]
                total += u64(halves[i]) + u64(shorts[i]) + u64(out[i])
        give(total)

    return main


def keccak(scale: int) -> Function:
    """A chain of 60 permutations, or more."""
    @function
    def main() -> None:
        state = Array[u64, 25]()
        for _i in range(60 * scale):
            permute(state)
        give(state[0])

    return main


def divisions(scale: int) -> Function:
    """Divisions, remainders and high products, signed and unsigned, of 64 and 32 bits."""
    @function
    def main() -> None:
        x, total = u64(1), u64(0)
        for i in range(700 * scale):
            x = random(x)
            d = (x >> (i & 31)) | 1
            total += x // d + x % d + mulhi(x, d)
            total ^= u64(sdiv(i64(x), i64(d))) + u64(srem(i64(x), i64(d)))
            total += u64(u32(x) // u32(d)) + u64(u32(x) % u32(d)) + x * d
        give(total)

    return main


def branches(scale: int) -> Function:
    """Decisions that depend on data: signed and unsigned comparisons, equality, minima; shifts and logic in between."""
    @function
    def main() -> None:
        x, low, ups, same = u64(1), i64(0), u64(0), u64(0)
        for i in range(4000 * scale):
            x = random(x)
            if i64(x) < low:
                low = i64(x)
            if x > 1 << 63:
                ups += 1
            if x & 255 == 7:
                same += rotl(x, 9)
            elif x & 3 == 0:
                same ^= x | i
            ups += u64(x < same) + u64(u32(x) + u32(same) < u32(ups) - u32(x))
        message = Array[u64, 1]()
        message[0] = u64(0x0A656E6F64)  # "done\n"
        ecall(PRINT, address_of(message), 5)
        give(u64(low) ^ ups ^ same ^ ecall(CYCLES))

    return main


PROGRAMS: dict[str, tuple[Callable[[int], Function], bytes]] = {
    "fibonacci": (fibonacci, b""), "sorting": (sorting, b""), "memcpy": (memcpy, bytes(range(256)) * 16),
    "keccak": (keccak, b""), "divisions": (divisions, b""), "branches": (branches, b""),
}


def benchmark(name: str, scale: int = 1) -> Benchmark:
    """A program of the suite; ``scale`` multiplies its work. KeyError for an unknown name."""
    make, data = PROGRAMS[name]
    return Benchmark(name, riscv.link(make(scale)), data)


def suite() -> list[Benchmark]:
    """All programs, compiled."""
    return [benchmark(name) for name in PROGRAMS]
