"""REG: the registers' first and last values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import fixed, token, word
from ..buses import REG
from ..chip import M32, Chip, Rows
from ..ops import REGISTERS

STACK_POINTER = 2
STACK = 0xFFFFFFFFFFFFFFF0


class Reg(Chip):
    """Keys 0 to 31 are the registers, 32 takes what is written to x0, 33 counts committed bytes; others are off.

    Each key has one initial and one final token, so its accesses form one chain in order of time. Nothing writes
    key 0, because the decoder puts 32 in its place. tf and v are matched by the token that the last access sent.
    """

    name = "REG"
    fixed_in = "universal"
    required = True
    min_log = max_log = 6
    constraint_count = 0

    r = fixed("register")
    lo, hi = fixed("initial value, low limb"), fixed("high limb")
    on = fixed("1 for registers in use")
    tf = token("time of the last access")
    v = word("value after it")

    def rules(t) -> None:
        t.send(REG, (t.r, 0, t.lo, t.hi), t.on)
        t.receive(REG, (t.r, t.tf, *t.v), t.on)

    @staticmethod
    def fixed_columns() -> Any:
        """Preprocessed columns, shape (4, 64)."""
        out = np.zeros((4, 64), dtype=np.uint64)
        out[0] = np.arange(64)
        out[1:3, STACK_POINTER] = STACK & M32, STACK >> 32
        out[3, :REGISTERS] = 1
        return out

    @staticmethod
    def rows(log: Any) -> Rows:
        """Registers 0 to 33 at the end, from an executor's log."""
        return Rows(tf=log.registers.t, v=log.registers.value)
