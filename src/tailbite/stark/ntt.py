"""Low-degree extension of Goldilocks columns: natural order in, natural order out.

A column of n = R B values on the subgroup <w_n> is viewed as R rows of B: index c + B r has the value at w_n^(c + B r).
Write k = k0 + R k1 for the index of a coefficient. Three passes over memory, none for the bit reversal:

1. Rows, inverse. For each strip of eight columns c, decimation in frequency over r gives k0 in bit-reversed rows;
   the twist w_n^(-c k0) follows.
2. Blocks. Each row k0 stays in the cache: decimation in frequency over c gives the coefficients, k1 bit-reversed. For
   each of the 2^b cosets g_t <w_n> of the larger domain, g_t = shift w_N^t: scale by g_t^(R k1) / n, then decimation
   in time over k1.
3. Rows, forward. For each strip and coset, the twist x^k0, where x = g_t w_n^c is the point of the column (it has the
   scale g_t^k0 in it); then decimation in time over k0. The cosets are woven to natural order as they leave.

Twists are powers of one point in bit-reversed order, made by doubling, so that all tables are as short as a block.
Roots of order up to 64 are powers of two: steps of radix 8, 16 and 64 only shift inside. Columns up to 2^17 are one
block, and need only pass 2; columns below 2^9 take a plain scalar path.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import numpy as np

from ..field import GENERATOR, P, root_of_unity
from ..lang import LANES
from .ntt_kernels import LIBRARY, Plan

LOG_SMALL = 9  # below, the scalar path
LOG_BLOCK = 17  # up to here, a column is one block
PAD = 16  # words between rows of the scratch memory, against aliasing of power-of-two strides
SLICE = 1 << 20  # elements a compiled call works on, so that Ctrl-C works
# Stages: logs of the radices of the steps, in the order of decimation in frequency. Rows have 4 and 6 only.
RADICES: dict[int, list[int]] = {
    0: [], 3: [3], 4: [4], 5: [3, 2], 6: [6], 7: [4, 3], 8: [4, 4], 9: [3, 6], 10: [4, 6], 11: [4, 4, 3],
}


def bit_reversal(log_n: int) -> np.ndarray:
    """rev(i) for i < 2^log_n."""
    r = np.zeros(1, dtype=np.int64)
    for _ in range(log_n):
        r = np.concatenate([2 * r, 2 * r + 1])
    return r


def powers_of(ratio: int, n: int, first: int = 1) -> np.ndarray:
    """first * ratio^i for i < n."""
    out = np.empty(-(-n // LANES) * LANES, dtype=np.uint64)
    LIBRARY.geometric(out, out.size, first, ratio)
    return out[:n]


def twiddles(log_n: int, of_lanes: bool, inverse: bool, inside: int = 0) -> list[tuple[int, int, np.ndarray]]:
    """(radix log, half in rows, table) of the steps of a decimation in frequency over 2^log_n rows or elements.

    The last ``inside`` stages are left to others. At position m of a step, and row or element j < half of the
    sub-transform of ``size``, the twiddle is w_size^(j rev(m)).
    """
    n = size = 1 << log_n
    root = root_of_unity(log_n)
    roots = powers_of(pow(root, -1, P) if inverse else root, n)
    out = []
    for k in RADICES[log_n - inside]:
        half = size >> k
        j = np.arange(half).reshape(-1, 1, LANES if of_lanes else 1)
        exponents = j * bit_reversal(k)[k != 6:, None] * (n // size)
        out.append((k, half // LANES if of_lanes else half, roots[exponents % n].ravel()))
        size = half
    return out


def twist_points(ratio: int, first: int, log_rows: int, block: int) -> np.ndarray:
    """For each strip of eight points first * ratio^c, c < block: their powers 2^(log_rows - 1), ..., 4, 2, 1."""
    out = np.empty((block // LANES, log_rows, LANES), dtype=np.uint64)
    for e in range(log_rows):
        out[:, log_rows - 1 - e] = powers_of(pow(ratio, 1 << e, P), block, pow(first, 1 << e, P)).reshape(-1, LANES)
    return out.ravel()


def log_rows_of(log_n: int) -> int:
    """Log of the number of rows: few, as long as a block and its extension stay in a cache of 1 MiB."""
    return 0 if log_n <= LOG_BLOCK else 4 if log_n <= 18 else 6 if log_n <= 21 else 8 if log_n <= 23 else 10


class Scratch(threading.local):
    """Memory of one thread, grown when a bigger column comes."""

    def __init__(self) -> None:
        self.memory = np.empty(0, dtype=np.uint64)

    def words(self, n: int) -> np.ndarray:
        """At least n words on a 64-byte boundary, contents arbitrary."""
        if self.memory.size < n + LANES:
            self.memory = np.empty(n + LANES, dtype=np.uint64)
        return self.memory[-(self.memory.ctypes.data // 8) % LANES:]


_SCRATCH = Scratch()


class Extension:
    """Values on <w_n> to values on shift * <w_N>, N = n << log_blowup; use :func:`extension`, which keeps tables."""

    def __init__(self, log_n: int, log_blowup: int, shift: int = GENERATOR) -> None:
        if not (3 <= log_n <= 26 and 0 <= log_blowup <= 3):
            raise ValueError(f"no extension of 2^{log_n} values by 2^{log_blowup}")
        self.log_n, self.log_blowup, self.shift = log_n, log_blowup, shift
        self.n, self.size = 1 << log_n, 1 << log_n + log_blowup
        self.log_rows = log_rows_of(log_n)
        self.rows, self.block = 1 << self.log_rows, self.n >> self.log_rows
        self.region = self.n + (self.rows * PAD if self.rows > 1 else 0)
        self.plan = self._plan() if log_n >= LOG_SMALL else None

    def _plan(self) -> Plan:
        """The tables: twiddles of the four sets of steps, points, scales."""
        r, m, block = self.log_rows, self.log_n - self.log_rows, self.block
        row_steps, block_steps = (twiddles(r, False, True), twiddles(m, True, True, 6))
        forward = twiddles(m, True, False, 6)[::-1] + twiddles(r, False, False)[::-1]
        steps = row_steps + block_steps + forward
        offsets = np.cumsum([0, *(table.size for *_, table in steps)])
        program = [x for (k, half, _), at in zip(steps, offsets, strict=False) for x in (k, half, at)]
        w_n, shifts = root_of_unity(self.log_n), self._shifts()
        points = [twist_points(pow(w_n, -1, P), 1, r, block), *(twist_points(w_n, g, r, block) for g in shifts)]
        order = bit_reversal(m).reshape(-1, 8, 8, 8).transpose(0, 2, 3, 1).ravel()
        scales = [powers_of(pow(g, self.rows, P), block, pow(self.n, -1, P))[order] for g in shifts]
        at = int(offsets[-1])
        fields: list[Any] = [
            r, self.rows, block, self.region // self.rows, self.region, len(shifts), len(row_steps), len(block_steps),
            at, at + r * block * (1 + len(shifts)), np.array(program, dtype=np.uint64),
            np.concatenate([*(table for *_, table in steps), *points, *scales])]
        return Plan(*fields)

    def _shifts(self) -> list[int]:
        """The g_t."""
        w = root_of_unity(self.log_n + self.log_blowup)
        return [self.shift * pow(w, t, P) % P for t in range(1 << self.log_blowup)]

    def extend(self, src: np.ndarray, dst: np.ndarray) -> None:
        """dst[j] = value at shift * w_N^j, canonical, of the polynomial with canonical value src[i] at w_n^i."""
        _check(src, self.n)
        _check(dst, self.size)
        if self.plan is None:
            dst[:] = evaluate(interpolate(src, 1), self.shift, self.log_n + self.log_blowup)
        elif self.rows == 1:
            self._extend_block(src, dst, self.plan)
        else:
            self._extend_rows(src, dst, self.plan)

    def _extend_block(self, src: np.ndarray, dst: np.ndarray, plan: Plan) -> None:
        work = _SCRATCH.words(self.n + self.size)
        LIBRARY.blocks(src, work[self.n:], work, plan, 0, 1)
        cosets = 1 << self.log_blowup
        LIBRARY.weave(work[self.n:], LANES, self.n, dst, LANES * cosets, self.n // LANES, self._kind(dst))

    def _extend_rows(self, src: np.ndarray, dst: np.ndarray, plan: Plan) -> None:
        cosets = 1 << self.log_blowup
        local = max(self.block, LANES * self.rows * (cosets + 1))
        work = _SCRATCH.words(local + cosets * self.region)
        scratch = work[local:]
        for lo, hi in _ranges(self.block, self.rows):
            LIBRARY.inverse_rows(src, scratch, work, plan, lo, hi)
        for lo, hi in _ranges(self.rows, self.block * cosets):
            LIBRARY.blocks(scratch, scratch, work, plan, lo, hi)
        for lo, hi in _ranges(self.block, self.rows * cosets):
            LIBRARY.forward_rows(scratch, dst, work, plan, self._kind(dst), lo, hi)

    def _kind(self, dst: np.ndarray) -> int:
        """Of weave: streaming stores need 64-byte alignment."""
        return 2 * self.log_blowup + (dst.ctypes.data % 64 == 0)

    def split(self, values: np.ndarray, t0: np.ndarray, t1: np.ndarray) -> None:
        """Values of q0 and q1 on <w_n>, where q = q0 + x^n q1 has ``values`` on shift * <w_2n>; q has degree < 2n.

        Where x^n = shift^n, on even points, and -shift^n, on odd ones, q is q0 + s q1 and q0 - s q1: two polynomials of
        degree < n, each known on a coset of <w_n>.
        """
        _check(values, 2 * self.n)
        odd = self.shift * root_of_unity(self.log_n + 1) % P
        for k, out, start in ((0, t0, self.shift), (1, t1, odd)):
            extension(self.log_n, 0, pow(start, -1, P)).extend(np.ascontiguousarray(values[k::2]), out)
        half = (P + 1) // 2
        LIBRARY.combine(t0, t1, self.n, half, half * pow(self.shift, -self.n, P) % P)


@functools.cache
def extension(log_n: int, log_blowup: int, shift: int = GENERATOR) -> Extension:
    """The extension of that size; its tables are made once."""
    return Extension(log_n, log_blowup, shift)


def _check(a: np.ndarray, n: int) -> None:
    if a.shape != (n,) or a.dtype != np.uint64 or not a.flags.c_contiguous:
        raise ValueError(f"a contiguous array of {n} uint64 is needed, not {a.dtype} of shape {a.shape}")


def _ranges(n: int, each: int) -> list[tuple[int, int]]:
    """Ranges that cover n items of ``each`` elements, about SLICE elements at a time; their bounds divide by 8."""
    step = max(LANES, SLICE // each)
    return [(lo, min(n, lo + step)) for lo in range(0, n, step)]


def interpolate(values: np.ndarray, shift: int) -> np.ndarray:
    """Coefficients, in natural order, of the polynomial with ``values`` on shift * <w_n>; for small n."""
    n = values.size
    out = np.array(values, dtype=np.uint64)
    LIBRARY.small_ntt(out, n, pow(root_of_unity(n.bit_length() - 1), -1, P))
    LIBRARY.scale(out, n, pow(n, -1, P), pow(shift, -1, P))
    return out


def evaluate(coefficients: np.ndarray, shift: int, log_size: int) -> np.ndarray:
    """Values on shift * <w>, w of order 2^log_size, in natural order; for small sizes."""
    out = np.zeros(1 << log_size, dtype=np.uint64)
    out[: coefficients.size] = coefficients
    LIBRARY.scale(out, out.size, 1, shift)
    LIBRARY.small_ntt(out, out.size, root_of_unity(log_size))
    return out
