"""KRC: the round constants of Keccak-f, by the seven bits that can be set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...air import Bus, fixed, free
from ...hash.keccak import ROUND_CONSTANTS
from ..buses import KRC
from ..chip import Chip

POSITIONS = tuple((1 << j) - 1 for j in range(7))  # 0, 1, 3, 7, 15, 31, 63
ROUNDS = 24


class Krc(Chip):
    """Row r of 24 offers (r, seven bits of round r's constant); the spare rows repeat round 0. Counts are free."""

    name = "KRC"
    fixed_in = "universal"
    min_log = max_log = 5
    constraint_count = 0

    r = fixed("round")
    bits = fixed("bits 0, 1, 3, 7, 15, 31, 63 of its constant", 7)
    m = free("requests on KRC")

    def rules(t) -> None:
        t.send(KRC, (t.r, *t.bits), t.m, lookup_table=True)

    @staticmethod
    def fixed_columns() -> Any:
        """Preprocessed columns, shape (8, 32)."""
        out = np.zeros((8, 32), dtype=np.uint64)
        for row in range(32):
            r = row if row < ROUNDS else 0
            out[0, row] = r
            out[1:, row] = [int(ROUND_CONSTANTS.words[r]) >> p & 1 for p in POSITIONS]
        return out

    @staticmethod
    def row_of(bus: Bus, entries: Sequence[Any]) -> Any:
        """Index of the row that offers each tuple, -1 where none does."""
        table = Krc.fixed_columns()
        r = entries[0]
        known = r < ROUNDS
        row = np.where(known, r, 0).astype(np.int64)
        for k, e in enumerate(entries[1:]):
            known = known & (e == table[1 + k][row])
        return np.where(known, row, -1)
