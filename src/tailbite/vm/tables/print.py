"""PRINT: the call that writes to the host's log; a step without effect."""

from __future__ import annotations

from ...air import selector, token
from ..chip import RS1, Chip
from ..ops import Call, Op
from .halt import A7, call


class Print(Chip):
    """x17 = 1 is a constant in the REG tuple; nothing else is read or changed.

    Witness: ``pc ts``, and ``t17`` old time of x17.
    """

    name = "PRINT"
    constraint_count = 1

    f = selector("PRINT", Op.ECALL)
    pc, ts = token("program counter"), token("time")
    t17 = token("old time of x17")

    def rules(t) -> None:
        t.step(t.pc + 4)
        t.fetch()
        t.read(A7, RS1, call(Call.PRINT), t.t17)
