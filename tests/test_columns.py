"""Arithmetic on whole columns against Python integers."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import plain
import pytest
from plain import CANONICAL, LEVELS, P, array, ints

from tailbite import columns as col
from tailbite.lang import cpu

LENGTHS = (*range(20), 31, 32, 33, 100)


@pytest.mark.parametrize("n", LENGTHS)
def test_binary_operations_at_every_length(n: int) -> None:
    a, b = plain.random_elements(n, n), plain.random_elements(n + 1000, n)
    x, y = array(a), array(b)
    assert ints(col.add_(x, y)) == [(p + q) % P for p, q in zip(a, b, strict=True)]
    assert ints(col.sub_(x, y)) == [(p - q) % P for p, q in zip(a, b, strict=True)]
    assert ints(col.mul_(x, y)) == [p * q % P for p, q in zip(a, b, strict=True)]
    assert ints(x) == a and ints(y) == b


def test_binary_operations_on_all_pairs_of_edges() -> None:
    pairs = list(itertools.product(CANONICAL, CANONICAL))
    a, b = array(x for x, _ in pairs), array(y for _, y in pairs)
    assert ints(col.add_(a, b)) == [(x + y) % P for x, y in pairs]
    assert ints(col.sub_(a, b)) == [(x - y) % P for x, y in pairs]
    assert ints(col.mul_(a, b)) == [x * y % P for x, y in pairs]


def test_scalars_and_columns_mix() -> None:
    x = array([1, 2, 3])
    assert ints(col.sub_(np.uint64(1), x)) == [0, P - 1, P - 2]
    assert ints(col.mul_(x, np.uint64(P - 1))) == [P - 1, P - 2, P - 3]
    assert ints(col.add_(np.uint64(P - 1), np.uint64(2))) == [1]


def test_a_strided_column_is_read_in_order() -> None:
    x = np.arange(40, dtype=np.uint64)
    assert ints(col.add_(x[::2], x[1::2])) == [4 * k + 1 for k in range(20)]
    assert ints(col.inverse(x[1:9:4])) == [1, pow(5, -1, P)]


def test_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError):
        col.add_(array([1, 2, 3]), array([1, 2]))


@pytest.mark.parametrize("n", LENGTHS)
def test_inverse_skips_zeros(n: int) -> None:
    a = [0 if k % 3 == 1 else x for k, x in enumerate(plain.random_elements(n, n))]
    assert ints(col.inverse(array(a))) == [pow(x, -1, P) if x else 0 for x in a]


def test_inverse_of_edges_and_of_zeros_alone() -> None:
    assert ints(col.inverse(array(CANONICAL))) == [pow(x, -1, P) if x else 0 for x in CANONICAL]
    assert ints(col.inverse(array([0] * 9))) == [0] * 9


def random_terms(count: int, n: int) -> list[tuple[list[int], int]]:
    """Columns with coefficients, some negative or above p."""
    weights = [1, -1, P, P + 3, -(2**70), *plain.random_elements(3, count)]
    return [(plain.random_elements(50 + k, n), weights[k]) for k in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 40])
def test_affine(count: int) -> None:
    n = 48
    terms = random_terms(count, n)
    got = col.affine(-3, [(array(c), w) for c, w in terms], n)
    assert ints(got) == [(-3 + sum(w * c[i] for c, w in terms)) % P for i in range(n)]


def test_affine_refuses_other_lengths() -> None:
    """The loop goes by eights without bounds checks, so lengths are checked before it."""
    assert ints(col.affine(1, [(array(range(8)), 2)], 8)) == [1 + 2 * k for k in range(8)]
    with pytest.raises(ValueError, match="multiple of 8"):
        col.affine(1, [(array(range(4)), 2)], 4)
    with pytest.raises(ValueError, match="must hold 16"):
        col.affine(1, [(array(range(8)), 2)], 16)


@functools.cache
def library(level: str) -> Any:
    functions = [col.add_columns, col.sub_columns, col.mul_columns, col.affine_columns, col.inverse_columns]
    return cpu.Library("columns-test", functions, level=level)


@pytest.mark.parametrize("level", [*LEVELS, "interpreter"])
def test_loops_agree_at_every_level(level: str) -> None:
    source: Any = col if level == "interpreter" else library(level)
    n = len(CANONICAL) // 8 * 8
    a, b, out = array(CANONICAL[:n]), array(CANONICAL[-n:]), array([0] * n)
    pairs = list(zip(ints(a), ints(b), strict=True))
    for name, meaning in (("add", lambda x, y: x + y), ("sub", lambda x, y: x - y), ("mul", lambda x, y: x * y)):
        getattr(source, f"{name}_columns")(a, b, out, n)
        assert ints(out) == [meaning(x, y) % P for x, y in pairs]
    source.inverse_columns(a, out, n)
    assert ints(out) == [pow(x, -1, P) if x else 0 for x, _ in pairs]


@pytest.mark.parametrize("level", LEVELS)
def test_affine_loop_at_every_level(level: str) -> None:
    n, terms = 16, random_terms(7, 16)
    columns = [array(c) for c, _ in terms]
    out = array([0] * n)
    library(level).affine_columns(array(c.ctypes.data for c in columns), array(w % P for _, w in terms), 7, P - 1,
                                  out, n)
    assert ints(out) == [(-1 + sum(w * c[i] for c, w in terms)) % P for i in range(n)]
