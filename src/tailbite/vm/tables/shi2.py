"""SHI2: shifts of a doubleword by a constant below 32."""

from __future__ import annotations

from typing import Any

from ...air import derived_word, rom, selector, token, u15, u16, word
from ..chip import B16, B32, RS1, Chip, Rows, limbs16, limbs32
from ..ops import Op


class Shi2(Chip):
    """slli and srli by 1..31.

    Both limbs are multiplied by m from the program, 2^k (left) or 2^(32-k) (right): a_lo m = P0 + 2^32 P1 and
    a_hi m = P2 + 2^32 P3. P1 and P3 are below 2^31, so both splits are unique, as in SHI1. P1 is below m and P2 a
    multiple of m, so their sum has disjoint bits and is below 2^32: so are both limbs of the result.
    """

    name = "SHI2"
    instances = 3
    constraint_count = 7

    left, right = selector("slli", Op.SHI2_L), selector("srli", Op.SHI2_R)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    a = word("value of rs1")
    m = rom("power of two that both limbs are multiplied by")
    p = u16("P0 (2 limbs), P1 (the lower one), P2 (2), P3 (the lower one)", 6)
    top = u15("higher limbs of P1 and P3", 2)
    r = derived_word("result: lo, hi")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        p0, p1 = t.p[0] + B16 * t.p[1], t.p[2] + B16 * t.top[0]
        p2, p3 = t.p[3] + B16 * t.p[4], t.p[5] + B16 * t.top[1]
        t.zero("mul0", t.a.lo * t.m - p0 - B32 * p1)
        t.zero("mul1", t.a.hi * t.m - p2 - B32 * p3)
        t.zero("lo", t.left * p0 + t.right * (p1 + p2) - t.r.lo)
        t.zero("hi", t.left * (p1 + p2) + t.right * p3 - t.r.hi)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.m, 0)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.write(t.rd, t.r, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        lo, hi = limbs32(rows.a)
        p, q = limbs16(lo * rows.i0), limbs16(hi * rows.i0)
        return {"m": rows.i0, "p": p[:3] + q[:3], "top": (p[3], q[3])}
