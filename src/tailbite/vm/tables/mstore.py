"""SH, SW, SD at any alignment: 2, 4 or 8 bytes at rs1 + immediate = low bytes of rs2."""

from __future__ import annotations

from typing import Any

from ...air import bit, byte, derived, rom, rom_word, selector, token, word
from ..chip import RS1, RS2, Chip, Rows, bytes_of, limbs32, memory_columns
from ..ops import Op
from .access import B29, dword, overwrite, widths


class Mstore(Chip):
    """Two neighbouring dwords as 16 bytes v; those under the store are replaced by bytes of rs2.

    Address, second dword and ``cross``: as for MLOAD.
    Result: bytes v and b are looked up and tied to memory and register by their tuples. New byte k is
    v_k + sum over offsets j of e_j (b_{k-j} - v_k), taken where k - j is below the width: always a byte, so the
    four new limbs are below 2^32.
    """

    name = "MSTORE"
    instances = 3
    constraint_count = 23

    sh, sw, sd = selector("SH", Op.SH), selector("SW", Op.SW), selector("SD", Op.SD)
    pc, ts = token("program counter"), token("time")
    rs1, rs2 = rom("base register"), rom("source")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("first dword, by ea.lo"), derived("address / 2^32, by ea.hi")
    yy = bit("is the second dword in the next 4 GiB?")
    c2 = bit("is the second dword accessed?")
    e = bit("offset, one-hot", 8)
    v = byte("old bytes of both dwords", 16)
    b = byte("bytes of rs2", 8)
    n = derived("new limbs of both dwords, by n.0 to n.3", 4)
    tm, dm = token("old times of the dwords", 2), token("low limbs of their gaps, looked up", 2)
    ta, tb = token("old time of rs1"), token("old time of rs2")

    def rules(t) -> None:
        e, v, b, n = t.e, t.v, t.b, t.n
        t.zero("one", sum(e) - t.real)
        t.effective_address(t.a, t.i, t.w, t.h, sum(j * e[j] for j in range(8)))
        t.zero("second", t.c2 * (1 - t.real))
        t.zero("cross", (1 - t.c2) * (t.sh * e[7] + t.sw * sum(e[5:]) + t.sd * sum(e[1:])))
        stored = [t.real] * 2 + [t.sw + t.sd] * 2 + [t.sd] * 4  # is byte k of rs2 stored?
        new = [v[k] + sum(e[j] * stored[k - j] * (b[k - j] - v[k]) for j in range(8) if 0 <= k - j < 8)
               for k in range(16)]
        for k in range(4):
            t.zero(f"n.{k}", n[k] - sum(2 ** (8 * j) * new[4 * k + j] for j in range(4)))
        t.step(t.pc + 4)
        t.fetch(0, t.rs1, t.rs2, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        t.read(t.rs2, RS2, dword(b), t.tb)
        t.memory(t.h, t.w, dword(v[:8]), n[:2], t.tm[0], t.dm[0])
        t.memory(t.h + t.yy, t.w + 1 - B29 * t.yy, dword(v[8:]), n[2:], t.tm[1], t.dm[1], t.c2)

    def fill(self, rows: Rows) -> dict[str, Any]:
        offset, own = rows.address & 7, memory_columns(rows, second=True)
        crosses = offset + widths(rows) > 8
        first, second = overwrite(rows)
        return {
            "yy": crosses & (own["w"] == B29 - 1), "c2": crosses, "e": [offset == j for j in range(8)],
            "v": bytes_of(rows.m0) + bytes_of(rows.m1), "b": bytes_of(rows.b),
            "n": [*limbs32(first), *limbs32(second)], **own,
        }
