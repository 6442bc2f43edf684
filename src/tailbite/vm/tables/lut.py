"""LUT: all pairs of bytes, for the range and AND lookups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...air import Bus, fixed, free
from ..buses import AND, B2, MSB, R16
from ..chip import Chip


class Lut(Chip):
    """Row x + 2^8 y offers (x, y, x & y), (x, y), the 16-bit number v = x + 2^8 y, and v with its top bit.

    The rows are part of the machine's identity. How often each is offered is free: a request for anything else is
    left over on its bus, whose balance no count of this table's rows can restore.
    """

    name = "LUT"
    fixed_in = "universal"
    required = True
    min_log = max_log = 16
    constraint_count = 0

    x, y = fixed("low byte"), fixed("high byte")
    both, top = fixed("x & y"), fixed("y >> 7")
    m_and, m_b2 = free("requests on AND"), free("requests on B2")
    m_r16, m_msb = free("requests on R16"), free("requests on MSB")

    def rules(t) -> None:
        v = t.x + 256 * t.y
        t.send(AND, (t.x, t.y, t.both), t.m_and, lookup_table=True)
        t.send(B2, (t.x, t.y), t.m_b2, lookup_table=True)
        t.send(R16, (v,), t.m_r16, lookup_table=True)
        t.send(MSB, (v, t.top), t.m_msb, lookup_table=True)

    @staticmethod
    def fixed_columns() -> Any:
        """Preprocessed columns, shape (4, 2^16)."""
        v = np.arange(1 << 16, dtype=np.uint64)
        x, y = v & 0xFF, v >> 8
        return np.stack([x, y, x & y, y >> 7])

    @staticmethod
    def row_of(bus: Bus, entries: Sequence[Any]) -> Any:
        """Index of the row that offers each tuple on ``bus``, -1 where none does."""
        x = entries[0]
        if bus in (AND, B2):
            y = entries[1]
            row, known = x + (y << 8), (x < 256) & (y < 256)
            if bus == AND:
                known &= entries[2] == x & y
        else:
            row, known = x, x < 1 << 16
            if bus == MSB:
                known &= entries[1] == x >> 15
        return np.where(known, row.astype(np.int64), -1)
