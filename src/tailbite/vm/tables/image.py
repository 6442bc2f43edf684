"""IMAGE: the dwords of the loaded program that are not zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import fixed
from ..buses import RAM
from ..chip import Chip
from ..elf import Dwords
from .rom import program_height


class Image(Chip):
    """The program fixes it, by ascending key, so keys are distinct. Each dword is sent, used or not, so FIN must list
    it, and none can be left out or start at zero instead. A program without such a dword has no IMAGE.
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

    @staticmethod
    def fixed_columns(dwords: Dwords) -> Any:
        """Preprocessed columns of a program, shape (5, height)."""
        n = len(dwords.h)
        out = np.zeros((5, program_height(n)), dtype=np.uint64)
        out[:4, :n], out[4, :n] = dwords, 1
        return out
