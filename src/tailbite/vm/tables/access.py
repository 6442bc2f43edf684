"""What the tables of loads and stores share."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chip import Rows
from ..ops import WIDTH, Op

B29 = 1 << 29  # dwords in 4 GiB
_WIDTHS = np.zeros(max(Op) + 1, dtype=np.uint64)
_WIDTHS[list(WIDTH)] = list(WIDTH.values())


def dword(v: Any) -> tuple[Any, Any]:
    """Limbs of eight bytes."""
    return sum(2 ** (8 * j) * v[j] for j in range(4)), sum(2 ** (8 * j) * v[4 + j] for j in range(4))


def widths(rows: Rows) -> Any:
    """Number of bytes that each row accesses."""
    return _WIDTHS[rows.op]


def overwrite(rows: Rows) -> tuple[Any, Any]:
    """The dwords m0 and m1 after the store of ``r`` at the row's address."""
    offset = rows.address & 7
    mask = np.uint64(2**64 - 1) >> 64 - 8 * widths(rows)
    up, down = 8 * offset, 56 - 8 * offset  # in two steps below because a shift by 64 has no meaning
    value = rows.r & mask
    return rows.m0 & ~(mask << up) | value << up, rows.m1 & ~(mask >> 8 >> down) | value >> 8 >> down
