"""KROUND: one round of Keccak-f[1600] a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...air import Expr, bit, derived, selector, token
from ...hash.keccak import ROTATIONS, ROUND_CONSTANTS, keccak_round
from ..buses import KRC, KST
from ..chip import Chip, Rows, limbs32
from .krc import POSITIONS, ROUNDS

LANES, BITS, HALF = 25, 64, 32


class Kround(Chip):
    """Takes (id, r, state) and gives (id, r + 1, state after round r); r is below 24 by KRC. Rows have no order: a
    permutation is the chain of 24 rows that one KCALL opens and closes under its own id.

    a1 holds the bits after theta, p and d the bits of column parities and of theta's effect. ``in`` says A = a1 xor d
    limb by limb; ``par`` says that a1's column sum is p, or p + 2, or p + 4, so p is its parity; ``theta`` says
    D[x] = C[x-1] xor rot(C[x+1]) with C = p xor d, the parity of A (five copies of d make one): the sum of the five
    bits is even. C is a function of A, so d, a1 and p are determined. chi and iota are then sums of bits, with c the
    bits of the first lane that iota may flip. Limbs of ``out`` are sums of 32 bits, so they are in range.
    """

    name = "KROUND"
    instances = 2
    rows_at_once = 1 << 12
    constraint_count = 2 * 320 + 1600 + 1 + 50 + 320 + 320 + 7 + 50

    f = selector("row in use")
    id, r = token("time of the call"), token("round")
    a = token("state before, limbs", 2 * LANES)
    p, d = bit("column parity after theta", 5 * BITS), bit("theta's effect", 5 * BITS)
    a1 = bit("state after theta", LANES * BITS)
    c = derived("first lane with iota, where it can flip: iota", len(POSITIONS))
    rc = token("bits of the round constant", len(POSITIONS))
    out = derived("state after, limbs: chi", 2 * LANES)

    def rules(t) -> None:
        for lane in range(LANES):
            for half in range(2):
                bits = [_xor(t.a1[BITS * lane + z], t.d[BITS * (lane % 5) + z]) for z in _half(half)]
                t.zero(f"in.{lane}.{half}", t.a[2 * lane + half] - _number(bits))
        for x in range(5):
            for z in range(BITS):
                s = sum(t.a1[BITS * (x + 5 * y) + z] for y in range(5)) - t.p[BITS * x + z]
                t.zero(f"par.{x}.{z}", s * (s - 2) * (s - 4))
                left, right = BITS * ((x + 4) % 5) + z, BITS * ((x + 1) % 5) + (z - 1) % BITS
                u = t.p[left] + t.d[left] + t.p[right] + t.d[right] + t.d[BITS * x + z]
                t.zero(f"theta.{x}.{z}", u * (u - 2) * (u - 4))
        b = moved(t.a1)
        flipped = dict(zip(POSITIONS, t.c, strict=True))
        for k, z in enumerate(POSITIONS):
            t.zero(f"iota.{z}", t.c[k] - _xor(b[0][z], t.rc[k]))
        for lane in range(LANES):
            x, y = lane % 5, lane // 5
            one, two, three = b[lane], b[(x + 1) % 5 + 5 * y], b[(x + 2) % 5 + 5 * y]
            for half in range(2):
                first = [flipped.get(z, one[z]) if lane == 0 else one[z] for z in _half(half)]
                bits = [_xor(e, (1 - two[z]) * three[z]) for e, z in zip(first, _half(half), strict=True)]
                t.zero(f"chi.{lane}.{half}", t.out[2 * lane + half] - _number(bits))
        t.receive(KST, (t.id, t.r, *t.a), t.f)
        t.send(KST, (t.id, t.r + 1, *t.out), t.f)
        t.receive(KRC, (t.r, *t.rc), t.f)

    @staticmethod
    def rows(log: Any) -> Rows:
        """24 rows for each call of an executor's log: field ``state`` is (rows, 25)."""
        calls = log.keccaks
        state = calls.state.astype(np.uint64)
        states = [tuple(state[:, k] for k in range(LANES))]
        for r in range(ROUNDS - 1):
            states.append(_round(states[-1], r))
        every = np.stack([np.stack(s, axis=1) for s in states], axis=1).reshape(-1, LANES)
        return Rows(id=np.repeat(calls.ts, ROUNDS), r=np.tile(np.arange(ROUNDS), len(calls.ts)), state=every)

    def fill(self, rows: Rows) -> dict[str, Any]:
        s = [rows.state[:, k] for k in range(LANES)]
        c = [s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20] for x in range(5)]
        d = [c[(x + 4) % 5] ^ _rotl(c[(x + 1) % 5], 1) for x in range(5)]
        a1 = [s[k] ^ d[k % 5] for k in range(LANES)]
        constants = np.array(ROUND_CONSTANTS.words, dtype=np.uint64)[rows.r.astype(np.int64) % ROUNDS]
        first = moved_words(a1)[0]
        out = keccak_round(tuple(s), constants, _rotl)
        return {
            "f": np.ones(len(rows), bool), "id": rows.id, "r": rows.r, "a": _limbs(s),
            "p": _bits([x ^ y for x, y in zip(c, d, strict=True)]), "d": _bits(d), "a1": _bits(a1),
            "c": [(first ^ constants) >> z & 1 for z in POSITIONS], "rc": [constants >> z & 1 for z in POSITIONS],
            "out": _limbs(out),
        }


def moved(a1: list[Expr]) -> list[list[Expr]]:
    """Bits of each lane after rho and pi: lane y + 5 (2 x + 3 y) is lane x + 5 y, rotated."""
    out: list[list[Expr]] = [[]] * LANES
    for x in range(5):
        for y in range(5):
            lane = x + 5 * y
            out[y + 5 * ((2 * x + 3 * y) % 5)] = [a1[BITS * lane + (z - ROTATIONS[lane]) % BITS] for z in range(BITS)]
    return out


def moved_words(a1: list[Any]) -> list[Any]:
    """The same on whole lanes."""
    out: list[Any] = [None] * LANES
    for x in range(5):
        for y in range(5):
            out[y + 5 * ((2 * x + 3 * y) % 5)] = _rotl(a1[x + 5 * y], ROTATIONS[x + 5 * y])
    return out


def _half(half: int) -> range:
    return range(HALF * half, HALF * (half + 1))


def _xor(a: Any, b: Any) -> Any:
    """a + b - 2 a b; doubling is an addition because the verifier's products are dear."""
    both = a * b
    return a + b - both - both


def _number(bits: list[Any]) -> Any:
    """Sum of 2^k times bit k, by Horner's rule with doublings."""
    total = bits[-1]
    for b in reversed(bits[:-1]):
        total = total + total + b
    return total


def _round(s: tuple[Any, ...], r: int) -> tuple[Any, ...]:
    return keccak_round(s, np.uint64(ROUND_CONSTANTS.words[r]), _rotl)


def _rotl(x: Any, k: int) -> Any:
    return x if k % 64 == 0 else x << np.uint64(k % 64) | x >> np.uint64(64 - k % 64)


def _limbs(lanes: Any) -> Iterator[Any]:
    return (limb for lane in lanes for limb in limbs32(lane))


def _bits(lanes: list[Any]) -> Iterator[Any]:
    return (lane >> np.uint64(z) & np.uint64(1) for lane in lanes for z in range(BITS))
