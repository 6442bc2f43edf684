"""Base of the machine's tables: the macros of which instruction tables are made, and their common witness.

Time: an instruction at time ts reads rs1 at ts, rs2 at ts + 1, accesses memory at ts + 2 and writes rd at ts + 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import columns
from ..air.expr import Expr
from ..air.table import Table, Word
from .buses import EXEC, RAM, RANGE_BUSES, REG, ROM

M32 = 0xFFFFFFFF
B16, B32 = 1 << 16, 1 << 32
P = 0xFFFFFFFF00000001
INV_B16 = pow(B16, -1, P)
INV_B32 = pow(B32, -1, P)
RS1, RS2, MEMORY, RD = 0, 1, 2, 3
SINK, OUTPUT_COUNTER = 32, 33


class Chip(Table):
    """A table of the machine. Instruction tables declare one selector for each operation."""

    range_buses = RANGE_BUSES
    rows_at_once = 0  # of a wide table whose rows are independent: filled in pieces, which stay in the cache
    pc: Any  # columns of the tables that use the macros
    ts: Any

    # ------------------------------------------------------------ macros

    @property
    def op(self) -> Expr:
        """The operation number of this row: sum of selector * number."""
        total = self.const(0)
        for c in self.declared:
            if c.kind == "selector":
                total = total + getattr(self, c.name) * int(c.extra["op"])
        return total

    def step(self, npc: Any) -> None:
        """Take the execution token and pass it to ``npc``, one cycle later."""
        self.receive(EXEC, (self.pc, self.ts), self.real)
        self.send(EXEC, (npc, self.ts + 4), self.real)

    def fetch(self, rd: Any = 0, s1: Any = 0, s2: Any = 0, i0: Any = 0, i1: Any = 0) -> None:
        """This row's instruction is in the program."""
        self.receive(ROM, (self.pc, self.op, rd, s1, s2, i0, i1), self.real)

    def gap16(self, now: Any, before: Any, when: Any = None) -> None:
        """before < now, at most 2^16 apart."""
        self.look("R16", (now - before - 1,), self.real if when is None else when)

    def read(self, r: Any, slot: int, value: Sequence[Any], t: Any) -> None:
        """Read register ``r`` at ts + slot; it was last accessed at ``t``."""
        self.receive(REG, (r, t, *value), self.real)
        self.send(REG, (r, self.ts + slot, *value), self.real)
        self.gap16(self.ts + slot, t)

    def write(self, rd: Any, value: Sequence[Any], t: Any, old: Sequence[Any]) -> None:
        """Write register ``rd`` at ts + 3; it held ``old`` since ``t``."""
        self.receive(REG, (rd, t, *old), self.real)
        self.send(REG, (rd, self.ts + RD, *value), self.real)
        self.gap16(self.ts + RD, t)

    def memory(self, h: Any, w: Any, old: Sequence[Any], new: Sequence[Any], t: Any, d: Any,
               when: Any = None) -> None:
        """Access dword (h, w) at ts + 2; it held ``old`` since ``t``; ``d`` is the low limb of the gap."""
        when = self.real if when is None else when
        now = self.ts + MEMORY
        self.receive(RAM, (h, w, t, *old), when)
        self.send(RAM, (h, w, now, *new), when)
        self.look("R16", (d,), when)
        self.look("R16", ((now - t - 1 - d) * INV_B16,), when)

    def effective_address(self, a: Word, i: Word, w: Any, h: Any, offset: Any) -> None:
        """a + i = 2^32 h + 8 w + offset mod 2^64; offset is an affine form with values 0..7."""
        x = a.lo + i.lo - 8 * w - offset
        y = a.hi + i.hi + x * INV_B32 - h
        self.zero("ea.lo", x * (x - B32))
        self.zero("ea.hi", y * (y - B32))

    # ------------------------------------------------------------ witness

    def fill(self, rows: Rows) -> dict[str, Any]:
        """Columns beyond the common ones: name -> array, or arrays in turn. Overridden by each chip."""
        return {}

    def witness(self, rows: Rows, height: int) -> Any:
        """Main columns, shape (columns, height); rows beyond those in use are zero."""
        out = np.zeros((self.layout.main_count, height), dtype=np.uint64)
        step = self.rows_at_once or len(rows)
        for lo in range(0, len(rows), max(step, 1)):
            self._write(rows.select(slice(lo, lo + step)) if step < len(rows) else rows, out[:, lo:lo + step])
        return out

    def _write(self, rows: Rows, out: Any) -> None:
        own = self.fill(rows)
        k = 0
        for c in self.declared:
            if c.kind == "fixed":
                continue
            value = own[c.name] if c.name in own else self.common(c, rows)
            for v in (value if c.shape != "one" else [value]):
                v = np.asarray(v)
                out[k, :len(rows)] = v if v.dtype != bool else v.astype(np.uint64)
                k += 1

    def common(self, c: Any, rows: Rows) -> Any:
        """Columns that every instruction table shares."""
        if c.kind == "selector":
            return rows.op == c.extra["op"]
        if c.shape == "word":
            if c.name == "i":
                return rows.i0, rows.i1
            return limbs32(getattr(rows, c.name))
        names = {"rs1": "s1", "rs2": "s2"}
        return getattr(rows, names.get(c.name, c.name))


class Rows:
    """The witness log of the rows of one table instance: one array of uint64 for each field.

    From the ROM: ``pc op rd s1 s2 i0 i1``. From the run: ``ts``; ``a b`` values read through rs1 and rs2; ``r`` the
    result (value written or stored; 1 if a branch was taken); ``o`` old value of rd; ``ta tb td`` old times of rs1,
    rs2, rd; ``m0 m1 tm0 tm1`` old dwords in memory and their old times.
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update({k: np.asarray(v, dtype=np.uint64) for k, v in fields.items()})
        self._length = len(next(iter(fields.values()))) if fields else 0

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the log has no field {name}")

    @property
    def address(self) -> Any:
        """Effective address rs1 + immediate of a memory access, mod 2^64."""
        return self.a + (self.i0 | self.i1 << np.uint64(32))

    def select(self, which: Any) -> Rows:
        """The rows that ``which`` (a mask, slice or index array) chooses."""
        return Rows(**{k: v[which] for k, v in self.__dict__.items() if k != "_length"})


def limbs32(x: Any) -> tuple[Any, Any]:
    """Low and high 32 bits."""
    x = np.asarray(x, dtype=np.uint64)
    return x & np.uint64(M32), x >> np.uint64(32)


def limbs16(x: Any, count: int = 4) -> list[Any]:
    """``count`` 16-bit limbs, lowest first."""
    x = np.asarray(x, dtype=np.uint64)
    return [x >> np.uint64(16 * k) & np.uint64(0xFFFF) for k in range(count)]


def bytes_of(x: Any, count: int = 8) -> list[Any]:
    """``count`` bytes, lowest first."""
    x = np.asarray(x, dtype=np.uint64)
    return [x >> np.uint64(8 * k) & np.uint64(0xFF) for k in range(count)]


def canonical(x: Any) -> Any:
    """Signed integers (int64) as field elements."""
    return np.asarray(x).astype(np.uint64) - (np.asarray(x) < 0) * np.uint64(M32)


def extension_bit(high: Any) -> Any:
    """The s with M s = ``high``, M = 2^32 - 1: a bit if ``high`` extends a word by sign or zero, else no bit."""
    return columns.mul_(high, pow(M32, -1, P))


def memory_columns(rows: Rows, second: bool = False) -> dict[str, Any]:
    """Columns ``w h tm dm`` of a memory access (with ``second``, of the dword after it too)."""
    address = rows.address
    w, h = (address & np.uint64(M32)) >> np.uint64(3), address >> np.uint64(32)

    def low_gap(t: Any) -> Any:
        return (rows.ts + np.uint64(MEMORY - 1) - t) & np.uint64(0xFFFF)

    if second:
        return {"w": w, "h": h, "tm": (rows.tm0, rows.tm1), "dm": (low_gap(rows.tm0), low_gap(rows.tm1))}
    return {"w": w, "h": h, "tm": rows.tm0, "dm": low_gap(rows.tm0)}
