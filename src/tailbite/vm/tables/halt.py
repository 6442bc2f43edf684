"""HALT: the call that ends the run, with exit code 0."""

from __future__ import annotations

from typing import Any

from ...air import selector, token
from ..buses import EXEC
from ..chip import M32, RS1, RS2, Chip
from ..ops import Call, Op

A0, A1, A2, A7 = 10, 11, 12, 17


class Halt(Chip):
    """Takes the execution token and gives none, so it is where every accepted run ends.

    The call's number and the exit code are constants in the REG tuples: x17 = 93 and x10 = 0, or no proof.

    Witness: ``pc ts``, and ``t17 t10`` old times of the registers.
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
        t.read(A7, RS1, call(Call.HALT), t.t17)
        t.read(A0, RS2, (0, 0), t.t10)


def call(number: int) -> tuple[int, int]:
    """Limbs of a call's number."""
    return number & M32, number >> 32
