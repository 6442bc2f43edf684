"""MV: rd = rs1, rs1 << 32 or rs1 >> 32: limbs move and nothing is computed."""

from __future__ import annotations

from ...air import derived_word, rom, selector, token, word
from ..chip import RS1, Chip
from ..ops import Op


class Mv(Chip):
    """Each result limb is a copy of an operand limb or 0 (``lo``, ``hi``), so its range is the operand's."""

    name = "MV"
    instances = 3
    constraint_count = 6

    mv, sl, sr = selector("MV", Op.MV), selector("SL32", Op.SL32), selector("SR32", Op.SR32)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    a = word("value of rs1")
    r = derived_word("result: lo, hi")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        t.zero("lo", t.r.lo - t.mv * t.a.lo - t.sr * t.a.hi)
        t.zero("hi", t.r.hi - t.mv * t.a.hi - t.sl * t.a.lo)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.write(t.rd, t.r, t.td, t.o)
