"""LW, LWU: rd = the aligned 32-bit word at rs1 + immediate, sign- or zero-extended."""

from __future__ import annotations

from typing import Any

from ...air import bit, derived, msb16, rom, rom_word, selector, sign_of, token, word
from ..chip import B16, M32, RS1, Chip, Rows, extension_bit, limbs32, memory_columns
from ..ops import Op


class Lw(Chip):
    """Half ``hf`` of one dword of memory.

    Address: offset 4 hf with hf a bit; with canonical keys the two ``ea`` equations determine w, h and hf.
    Result: x is a copy of one limb. For LW the two lookups split it as low + 2^16 x1 and make s its top bit; for
    LWU ``unsigned`` makes s zero. On rows without selector x1 and s are free and unused.
    """

    name = "LW"
    instances = 3
    constraint_count = 8

    lw, lwu = selector("LW", Op.LW), selector("LWU", Op.LWU)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("base register")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("dword of the address, by ea.lo"), derived("address / 2^32, by ea.hi")
    hf = bit("is it the upper half?")
    m = word("the dword")
    x = derived("the word, by x")
    x1 = msb16("s", "its upper 16 bits", when="lw")
    s = sign_of("x1", "its sign, 0 for LWU")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        t.effective_address(t.a, t.i, t.w, t.h, 4 * t.hf)
        t.zero("x", t.x - t.m.lo - t.hf * (t.m.hi - t.m.lo))
        t.look("R16", (t.x - B16 * t.x1,), t.lw)
        t.zero("unsigned", t.lwu * t.s)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.memory(t.h, t.w, t.m, t.m, t.tm, t.dm)
        t.write(t.rd, (t.x, M32 * t.s), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        lo, hi = limbs32(rows.r)
        return {
            "hf": rows.address >> 2 & 1, "m": limbs32(rows.m0),
            "x": lo, "x1": lo >> 16, "s": extension_bit(hi), **memory_columns(rows),
        }
