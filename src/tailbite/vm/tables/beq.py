"""BEQ: branch if rs1 and rs2 are equal, or unequal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import columns as col
from ...air import derived, rom, selector, token, word
from ..chip import Chip, Rows, limbs32
from ..ops import Op
from .branch import branch, fill_branch


class Beq(Chip):
    """One inverse serves both limbs: with the differences dl and dh, norm = dl^2 - 7 dh^2 is 0 only if both are.

    7 is no square mod p, so dl^2 = 7 dh^2 has no other solution. Equal operands: norm = 0 and ``neq`` demands eq = 1
    on a real row, whatever inv is. Others: ``eq.lo`` and ``eq.hi`` demand eq = 0. So eq is a bit on every real row, and
    needs no rule that says so. inv occurs nowhere else.
    """

    name = "BEQ"
    instances = 3
    constraint_count = 7

    beq, bne = selector("BEQ", Op.BEQ), selector("BNE", Op.BNE)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("first source"), rom("second source")
    a, b = word("value of rs1"), word("value of rs2")
    eq = derived("are they equal? by neq, eq.lo and eq.hi")
    inv = derived("neq: 1 / norm if they differ")
    tgt, npc = rom("target"), derived("next pc: npc")
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        dl, dh = t.a.lo - t.b.lo, t.a.hi - t.b.hi
        t.zero("eq.lo", t.eq * dl)
        t.zero("eq.hi", t.eq * dh)
        t.zero("neq", (dl * dl - 7 * (dh * dh)) * t.inv - (t.real - t.eq))
        branch(t, t.beq * t.eq + t.bne * (1 - t.eq))

    def fill(self, rows: Rows) -> dict[str, Any]:
        eq = (rows.r == 1) ^ (rows.op == Op.BNE)
        (al, ah), (bl, bh) = limbs32(rows.a), limbs32(rows.b)
        dl, dh = col.sub_(al, bl), col.sub_(ah, bh)
        norm = col.sub_(col.mul_(dl, dl), col.mul_(7, col.mul_(dh, dh)))
        return {"eq": eq, "inv": np.where(eq, np.uint64(0), col.inverse(norm)), **fill_branch(rows)}
