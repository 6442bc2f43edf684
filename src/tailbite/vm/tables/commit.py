"""COMMIT: the call that hands bytes in memory to the public output."""

from __future__ import annotations

from typing import Any

from ...air import selector, token
from ..buses import COM, EXEC
from ..chip import OUTPUT_COUNTER, RS1, RS2, Chip, Rows, limbs32
from ..ops import Call, Op
from .calls import A0, A1, A2, A7, call_rows, number

THIRD = 2  # slot of the third read; the call itself accesses no memory


class Commit(Chip):
    """Turns the execution token into one that CBYTE rows pass on, byte by byte, and turn back.

    x17 = 64 and x10 = 1 are constants in the REG tuples; the pointer comes from x11, the length from x12, whose high
    limb must be 0. x10 receives the length, which is in range because x12 held it. Register 33 holds the number of
    bytes committed before, so every byte of the run has its own index in the output.
    """

    name = "COMMIT"
    constraint_count = 1

    f = selector("COMMIT", Op.ECALL)
    pc, ts = token("program counter"), token("time")
    plo, phi = token("pointer, low limb"), token("high limb")
    len = token("length")
    idx = token("bytes committed before")
    t17, t11, t12 = token("old time of x17"), token("old time of x11"), token("old time of x12")
    t10, t33 = token("old time of x10"), token("old time of the counter")

    def rules(t) -> None:
        t.receive(EXEC, (t.pc, t.ts), t.f)
        t.fetch()
        t.read(A7, RS1, number(Call.COMMIT), t.t17)
        t.read(A1, RS2, (t.plo, t.phi), t.t11)
        t.read(A2, THIRD, (t.len, 0), t.t12)
        t.write(A0, (t.len, 0), t.t10, (1, 0))
        t.write(OUTPUT_COUNTER, (t.idx + t.len, 0), t.t33, (t.idx, 0))
        t.send(COM, (t.pc + 4, t.ts + 4, t.plo, t.phi, t.len, t.idx), t.f)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The commits of an executor's log."""
        plo, phi = limbs32(log.commits.address)
        return call_rows(log.commits, plo=plo, phi=phi, len=log.commits.length)
