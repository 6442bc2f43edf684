"""SD: the aligned dword at rs1 + immediate = rs2."""

from __future__ import annotations

from typing import Any

from ...air import derived, rom, rom_word, selector, token, word
from ..chip import RS1, RS2, Chip, Rows, limbs32, memory_columns
from ..ops import Op


class Sd(Chip):
    """One memory access that leaves the limbs of rs2, which are in range because they came from a register.

    Address: as for LD, ``ea.lo`` and ``ea.hi`` hold over the integers because only canonical keys exist.
    """

    name = "SD"
    instances = 3
    constraint_count = 3

    f = selector("SD", Op.SD)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("base register"), rom("source")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("dword of the address, by ea.lo"), derived("address / 2^32, by ea.hi")
    b = word("value of rs2")
    m = word("old value of the dword")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        t.effective_address(t.a, t.i, t.w, t.h, 0)
        t.step(t.pc + 4)
        t.fetch(0, t.rs1, t.rs2, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.b, t.tb)
        t.memory(t.h, t.w, t.m, t.b, t.tm, t.dm)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"m": limbs32(rows.m0), **memory_columns(rows)}
