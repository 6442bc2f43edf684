"""ROM: the program, one row for each word that is an instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import fixed, free
from ..buses import ROM
from ..chip import Chip
from ..decode import Rom as Decoded
from .access import program_height


class Rom(Chip):
    """A lookup table that the program fixes: rows by ascending pc, so pcs are distinct; padding is zero, and no
    instruction table asks for operation 0. A word that is no instruction has no row, so it cannot be executed.

    m may be anything: a tuple outside the table stays unbalanced whatever the multiplicities of others are, as the
    number of requests is below p.

    Witness: ``m`` how often each row is executed.
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
        t.send(ROM, (t.pc, t.op_number, t.rd, t.s1, t.s2, t.i0, t.i1), t.m, lookup_table=True)


def fixed_columns(rom: Decoded) -> Any:
    """The preprocessed columns (7, height) of a program."""
    out = np.zeros((7, program_height(len(rom))), dtype=np.uint64)
    out[:, :len(rom)] = rom.pc, rom.op, rom.rd, rom.s1, rom.s2, rom.i0, rom.i1
    return out
