"""What the tables of branches share: the choice of the next pc.

A table declares ``tgt``, an entry of the ROM, and ``npc``, which the constraint ``npc`` determines; the next row
looks it up in the ROM, so it needs no range check.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air.expr import Expr
from ..chip import RS1, RS2, Rows


def branch(t: Any, taken: Expr) -> None:
    """The row compares a and b, and goes to ``tgt`` if ``taken``, a bit of degree 2, is set."""
    t.zero("npc", t.npc - t.pc - 4 * t.real - taken * (t.tgt - t.pc - 4))
    t.step(t.npc)
    t.fetch(0, t.rs1, t.rs2, t.tgt)
    t.read(t.rs1, RS1, t.a, t.ta)
    t.read(t.rs2, RS2, t.b, t.tb)


def fill_branch(rows: Rows) -> dict[str, Any]:
    """Columns ``tgt`` and ``npc``."""
    return {"tgt": rows.i0, "npc": np.where(rows.r == 1, rows.i0, rows.pc + 4)}
