"""DIVREM: the eight divisions and remainders."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import Word, bit, byte, derived, derived_word, msb16, rom, selector, sign_of, token, u16, word
from ...air.expr import Expr
from ..chip import B16, B32, M32, RS1, RS2, Chip, Rows, limbs16, limbs32
from ..ops import Op
from .compare import difference, fill_difference, split
from .product import convolution, pairs, word_sums, words

ONES = 0xFFFF


class DivRem(Chip):
    """div, rem, their unsigned and word forms; the operation's number is DIVU + rem + 2 sg + 4 w.

    Operands: a word form extends the low limbs; sa and sb are the signs, taken from looked-up limbs. A = |a| and
    B = |b| as integers (ca, cb are carries of the negation). The limbs of A need no range: only A_lo + 2^32 A_hi is
    used, and a wrong ca shifts 2^32 from one to the other. B has checked limbs.
    Division: Q B + R = A holds over the integers: the top limb sums vanish and the others are carried, all terms below
    2^56. With bz = 0 also R < B, so B > 0 and Q, R are unique by Euclid. Any other bz forces Q to be all ones; then
    Q B <= A < 2^64 leaves B = 0 and R = A, or B = 1, A = 2^64 - 1, R = 0, whose quotient is all ones anyway.
    bz needs no bit rule: it enters the result by n = (1 - bz) qn only, and an n that is neither 0 nor 1 would want
    2 X = 0 mod 2^64 of an odd X = Q. (B = 1 above is an unsigned division, with qn = 0.)
    Sign: the result is X = Q or R, negated (n) as the signs and the operation say; its limbs are looked up. Division
    of the least number by -1 and division by zero need no case of their own.
    """

    name = "DIVREM"
    instances = 3
    constraint_count = 43

    f = selector("a division", Op.DIVU)
    rem, sg, w = bit("remainder?"), bit("signed?"), bit("a word form?")
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("dividend"), rom("divisor")
    a, b = word("value of rs1"), word("value of rs2")
    xla, xha = u16("limb of a that holds its sign, low half"), msb16("ma", "and high half")
    xlb, xhb = u16("limb of b that holds its sign, low half"), msb16("mb", "and high half")
    ma, mb = sign_of("xha"), sign_of("xhb")
    sa, sb = derived("is a negative? by sa"), derived("is b negative? by sb")
    aeh, beh = derived("high limb of a, extended; by aeh"), derived("high limb of b, extended; by beh")
    mag_a = derived_word("|a|, by abs.a")
    ca, cb = bit("carry of -a"), bit("carry of -b")
    mag_b = u16("|b|", 4)
    q, r = u16("quotient of magnitudes", 4), u16("remainder of magnitudes", 4)
    kl, kh = u16("carry of Q B + R, low limb"), byte("carry of Q B + R, high byte")
    bz = derived("is b zero? by lt, bz.q and the sums of mul")
    e = bit("are the high limbs of R and B equal?")
    d = u16("B - R - 1 of the limbs compared: not negative", 2)
    n, qn = derived("negate? by n"), derived("do the signs differ? by qn")
    x = derived_word("the magnitude that is the result, by x")
    v0, v1 = bit("carry of -x out of the low limb"), bit("carry of -x out of the high limb")
    o0, o1 = u16("signed result, limb 0"), msb16("mo", "limb 1")
    o2, o3 = u16("limb 2"), u16("limb 3")
    mo = sign_of("o1", "sign of a word form's result")
    fh = derived("high limb written, by out")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    @property
    def op(self) -> Expr:
        return super().op + self.rem + 2 * self.sg + 4 * self.w

    def rules(t) -> None:
        low, high = pairs([t.o0, t.o1, t.o2, t.o3])
        t._magnitude("a", t.a, t.xla + B16 * t.xha, t.ma, t.sa, t.aeh, t.mag_a, t.ca)
        t._magnitude("b", t.b, t.xlb + B16 * t.xhb, t.mb, t.sb, t.beh, Word(*pairs(t.mag_b)), t.cb)
        t._euclid()
        t._sign(Word(low, high))
        t.zero("out", t.w * M32 * t.mo + (1 - t.w) * high - t.fh)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.b, t.tb)
        t.write(t.rd, Word(low, t.fh), t.td, t.o)

    def _magnitude(t, label: str, value: Word, top: Expr, m: Expr, s: Expr, extended: Expr, magnitude: Word,
                   c: Expr) -> None:
        """``top`` is the limb with the sign; the magnitude is value or, if s, 2^64 - value."""
        t.zero(f"ext.{label}", value.hi + t.w * (value.lo - value.hi) - top)
        t.zero(f"s{label}", t.sg * m - s)
        t.zero(f"{label}eh", (1 - t.w) * value.hi + t.w * M32 * s - extended)
        t.zero(f"abs.{label}.lo", (1 - s) * (magnitude.lo - value.lo))
        t.zero(f"abs.{label}.hi", (1 - s) * (magnitude.hi - extended))
        t.zero(f"abs.{label}.neg.lo", s * (magnitude.lo + value.lo - B32 * c))
        t.zero(f"abs.{label}.neg.hi", s * (magnitude.hi + extended + c - B32))

    def _euclid(t) -> None:
        """Q B + R = A, and R < B or else (bz) Q all ones."""
        c = convolution(t.q, t.mag_b)
        (r_lo, r_hi), (b_lo, b_hi), k = pairs(t.r), pairs(t.mag_b), t.kl + B16 * t.kh
        word0, word1 = pairs(c[:4])
        for j in (4, 5, 6):
            t.zero(f"mul.c{j}", c[j])
        t.zero("mul.lo", word0 + r_lo - t.mag_a.lo - B32 * k)
        t.zero("mul.hi", word1 + r_hi + k - t.mag_a.hi)
        for j in range(4):
            t.zero(f"bz.q{j}", t.bz * (t.q[j] - ONES))
        u = difference(t, Word(r_lo, r_hi), Word(b_lo, b_hi))
        t.zero("lt", (t.real - t.bz) * (-u - 1) - t.d[0] - B16 * t.d[1])

    def _sign(t, out: Word) -> None:
        """out = -X if n, else X."""
        (q_lo, q_hi), (r_lo, r_hi), rem, n, x = pairs(t.q), pairs(t.r), t.rem, t.n, t.x
        t.zero("qn", t.sa + t.sb - 2 * t.sa * t.sb - t.qn)
        t.zero("n", rem * t.sa + (1 - rem) * (1 - t.bz) * t.qn - n)
        t.zero("x.lo", q_lo + rem * (r_lo - q_lo) - x.lo)
        t.zero("x.hi", q_hi + rem * (r_hi - q_hi) - x.hi)
        t.zero("neg.lo", n * (out.lo + x.lo - B32 * t.v0))
        t.zero("neg.hi", n * (out.hi + x.hi + t.v0 - B32 * t.v1))
        t.zero("same.lo", (1 - n) * (out.lo - x.lo))
        t.zero("same.hi", (1 - n) * (out.hi - x.hi))

    def fill(self, rows: Rows) -> dict[str, Any]:
        number = rows.op - np.uint64(Op.DIVU)
        rem, sg, w = number & 1, number >> 1 & 1, number >> 2
        a = _operand(rows.a, sg, w)
        b = _operand(rows.b, sg, w)
        bz = (b["magnitude"] == 0).astype(np.uint64)
        q, r = self.quotient(a["magnitude"], b["magnitude"])
        own = {"f": np.ones_like(rem), "rem": rem, "sg": sg, "w": w, "bz": bz}
        own |= _division(a["magnitude"], b["magnitude"], q, r)
        for label, x in (("a", a), ("b", b)):
            own |= {f"xl{label}": x["top"] & 0xFFFF, f"xh{label}": x["top"] >> 16, f"m{label}": x["top"] >> 31,
                    f"s{label}": x["sign"], f"{label}eh": x["high"], f"c{label}": x["carry"]}
        qn = a["sign"] ^ b["sign"]
        n = np.where(rem == 1, a["sign"], (1 - bz) * qn)
        x = np.where(rem == 1, r, q)
        out = np.where(n == 1, -x, x)
        low, fh = limbs32(rows.r)
        o0, o1 = limbs16(low, 2)
        o2, o3 = limbs16(np.where(w == 1, out >> 32, fh), 2)
        return own | {"qn": qn, "n": n, "x": limbs32(x), "v0": n * (x & M32 != 0), "v1": n * (x != 0),
                      "o0": o0, "o1": o1, "o2": o2, "o3": o3, "mo": o1 >> 15, "fh": fh}

    def quotient(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Quotient (all ones if b = 0) and remainder of magnitudes."""
        q = np.where(b == 0, ~np.uint64(0), a // (b + (b == 0)))
        return q, a - q * b


def _division(a: Any, b: Any, q: Any, r: Any) -> dict[str, Any]:
    """Columns that say q b + r = a and r < b."""
    kl, kh = split(word_sums(q, b)[0] + words(r)[0] - words(a)[0] >> 32)
    e, u = fill_difference(r, b)
    return {"mag_a": limbs32(a), "mag_b": limbs16(b), "q": limbs16(q), "r": limbs16(r), "kl": kl, "kh": kh, "e": e,
            "d": split(np.where(b == 0, 0, -u - 1))}


def _operand(x: Any, sg: Any, w: Any) -> dict[str, Any]:
    """Limb with the sign, sign, extended high limb, magnitude and carry of the negation."""
    lo, hi = limbs32(x)
    top = np.where(w == 1, lo, hi)
    sign = sg * (top >> 31)
    high = np.where(w == 1, M32 * sign, hi)
    value = lo | high << 32
    return {"top": top, "sign": sign, "high": high, "magnitude": np.where(sign == 1, -value, value),
            "carry": sign * (lo != 0)}
