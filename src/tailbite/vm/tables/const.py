"""CONST: LUI, AUIPC, JAL, LI, NOP, FENCE: result and next pc are known when the program is decoded."""

from __future__ import annotations

from typing import Any

from ...air import rom, rom_word, selector, token, word
from ..chip import Chip, Rows, limbs32
from ..ops import Op


class Const(Chip):
    """Everything but the time and the old value of rd stands in the ROM, so nothing is left to constrain."""

    name = "CONST"
    instances = 3
    constraint_count = 1

    f = selector("CONST", Op.CONST)
    pc, ts = token("program counter"), token("time")
    rd, npc = rom("destination"), rom("next pc")
    k = rom_word("the constant")
    td = token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        t.step(t.npc)
        t.fetch(t.rd, t.npc, 0, t.k.lo, t.k.hi)
        t.write(t.rd, t.k, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"npc": rows.s1, "k": limbs32(rows.r)}
