"""LD: rd = the aligned dword at rs1 + immediate."""

from __future__ import annotations

from typing import Any

from ...air import derived, rom, rom_word, selector, token, word
from ..chip import RS1, Chip, Rows, limbs32, memory_columns
from ..ops import Op


class Ld(Chip):
    """One memory access that puts back what it took, and the same two limbs written to rd.

    Address: only canonical keys (w < 2^29, h < 2^32) exist in memory, so ``ea.lo`` and ``ea.hi`` are integer
    equations and say that 8 w + 2^32 h is the effective address; an unaligned one has no such w.
    Result: a copy of a memory token, whose limbs were range-checked when they were made.
    """

    name = "LD"
    instances = 3
    constraint_count = 3

    f = selector("LD", Op.LD)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("base register")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("dword of the address, by ea.lo"), derived("address / 2^32, by ea.hi")
    v = word("the dword")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        t.effective_address(t.a, t.i, t.w, t.h, 0)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.memory(t.h, t.w, t.v, t.v, t.tm, t.dm)
        t.write(t.rd, t.v, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"v": limbs32(rows.r), **memory_columns(rows)}
