"""KCALL: the call that permutes 25 dwords in memory by Keccak-f[1600]."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import derived, selector, token
from ..buses import KST
from ..chip import MEMORY, RS1, RS2, Chip, Rows, limbs32
from ..ops import Call, Op
from .calls import A0, A7, call_rows, number
from .krc import ROUNDS

DWORDS = 25


class Kcall(Chip):
    """x17 = -2 is a constant in the REG tuple. x10 must be 2^32 h + 8 w with the key (h, w) of a dword that exists, so
    the pointer is a multiple of 8. The 25 dwords from there hold ``a`` before and ``b`` after, and b is what comes
    out of 24 rounds that begin with a under this row's time, of which there is one row only.
    """

    name = "KCALL"
    instances = 2
    constraint_count = 1

    f = selector("KCALL", Op.ECALL)
    pc, ts = token("program counter"), token("time")
    w, h = derived("dword of the pointer: x10 = (8 w, h)"), token("high limb of the pointer")
    a = token("state before, limbs", 2 * DWORDS)
    b = token("state after, limbs", 2 * DWORDS)
    tm, dm = token("old times of the dwords", DWORDS), token("low limbs of their gaps, looked up", DWORDS)
    t17, t10 = token("old time of x17"), token("old time of x10")

    def rules(t) -> None:
        t.step(t.pc + 4)
        t.fetch()
        t.read(A7, RS1, number(Call.KECCAK), t.t17)
        t.read(A0, RS2, (8 * t.w, t.h), t.t10)
        for j in range(DWORDS):
            t.memory(t.h, t.w + j, t.a[2 * j:2 * j + 2], t.b[2 * j:2 * j + 2], t.tm[j], t.dm[j])
        t.send(KST, (t.ts, 0, *t.a), t.f)
        t.receive(KST, (t.ts, ROUNDS, *t.b), t.f)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The calls of an executor's log."""
        return call_rows(log.keccaks, pointer=log.keccaks.address)

    def fill(self, rows: Rows) -> dict[str, Any]:
        from .kround import _round

        before = tuple(rows.state[:, k] for k in range(DWORDS))
        after = before
        for r in range(ROUNDS):
            after = _round(after, r)
        w, h = limbs32(rows.pointer)
        tm = [rows.tm[:, j] for j in range(DWORDS)]
        gaps = [(rows.ts + np.uint64(MEMORY - 1) - t) & np.uint64(0xFFFF) for t in tm]
        return {"w": w >> np.uint64(3), "h": h, "a": [x for v in before for x in limbs32(v)],
                "b": [x for v in after for x in limbs32(v)], "tm": tm, "dm": gaps}
