"""SHI1: shifts by a constant that take one product with a power of two."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import derived_word, msb16, rom, selector, sign_of, token, u15, u16, word
from ..chip import B16, B32, M32, RS1, Chip, Rows, limbs16, limbs32
from ..ops import Op


class Shi1(Chip):
    """slliw and srliw by 1..31, slli and srli by 33..63.

    The program gives m, a power of two from 2 to 2^31: 2^k (lw), 2^(32-k) (rw), 2^(k-32) (lh), 2^(64-k) (rh). With x
    the limb that is shifted, x m = P0 + 2^32 P1. P1 is below 2^31 (its top limb has top bit 0), so the right side is
    below 2^63 < p and the split is unique; without that bound x m + p would split too. The result is made of P0, P1
    and the sign s of P0, hence two limbs below 2^32.
    """

    name = "SHI1"
    instances = 3
    constraint_count = 8

    lw, rw = selector("slliw", Op.SHI1_LW), selector("srliw", Op.SHI1_RW)
    lh, rh = selector("slli by 33..63", Op.SHI1_LH), selector("srli by 33..63", Op.SHI1_RH)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    a = word("value of rs1")
    m = rom("power of two that the shifted limb is multiplied by")
    p00, p01 = u16("P0, low limb"), msb16("s", "P0, high limb")
    p10, p11 = u16("P1, low limb"), u15("P1, high limb")
    s = sign_of("p01", "sign of a left word shift")
    r = derived_word("result: lo, hi")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        p0, p1 = t.p00 + B16 * t.p01, t.p10 + B16 * t.p11
        x = t.a.lo + t.rh * (t.a.hi - t.a.lo)
        t.zero("mul", x * t.m - p0 - B32 * p1)
        t.zero("lo", t.lw * p0 + (t.rw + t.rh) * p1 - t.r.lo)
        t.zero("hi", M32 * t.lw * t.s + t.lh * p0 - t.r.hi)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.m, 0)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.write(t.rd, t.r, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        lo, hi = limbs32(rows.a)
        p00, p01, p10, p11 = limbs16(np.where(rows.op == Op.SHI1_RH, hi, lo) * rows.i0)
        return {"m": rows.i0, "p00": p00, "p01": p01, "p10": p10, "p11": p11, "s": p01 >> np.uint64(15)}
