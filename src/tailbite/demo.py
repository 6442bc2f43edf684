"""The packaged program of ``tailbite demo``."""

from __future__ import annotations

from .guest import guest
from .lang import u64

START = 837799


@guest
def collatz(start: u64) -> u64:
    """Number of steps from ``start`` to 1, where an even n goes to n / 2 and an odd one to 3 n + 1."""
    n = start
    steps = u64(0)
    while n != 1:
        n = n >> 1 if n & 1 == 0 else 3 * n + 1
        steps += 1
    return steps
