"""IMAGE: the dwords of the loaded program that are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import fixed
from ..buses import RAM
from ..chip import Chip
from ..elf import Dwords
from .access import program_height


class Image(Chip):
    """The program fixes it: rows by ascending key, so keys are distinct. Each dword is sent, used or not, so FIN
    must list it, and none can be omitted or start at zero instead. Absent if the program has no such dword.
    """

    name = "IMAGE"
    fixed_in = "program"
    required = True
    max_log = 20
    constraint_count = 0

    h, w = fixed("address / 2^32"), fixed("dword in its 4 GiB")
    lo, hi = fixed("low limb"), fixed("high limb")
    on = fixed("1, and 0 on padding")

    def rules(t) -> None:
        t.send(RAM, (t.h, t.w, 0, t.lo, t.hi), t.on)


def fixed_columns(dwords: Dwords) -> Any:
    """The preprocessed columns (5, height) of a program; ``dwords`` by ascending (h, w)."""
    n = len(dwords.h)
    out = np.zeros((5, program_height(n)), dtype=np.uint64)
    out[:, :n] = *dwords, np.ones(n, np.uint64)
    return out
