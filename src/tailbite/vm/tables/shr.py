"""SHR: shifts by a register, and arithmetic right shifts by a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, derived_word, msb16, rom, selector, sign_of, token, u16, word
from ...air.expr import Expr
from ..chip import B16, B32, M32, RS1, RS2, Chip, Rows, bytes_of, limbs32
from ..ops import Op

B8, B31 = 1 << 8, 1 << 31


class Shr(Chip):
    """sll, srl, sra, their word forms, srai and sraiw. The number of an operation is that of its flag plus w; on rows
    not in use, which send nothing, w is free.

    Amount: b0, b1 and bh are the only bytes and limb of rs2 + i (one of which is 0); the AND lookup keeps 6 bits of
    it (5 in a word form) and the POW lookup gives pw = 2^(k mod 32) and b5 = k >> 5. Both have multiplicity ``real``,
    as (0, 0, 0) is no row of POW.
    Multiplier: m = pw (left) or 2^31 / pw (right).
    Splits: left, a m = T + 2^32 Q with Q below 2^31; right, a m = T + 2^31 Q with T below 2^31. Both right sides are
    below 2^63 + 2^32 < p, so T and Q are unique: the limb as shifted, and the bits shifted out of it.
    Sign: xl and xh split the limb that holds the sign bit, looked up in the rows of sra only; elsewhere sx is 0.
    The sums that make u and the result have disjoint bits, so they are below 2^32.
    """

    name = "SHR"
    instances = 3
    constraint_count = 21

    sll, srl, sra = selector("left", Op.SLL), selector("right", Op.SRL), selector("arithmetic right", Op.SRA)
    w = bit("a word form?")
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("shifted register"), rom("register of the amount")
    a, y = word("value of rs1"), word("value of rs2")
    i = rom("amount of srai, sraiw")
    b0 = byte("amount, byte 0", checked="AND")
    b1, bh = byte("amount, byte 1"), u16("amount, bits 16..31")
    k = derived("amount mod 64 (word forms: 32), by the AND lookup")
    pw, b5 = derived("2^(k mod 32), by the POW lookup"), derived("k >> 5, by the POW lookup")
    m = derived("multiplier, by m.l and m.r")
    low = u16("lower limbs of T0, Q0, T1, Q1", 4)
    t0h, q0h = msb16("mt0", "T0, high limb"), msb16("mq0", "Q0, high limb")
    t1h, q1h = msb16("mt1", "T1, high limb"), msb16("mq1", "Q1, high limb")
    mt0, mq0, mt1, mq1 = sign_of("t0h"), sign_of("q0h"), sign_of("t1h"), sign_of("q1h")
    xl = u16("limb of the sign, low half", when="sra")
    xh = msb16("sx", "limb of the sign, high half", when="sra")
    sx = sign_of("xh", "sign of sra, by the lookup or by sx")
    ones = derived("ones that an arithmetic shift brings in: the top k mod 32 bits of a limb, by fill")
    u = derived_word("result for k mod 32, by ulo and uhi")
    r = derived_word("result: lo, hi")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    @property
    def op(self) -> Expr:
        return super().op + self.w

    def rules(t) -> None:
        left, right, w, double = t.sll, t.srl + t.sra, t.w, 1 - t.w
        t._amount(left, right)
        t0, q0 = t.low[0] + B16 * t.t0h, t.low[1] + B16 * t.q0h
        t1, q1 = t.low[2] + B16 * t.t1h, t.low[3] + B16 * t.q1h
        base = B32 * left + B31 * right
        t.zero("split0", t.a.lo * t.m - t0 - base * q0)
        t.zero("split1", t.a.hi * t.m - t1 - base * q1)
        for name, top in (("q0", left * t.mq0), ("q1", left * t.mq1), ("t0", right * t.mt0), ("t1", right * t.mt1)):
            t.zero(f"top.{name}", top)
        t.zero("sign", t.a.hi + w * (t.a.lo - t.a.hi) - t.xl - B16 * t.xh)
        t.zero("sx", (t.real - t.sra) * t.sx)
        t.zero("fill", t.sx * (B32 - 2 * t.m) - t.ones)
        t.zero("ulo", left * t0 + right * (q0 + 2 * double * t1) + w * t.ones - t.u.lo)
        t.zero("uhi", double * (left * (q0 + t1) + right * (q1 + t.ones))
               + M32 * w * (left * t.mt0 + t.srl * t.mq0 + t.sx) - t.u.hi)
        below = 1 - t.b5
        t.zero("lo", below * t.u.lo + right * t.b5 * t.u.hi - t.r.lo)
        t.zero("hi", below * t.u.hi + t.b5 * (left * t.u.lo + M32 * right * t.sx) - t.r.hi)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2, t.i, 0)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.y, t.tb)
        t.write(t.rd, t.r, t.td, t.o)

    def _amount(t, left: Expr, right: Expr) -> None:
        """k, pw and b5 from the second operand, and the multiplier m."""
        t.zero("amount", t.y.lo + t.i - t.b0 - B8 * t.b1 - B16 * t.bh)
        t.look("AND", (t.b0, 63 - 32 * t.w, t.k))
        t.look("POW", (t.k, t.pw, t.b5))
        t.zero("m.l", left * (t.m - t.pw))
        t.zero("m.r", right * (t.m * t.pw - B31))

    def fill(self, rows: Rows) -> dict[str, Any]:
        number = rows.op - np.uint64(Op.SLL)
        w, left, srl, sra = number & 1, number < 2, number >> 1 == 1, number >> 1 == 2
        amount = limbs32(rows.b)[0] + rows.i0
        b0, b1 = bytes_of(amount, 2)
        k = b0 & 63 - 32 * w
        pw, b5 = np.uint64(1) << (k & 31), k >> 5
        m = np.where(left, pw, np.uint64(B31) >> (k & 31))
        (lo, hi), base = limbs32(rows.a), np.where(left, np.uint64(32), np.uint64(31))
        q0, q1 = lo * m >> base, hi * m >> base
        t0, t1 = lo * m - (q0 << base), hi * m - (q1 << base)
        mt0, mq0, mt1, mq1 = (v >> 31 for v in (t0, q0, t1, q1))
        x = np.where(w == 1, lo, hi)
        sx = (x >> 31) * sra
        ones = sx * (B32 - 2 * m)
        u_lo = np.where(left, t0, q0 + 2 * (1 - w) * t1) + w * ones
        u_hi = np.where(w == 1, M32 * (left * mt0 + srl * mq0 + sx), np.where(left, q0 + t1, q1 + ones))
        return {
            "sll": left, "srl": srl, "sra": sra, "w": w, "y": limbs32(rows.b), "i": rows.i0,
            "b0": b0, "b1": b1, "bh": amount >> 16, "k": k, "pw": pw, "b5": b5, "m": m,
            "low": [v & 0xFFFF for v in (t0, q0, t1, q1)],
            "t0h": t0 >> 16, "q0h": q0 >> 16, "t1h": t1 >> 16, "q1h": q1 >> 16,
            "mt0": mt0, "mq0": mq0, "mt1": mt1, "mq1": mq1,
            "xl": x & 0xFFFF, "xh": x >> 16, "sx": sx, "ones": ones, "u": (u_lo, u_hi)}
