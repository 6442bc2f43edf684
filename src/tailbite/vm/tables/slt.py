"""SLT: rd = 1 if rs1 < rs2 + immediate else 0, as signed or unsigned numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import Word, bit, msb16, rom, rom_word, selector, sign_of, token, u16, word
from ..chip import RS1, RS2, Chip, Rows
from ..ops import Op
from .compare import fill_less, fill_sign, less, signed_word


class Slt(Chip):
    """A comparison (see ``compare``) of a with b + i; the result is the bit lt.

    A row of the ROM has i = 0, or rs2 = x0 and therefore b = 0: the limb-wise sum is one of the two, below 2^32.
    The lookups of sign and upper half have multiplicity slt; on sltu rows ``sa`` and ``sb`` make the signs 0, and xa
    and xb are not used.
    """

    name = "SLT"
    instances = 3
    constraint_count = 9

    slt, sltu = selector("SLT, SLTI", Op.SLT), selector("SLTU, SLTIU", Op.SLTU)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first source"), rom("second source")
    i = rom_word("immediate, sign-extended")
    a, b = word("value of rs1"), word("value of rs2")
    e, lt = bit("are the high limbs equal?"), bit("result")
    d = u16("distance in the deciding limb", 2)
    xa, sa = msb16("sa", "bits 48 to 63 of a", when="slt"), sign_of("xa", "sign of a")
    xb, sb = msb16("sb", "bits 48 to 63 of the second operand", when="slt"), sign_of("xb", "its sign")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        second = Word(t.b.lo + t.i.lo, t.b.hi + t.i.hi)
        t.zero("sa", t.sltu * t.sa)
        t.zero("sb", t.sltu * t.sb)
        less(t, signed_word(t, t.a, t.xa, t.sa, t.slt), signed_word(t, second, t.xb, t.sb, t.slt))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.b, t.tb)
        t.write(t.rd, (t.lt, 0), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        second = rows.b + (rows.i0 | rows.i1 << 32)
        signed = rows.op == Op.SLT
        xa, sa = fill_sign(rows.a)
        xb, sb = fill_sign(second)
        lt = np.minimum(rows.r, 2)  # a result that is no bit stays none
        return {**fill_less(rows.a, second, lt, signed), "xa": xa, "sa": sa * signed, "xb": xb, "sb": sb * signed}
