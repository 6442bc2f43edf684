"""HALT: the call that ends the run, with exit code 0."""

from __future__ import annotations

from typing import Any

from ...air import selector, token
from ..buses import EXEC
from ..chip import RS1, RS2, Chip, Rows
from ..ops import Call, Op
from .calls import A0, A7, call_rows, number


class Halt(Chip):
    """Takes the execution token and gives none, so it is where every accepted run ends.

    The call's number and the exit code are constants in the REG tuples: x17 = 93 and x10 = 0, or no proof.
    """

    name = "HALT"
    required = True
    constraint_count = 1

    f = selector("HALT", Op.ECALL)
    pc, ts = token("program counter"), token("time")
    t17, t10 = token("old time of x17"), token("old time of x10")

    def rules(t) -> None:
        t.receive(EXEC, (t.pc, t.ts), t.f)
        t.fetch()
        t.read(A7, RS1, number(Call.HALT), t.t17)
        t.read(A0, RS2, (0, 0), t.t10)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The halt of an executor's log."""
        return call_rows(log.halts)
