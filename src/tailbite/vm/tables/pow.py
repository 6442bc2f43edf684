"""POW: powers of two, for shifts by a register."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...air import Bus, fixed, free
from ..buses import POW
from ..chip import Chip


class Pow(Chip):
    """Row k of 64 offers (k, 2^(k mod 32), k >> 5); as in LUT the rows are fixed and their counts free."""

    name = "POW"
    fixed_in = "universal"
    min_log = max_log = 6
    constraint_count = 0

    k, pw, b5 = fixed("amount"), fixed("2^(k mod 32)"), fixed("k >> 5")
    m = free("requests on POW")

    def rules(t) -> None:
        t.send(POW, (t.k, t.pw, t.b5), t.m, lookup_table=True)

    @staticmethod
    def fixed_columns() -> Any:
        """Preprocessed columns, shape (3, 64)."""
        k = np.arange(64, dtype=np.uint64)
        return np.stack([k, np.uint64(1) << (k & 31), k >> 5])

    @staticmethod
    def row_of(bus: Bus, entries: Sequence[Any]) -> Any:
        """Index of the row that offers each tuple, -1 where none does."""
        k, pw, b5 = entries
        known = (k < 64) & (pw == np.uint64(1) << (k & 31)) & (b5 == k >> 5)
        return np.where(known, k.astype(np.int64), -1)
