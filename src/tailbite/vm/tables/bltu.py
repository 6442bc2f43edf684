"""BLTU: branch if rs1 < rs2, or not, as unsigned numbers."""

from __future__ import annotations

from typing import Any

from ...air import bit, derived, rom, selector, token, u16, word
from ..chip import Chip, Rows
from ..ops import Op
from .branch import branch, fill_branch
from .compare import fill_less, less


class Bltu(Chip):
    """A comparison (see ``compare``) and a choice of the next pc (see ``branch``)."""

    name = "BLTU"
    instances = 3
    constraint_count = 8

    bltu, bgeu = selector("BLTU", Op.BLTU), selector("BGEU", Op.BGEU)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("first source"), rom("second source")
    a, b = word("value of rs1"), word("value of rs2")
    e, lt = bit("are the high limbs equal?"), bit("is a < b?")
    d = u16("distance in the deciding limb", 2)
    tgt, npc = rom("target"), derived("next pc: npc")
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        less(t, t.a, t.b)
        branch(t, t.bltu * t.lt + t.bgeu * (1 - t.lt))

    def fill(self, rows: Rows) -> dict[str, Any]:
        lt = (rows.r == 1) ^ (rows.op == Op.BGEU)
        return {**fill_less(rows.a, rows.b, lt), **fill_branch(rows)}
