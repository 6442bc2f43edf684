"""The 64 x 64 bit product by 16-bit limbs, that MUL, MULH and DIVREM share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chip import B16, M32


def convolution(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """c_j = sum of a_i b_(j-i), j = 0..6; of expressions or of arrays. On 16-bit limbs each is below 2^34."""
    return [sum(a[i] * b[j - i] for i in range(4) if 0 <= j - i < 4) for j in range(7)]


def pairs(c: Sequence[Any]) -> list[Any]:
    """Values of 32-bit position from those of 16-bit position: c_0 + 2^16 c_1, c_2 + 2^16 c_3, ..."""
    c = [*c, 0] if len(c) % 2 else c
    return [x + B16 * y for x, y in zip(c[::2], c[1::2], strict=True)]


def carry(x: Any) -> Any:
    """x / 2^32, rounded down, of signed numbers held in uint64."""
    return (x.view(np.int64) >> 32).view(np.uint64)


def carry_limbs(k: Any) -> tuple[Any, Any]:
    """A carry k = low + 2^16 high of signed numbers: honest ones have a byte as high, others no limb at all."""
    return k & 0xFFFF, residue((k.view(np.int64) >> 16).view(np.uint64))


def residue(x: Any) -> Any:
    """Signed numbers held in uint64, as field elements."""
    return np.where(x >> 63, x - M32, x)
