"""What the tables of calls share: registers of the calling convention, and rows from logs of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chip import M32, Rows
from ..ops import Op

A0, A1, A2, A7 = 10, 11, 12, 17


def number(call: int) -> tuple[int, int]:
    """Limbs that x17 holds at a call."""
    return call & M32, call >> 32


def call_rows(calls: Any, **more: Any) -> Rows:
    """Rows of a call's log, a named tuple of arrays; all are ECALLs. ``more`` adds fields."""
    return Rows(**calls._asdict(), op=np.full(len(calls.ts), Op.ECALL), **more)
