"""ROM: the program, one row for each word that is an instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import fixed, free
from ..buses import ROM
from ..chip import Chip, Rows
from ..decode import Rom as Decoded


class Rom(Chip):
    """A lookup table that the program fixes, by ascending pc, so each pc has one row. A word that is no instruction
    has none and cannot be executed; padding is zero, and no instruction table asks for operation 0.

    m may be anything: a request for a tuple that is not here stays unbalanced whatever the counts of others are,
    because there are fewer than p requests.
    """

    name = "ROM"
    fixed_in = "program"
    required = True
    max_log = 20
    constraint_count = 0

    pc, op, rd = fixed("address"), fixed("operation"), fixed("destination")
    s1, s2 = fixed("first source, or next pc of CONST"), fixed("second source")
    i0, i1 = fixed("immediate, low limb"), fixed("immediate, high limb")
    m = free("number of executions")

    def rules(t) -> None:
        t.send(ROM, (t.pc, t.op, t.rd, t.s1, t.s2, t.i0, t.i1), t.m, lookup_table=True)

    @staticmethod
    def fixed_columns(rom: Decoded) -> Any:
        """Preprocessed columns of a program, shape (7, height)."""
        out = np.zeros((7, program_height(len(rom))), dtype=np.uint64)
        out[:, :len(rom)] = rom.pc, rom.op, rom.rd, rom.s1, rom.s2, rom.i0, rom.i1
        return out

    @staticmethod
    def rows(hits: Any) -> Rows:
        """``hits``: how often each row of the program is executed."""
        return Rows(m=hits)


def program_height(rows: int) -> int:
    """Height of a table of the program: the least power of two that holds ``rows``, at least 32."""
    return 1 << max(5, (rows - 1).bit_length())
