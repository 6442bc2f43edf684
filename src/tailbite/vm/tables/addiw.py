"""ADDIW: rd = rs1 + immediate mod 2^32, sign-extended."""

from __future__ import annotations

from typing import Any

from ...air import Word, msb16, rom, selector, sign_of, token, u16, word
from ..chip import B16, B32, M32, RS1, Chip, Rows, extension_bit, limbs16, limbs32
from ..ops import Op


class AddiW(Chip):
    """As ADDW with one operand; the ROM holds 0 as the immediate's high limb, which the sum does not need."""

    name = "ADDIW"
    instances = 3
    constraint_count = 2

    f = selector("ADDIW", Op.ADDIW)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    i = rom("immediate, low limb")
    a = word("value of rs1")
    r0, r1 = u16("bits 0 to 15 of the result"), msb16("s", "bits 16 to 31 of the result")
    s = sign_of("r1", "sign of the result")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        result = Word(t.r0 + B16 * t.r1, M32 * t.s)
        x = t.a.lo + t.i - result.lo
        t.zero("lo", x * (x - B32))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.i)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.write(t.rd, result, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        r0, r1 = limbs16(rows.r, 2)
        return {"i": rows.i0, "r0": r0, "r1": r1, "s": extension_bit(limbs32(rows.r)[1])}
