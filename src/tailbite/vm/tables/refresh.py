"""REFRESH: gives a register's token a later time."""

from __future__ import annotations

from typing import Any

from ...air import selector, token, u16
from ..buses import REG
from ..chip import B16, Chip, Rows, limbs32


class Refresh(Chip):
    """A read at a free moment: accesses look at gaps of at most 2^16, and longer ones are bridged here, up to 2^32.

    It takes a token and gives one of the same value and a later time, so the register's chain stays one chain. A
    token moved to the future is of no use: no access before that time can take it. Rows that feed each other in a
    circle would need steps that add up to p, and 2^27 rows of at most 2^32 do not.
    """

    name = "REFRESH"
    instances = 2
    constraint_count = 1

    f = selector("row in use")
    r = token("register")
    lo, hi = token("its value, low limb"), token("high limb")
    t = token("old time")
    g = u16("limbs of the gap to the new time, less one", 2)

    def rules(self) -> None:
        new = self.t + 1 + self.g[0] + B16 * self.g[1]
        self.receive(REG, (self.r, self.t, self.lo, self.hi), self.f)
        self.send(REG, (self.r, new, self.lo, self.hi), self.f)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The refreshes of an executor's log."""
        return Rows(**log.refreshes._asdict())

    def fill(self, rows: Rows) -> dict[str, Any]:
        lo, hi = limbs32(rows.value)
        gap = rows.new - rows.t - 1
        return {"f": 1, "lo": lo, "hi": hi, "g": (gap & 0xFFFF, gap >> 16)}
