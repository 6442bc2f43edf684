"""CYCLES: the call that puts the number of cycles so far in a0."""

from __future__ import annotations

from typing import Any

from ...air import selector, token, u16, word
from ..chip import B16, B32, RS1, Chip, Rows, limbs16, limbs32
from ..ops import Call, Op
from .calls import A0, A7, call_rows, number


class Cycles(Chip):
    """a0 = (ts - 4) / 4. ts is an integer below 2^35 and the count three looked-up 16-bit limbs, below 2^48, so
    ``cyc`` is an equation of integers; a high limb of 32 bits would admit the count + p too.
    """

    name = "CYCLES"
    constraint_count = 2

    f = selector("CYCLES", Op.ECALL)
    pc, ts = token("program counter"), token("time")
    c = u16("the count", 3)
    t17, t10 = token("old time of x17"), token("old time of x10")
    o = word("old value of x10")

    def rules(t) -> None:
        low, high = t.c[0] + B16 * t.c[1], t.c[2]
        t.zero("cyc", t.f * (t.ts - 4 - 4 * (low + B32 * high)))
        t.step(t.pc + 4)
        t.fetch()
        t.read(A7, RS1, number(Call.CYCLES), t.t17)
        t.write(A0, (low, high), t.t10, t.o)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The reads of the cycle counter in an executor's log."""
        return call_rows(log.cycle_reads)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"c": limbs16((rows.ts - 4) >> 2, 3), "o": limbs32(rows.old)}
