"""Arithmetic on whole columns: NumPy arrays of canonical Goldilocks elements, computed by compiled loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from .field import P, add, canon, inv, lazy_add, lazy_mul, mul, sub
from .lang import Ptr, cpu, function, u64, u64x8

PIECE = 1 << 20  # elements that one compiled call inverts
Array = np.ndarray[Any, np.dtype[np.uint64]]


@function
def add_columns(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """out = a + b over n elements, a multiple of 8."""
    for i in range(0, n, 8):
        out.store8(i, add(a.load8(i), b.load8(i)))


@function
def sub_columns(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """out = a - b over n elements, a multiple of 8."""
    for i in range(0, n, 8):
        out.store8(i, sub(a.load8(i), b.load8(i)))


@function
def mul_columns(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """out = a b over n elements, a multiple of 8."""
    for i in range(0, n, 8):
        out.store8(i, mul(a.load8(i), b.load8(i)))


@function
def affine_columns(columns: Ptr[Ptr[u64]], weights: Ptr[u64], count: u64, constant: u64, out: Ptr[u64], n: u64) -> None:
    """out = constant + sum of weights[k] * columns[k] over n elements, a multiple of 8."""
    for i in range(0, n, 8):
        total = u64x8(constant)
        for k in range(count):
            total = lazy_add(total, lazy_mul(columns[k].load8(i), u64x8(weights[k])))
        out.store8(i, canon(total))


@function
def inverse_columns(a: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """out = 1/a, and 0 for 0, over n elements (Montgomery's trick, zeros skipped)."""
    product = u64(1)
    for i in range(n):
        out[i] = product
        if a[i] != 0:
            product = mul(product, a[i])
    rest = inv(product)
    left = n
    while left != 0:
        left -= 1
        x = a[left]
        if x == 0:
            out[left] = u64(0)
        else:
            out[left] = mul(out[left], rest)
            rest = mul(rest, x)


library = cpu.Library("columns", [add_columns, sub_columns, mul_columns, affine_columns, inverse_columns],
                      packaged=True)


def _pair(a: Any, b: Any) -> tuple[Array, Array, int]:
    """Both operands as equally long arrays, padded to a multiple of 8; and the true length."""
    a, b = np.asarray(a, dtype=np.uint64), np.asarray(b, dtype=np.uint64)
    shape = np.broadcast_shapes(a.shape, b.shape)
    n = shape[0] if shape else 1
    return _padded(np.broadcast_to(a, (n,))), _padded(np.broadcast_to(b, (n,))), n


def _padded(a: Array) -> Array:
    extra = -len(a) % 8
    return np.ascontiguousarray(np.concatenate([a, np.zeros(extra, np.uint64)]) if extra else a)


def _binary(fn: Any, a: Any, b: Any) -> Array:
    x, y, n = _pair(a, b)
    out = np.empty_like(x)
    fn(x, y, out, len(x))
    return out[:n]


def add_(a: Any, b: Any) -> Array:
    """a + b mod p; arrays or scalars, canonical."""
    return _binary(library.add_columns, a, b)


def sub_(a: Any, b: Any) -> Array:
    """a - b mod p."""
    return _binary(library.sub_columns, a, b)


def mul_(a: Any, b: Any) -> Array:
    """a b mod p."""
    return _binary(library.mul_columns, a, b)


def inverse(a: Any) -> Array:
    """1/a mod p, 0 where a = 0."""
    x = np.ascontiguousarray(a, dtype=np.uint64)
    out = np.empty_like(x)
    for lo in range(0, len(x), PIECE):
        library.inverse_columns(x[lo:lo + PIECE], out[lo:lo + PIECE], min(PIECE, len(x) - lo))
    return out


def affine(constant: int, terms: list[tuple[Array, int]], n: int) -> Array:
    """constant + sum of coefficient * column, mod p; ValueError unless columns hold n elements, a multiple of 8."""
    keep = [np.ascontiguousarray(c, dtype=np.uint64) for c, _ in terms]
    if n % 8 or any(c.shape != (n,) for c in keep):
        raise ValueError(f"columns must hold {n} elements, a multiple of 8")
    out = np.empty(n, np.uint64)
    addresses = np.array([c.ctypes.data for c in keep] or [0], dtype=np.uint64)
    weights = np.array([w % P for _, w in terms] or [0], dtype=np.uint64)
    library.affine_columns(addresses, weights, len(keep), constant % P, out, n)
    return out
