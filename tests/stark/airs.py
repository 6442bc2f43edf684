"""Three small example AIRs: no buses, a bus between tables of different heights, preprocessed columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailbite.air import Bus, Table, bit, fixed, free, selector, token
from tailbite.field import P
from tailbite.stark.system import System

LOOP = Bus(1, "LOOP", ("value",), state=True)
SQUARE = Bus(2, "SQUARE", ("x", "x^2"))


class Fibonacci(Table):
    """a, b = b, a + b; public words: first a, first b, last b."""

    name = "FIB"
    required = True
    constraint_count = 5
    a, b = token("this number"), token("the next one")

    def rules(t) -> None:
        inner = 1 - t.last
        t.zero("step.a", inner * (t.next(t.a) - t.b))
        t.zero("step.b", inner * (t.next(t.b) - t.a - t.b))
        t.zero("first.a", t.first * (t.a - t.public(0)))
        t.zero("first.b", t.first * (t.b - t.public(1)))
        t.zero("result", t.last * (t.b - t.public(2)))


def fibonacci_witness(log: int, a: int = 1, b: int = 1) -> tuple[Any, bytes]:
    """Main columns and public output."""
    rows = []
    for _ in range(1 << log):
        rows.append((a, b))
        a, b = b, (a + b) % P
    out = [*rows[0], rows[-1][1]]
    return np.array(rows, dtype=np.uint64).T.copy(), b"".join(x.to_bytes(8, "little") for x in out)


class Source(Table):
    """Sends its values."""

    name = "SOURCE"
    required = True
    constraint_count = 1
    on = selector("in use")
    x = token("value")

    def rules(t) -> None:
        t.send(LOOP, (t.x,), t.on)


class Sink(Table):
    """Receives the same values in any order; two of them a row, and may have two instances."""

    name = "SINK"
    instances = 2
    constraint_count = 2
    on, two = bit("first in use"), bit("second in use")
    x, y = token("value"), token("value")

    def rules(t) -> None:
        t.receive(LOOP, (t.x,), t.on)
        t.receive(LOOP, (t.y,), t.two)


class Squares(Table):
    """A lookup table of squares, preprocessed for all programs."""

    name = "SQUARES"
    fixed_in = "universal"
    required = True
    min_log = max_log = 6
    constraint_count = 0
    n, s = fixed("n"), fixed("n^2")
    m = free("requests")

    def rules(t) -> None:
        t.send(SQUARE, (t.n, t.s), t.m, lookup_table=True)


class Given(Table):
    """Program table: numbers to be squared, and how they follow."""

    name = "GIVEN"
    fixed_in = "program"
    required = True
    constraint_count = 2
    n, on = fixed("n"), fixed("in use")
    s, total = token("its square"), token("sum so far")

    def rules(t) -> None:
        t.receive(SQUARE, (t.n, t.s), t.on)
        t.zero("start", t.first * (t.total - t.on * t.s))
        t.zero("sum", t.last * (t.total - t.public(0)) + (1 - t.last) * (t.next(t.total) - t.total - t.next(t.s)))


def fibonacci_system() -> System:
    return System("fibonacci", [Fibonacci()], [])


def permutation_system() -> System:
    return System("permutation", [Source(), Sink()], [LOOP])


def squares_columns() -> Any:
    n = np.arange(64, dtype=np.uint64)
    return np.stack([n, n * n])


def squares_system() -> System:
    return System("squares", [Squares(), Given()], [SQUARE], universal={"SQUARES": squares_columns()})
