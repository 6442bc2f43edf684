"""FIN: every dword that the run touched, with its final value; dwords that started at zero start here."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import columns as col
from ...air import bit, derived, token, u16, word
from ..buses import RAM
from ..chip import B16, M32, Chip, Rows


class Fin(Chip):
    """Keys (h, w) strictly increase over *all* rows, so each key receives its final token at most once; since every
    access takes one token and gives one, each accessed key then was initialised exactly once (image, input, or z).

    ``h0`` starts at h = 0; each step raises h by 1 to 2^32 with w free, or keeps it and raises w by 1 to 2^32;
    ``top`` ends below 2^32. The total is below 2^58, so these are statements about integers. w29: w = u0 + 2^16 u1
    with u0, u1 and 8 u1 all looked up as 16 bits, so w < 2^29 (8 u1 alone would let u1 be a fraction) and keys are
    canonical. Rows not in use (act = 0) take unused keys; nothing is gated, so nothing can be switched off. tf and v
    are matched by the RAM token, which the last access sent. One instance only: two could share a key.
    """

    name = "FIN"
    required = True
    max_log = 24
    constraint_count = 8

    act, z = bit("was it touched?"), bit("did it start at zero?")
    w = derived("dword in its 4 GiB, by w29 and inc")
    u1 = u16("w / 2^16", when="one")
    h = derived("address / 2^32, by h0, same, inc and top")
    nh = bit("does h change after this row?")
    tf = token("time of the last access")
    v = word("value after it")
    d = u16("limbs of the step to the next key, less one", 2, when="one")

    def rules(t) -> None:
        inner, step = 1 - t.last, t.d[0] + B16 * t.d[1]
        next_h, next_w = t.next(t.h), t.next(t.w)
        t.zero("start", t.z * (1 - t.act))
        t.look("R16", (t.w - B16 * t.u1,), "one")
        t.look("R16", (8 * t.u1,), "one")
        t.zero("h0", t.first * t.h)
        t.zero("same", inner * (1 - t.nh) * (next_h - t.h))
        t.zero("inc", inner * (t.nh * (next_h - t.h - 1) + (1 - t.nh) * (next_w - t.w - 1) - step))
        t.zero("top", t.last * (M32 - t.h - step))
        t.receive(RAM, (t.h, t.w, t.tf, *t.v), t.act)
        t.send(RAM, (t.h, t.w, 0, 0, 0), t.z)

    @staticmethod
    def rows(log: Any) -> Rows:
        """The touched dwords of an executor's log, by ascending key."""
        m = log.memory
        return Rows(h=m.h, w=m.w, tf=m.t, v=m.value, z=m.zero, act=np.ones(len(m.h), bool))

    def witness(self, rows: Rows, height: int) -> Any:
        return super().witness(with_unused_keys(rows, height), height)

    def fill(self, rows: Rows) -> dict[str, Any]:
        next_h, next_w = np.roll(rows.h, -1), np.roll(rows.w, -1)
        nh = next_h != rows.h
        step = col.sub_(np.where(nh, col.sub_(next_h, rows.h), col.sub_(next_w, rows.w)), 1)
        nh[-1], step[-1] = False, col.sub_(M32, rows.h[-1])[0]
        return {"u1": rows.w >> 16, "nh": nh, "d": (step & 0xFFFF, step >> 16)}


def with_unused_keys(rows: Rows, height: int) -> Rows:
    """The touched dwords and the lowest others, ``height`` rows by ascending key."""
    low, missing = rows.w[rows.h == 0], height - len(rows)
    unused = np.ones(len(low) + missing, bool)  # of that many keys at least ``missing`` are
    unused[low[low < len(unused)]] = False
    fields = {k: v for k, v in rows.__dict__.items() if k != "_length"}
    padded = Rows(**{k: np.append(v, np.zeros(missing, np.uint64)) for k, v in fields.items()})
    padded.w[len(rows):] = np.nonzero(unused)[0][:missing]
    return padded.select(np.argsort(padded.h << 29 | padded.w, kind="stable"))
