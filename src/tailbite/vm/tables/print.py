"""PRINT: the call that writes to the host's log; a step without effect."""

from __future__ import annotations

from typing import Any

from ...air import selector, token
from ..chip import RS1, Chip, Rows
from ..ops import Call, Op
from .calls import A7, call_rows, number


class Print(Chip):
    """x17 = 1 is a constant in the REG tuple; nothing else is read or changed."""

    name = "PRINT"
    constraint_count = 1

    f = selector("PRINT", Op.ECALL)
    pc, ts = token("program counter"), token("time")
    t17 = token("old time of x17")

    def rules(t) -> None:
        t.step(t.pc + 4)
        t.fetch()
        t.read(A7, RS1, number(Call.PRINT), t.t17)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The prints of an executor's log."""
        return call_rows(log.prints)
