"""SW: the aligned 32-bit word at rs1 + immediate = low word of rs2."""

from __future__ import annotations

from typing import Any

from ...air import bit, derived, derived_word, rom, rom_word, selector, token, word
from ..chip import RS1, RS2, Chip, Rows, limbs32, memory_columns
from ..ops import Op
from .access import overwrite


class Sw(Chip):
    """Half ``hf`` of one dword is replaced by the low limb of rs2, the other half stays.

    Address: as for LW. Here hf being a bit carries weight twice: with hf = (0x1004 - 0x1800) / 4 mod p a store to
    0x1004 would move to the dword at 0x1800. On rows not in use hf is free: they send nothing.
    Result: each new limb is a copy of a limb of memory or of a register.
    """

    name = "SW"
    instances = 3
    constraint_count = 6

    f = selector("SW", Op.SW)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("base register"), rom("source")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("dword of the address, by ea.lo"), derived("address / 2^32, by ea.hi")
    hf = bit("is it the upper half?")
    b = word("value of rs2")
    m = word("old value of the dword")
    n = derived_word("its new value, by n.lo and n.hi")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        t.effective_address(t.a, t.i, t.w, t.h, 4 * t.hf)
        t.zero("n.lo", t.n.lo - t.m.lo - (t.f - t.hf) * (t.b.lo - t.m.lo))
        t.zero("n.hi", t.n.hi - t.m.hi - t.hf * (t.b.lo - t.m.hi))
        t.step(t.pc + 4)
        t.fetch(0, t.rs1, t.rs2, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.b, t.tb)
        t.memory(t.h, t.w, t.m, t.n, t.tm, t.dm)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {
            "hf": rows.address >> 2 & 1, "m": limbs32(rows.m0),
            "n": limbs32(overwrite(rows)[0]), **memory_columns(rows),
        }
