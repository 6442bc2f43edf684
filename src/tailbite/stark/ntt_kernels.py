"""Kernels of the low-degree extension; :mod:`.ntt` tells the algorithm and makes the tables they read.

All of them take any size at run time. Vectors are eight words; a block of B words is B / 8 rows of one vector, so that
the steps of the row passes and of the block pass are the same, and only their twiddles differ.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..field import (
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
from ..lang import LANES, Ptr, cpu, function, shuffle, u64, u64x8, unroll

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


def bit_reversed(i: int, bits: int) -> int:
    return int(f"{i:0{bits}b}"[::-1], 2)


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


def make_step(k: int, inverse: bool, twiddle: Any, part: int = 0, inside: bool = False) -> Any:
    """One transform of 2^k vectors, in rows ``xs`` words apart; stores to rows ``ys`` apart.

    A 64-point transform is two steps of eight, with powers of w_64, a power of two, between them. ``part`` says which
    of eight this step is: the second step of an inverse transform, the first of a forward one. ``inside`` a vector,
    it works on a vector of each of eight blocks.
    """
    root, size = root_log2(k, inverse), 1 << k
    shift = [root_log2(6, inverse) * bit_reversed(part, 3) * m for m in range(size)]

    def turn(x: list[Any]) -> list[Any]:
        return transpose(x) if inside else x

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


def make_wide_sweep(inverse: bool, of_lanes: bool) -> Any:
    """Like :func:`make_sweep` with radix 64; rows have no twiddles, so that half must be one."""
    outer = make_step(3, inverse, none)
    parts = [make_step(3, inverse, all_lanes if of_lanes else none, part) for part in range(8)]

    @function
    def outers(x: Ptr[u64], xs: u64, y: Ptr[u64], ys: u64, half: u64) -> None:
        for i in range(8):
            outer(x.offset(xs * half * i), 8 * xs * half, y.offset(ys * half * i), 8 * ys * half, x)

    @function
    def inners(x: Ptr[u64], xs: u64, y: Ptr[u64], ys: u64, half: u64, tw: Ptr[u64]) -> None:
        for i in unroll(range(8)):
            k = 8 * half * i
            parts[i](x.offset(xs * k), xs * half, y.offset(ys * k), ys * half, tw.offset(64 * i))

    @function
    def sweep(x: Ptr[u64], xs: u64, y: Ptr[u64], ys: u64, rows: u64, half: u64, tw: Ptr[u64]) -> None:
        for transform in range(rows // 64):
            j = transform % half
            i = 64 * (transform - j) + j
            a, b, factors = x.offset(xs * i), y.offset(ys * i), tw.offset(64 * LANES * j)
            if inverse:
                outers(a, xs, b, ys, half)
                inners(b, ys, b, ys, half, factors)
            else:
                inners(a, xs, b, ys, half, factors)
                outers(b, ys, b, ys, half)

    return sweep


def make_steps(inverse: bool, of_lanes: bool) -> Any:
    """The steps of a program, from rows ``xs`` apart at ``x`` to rows of eight words at ``y``."""
    sweeps = {k: make_sweep(k, inverse, of_lanes) for k in ((2, 3, 4) if of_lanes else (4,))}
    sweeps[6] = make_wide_sweep(inverse, of_lanes)

    @function
    def steps(x: Ptr[u64], xs: u64, y: Ptr[u64], rows: u64, count: u64, program: Ptr[u64], tables: Ptr[u64]) -> None:
        source, stride = x, xs
        for s in range(count):
            half, tw = program[3 * s + 1], tables.offset(program[3 * s + 2])
            for k in unroll(sweeps):
                if program[3 * s] == k:
                    sweeps[k](source, stride, y, u64(LANES), rows, half, tw)
            source, stride = y, u64(LANES)

    return steps


inverse_row_steps, forward_row_steps = make_steps(True, False), make_steps(False, False)
inverse_block_steps, forward_block_steps = make_steps(True, True), make_steps(False, True)


# ---------------------------------------------------------------- the three passes


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


_OUTER_INVERSE, _OUTER_FORWARD = make_step(3, True, none), make_step(3, False, none)
_INSIDE_INVERSE = [make_step(3, True, none, part, inside=True) for part in range(8)]
_INSIDE_FORWARD = [make_step(3, False, all_lanes, part, inside=True) for part in range(8)]


@function
def to_coefficients(x: Ptr[u64], n: u64) -> None:
    """The last six inverse stages, in each 64 words.

    Of eight such blocks, lane k of vector 8 l + m has then the coefficient 8 m + l of block k.
    """
    for i in range(0, n, 512):
        for k in range(i, i + 512, 64):
            at = x.offset(k)
            _OUTER_INVERSE(at, u64(8), at, u64(8), at)
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
            _OUTER_FORWARD(at, u64(8), at, u64(8), at)


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
    """Weave of ``kind`` 2 log_cosets, plus 1 if ``y`` is aligned to 64 bytes."""
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
            x, y = scratch.offset(t * plan.region + c), work.offset(size * t)
            point = plan.tables.offset(plan.points + ((t + 1) * plan.block + c) * plan.log_rows)
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
    """(u, v) = (a (u + v), b (u - v)), canonical; n is a multiple of 8."""
    for i in range(0, n, LANES):
        x, y = u.load8(i), v.load8(i)
        u.store8(i, mul(add(x, y), u64x8(a)))
        v.store8(i, mul(sub(x, y), u64x8(b)))


KERNELS = [inverse_rows, blocks, forward_rows, weave, geometric, scale, small_ntt, combine]
LIBRARY = cpu.Library("ntt", KERNELS, packaged=True)
