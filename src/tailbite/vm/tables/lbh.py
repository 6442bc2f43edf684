"""LB, LBU, LH, LHU: rd = the byte, or the aligned 16-bit half, at rs1 + immediate, sign- or zero-extended."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, rom, rom_word, selector, token, word
from ..chip import B32, M32, RS1, Chip, Rows, bytes_of, extension_bit, limbs32, memory_columns
from ..ops import Op


class Lbh(Chip):
    """One or two bytes of the half ``o2`` of a dword.

    Address: offset 4 o2 + 2 o1 + o0 of three bits, unique with canonical keys; ``even`` wants o0 = 0 for halves.
    Result: ``x`` splits a memory limb into four looked-up bytes, which is unique. z is the top byte of the result
    and y the result before extension, both by a selection; AND(z, 128, 128 s) makes s the top bit of z, and
    ``unsigned`` makes it 0. r_lo = y, or y with ones above it: below 2^32.
    """

    name = "LBH"
    instances = 3
    constraint_count = 16

    lb, lbu = selector("LB", Op.LB), selector("LBU", Op.LBU)
    lh, lhu = selector("LH", Op.LH), selector("LHU", Op.LHU)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("base register")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("dword of the address, by ea.lo"), derived("address / 2^32, by ea.hi")
    o2, o1, o0 = bit("bit 2 of the offset"), bit("bit 1"), bit("bit 0")
    m = word("the dword")
    x = byte("bytes of its half", 4)
    y = derived("the value before extension, by y")
    z = derived("its top byte, by z")
    s = derived("its sign, 0 for LBU and LHU, by AND(z, 128) and unsigned")
    r_lo = derived("low limb of the result, by r")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        half, x = t.lh + t.lhu, t.x
        t.effective_address(t.a, t.i, t.w, t.h, 4 * t.o2 + 2 * t.o1 + t.o0)
        t.zero("even", half * t.o0)
        t.zero("x", sum(2 ** (8 * j) * x[j] for j in range(4)) - t.m.lo - t.o2 * (t.m.hi - t.m.lo))
        odd = t.o0 + half  # the top byte of the value lies at an odd place
        low, high = (1 - odd) * x[0] + odd * x[1], (1 - odd) * x[2] + odd * x[3]
        t.zero("z", t.z - (1 - t.o1) * low - t.o1 * high)
        t.zero("y", t.y - t.z - half * (255 * t.z + (1 - t.o1) * x[0] + t.o1 * x[2]))
        t.look("AND", (t.z, 128, 128 * t.s), t.lb + t.lh)
        t.zero("unsigned", (t.lbu + t.lhu) * t.s)
        t.zero("r", t.r_lo - t.y - t.s * (t.lb * (B32 - 2**8) + t.lh * (B32 - 2**16)))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.memory(t.h, t.w, t.m, t.m, t.tm, t.dm)
        t.write(t.rd, (t.r_lo, M32 * t.s), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        offset = rows.address & 7
        half = (rows.op == Op.LH) | (rows.op == Op.LHU)
        value = rows.m0 >> 8 * offset & np.where(half, 0xFFFF, 0xFF).astype(np.uint64)
        lo, hi = limbs32(rows.r)
        return {
            "o2": offset >> 2, "o1": offset >> 1 & 1, "o0": offset & 1, "m": limbs32(rows.m0),
            "x": bytes_of(rows.m0 >> 32 * (offset >> 2), 4), "y": value, "z": np.where(half, value >> 8, value),
            "s": extension_bit(hi), "r_lo": lo, **memory_columns(rows),
        }
