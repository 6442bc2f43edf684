"""LOGICI: rd = rs1 and, or, xor a sign-extended 12-bit immediate."""

from __future__ import annotations

from typing import Any

from ...air import Word, byte, derived, derived_word, rom, selector, token, u16, word
from ..chip import B16, B32, M32, RS1, Chip, Rows, bytes_of, extension_bit, limbs16, limbs32
from ..ops import Op
from .logic import combine, little_endian


class LogicI(Chip):
    """Two bytes by lookup; above them all bits of the immediate are its sign, so the operation is arithmetic.

    The ROM holds M si as the immediate's high limb, 0 or M, so si is a bit; then the low limb determines the bytes
    i. The low limb of a is x and xr, each looked up; nothing is computed from bits of the high limb, a token.
    """

    name = "LOGICI"
    instances = 3
    constraint_count = 6

    fa, fo, fx = selector("ANDI", Op.ANDI), selector("ORI", Op.ORI), selector("XORI", Op.XORI)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("source")
    x, xr = byte("bits 0 to 15 of rs1", 2, checked="AND"), u16("bits 16 to 31 of rs1")
    a_hi = token("high limb of rs1")
    i, si = byte("bits 0 to 15 of the immediate", 2, checked="AND"), rom("sign of the immediate")
    n = derived("x and i: AND lookups", 2)
    r = derived_word("result: lo, hi")
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        for x, i, n in zip(t.x, t.i, t.n, strict=True):
            t.look("AND", (x, i, n))

        def with_sign(v: Any, ones: int) -> Any:
            """``v`` combined with si in every bit; ``ones`` is all of v's bits."""
            return combine(t, v, ones * t.si, v * t.si)

        digits = [combine(t, x, i, n) for x, i, n in zip(t.x, t.i, t.n, strict=True)]
        t.zero("lo", t.r.lo - little_endian(digits) - B16 * with_sign(t.xr, B16 - 1))
        t.zero("hi", t.r.hi - with_sign(t.a_hi, M32))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, little_endian(t.i) + (B32 - B16) * t.si, M32 * t.si)
        t.read(t.rs1, RS1, Word(little_endian(t.x) + B16 * t.xr, t.a_hi), t.ta)
        t.write(t.rd, t.r, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {
            "x": bytes_of(rows.a, 2), "xr": limbs16(rows.a, 2)[1], "a_hi": limbs32(rows.a)[1],
            "i": bytes_of(rows.i0, 2), "si": extension_bit(rows.i1), "n": bytes_of(rows.a & rows.i0, 2),
        }
