"""The 64 x 64 bit product by 16-bit limbs, that MUL, MULH and DIVREM share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..chip import B16, limbs16, limbs32


def convolution(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """c_j = sum of a_i b_(j-i), j = 0..6; of expressions or of arrays. On 16-bit limbs each is below 2^34."""
    return [sum(a[i] * b[j - i] for i in range(4) if 0 <= j - i < 4) for j in range(7)]


def pairs(c: Sequence[Any]) -> list[Any]:
    """Values of 32-bit position from those of 16-bit position: c_0 + 2^16 c_1, c_2 + 2^16 c_3, ..."""
    c = [*c, 0] if len(c) % 2 else c
    return [x + B16 * y for x, y in zip(c[::2], c[1::2], strict=True)]


def words(x: Any) -> list[Any]:
    """Low and high 32 bits, as signed integers: carries may be negative."""
    return [v.view(np.int64) for v in limbs32(x)]


def word_sums(a: Any, b: Any) -> list[Any]:
    """The convolution of the limbs of a and b by 32-bit position, as signed integers."""
    return pairs(convolution(*([v.view(np.int64) for v in limbs16(x)] for x in (a, b))))
