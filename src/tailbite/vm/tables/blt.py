"""BLT: branch if rs1 < rs2, or not, as signed numbers."""

from __future__ import annotations

from typing import Any

from ...air import bit, derived, msb16, rom, selector, sign_of, token, u16, word
from ..chip import Chip, Rows
from ..ops import Op
from .branch import branch, fill_branch
from .compare import fill_less, fill_sign, less, signed_word


class Blt(Chip):
    """As BLTU, on high limbs as signed numbers: xa and xb are their upper halves, sa and sb the signs.

    xa is the one 16-bit number for which a_hi - 2^16 xa is another, so the lookup of xa and sa makes sa bit 63 of a.
    """

    name = "BLT"
    instances = 3
    constraint_count = 8

    blt, bge = selector("BLT", Op.BLT), selector("BGE", Op.BGE)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("first source"), rom("second source")
    a, b = word("value of rs1"), word("value of rs2")
    e, lt = bit("are the high limbs equal?"), bit("is a < b?")
    d = u16("distance in the deciding limb", 2)
    xa, sa = msb16("sa", "bits 48 to 63 of a"), sign_of("xa", "sign of a")
    xb, sb = msb16("sb", "bits 48 to 63 of b"), sign_of("xb", "sign of b")
    tgt, npc = rom("target"), derived("next pc: npc")
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        less(t, signed_word(t, t.a, t.xa, t.sa), signed_word(t, t.b, t.xb, t.sb))
        branch(t, t.blt * t.lt + t.bge * (1 - t.lt))

    def fill(self, rows: Rows) -> dict[str, Any]:
        lt = (rows.r == 1) ^ (rows.op == Op.BGE)
        xa, sa = fill_sign(rows.a)
        xb, sb = fill_sign(rows.b)
        return {**fill_less(rows.a, rows.b, lt, signed=True), **fill_branch(rows),
                "xa": xa, "sa": sa, "xb": xb, "sb": sb}
