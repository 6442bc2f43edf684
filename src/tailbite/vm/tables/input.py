"""INPUT: the private input in memory, at 0xFF000000: its length as a 32-bit number, then its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, selector
from ..buses import RAM
from ..chip import Chip, Rows, bytes_of
from ..elf import INPUT_BASE
from .access import dword


class Input(Chip):
    """Row j is the dword at 0xFF000000 + 8 j, so addresses are fixed. k marks the bytes in use: a prefix of each row,
    and by ``full`` only the last row in use is not whole, so a prefix of the region; other bytes are 0 by ``tail``.

    rem counts the bytes left: it starts at 4 + length, the length being the first four bytes, which ``len.whole``
    puts in use; it falls by the bytes in use and ends at 0. There are at most 2^24, so exactly 4 + length bytes are in
    use, as integers. So the region is a function of the byte string, and dwords beyond it start at zero.
    """

    name = "INPUT"
    required = True
    max_log = 21
    constraint_count = 32

    f = selector("row in use")
    w = derived("dword of the address, by w0 and w+")
    rem = derived("bytes from here on, by the len rules")
    v = byte("bytes", 8)
    k = bit("is the byte in use?", 8)

    def rules(t) -> None:
        inner, count = 1 - t.last, sum(t.k)
        t.zero("w0", t.first * (t.w - INPUT_BASE // 8))
        t.zero("w+", inner * (t.next(t.w) - t.w - 1))
        t.zero("k.0", t.k[0] - t.f)
        for j in range(1, 8):
            t.zero(f"k.{j}", t.k[j] * (1 - t.k[j - 1]))
        for j in range(8):
            t.zero(f"tail.{j}", t.v[j] * (1 - t.k[j]))
        t.zero("full", inner * t.next(t.f) * (1 - t.k[7]))
        length, _ = dword(t.v)
        t.zero("len.first", t.first * (t.rem - 4 - length))
        t.zero("len.whole", t.first * (1 - t.k[3]))
        t.zero("len.step", inner * (t.next(t.rem) - t.rem + count))
        t.zero("len.last", t.last * (t.rem - count))
        t.send(RAM, (0, t.w, 0, *dword(t.v)), t.f)

    @staticmethod
    def rows(data: bytes) -> Rows:
        """The dwords of the region for the private input ``data``."""
        content = len(data).to_bytes(4, "little") + data
        v = np.frombuffer(content + bytes(-len(content) % 8), dtype="<u8")
        left = len(content) - 8 * np.arange(len(v))
        return Rows(v=v, rem=left)

    def witness(self, rows: Rows, height: int) -> Any:
        out = super().witness(rows, height)
        out[self.column_index("w")] = INPUT_BASE // 8 + np.arange(height)
        return out

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"f": rows.rem > 0, "w": 0, "v": bytes_of(rows.v), "k": [rows.rem > j for j in range(8)]}
