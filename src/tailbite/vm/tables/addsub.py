"""ADDSUB: rd = rs1 + rs2 or rs1 - rs2 mod 2^64."""

from __future__ import annotations

from typing import Any

from ...air import Word, rom, selector, token, u16, word
from ..chip import B16, B32, INV_B32, RS1, RS2, Chip, Rows, limbs16
from ..ops import Op


class AddSub(Chip):
    """SUB is ADD read backwards: a = r + b.

    Operand limbs come from registers (below 2^32) and result limbs are looked up, so the carries x / 2^32 and
    y / 2^32, which are 0 or 1, make ``lo`` and ``hi`` integer equations with one solution r mod 2^64.
    """

    name = "ADDSUB"
    instances = 3
    constraint_count = 5

    add, sub = selector("ADD", Op.ADD), selector("SUB", Op.SUB)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first source"), rom("second source")
    a, b = word("value of rs1"), word("value of rs2")
    r = u16("result", 4)
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        result = Word(t.r[0] + B16 * t.r[1], t.r[2] + B16 * t.r[3])
        x = t.a.lo + t.b.lo - result.lo
        y = result.lo + t.b.lo - t.a.lo
        t.zero("lo", t.add * (x * (x - B32)) + t.sub * (y * (y - B32)))
        x = t.a.hi + t.b.hi + x * INV_B32 - result.hi
        y = result.hi + t.b.hi + y * INV_B32 - t.a.hi
        t.zero("hi", t.add * (x * (x - B32)) + t.sub * (y * (y - B32)))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.b, t.tb)
        t.write(t.rd, result, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"r": limbs16(rows.r)}
