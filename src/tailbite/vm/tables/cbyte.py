"""CBYTE: one byte of public output a row, one cycle each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, selector, token
from ..buses import COM, EXEC, OUT
from ..chip import M32, MEMORY, Chip, Rows, bytes_of
from .access import dword


class Cbyte(Chip):
    """A row takes (pointer, bytes left, index) from COM and either outputs a byte and passes the rest on, or ends.

    ``end``: only with nothing left; a run that passes 0 counts on from -1 and would need p rows. ``ptr``: the low
    limb of the pointer is 8 w plus the one-hot offset, and only canonical w exist in memory. The byte is the selected
    one of eight looked-up bytes, which the RAM tuple ties to the dword. OUT names byte and index; the verifier takes
    exactly the public output from it. On ``end`` rows w, v, tm and dm are free and unused.
    """

    name = "CBYTE"
    instances = 2
    constraint_count = 15

    byt, end = selector("outputs a byte"), selector("ends the call")
    pcn, ts = token("pc after the call"), token("time")
    plo, phi = token("pointer, low limb"), token("high limb")
    rem, idx = token("bytes left"), token("index of the byte in the output")
    w = derived("dword of the pointer, by ptr")
    e = bit("offset, one-hot", 8)
    v = byte("bytes of the dword", 8, when="byt")
    ob = derived("the byte, by ob")
    tm, dm = token("old time of the dword"), token("low limb of its gap, looked up")

    def rules(t) -> None:
        t.zero("one", sum(t.e) - t.byt)
        t.zero("ptr", t.byt * (t.plo - 8 * t.w) - sum(j * t.e[j] for j in range(8)))
        t.zero("ob", t.ob - sum(e * v for e, v in zip(t.e, t.v, strict=True)))
        t.zero("end", t.end * t.rem)
        t.receive(COM, (t.pcn, t.ts, t.plo, t.phi, t.rem, t.idx), t.real)
        t.send(COM, (t.pcn, t.ts + 4, t.plo + 1, t.phi, t.rem - 1, t.idx + 1), t.byt)
        t.send(EXEC, (t.pcn, t.ts), t.end)
        t.send(OUT, (t.idx, t.ob), t.byt)
        t.memory(t.phi, t.w, dword(t.v), dword(t.v), t.tm, t.dm, t.byt)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The bytes that an executor logged, then the rows that end its commits."""
        b, c = log.bytes, log.commits
        length, byt = c.length.astype(np.uint64), np.arange(len(b.ts) + len(c.ts)) < len(b.ts)

        def both(of_byte: Any, of_end: Any) -> Any:
            return np.append(of_byte, of_end)

        return Rows(
            byt=byt, end=~byt, pcn=both(b.pcn, c.pc + 4), ts=both(b.ts, c.ts + 4 + 4 * length),
            plo=both(b.address & M32, (c.address & M32) + length), phi=both(b.address, c.address) >> 32,
            rem=both(b.rem, 0 * length), idx=both(b.idx, c.idx + length),
            value=both(b.value, 0 * length), tm=both(b.tm, 0 * length))

    def fill(self, rows: Rows) -> dict[str, Any]:
        offset, v = rows.plo & 7, bytes_of(rows.value)
        dm = rows.ts + (MEMORY - 1) - rows.tm & 0xFFFF
        e = [(offset == j) & (rows.byt == 1) for j in range(8)]
        return {
            "byt": rows.byt, "end": rows.end, "w": rows.plo >> 3, "e": e, "v": v,
            "ob": sum(x * y for x, y in zip(e, v, strict=True)), "dm": dm,
        }
