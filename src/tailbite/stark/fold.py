"""FRI folding of 2, 4 or 8 values, for the prover's lanes and the verifier's words alike.

A leaf holds the values of f at the points u w_k^t. With f(u) = sum of u^t f_t(u^k), the inverse transform of the leaf
gives u^t f_t; the folded value is the sum of beta^t f_t.
"""

from __future__ import annotations

from typing import Any

from ..field import Ext, P, canon, lazy_add, lazy_ext_mul, lazy_mul, lazy_shift, lazy_sub, mul, root_of_unity
from ..lang import Slice, function, u64
from .params import MAX_FOLD

POWER_OF_TWO = {pow(2, e, P): e for e in range(192)}


def inverse_transform(xs: list[Any]) -> list[Any]:
    """Inverse DFT of 2, 4 or 8 values, unscaled; the roots of unity up to order 8 are powers of two."""
    k = len(xs)
    if k == 1:
        return xs
    even, odd = inverse_transform(xs[0::2]), inverse_transform(xs[1::2])
    root = pow(root_of_unity(k.bit_length() - 1), -1, P)
    out: list[Any] = [None] * k
    for i in range(k // 2):
        t = lazy_shift(odd[i], POWER_OF_TWO[pow(root, i, P)])
        out[i], out[i + k // 2] = lazy_add(even[i], t), lazy_sub(even[i], t)
    return out


def fold_values(values: list[tuple[Any, Any, Any]], z: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """k times the folded value, any representative; ``z`` is beta / u."""
    parts = [inverse_transform([v[c] for v in values]) for c in range(3)]
    y = (parts[0][-1], parts[1][-1], parts[2][-1])
    for t in range(len(values) - 2, -1, -1):
        y = lazy_ext_mul(y, z)
        y = (lazy_add(y[0], parts[0][t]), lazy_add(y[1], parts[1][t]), lazy_add(y[2], parts[2][t]))
    return y


def scaled_fold(leaf: Any, arity: int, z: Any) -> Ext:
    """The folded value of a leaf of ``arity`` extension values."""
    y = fold_values([(leaf[3 * t], leaf[3 * t + 1], leaf[3 * t + 2]) for t in range(arity)], z)
    scale = pow(arity, -1, P)
    return Ext(*(canon(lazy_mul(c, scale)) for c in y))


@function
def fold_leaf(leaf: Slice[u64], log_arity: u64, u_inverse: u64, beta: Ext) -> Ext:
    """The folded value of a leaf whose first point is u; canonical."""
    z = Ext(mul(beta.c0, u_inverse), mul(beta.c1, u_inverse), mul(beta.c2, u_inverse))
    if log_arity == 1:
        return scaled_fold(leaf, 2, z)
    if log_arity == 2:
        return scaled_fold(leaf, 4, z)
    assert log_arity == 3, "internal: a fold of more than eight values"
    return scaled_fold(leaf, MAX_FOLD, z)
