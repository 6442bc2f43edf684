"""LH, LHU, LW, LWU, LD at any alignment: rd = 2, 4 or 8 bytes at rs1 + immediate, sign- or zero-extended."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import bit, byte, derived, derived_word, rom, rom_word, selector, token, word
from ..chip import M32, RS1, Chip, Rows, bytes_of, limbs32, memory_columns
from ..ops import Op
from .access import B29, dword, widths


class Mload(Chip):
    """Two neighbouring dwords as 16 bytes v, of which those from offset j on are selected by the one-hot e.

    Address: offset sum j e_j; with canonical keys the ``ea`` equations determine it. The second dword is key
    (h, w + 1), or (h + 1, 0) with yy = 1; the wrong choice is a key that does not exist. It is accessed when c2 is
    set; ``cross`` wants that whenever a byte of it is used, and otherwise v8..v15 are free and unselected.
    Result: bytes are looked up and tied to memory by the RAM tuples; s is the top bit of zb, the top byte, by AND
    for LH and LW, and 0 by ``unsigned`` for the others. The limbs are sums of bytes and ones above them.
    """

    name = "MLOAD"
    instances = 3
    constraint_count = 25

    lh, lhu, lw = selector("LH", Op.LH), selector("LHU", Op.LHU), selector("LW", Op.LW)
    lwu, ld = selector("LWU", Op.LWU), selector("LD", Op.LD)
    pc, ts = token("program counter"), token("time")
    rd, rs1 = rom("destination"), rom("base register")
    a = word("value of rs1")
    i = rom_word("immediate, sign-extended")
    w, h = derived("first dword, by ea.lo"), derived("address / 2^32, by ea.hi")
    yy = bit("is the second dword in the next 4 GiB?")
    c2 = bit("is the second dword accessed?")
    e = bit("offset, one-hot", 8)
    v = byte("bytes of both dwords", 16)
    zb = derived("top byte of a half or word, by zb")
    s = derived("its sign, by AND(zb, 128) and unsigned")
    r = derived_word("the result, by lo and hi")
    tm, dm = token("old times of the dwords", 2), token("low limbs of their gaps, looked up", 2)
    ta, td = token("old time of rs1"), token("old time of rd")
    o = word("old value of rd")

    def rules(t) -> None:
        e, v = t.e, t.v
        two, four, eight = t.lh + t.lhu, t.lw + t.lwu, t.ld
        t.zero("one", sum(e) - t.real)
        t.effective_address(t.a, t.i, t.w, t.h, sum(j * e[j] for j in range(8)))
        t.zero("second", t.c2 * (1 - t.real))
        t.zero("cross", (1 - t.c2) * (two * e[7] + four * sum(e[5:]) + eight * sum(e[1:])))
        y = [sum(e[k] * v[k + j] for k in range(8)) for j in range(8)]
        low = y[0] + 2**8 * y[1]
        t.zero("zb", t.zb - two * y[1] - four * y[3])
        t.look("AND", (t.zb, 128, 128 * t.s), t.lh + t.lw)
        t.zero("unsigned", (t.lhu + t.lwu + t.ld) * t.s)
        t.zero("lo", t.r.lo - low - (four + eight) * (2**16 * y[2] + 2**24 * y[3]) - t.s * two * (2**32 - 2**16))
        t.zero("hi", t.r.hi - eight * sum(2 ** (8 * j) * y[4 + j] for j in range(4)) - M32 * t.s)
        t.step(t.pc + 4)
        t.fetch(t.rd, t.rs1, 0, t.i.lo, t.i.hi)
        t.read(t.rs1, RS1, t.a, t.ta)
        first, second = dword(v[:8]), dword(v[8:])
        t.memory(t.h, t.w, first, first, t.tm[0], t.dm[0])
        t.memory(t.h + t.yy, t.w + 1 - B29 * t.yy, second, second, t.tm[1], t.dm[1], t.c2)
        t.write(t.rd, t.r, t.td, t.o)

    def fill(self, rows: Rows) -> dict[str, Any]:
        offset, size, own = rows.address & 7, widths(rows), memory_columns(rows, second=True)
        crosses = offset + size > 8
        # the bytes from the offset on; in two steps because a shift by 64 has no meaning
        value = rows.m0 >> 8 * offset | rows.m1 << 8 << 8 * (7 - offset)
        signed = (rows.op == Op.LH) | (rows.op == Op.LW)
        top = np.where(size == 8, 0, value >> 8 * (size - 1) & 0xFF)
        return {
            "yy": crosses & (own["w"] == B29 - 1), "c2": crosses, "e": [offset == j for j in range(8)],
            "v": bytes_of(rows.m0) + bytes_of(rows.m1), "zb": top, "s": np.where(signed, top >> 7, 0),
            "r": limbs32(rows.r), **own,
        }
