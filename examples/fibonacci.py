"""Fibonacci numbers modulo 2^64: ``tailbite prove examples/fibonacci.py 1000``."""

import tailbite
from tailbite import u64


@tailbite.guest
def fibonacci(n: u64) -> u64:
    """The n-th Fibonacci number mod 2^64, with fibonacci(0) = 0."""
    a, b = u64(0), u64(1)
    for _ in range(n):
        a, b = b, a + b
    return a
