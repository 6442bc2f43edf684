"""Low-degree extension of Goldilocks columns: natural order in, natural order out.

A column of n = R * B values on the subgroup <w_n> is viewed as R rows of B. Index c + B r holds the value at w_n^(c + B r);
coefficient k = k0 + R k1. Three passes over memory, none for the bit reversal:

1. Rows, inverse. For each strip of eight columns c: decimation in frequency over r gives k0 in bit-reversed rows; the
   twist w_n^(-c k0) follows.
2. Blocks. Each row k0 stays in the L1 cache: decimation in frequency over c gives coefficients a_k in bit-reversed k1.
   For each of the 2^b cosets g_t <w_n>, g_t = shift * w_N^t, of the extended domain: scale by g_t^(R k1) / n, then
   decimation in time over k1.
3. Rows, forward. For each strip and coset: the twist x^k0, where x = g_t w_n^c is the point of column c (it contains the
   scale g_t^k0), then decimation in time over k0. Cosets are woven to natural order as they leave.

Twists are powers of one point in bit-reversed order, made by doubling, so that no table is longer than a block. Roots
of order 8 and 16 are powers of two, so radix-8 and radix-16 steps multiply by shifts inside. Columns below 2^9
take a plain scalar path, and columns up to 2^12 only pass 2.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, NamedTuple

import numpy as np

from ..field import (
    GENERATOR,
    P,
    add,
    canon,
    lazy_add_canonical,
    lazy_mul,
    lazy_shift,
    lazy_sub_canonical,
    mul,
    power,
    root_of_unity,
    sub,
)
from ..lang import LANES, Ptr, cpu, function, select, shuffle, u64, u64x8, unroll

LOG_SMALL = 9  # below, the scalar path
LOG_BLOCK = 12  # up to here, a column is one block
PAD = 16  # words between rows of the scratch memory, against aliasing of power-of-two strides
SLICE = 1 << 20  # elements a compiled call works on, so that Ctrl-C works
_LOG2 = {pow(2, e, P): e for e in range(192)}


class Plan(NamedTuple):
    """What the kernels know of one size. ``program`` lists steps as (radix log, half, twiddle offset in tables)."""

    log_rows: u64
    rows: u64
    block: u64
    stride: u64  # words from a row of scratch to the next
    region: u64  # words from a coset of scratch to the next
    cosets: u64
    row_steps: u64
    block_steps: u64
    points: u64  # offset in tables: points w_n^-c, then g_t w_n^c for each t; see :func:`twist` for the order
    scale: u64  # offset in tables: g_t^(R k1) / n in the order of the block's coefficients, for each t
    program: Ptr[u64]  # row steps inverse, block steps inverse, block steps forward, row steps forward
    tables: Ptr[u64]


# ---------------------------------------------------------------- transforms in registers


class Term(NamedTuple):
    """``value``, or its negative: signs are tracked at compile time, so that -2^e costs no more than 2^e."""

    value: Any
    minus: bool = False

    def times(self, e: int) -> Term:
        """Product with 2^e."""
        e %= 192
        return Term(lazy_shift(self.value, e % 96), self.minus ^ (e >= 96))

    def resolved(self) -> Any:
        return P - canon(self.value) if self.minus else self.value


def butterfly(a: Term, b: Term) -> tuple[Term, Term]:
    """a + b and a - b."""
    c = canon(b.value)
    s, d = lazy_add_canonical(a.value, c), lazy_sub_canonical(a.value, c)
    if a.minus != b.minus:
        s, d = d, s
    return Term(s, a.minus), Term(d, a.minus)


def dif(values: list[Any], root: int, shift: list[int]) -> list[Any]:
    """Sum of x[m] w^(mk) over m, at the bit-reversed position of k; w = 2^root, x[m] = values[m] 2^shift[m]."""
    x = [Term(v).times(e) for v, e in zip(values, shift, strict=True)]
    h = len(x) // 2
    while h:
        for start in range(0, len(x), 2 * h):
            for j in range(h):
                x[start + j], d = butterfly(x[start + j], x[start + j + h])
                x[start + j + h] = d.times(root * j)
        h, root = h // 2, root * 2
    return [t.resolved() for t in x]


def dit(values: list[Any], root: int, shift: list[int]) -> list[Any]:
    """2^shift[k] times the sum of values[m] w^(k rev(m)) over m; w = 2^root."""
    x, h = [Term(v) for v in values], 1
    while h < len(x):
        unit = root * (len(x) // (2 * h))
        for start in range(0, len(x), 2 * h):
            for j in range(h):
                t = x[start + j + h].times(unit * j)
                x[start + j], x[start + j + h] = butterfly(x[start + j], t)
        h *= 2
    return [t.times(e).resolved() for t, e in zip(x, shift, strict=True)]


def transpose(x: list[Any]) -> list[Any]:
    """Eight vectors of eight lanes: lane i of vector j becomes lane j of vector i."""
    x = list(x)
    for d in (1, 2, 4):
        low = tuple(i if not i & d else 8 + (i ^ d) for i in range(8))
        high = tuple(i | d if not i & d else 8 + i for i in range(8))
        for i in range(8):
            if not i & d:
                x[i], x[i | d] = shuffle(x[i], x[i | d], low), shuffle(x[i], x[i | d], high)
    return x


def interleave(x: list[Any]) -> list[Any]:
    """Vectors whose lanes, in order, are x[0][0], x[1][0], ..., x[0][1], x[1][1], ..."""
    if len(x) == 1:
        return x
    even, odd = interleave(x[0::2]), interleave(x[1::2])
    low = tuple(i // 2 + 8 * (i & 1) for i in range(8))
    high = tuple(4 + i for i in low)
    return [shuffle(a, b, half) for a, b in zip(even, odd, strict=True) for half in (low, high)]


# ---------------------------------------------------------------- twiddles


def bit_reversal(log_n: int) -> np.ndarray:
    """rev(i) for i < 2^log_n."""
    r = np.zeros(1, dtype=np.int64)
    for _ in range(log_n):
        r = np.concatenate([2 * r, 2 * r + 1])
    return r


def root_log2(log_n: int, inverse: bool) -> int:
    """e with 2^e = w_n, or 1/w_n; n up to 64."""
    e = _LOG2[root_of_unity(log_n)]
    return -e if inverse else e


def none(x: list[Any], _: Any) -> list[Any]:
    """No twiddles."""
    return x


def splat(x: list[Any], tw: Any) -> list[Any]:
    """One word for each vector but the first."""
    return [x[0], *(lazy_mul(a, u64x8(tw[m])) for m, a in enumerate(x[1:]))]


def lanes(x: list[Any], tw: Any) -> list[Any]:
    """Eight words for each vector but the first."""
    return [x[0], *(lazy_mul(a, tw.load8(LANES * m)) for m, a in enumerate(x[1:]))]


def all_lanes(x: list[Any], tw: Any) -> list[Any]:
    """Eight words for each vector."""
    return [lazy_mul(a, tw.load8(LANES * m)) for m, a in enumerate(x)]


# ---------------------------------------------------------------- steps in memory


def make_step(k: int, inverse: bool, twiddle: Any, row: int | None = None) -> Any:
    """One transform of 2^k vectors, in rows ``xs`` words apart; stores to rows ``ys`` apart.

    With ``row`` it is a half of a 64-point transform, the one inside of vectors: for vector ``row`` of each of eight
    blocks. Between the halves come powers of w_64, which is a power of two.
    """
    root, size = root_log2(k, inverse), 1 << k
    unit = 0 if row is None else root_log2(6, inverse) * int(bit_reversal(3)[row])
    shift = [unit * m for m in range(size)]

    def turn(x: list[Any]) -> list[Any]:
        return x if row is None else transpose(x)

    def transform(x: list[Any], tw: Any) -> list[Any]:
        return twiddle(dif(turn(x), root, shift), tw) if inverse else turn(dit(twiddle(x, tw), root, shift))

    @function
    def step(x: Ptr[u64], xs: u64, y: Ptr[u64], ys: u64, tw: Ptr[u64]) -> None:
        out = transform([x.load8(xs * m) for m in range(size)], tw)
        for m in unroll(range(size)):
            y.store8(ys * m, out[m])

    return step


def make_sweep(k: int, inverse: bool, of_lanes: bool) -> Any:
    """One step of radix 2^k over ``rows`` rows: sub-transforms of 2^k * half rows.

    Twiddles belong to rows (the same for all lanes) or, with ``of_lanes``, to single elements.
    """
    size = 1 << k
    first, other = (make_step(k, inverse, t) for t in ((lanes, lanes) if of_lanes else (none, splat)))
    width = (size - 1) * (LANES if of_lanes else 1)

    @function
    def sweep(x: Ptr[u64], xs: u64, y: Ptr[u64], ys: u64, rows: u64, half: u64, tw: Ptr[u64]) -> None:
        start = u64(0)
        while start < rows:
            first(x.offset(start * xs), xs * half, y.offset(start * ys), ys * half, tw)
            for j in range(1, half):
                i = start + j
                other(x.offset(i * xs), xs * half, y.offset(i * ys), ys * half, tw.offset(j * width))
            start += half * size

    return sweep


def make_steps(inverse: bool, of_lanes: bool) -> Any:
    """The steps of a program, from rows ``xs`` apart at ``x`` to rows of eight words at ``y``."""
    sweep4, sweep8, sweep16 = (make_sweep(k, inverse, of_lanes) for k in (2, 3, 4))

    @function
    def steps(x: Ptr[u64], xs: u64, y: Ptr[u64], rows: u64, count: u64, program: Ptr[u64], tables: Ptr[u64]) -> None:
        source, stride = x, xs
        for s in range(count):
            half, tw = program[3 * s + 1], tables.offset(program[3 * s + 2])
            match program[3 * s]:
                case 2:
                    sweep4(source, stride, y, u64(LANES), rows, half, tw)
                case 3:
                    sweep8(source, stride, y, u64(LANES), rows, half, tw)
                case _:
                    sweep16(source, stride, y, u64(LANES), rows, half, tw)
            source, stride = y, u64(LANES)

    return steps


inverse_row_steps, forward_row_steps = make_steps(True, False), make_steps(False, False)
inverse_block_steps, forward_block_steps = make_steps(True, True), make_steps(False, True)


@function
def twist(x: Ptr[u64], xs: u64, y: Ptr[u64], ys: u64, rows: u64, point: Ptr[u64], powers: Ptr[u64],
          ahead: Ptr[u64], step: u64) -> None:
    """y[row] = x[row] * v^rev(row). ``point`` has v^(rows/2), ..., v^2, v; ``powers`` is scratch for ``rows`` vectors.

    Rows of the strip that comes next, ``step`` words apart at ``ahead``, are fetched into the cache meanwhile.
    """
    y.store8(0, x.load8(0))
    powers.store8(0, u64x8(1))
    ahead.prefetch(0)
    half, squares = u64(1), point
    while half < rows:
        z = squares.load8(0)
        for i in range(half):
            q = lazy_mul(powers.load8(LANES * i), z)
            k = half + i
            ahead.prefetch(step * k)
            powers.store8(LANES * k, q)
            y.store8(ys * k, lazy_mul(x.load8(xs * k), q))
        half, squares = half << 1, squares.offset(LANES)


@function
def inverse_rows(src: Ptr[u64], scratch: Ptr[u64], work: Ptr[u64], plan: Plan, lo: u64, hi: u64) -> None:
    """Pass 1 on the columns lo..hi, multiples of 8."""
    powers = work.offset(LANES * plan.rows)
    for c in range(lo, hi, LANES):
        inverse_row_steps(src.offset(c), plan.block, work, plan.rows, plan.row_steps, plan.program, plan.tables)
        point = plan.tables.offset(plan.points + c * plan.log_rows)
        twist(work, u64(LANES), scratch.offset(c), plan.stride, plan.rows, point, powers,
              src.offset(c + LANES), plan.block)


_PLAIN_INVERSE, _PLAIN_FORWARD = make_step(3, True, none), make_step(3, False, none)
_INSIDE_INVERSE = [make_step(3, True, none, m) for m in range(8)]
_INSIDE_FORWARD = [make_step(3, False, all_lanes, m) for m in range(8)]


@function
def to_coefficients(x: Ptr[u64], n: u64) -> None:
    """The last six inverse stages, in each 64 words; lane k of vector 8 l + m of 64 is then block k, coefficient 8 m + l."""
    for i in range(0, n, 512):
        for k in range(i, i + 512, 64):
            at = x.offset(k)
            _PLAIN_INVERSE(at, u64(8), at, u64(8), at)
        for m in unroll(range(8)):
            at = x.offset(i + 8 * m)
            _INSIDE_INVERSE[m](at, u64(64), at, u64(64), at)


@function
def to_values(x: Ptr[u64], scale: Ptr[u64], y: Ptr[u64], n: u64) -> None:
    """Scaling and the first six forward stages; undoes the order of :func:`to_coefficients`."""
    for i in range(0, n, 512):
        for m in unroll(range(8)):
            k = i + 8 * m
            _INSIDE_FORWARD[m](x.offset(k), u64(64), y.offset(k), u64(64), scale.offset(i + 64 * m))
        for k in range(i, i + 512, 64):
            at = y.offset(k)
            _PLAIN_FORWARD(at, u64(8), at, u64(8), at)


@function
def blocks(src: Ptr[u64], scratch: Ptr[u64], work: Ptr[u64], plan: Plan, lo: u64, hi: u64) -> None:
    """Pass 2 on the rows lo..hi of ``src``, which may be the first region of scratch."""
    vectors = plan.block >> 3
    inverse = plan.program.offset(3 * plan.row_steps)
    forward = inverse.offset(3 * plan.block_steps)
    for r in range(lo, hi):
        row = r * plan.stride
        inverse_block_steps(src.offset(row), u64(LANES), work, vectors, plan.block_steps, inverse, plan.tables)
        to_coefficients(work, plan.block)
        for t in range(plan.cosets):
            y = scratch.offset(row + t * plan.region)
            to_values(work, plan.tables.offset(plan.scale + t * plan.block), y, plan.block)
            forward_block_steps(y, u64(LANES), y, vectors, plan.block_steps, forward, plan.tables)


def make_weave(log_cosets: int, stream: bool) -> Any:
    """Rows of eight words of 2^log_cosets cosets become canonical rows in natural order."""
    cosets = 1 << log_cosets

    @function
    def weave(x: Ptr[u64], xs: u64, gap: u64, y: Ptr[u64], ys: u64, rows: u64) -> None:
        for r in range(rows):
            out = interleave([canon(x.load8(xs * r + gap * t)) for t in range(cosets)])
            for m in unroll(range(cosets)):
                if stream:
                    y.stream8(ys * r + 8 * m, out[m])
                else:
                    y.store8(ys * r + 8 * m, out[m])

    return weave


_WEAVES = [make_weave(k, stream) for k in range(4) for stream in (False, True)]


@function
def weave(x: Ptr[u64], xs: u64, gap: u64, y: Ptr[u64], ys: u64, rows: u64, kind: u64) -> None:
    """Weave of ``kind`` 2 log_cosets + 1 if ``y`` is aligned to 64 bytes."""
    for k in unroll(range(8)):
        if kind == k:
            _WEAVES[k](x, xs, gap, y, ys, rows)


@function
def forward_rows(scratch: Ptr[u64], dst: Ptr[u64], work: Ptr[u64], plan: Plan, kind: u64, lo: u64, hi: u64) -> None:
    """Pass 3 on the columns lo..hi of every coset, multiples of 8."""
    program = plan.program.offset(3 * (plan.row_steps + 2 * plan.block_steps))
    size = LANES * plan.rows
    powers = work.offset(size * plan.cosets)
    for c in range(lo, hi, LANES):
        for t in range(plan.cosets):
            y = work.offset(size * t)
            point = plan.tables.offset(plan.points + ((t + 1) * plan.block + c) * plan.log_rows)
            x = scratch.offset(t * plan.region + c)
            twist(x, plan.stride, y, u64(LANES), plan.rows, point, powers, x.offset(LANES), plan.stride)
            forward_row_steps(y, u64(LANES), y, plan.rows, plan.row_steps, program, plan.tables)
        weave(work, u64(LANES), size, dst.offset(plan.cosets * c), plan.cosets * plan.block, plan.rows, kind)


# ---------------------------------------------------------------- scalars


@function
def geometric(out: Ptr[u64], n: u64, first: u64, ratio: u64) -> None:
    """out[i] = first * ratio^i; n is a multiple of 8."""
    x = first
    for i in range(LANES):
        out[i] = x
        x = mul(x, ratio)
    step = u64x8(power(ratio, u64(LANES)))
    v = out.load8(0)
    for i in range(LANES, n, LANES):
        v = lazy_mul(v, step)
        out.store8(i, canon(v))


@function
def scale(x: Ptr[u64], n: u64, first: u64, ratio: u64) -> None:
    """x[i] *= first * ratio^i."""
    factor = first
    for i in range(n):
        x[i] = mul(x[i], factor)
        factor = mul(factor, ratio)


@function
def small_ntt(x: Ptr[u64], n: u64, root: u64) -> None:
    """In place, natural order: x[k] = sum of x[i] root^(ik); ``root`` has order n, a power of two."""
    j = u64(0)
    for i in range(1, n):  # j is i with its bits reversed
        bit = n >> 1
        while j & bit != 0:
            j = j ^ bit
            bit = bit >> 1
        j = j ^ bit
        if i < j:
            x[i], x[j] = x[j], x[i]
    half = u64(1)
    while half < n:
        w, unit = u64(1), power(root, n // (2 * half))
        for k in range(half):
            start = k
            while start < n:
                a, b = x[start], mul(x[start + half], w)
                x[start], x[start + half] = add(a, b), sub(a, b)
                start += 2 * half
            w = mul(w, unit)
        half = half << 1


@function
def combine(u: Ptr[u64], v: Ptr[u64], n: u64, a: u64, b: u64) -> None:
    """(u, v) = (a (u + v), b (u - v))."""
    for i in range(n):
        s, d = add(u[i], v[i]), sub(u[i], v[i])
        u[i] = mul(s, a)
        v[i] = mul(d, b)


LIBRARY = cpu.Library("ntt", [inverse_rows, blocks, forward_rows, weave, geometric, scale, small_ntt, combine],
                      packaged=True)


# ---------------------------------------------------------------- plans


def powers_of(ratio: int, n: int, first: int = 1) -> np.ndarray:
    """first * ratio^i for i < n."""
    out = np.empty(-(-n // LANES) * LANES, dtype=np.uint64)
    LIBRARY.geometric(out, out.size, first, ratio)
    return out[:n]


def radices(bits: int) -> list[int]:
    """Logs of the radices of steps that make up ``bits`` stages: 4 and 3, else 2."""
    if bits == 0:
        return []
    count = -(-bits // 4)
    return [bits // count + (i < bits % count) for i in range(count)]


def twiddles(log_n: int, steps: list[int], of_lanes: bool, inverse: bool) -> list[tuple[int, int, np.ndarray]]:
    """(radix log, half in rows, table) of the steps of a decimation in frequency over 2^log_n rows or elements."""
    n = 1 << log_n
    root = root_of_unity(log_n)
    roots = powers_of(pow(root, -1, P) if inverse else root, n)
    out, size = [], n
    for k in steps:
        half = size >> k
        j = np.arange(half).reshape(-1, 1, LANES if of_lanes else 1)
        exponents = j * bit_reversal(k)[1:, None] * (n // size)
        out.append((k, half // LANES if of_lanes else half, roots[exponents % n].ravel()))
        size = half
    return out


def twist_points(ratio: int, first: int, log_rows: int, block: int) -> np.ndarray:
    """For each strip of eight points first * ratio^c, c < block: their powers 2^(log_rows - 1), ..., 4, 2, 1."""
    out = np.empty((block // LANES, log_rows, LANES), dtype=np.uint64)
    for e in range(log_rows):
        out[:, log_rows - 1 - e] = powers_of(pow(ratio, 1 << e, P), block, pow(first, 1 << e, P)).reshape(-1, LANES)
    return out.ravel()


def split_size(log_n: int) -> tuple[int, int]:
    """Logs of rows and of elements of a block."""
    if log_n <= LOG_BLOCK:
        return 0, log_n
    log_rows = min(8, log_n - 9) if log_n <= 20 else min(12, log_n - 12)
    return log_rows, log_n - log_rows


class Scratch(threading.local):
    """Memory of one thread, grown when a bigger column comes."""

    def __init__(self) -> None:
        self.memory = np.empty(0, dtype=np.uint64)

    def words(self, n: int) -> np.ndarray:
        """At least n words on a 64-byte boundary, contents arbitrary."""
        if self.memory.size < n + LANES:
            self.memory = np.empty(n + LANES, dtype=np.uint64)
        return aligned(self.memory)


def aligned(a: np.ndarray) -> np.ndarray:
    """The part of ``a`` that begins on a 64-byte boundary."""
    return a[-(a.ctypes.data // 8) % LANES:]


_SCRATCH = Scratch()


class Extension:
    """Values on <w_n> to values on shift * <w_N>, N = n << log_blowup; use :func:`extension`, which keeps plans."""

    def __init__(self, log_n: int, log_blowup: int, shift: int = GENERATOR) -> None:
        if not (3 <= log_n <= 26 and 0 <= log_blowup <= 3):
            raise ValueError(f"no extension of 2^{log_n} values by 2^{log_blowup}")
        self.log_n, self.log_blowup, self.shift = log_n, log_blowup, shift
        self.n, self.size = 1 << log_n, 1 << log_n + log_blowup
        if log_n >= LOG_SMALL:
            self._plan()

    def _plan(self) -> None:
        """Fill the tables: twiddles of the four sets of steps, points, scales."""
        r, m = split_size(self.log_n)
        rows, block = 1 << r, 1 << m
        row_steps, block_steps = radices(r), radices(m - 6)
        inverse = twiddles(r, row_steps, False, True) + twiddles(m, block_steps, True, True)
        forward = twiddles(m, block_steps, True, False)[::-1] + twiddles(r, row_steps, False, False)[::-1]
        steps, program, at = inverse + forward, [], 0
        for k, half, table in steps:
            program += [k, half, at]
            at += table.size
        w_n, shifts = root_of_unity(self.log_n), self._shifts()
        points = [twist_points(pow(w_n, -1, P), 1, r, block), *(twist_points(w_n, g, r, block) for g in shifts)]
        order = bit_reversal(m).reshape(-1, 8, 8, 8).transpose(0, 2, 3, 1).ravel()
        scales = [powers_of(pow(g, rows, P), block, pow(self.n, -1, P))[order] for g in shifts]
        self._program = np.array(program, dtype=np.uint64)
        self._tables = np.concatenate([*(t for _, _, t in steps), *points, *scales])
        self._stride = block + PAD if r else block
        self.plan = Plan(r, rows, block, self._stride, rows * self._stride, len(shifts), len(row_steps),
                         len(block_steps), at, at + r * block * (1 + len(shifts)), self._program, self._tables)

    def _shifts(self) -> list[int]:
        """The g_t."""
        w = root_of_unity(self.log_n + self.log_blowup)
        return [self.shift * pow(w, t, P) % P for t in range(1 << self.log_blowup)]

    def extend(self, src: np.ndarray, dst: np.ndarray) -> None:
        """dst[j] = value at shift * w_N^j, canonical, of the polynomial with canonical value src[i] at w_n^i."""
        _check(src, self.n)
        _check(dst, self.size)
        if self.log_n < LOG_SMALL:
            dst[:] = evaluate(interpolate(src, 1), self.shift, self.log_n + self.log_blowup)
            return
        plan = self.plan
        rows, block, region = int(plan.rows), int(plan.block), int(plan.region)
        work_size = max(block, LANES * rows * (int(plan.cosets) + 1))
        work = _SCRATCH.words(work_size + region * int(plan.cosets))
        scratch = work[work_size:]
        kind = 2 * self.log_blowup + (dst.ctypes.data % 64 == 0)
        if rows == 1:
            LIBRARY.blocks(src, scratch, work, plan, 0, 1)
            self._weave_block(scratch, dst, kind)
            return
        for lo, hi in _ranges(block, rows):
            LIBRARY.inverse_rows(src, scratch, work, plan, lo, hi)
        for lo, hi in _ranges(rows, block):
            LIBRARY.blocks(scratch, scratch, work, plan, lo, hi)
        for lo, hi in _ranges(block, rows):
            LIBRARY.forward_rows(scratch, dst, work, plan, kind, lo, hi)

    def _weave_block(self, scratch: np.ndarray, dst: np.ndarray, kind: int) -> None:
        cosets = 1 << self.log_blowup
        LIBRARY.weave(scratch, LANES, int(self.plan.region), dst, LANES * cosets, self.n // LANES, kind)

    def split(self, values: np.ndarray, t0: np.ndarray, t1: np.ndarray) -> None:
        """Values of q0 and q1 on <w_n>, where q = q0 + x^n q1 has ``values`` on shift * <w_2n>; q has degree < 2n.

        On even points x^n = shift^n, on odd ones -shift^n: those halves are q0 + s q1 and q0 - s q1 on two cosets.
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
    """Ranges that cover n items of ``each`` elements, about SLICE elements at a time."""
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
    """Values on shift * <w>, of order 2^log_size, in natural order; for small sizes."""
    out = np.zeros(1 << log_size, dtype=np.uint64)
    out[: coefficients.size] = coefficients
    LIBRARY.scale(out, out.size, 1, shift)
    LIBRARY.small_ntt(out, out.size, root_of_unity(log_size))
    return out
