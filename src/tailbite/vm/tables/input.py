"""INPUT: the private input in memory, at 0xFF000000: its length as a 32-bit number, then its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, selector
from ..buses import RAM
from ..chip import Chip, Rows
from .access import dword

BASE = 0xFF000000
MAX_BYTES = 2**24 - 4


class Input(Chip):
    """Row j is the dword BASE + 8 j, so addresses are fixed. k marks the bytes in use: a prefix of each row, and by
    ``full`` only the last row in use is not all of it, so a prefix of the region; others are zero by ``tail``.

    rem counts the bytes left: 4 + length in the first row, where length is the first four bytes, which ``whole``
    puts in use; it falls by the bytes in use and ends at 0. Their number is below 2^25, so exactly 4 + length bytes
    are in use as integers. So the region is a function of the byte string, and dwords beyond it start at zero.

    Witness: ``v`` the dwords of the region (see :func:`region`); the first one holds the length.
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
        next_f, next_w, next_rem = t.next(t.f), t.next(t.w), t.next(t.rem)
        t.zero("w0", t.first * (t.w - BASE // 8))
        t.zero("w+", inner * (next_w - t.w - 1))
        t.zero("k.0", t.k[0] - t.f)
        for j in range(1, 8):
            t.zero(f"k.{j}", t.k[j] * (1 - t.k[j - 1]))
        for j in range(8):
            t.zero(f"tail.{j}", t.v[j] * (1 - t.k[j]))
        t.zero("full", inner * next_f * (1 - t.k[7]))
        length, _ = dword(t.v)
        t.zero("len.first", t.first * (t.rem - 4 - length))
        t.zero("len.whole", t.first * (1 - t.k[3]))
        t.zero("len.step", inner * (next_rem - t.rem + count))
        t.zero("len.last", t.last * (t.rem - count))
        t.send(RAM, (0, t.w, 0, *dword(t.v)), t.f)

    def witness(self, rows: Rows, height: int) -> Any:
        j = np.arange(height, dtype=np.uint64)
        size = 4 + int(rows.v[0] & 0xFFFFFFFF)
        left = np.where(size > 8 * j, size - 8 * j, 0)
        v = np.append(rows.v, np.zeros(height - len(rows), np.uint64))
        return super().witness(Rows(v=v, w=BASE // 8 + j, rem=left), height)

    def fill(self, rows: Rows) -> dict[str, Any]:
        return {"f": rows.rem > 0, "v": rows.v.view(np.uint8).reshape(-1, 8).T, "k": [rows.rem > j for j in range(8)]}


def region(data: bytes) -> Any:
    """The dwords from ``BASE`` on, uint64, for the private input ``data`` of at most ``MAX_BYTES`` bytes."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes of input, more than {MAX_BYTES}")
    content = len(data).to_bytes(4, "little") + data
    return np.frombuffer(content + bytes(-len(content) % 8), dtype="<u8").astype(np.uint64)
