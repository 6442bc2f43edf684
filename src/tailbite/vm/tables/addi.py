"""ADDI: rd = rs1 + immediate mod 2^64."""

from __future__ import annotations

from typing import Any

from ...air import Word, rom, rom_word, selector, token, u16, word
from ..chip import B16, B32, INV_B32, RS1, Chip, Rows, limbs16
from ..ops import Op


class Addi(Chip):
    name = "ADDI"
    instances = 3
    constraint_count = 3

    f = selector("ADDI", Op.ADDI)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    i = rom_word("immediate, sign-extended")
    a = word("value of rs1")
    r = u16("result", 4)
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        result = Word(t.r[0] + B16 * t.r[1], t.r[2] + B16 * t.r[3])
        x = t.a.lo + t.i.lo - result.lo
        y = t.a.hi + t.i.hi + x * INV_B32 - result.hi
        t.zero("lo", x * (x - B32))  # the carry out of the low limb is x / 2^32
        t.zero("hi", y * (y - B32))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.write(t.rd, result, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"r": limbs16(rows.r)}
