"""MUL: the low half of a product."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import Word, byte, derived, msb16, rom, selector, sign_of, token, u16, word
from ..chip import B16, B32, M32, RS1, RS2, Chip, Rows, limbs16
from ..ops import Op
from .compare import split
from .product import convolution, pairs, word_sums, words


class Mul(Chip):
    """mul, and mulw, whose low word depends only on the low words.

    c_j are the sums of limb products. The equations carry them into 32-bit words, with carries below 2^24 (a u16 and
    a byte): all terms are below 2^56, so they are equations of integers and the product is the only solution.
    The registers' values are tied to the limbs a and b by the REG tuples, which hold the limbs' sums.
    """

    name = "MUL"
    instances = 3
    constraint_count = 6

    mul, mulw = selector("mul", Op.MUL), selector("mulw", Op.MULW)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first operand"), rom("second operand")
    a, b = u16("value of rs1", 4), u16("value of rs2", 4)
    r0, r1 = u16("product, limb 0"), msb16("s", "product, limb 1")
    r2, r3 = u16("product, limb 2"), u16("product, limb 3")
    kl = u16("carries out of words 0 and 1, low limbs", 2)
    kh = byte("and their high bytes", 2)
    s = sign_of("r1", "sign of mulw")
    oh = derived("high word of the result")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        low, high = pairs([t.r0, t.r1, t.r2, t.r3])
        c = pairs(convolution(t.a, t.b))
        k0, k1 = (x + B16 * y for x, y in zip(t.kl, t.kh, strict=True))
        t.zero("w0", c[0] - low - B32 * k0)
        t.zero("w1", c[1] + k0 - high - B32 * k1)
        t.zero("oh", t.mul * high + M32 * t.mulw * t.s - t.oh)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, pairs(t.a), t.ta)
        t.read(t.rs2, RS2, pairs(t.b), t.tb)
        t.write(t.rd, Word(low, t.oh), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        low, oh = words(rows.r)
        high = np.where(rows.op == Op.MULW, words(rows.a * rows.b)[1], oh)
        c = word_sums(rows.a, rows.b)
        k0 = c[0] - low >> 32
        k1 = c[1] + k0 - high >> 32
        kl, kh = zip(split(k0), split(k1), strict=True)
        return {"a": limbs16(rows.a), "b": limbs16(rows.b), "r0": low & 0xFFFF, "r1": low >> 16, "r2": high & 0xFFFF,
                "r3": high >> 16, "kl": kl, "kh": kh, "s": low >> 31, "oh": oh}
