"""JALR: jump to rs1 + immediate without its lowest bit; rd = pc + 4."""

from __future__ import annotations

from typing import Any

from ...air import bit, derived, rom, rom_word, selector, token, word
from ..chip import B32, INV_B32, M32, RS1, Chip, Rows
from ..ops import Op


class Jalr(Chip):
    """a + i = npc + lsb mod 2^64, with a high limb of 0: the target lies below 2^32.

    npc is not range-checked: the next row must find it in the ROM, whose pcs are multiples of 4 below 2^32. That makes
    ``lo`` an integer equation, and lsb the one bit by which the sum may differ from a multiple of 4.
    """

    name = "JALR"
    instances = 3
    constraint_count = 4

    f = selector("JALR", Op.JALR)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    i = rom_word("immediate, sign-extended")
    a = word("value of rs1")
    npc, lsb = derived("target: lo"), bit("lowest bit of rs1 + immediate, which is dropped")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        x = t.a.lo + t.i.lo - t.npc - t.lsb
        y = t.a.hi + t.i.hi + x * INV_B32
        t.zero("lo", x * (x - B32))
        t.zero("hi", y * (y - B32))
        t.step(t.npc)
        t.fetch(t.rd, t.rs1, 0, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.write(t.rd, (t.pc + 4, 0), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        target = rows.a + rows.i0 & M32
        lsb = target & 1
        return {"npc": target - lsb, "lsb": lsb}
