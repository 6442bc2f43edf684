"""LOGIC32: rd = rs1 and, or, xor rs2 where both high limbs are 0 or all ones: a cheaper LOGIC."""

from __future__ import annotations

from typing import Any

from ...air import Word, bit, byte, derived, rom, selector, token, word
from ..chip import M32, RS1, RS2, Chip, Rows, bytes_of, extension_bit, limbs32
from ..ops import Op
from .logic import combine, little_endian


class Logic32(Chip):
    """As LOGIC for the low limbs; a high limb is M times a bit, and so is that of the result (``sr``).

    The operations are those of LOGIC and the prover chooses the table row by row. Operands that do not fit are not
    provable here: the registers' tokens demand M sa and M sb as high limbs. sa need not be the sign of the low limb.
    """

    name = "LOGIC32"
    instances = 3
    constraint_count = 8

    fa, fo, fx = selector("AND", Op.AND), selector("OR", Op.OR), selector("XOR", Op.XOR)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first source"), rom("second source")
    x, y = byte("low limb of rs1", 4, checked="AND"), byte("low limb of rs2", 4, checked="AND")
    n = derived("x and y: AND lookups", 4)
    sa, sb = bit("each bit of rs1's high limb"), bit("each bit of rs2's high limb")
    r, sr = derived("low limb of the result: lo"), derived("each bit of the result's high limb: sr")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        for x, y, n in zip(t.x, t.y, t.n, strict=True):
            t.look("AND", (x, y, n))
        t.zero("lo", t.r - little_endian([combine(t, x, y, n) for x, y, n in zip(t.x, t.y, t.n, strict=True)]))
        t.zero("sr", t.sr - combine(t, t.sa, t.sb, t.sa * t.sb))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, Word(little_endian(t.x), M32 * t.sa), t.ta)
        t.read(t.rs2, RS2, Word(little_endian(t.y), M32 * t.sb), t.tb)
        t.write(t.rd, Word(t.r, M32 * t.sr), t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        low, high = limbs32(rows.r)
        return {
            "x": bytes_of(rows.a, 4), "y": bytes_of(rows.b, 4), "n": bytes_of(rows.a & rows.b, 4),
            "sa": extension_bit(limbs32(rows.a)[1]), "sb": extension_bit(limbs32(rows.b)[1]),
            "r": low, "sr": extension_bit(high),
        }

    @staticmethod
    def fits(rows: Rows) -> Any:
        """Mask of the rows that this table can hold."""
        (_, a), (_, b) = limbs32(rows.a), limbs32(rows.b)
        return ((a == 0) | (a == M32)) & ((b == 0) | (b == M32))
