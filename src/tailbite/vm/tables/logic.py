"""LOGIC: rd = rs1 and, or, xor rs2, byte by byte."""

from __future__ import annotations

from typing import Any

from ...air import Word, byte, derived, derived_word, rom, selector, token, word
from ...air.expr import Expr
from ..chip import RS1, RS2, Chip, Rows, bytes_of
from ..ops import Op


def combine(t: Any, x: Any, y: Any, both: Any) -> Any:
    """The row's operation on two equally wide bit strings whose conjunction is ``both``."""
    return t.fa * both + t.fo * (x + y - both) + t.fx * (x + y - 2 * both)


def little_endian(digits: list[Expr]) -> Any:
    """The number with these bytes, lowest first."""
    return sum(d * (1 << 8 * k) for k, d in enumerate(digits))


class Logic(Chip):
    """The operands are their bytes: one lookup for each pair makes both bytes, and n their conjunction.

    There is no other column for the operands, so the bytes are those of the values read. Each summand of the result
    (``lo``, ``hi``) is a byte.
    """

    name = "LOGIC"
    instances = 3
    constraint_count = 6

    fa, fo, fx = selector("AND", Op.AND), selector("OR", Op.OR), selector("XOR", Op.XOR)
    pc, ts = token("program counter"), token("time")
    rd, rs1, rs2 = rom("destination"), rom("first source"), rom("second source")
    x, y = byte("value of rs1", 8, checked="AND"), byte("value of rs2", 8, checked="AND")
    n = derived("x and y: AND lookups", 8)
    r = derived_word("result: lo, hi")
    ta, tb, td = token("old time of rs1"), token("old time of rs2"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        for x, y, n in zip(t.x, t.y, t.n, strict=True):
            t.look("AND", (x, y, n))
        digits = [combine(t, x, y, n) for x, y, n in zip(t.x, t.y, t.n, strict=True)]
        t.zero("lo", t.r.lo - little_endian(digits[:4]))
        t.zero("hi", t.r.hi - little_endian(digits[4:]))
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, t.rs2)
        t.read(t.rs1, RS1, Word(little_endian(t.x[:4]), little_endian(t.x[4:])), t.ta)
        t.read(t.rs2, RS2, Word(little_endian(t.y[:4]), little_endian(t.y[4:])), t.tb)
        t.write(t.rd, t.r, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"x": bytes_of(rows.a), "y": bytes_of(rows.b), "n": bytes_of(rows.a & rows.b)}
