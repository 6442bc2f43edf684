"""MULH: the high half of a product."""

from __future__ import annotations

from typing import Any

from ...air import Word, byte, derived, msb16, rom, selector, sign_of, token, u16, word
from ..chip import B16, B32, RS1, RS2, Chip, Rows, canonical, limbs16
from ..ops import Op
from .compare import split
from .product import convolution, pairs, word_sums, words

OFFSET = 4  # added to the third carry, which is at least -3


class Mulh(Chip):
    """mulh, mulhsu, mulhu.

    As MUL, over four words. The product of the values as signed numbers is that of the unsigned ones minus
    2^64 (ea b + eb a), up to a multiple of 2^128; ea and eb are the sign bits of the operands that the operation
    takes as signed. The third carry may be negative, so k2 holds it plus 4; the last is 0, -1 or -2. All terms are
    below 2^56, so the equations are of integers and the words r are those of the product mod 2^128.
    """

    name = "MULH"
    instances = 3
    constraint_count = 11

    mulh, mulhsu = selector("mulh", Op.MULH), selector("mulhsu", Op.MULHSU)
    mulhu = selector("mulhu", Op.MULHU)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first operand"), rom("second operand")
    a, a3 = u16("value of rs1, limbs 0 to 2", 3), msb16("sa", "its limb 3")
    b, b3 = u16("value of rs2, limbs 0 to 2", 3), msb16("sb", "its limb 3")
    r = u16("product mod 2^128", 8)
    kl = u16("carries out of words 0, 1, 2 (the last plus 4), low limbs", 3)
    kh = byte("and their high bytes", 3)
    k3 = derived("carry out of word 3: 0, -1 or -2, by k3")
    sa, sb = sign_of("a3"), sign_of("b3")
    ea, eb = derived("is a negative as the operation takes it?"), derived("is b?")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        a, b = [*t.a, t.a3], [*t.b, t.b3]
        (a_lo, a_hi), (b_lo, b_hi), r = pairs(a), pairs(b), pairs(t.r)
        c = pairs(convolution(a, b))
        k0, k1, k2 = (x + B16 * y for x, y in zip(t.kl, t.kh, strict=True))
        k2 = k2 - OFFSET * t.real
        t.zero("ea", (t.mulh + t.mulhsu) * t.sa - t.ea)
        t.zero("eb", t.mulh * t.sb - t.eb)
        t.zero("w0", c[0] - r[0] - B32 * k0)
        t.zero("w1", c[1] + k0 - r[1] - B32 * k1)
        t.zero("w2", c[2] + k1 - t.ea * b_lo - t.eb * a_lo - r[2] - B32 * k2)
        t.zero("w3", c[3] + k2 - t.ea * b_hi - t.eb * a_hi - r[3] - B32 * t.k3)
        t.zero("k3", t.k3 * (t.k3 + 1) * (t.k3 + 2))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, (a_lo, a_hi), t.ta)
        t.read(t.rs2, RS2, (b_lo, b_hi), t.tb)
        t.write(t.rd, Word(r[2], r[3]), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        a, b, low = limbs16(rows.a), limbs16(rows.b), rows.a * rows.b
        (a_lo, a_hi), (b_lo, b_hi) = words(rows.a), words(rows.b)
        sa, sb = a_hi >> 31, b_hi >> 31
        ea, eb = sa * (rows.op != Op.MULHU), sb * (rows.op == Op.MULH)
        c, r = word_sums(rows.a, rows.b), words(low) + words(rows.r)
        k0 = c[0] - r[0] >> 32
        k1 = c[1] + k0 - r[1] >> 32
        k2 = c[2] + k1 - ea * b_lo - eb * a_lo - r[2] >> 32
        k3 = c[3] + k2 - ea * b_hi - eb * a_hi - r[3] >> 32
        kl, kh = zip(split(k0), split(k1), split(k2 + OFFSET), strict=True)
        return {"a": a[:3], "a3": a[3], "b": b[:3], "b3": b[3], "r": limbs16(low) + limbs16(rows.r), "kl": kl, "kh": kh,
                "k3": canonical(k3), "sa": sa, "sb": sb, "ea": ea, "eb": eb}
