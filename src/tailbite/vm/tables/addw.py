"""ADDW: rd = rs1 + rs2 or rs1 - rs2 mod 2^32, sign-extended."""

from __future__ import annotations

from typing import Any

from ...air import Word, msb16, rom, selector, sign_of, token, u16, word
from ..chip import B16, B32, M32, RS1, RS2, Chip, Rows, extension_bit, limbs16, limbs32
from ..ops import Op


class AddW(Chip):
    """Low limbs as in ADDSUB; high limbs of the operands are read and not used.

    The lookup of r1 proves its range and that s is its top bit, so the high limb M s is the sign extension.
    """

    name = "ADDW"
    instances = 3
    constraint_count = 4

    addw, subw = selector("ADDW", Op.ADDW), selector("SUBW", Op.SUBW)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first source"), rom("second source")
    a, b = word("value of rs1"), word("value of rs2")
    r0, r1 = u16("bits 0 to 15 of the result"), msb16("s", "bits 16 to 31 of the result")
    s = sign_of("r1", "sign of the result")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        result = Word(t.r0 + B16 * t.r1, M32 * t.s)
        x = t.a.lo + t.b.lo - result.lo
        y = result.lo + t.b.lo - t.a.lo
        t.zero("lo", t.addw * (x * (x - B32)) + t.subw * (y * (y - B32)))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, t.b, t.tb)
        t.write(t.rd, result, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        r0, r1 = limbs16(rows.r, 2)
        return {"r0": r0, "r1": r1, "s": extension_bit(limbs32(rows.r)[1])}
