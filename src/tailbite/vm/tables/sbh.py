"""SB, SH: the byte, or the aligned 16-bit half, at rs1 + immediate = low bytes of rs2."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, derived_word, rom, rom_word, selector, token, u16, word
from ..chip import RS1, RS2, Chip, Rows, bytes_of, limbs32, memory_columns
from ..ops import Op
from .access import overwrite


class Sbh(Chip):
    """The half ``o2`` of a dword gets (new bytes - old bytes) * place added; the other half stays.

    Address: as for LBH. Old part y: selected from bytes x, which ``x`` and their lookups tie to memory (free bytes
    would lose the store: 5 stored over 0 with x0 = 5). New part v: bytes of rs2, tied to its low limb by the REG
    tuple and looked up. p = 256^(2 o1 + o0), so a new limb is an old one with bytes replaced: below 2^32.
    """

    name = "SBH"
    instances = 3
    constraint_count = 15

    sb, sh = selector("SB", Op.SB), selector("SH", Op.SH)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("base register"), rom("source")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("dword of the address, by ea.lo"), derived("address / 2^32, by ea.hi")
    o2, o1, o0 = bit("bit 2 of the offset"), bit("bit 1"), bit("bit 0")
    m = word("old value of the dword")
    x = byte("bytes of its half", 4)
    y = derived("the part replaced, by y")
    b = byte("low bytes of rs2", 2)
    br = u16("rest of the low limb of rs2")
    b_hi = token("high limb of rs2")
    v = derived("the part stored, by v")
    p = derived("weight of its place, by p")
    n = derived_word("new value of the dword, by n.lo and n.hi")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        x = t.x
        t.effective_address(t.a, t.i, t.w, t.h, 4 * t.o2 + 2 * t.o1 + t.o0)
        t.zero("even", t.sh * t.o0)
        t.zero("x", sum(2 ** (8 * j) * x[j] for j in range(4)) - t.m.lo - t.o2 * (t.m.hi - t.m.lo))
        low, high = (1 - t.o0) * x[0] + t.o0 * x[1], (1 - t.o0) * x[2] + t.o0 * x[3]
        second = (1 - t.o1) * x[1] + t.o1 * x[3]
        t.zero("y", t.y - (1 - t.o1) * low - t.o1 * high - 2**8 * t.sh * second)
        t.zero("v", t.v - t.b[0] - 2**8 * t.sh * t.b[1])
        t.zero("p", t.p - (t.sb + t.sh + 255 * t.o0) * (1 + 65535 * t.o1))
        t.zero("n.lo", t.n.lo - t.m.lo - (1 - t.o2) * (t.v - t.y) * t.p)
        t.zero("n.hi", t.n.hi - t.m.hi - t.o2 * (t.v - t.y) * t.p)
        t.step(t.pc + 4)
        t.fetch(0, t.rs1, t.rs2, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, (t.b[0] + 2**8 * t.b[1] + 2**16 * t.br, t.b_hi), t.tb)
        t.memory(t.h, t.w, t.m, t.n, t.tm, t.dm)

    def fill(self, rows: Rows) -> dict[str, Any]:
        offset = rows.address & 7
        mask = np.where(rows.op == Op.SH, 0xFFFF, 0xFF).astype(np.uint64)
        lo, hi = limbs32(rows.b)
        return {
            "o2": offset >> 2, "o1": offset >> 1 & 1, "o0": offset & 1, "m": limbs32(rows.m0),
            "x": bytes_of(rows.m0 >> 32 * (offset >> 2), 4), "y": rows.m0 >> 8 * offset & mask,
            "b": bytes_of(lo, 2), "br": lo >> 16, "b_hi": hi, "v": lo & mask,
            "p": np.uint64(1) << 8 * (offset & 3), "n": limbs32(overwrite(rows)[0]), **memory_columns(rows),
        }
