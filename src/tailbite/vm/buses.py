"""The machine's buses. Tuples are typed; see docs/tables.md for what each promises."""

from __future__ import annotations

from ..air.table import Bus

EXEC = Bus(1, "EXEC", ("pc", "ts"), state=True)
ROM = Bus(2, "ROM", ("pc", "op", "rd", "s1", "s2", "i0", "i1"))
REG = Bus(3, "REG", ("r", "t", "lo", "hi"), state=True)
RAM = Bus(4, "RAM", ("h", "w", "t", "lo", "hi"), state=True)
AND = Bus(5, "AND", ("x", "y", "x&y"))
B2 = Bus(6, "B2", ("x", "y"))
R16 = Bus(7, "R16", ("v",))
MSB = Bus(8, "MSB", ("v", "top"))
POW = Bus(9, "POW", ("k", "2^(k mod 32)", "k>>5"))
COM = Bus(10, "COM", ("pc", "ts", "plo", "phi", "rem", "idx"), state=True)
OUT = Bus(11, "OUT", ("idx", "byte"), state=True)
KST = Bus(12, "KST", ("id", "r", *(f"s{k}" for k in range(50))), state=True)
KRC = Bus(13, "KRC", ("r", *(f"bit{k}" for k in (0, 1, 3, 7, 15, 31, 63))))

BUSES = (EXEC, ROM, REG, RAM, AND, B2, R16, MSB, POW, COM, OUT, KST, KRC)
RANGE_BUSES = {b.name: b for b in (AND, B2, R16, MSB, POW)}
