"""Compiled loops of the prover. Columns in, columns out; eight rows at a time; any representative inside.

A weight is an extension element for a sum of weight * column. With 52-bit multiply-add (AVX-512 IFMA) the products
are added unreduced, in nine accumulators, and reduced once: weights come split in (low 52, high 12 bits), six words.
At most ``MAX_TERMS`` terms may be added so; longer sums go in parts. Elsewhere the same words are put together and
multiplied plainly.
"""

from __future__ import annotations

from typing import Any

from ..field import (
    P,
    canon,
    lazy_add,
    lazy_ext_mul,
    lazy_mul,
    lazy_shift,
    lazy_sub,
    norm_and_adjugate,
)
from ..hash.keccak import ROUND_CONSTANTS, keccak_round
from ..lang import (
    Function,
    Ptr,
    bswap,
    cpu,
    function,
    lane,
    madd52hi,
    madd52lo,
    u64,
    u64x8,
    umin,
    unroll,
)
from ..lang.backend import Machine
from .fold import fold_values

BLOCK = 32  # rows that the constraint interpreter handles at a time
CHUNK = 256  # rows whose fractions are inverted together
PIECE = 8 * BLOCK  # rows whose weights are split at a time
WEIGHT_WORDS = 6
MAX_TERMS = 1365  # a term adds up to three 52-bit words to one accumulator: 3 * 1365 * 2^52 < 2^64
MASK52 = (1 << 52) - 1


class Accumulator:
    """Sum of weight * value over extension weights, for one vector of rows."""

    def __init__(self, ifma: bool) -> None:
        self.ifma = ifma

    def zero(self) -> Any:
        return (u64x8(0),) * (9 if self.ifma else 3)

    def add(self, acc: Any, x: Any, weight: Any) -> Any:
        """``weight``: six values (scalars or lanes), see the module's text."""
        if not self.ifma:
            w = [weight[2 * c] | weight[2 * c + 1] << 52 for c in range(3)]
            return tuple(lazy_add(acc[c], lazy_mul(x, lanes(w[c]))) for c in range(3))
        high = x >> 52
        out: list[Any] = []
        for c in range(3):
            w0, w1 = lanes(weight[2 * c]), lanes(weight[2 * c + 1])
            a0, a1, a2 = acc[3 * c:3 * c + 3]
            a0 = madd52lo(a0, x, w0)
            a1 = madd52lo(madd52lo(madd52hi(a1, x, w0), x, w1), high, w0)
            a2 = madd52lo(madd52hi(madd52hi(a2, x, w1), high, w0), high, w1)
            out += [a0, a1, a2]
        return tuple(out)

    def finish(self, acc: Any) -> tuple[Any, Any, Any]:
        """The sum as an extension element; 2^104 = -2^8."""
        if not self.ifma:
            return acc[0], acc[1], acc[2]
        parts = [lazy_sub(lazy_add(acc[3 * c], lazy_shift(acc[3 * c + 1], 52)), lazy_shift(acc[3 * c + 2], 8))
                 for c in range(3)]
        return parts[0], parts[1], parts[2]


def lanes(x: Any) -> Any:
    """A scalar in every lane; lanes as they are."""
    kind = getattr(x, "type", type(x))
    return x if kind is u64x8 else u64x8(x)


def ext_add(a: Any, b: Any) -> tuple[Any, Any, Any]:
    return lazy_add(a[0], b[0]), lazy_add(a[1], b[1]), lazy_add(a[2], b[2])


def ext_sub(a: Any, b: Any) -> tuple[Any, Any, Any]:
    return lazy_sub(a[0], b[0]), lazy_sub(a[1], b[1]), lazy_sub(a[2], b[2])


def ext_scale(a: Any, k: Any) -> tuple[Any, Any, Any]:
    return lazy_mul(a[0], k), lazy_mul(a[1], k), lazy_mul(a[2], k)


def load_ext(p: Any, stride: Any, i: Any) -> tuple[Any, Any, Any]:
    return p.load8(i), p.load8(stride + i), p.load8(2 * stride + i)


def store_ext(p: Any, stride: Any, i: Any, x: Any) -> None:
    for c in range(3):
        p.store8(stride * c + i, canon(x[c]))


# ---------------------------------------------------------------- inversion


@function
def squarings(x: u64x8, n: u64) -> u64x8:
    """x^(2^n)."""
    y = x
    for _i in range(n):
        y = lazy_mul(y, y)
    return y


@function
def invert_lanes(x: u64x8) -> u64x8:
    """x^(p - 2) by an addition chain: p - 2 = 2^33 (2^31 - 1) + 2^32 - 1."""
    x2 = lazy_mul(squarings(x, u64(1)), x)
    x3 = lazy_mul(squarings(x2, u64(1)), x)
    x6 = lazy_mul(squarings(x3, u64(3)), x3)
    x12 = lazy_mul(squarings(x6, u64(6)), x6)
    x24 = lazy_mul(squarings(x12, u64(12)), x12)
    x30 = lazy_mul(squarings(x24, u64(6)), x6)
    x31 = lazy_mul(squarings(x30, u64(1)), x)
    x32 = lazy_mul(squarings(x31, u64(1)), x)
    return lazy_mul(squarings(x31, u64(33)), x32)


@function
def invert_ext(values: Ptr[u64], stride: u64, scratch: Ptr[u64], n: u64) -> None:
    """Invert n extension elements (a multiple of 8; three arrays ``stride`` apart) in place.

    The norm goes to the base field, where Montgomery's trick runs in two chains of eight lanes. ``scratch``: 2 n
    words. A zero among them would spoil its lane; the callers' elements are zero with negligible probability.
    """
    even, odd = u64x8(1), u64x8(1)
    for i in range(0, n, 16):
        norm, _adjugate = norm_and_adjugate(load_ext(values, stride, i))
        scratch.store8(2 * i, norm)
        scratch.store8(2 * i + 8, even)
        even = lazy_mul(even, norm)
        if i + 8 < n:
            second, _adjugate2 = norm_and_adjugate(load_ext(values, stride, i + 8))
            scratch.store8(2 * i + 16, second)
            scratch.store8(2 * i + 24, odd)
            odd = lazy_mul(odd, second)
    both = invert_lanes(lazy_mul(even, odd))
    even, odd = lazy_mul(both, odd), lazy_mul(both, even)
    i = ((n + 8) >> 4) << 4
    while i != 0:
        i -= 16
        if i + 8 < n:
            odd = finish_inverse(values, stride, scratch, i + 8, odd)
        even = finish_inverse(values, stride, scratch, i, even)


def finish_inverse(values: Any, stride: Any, scratch: Any, i: Any, rest: Any) -> Any:
    """Replace one vector of elements by adjugate / norm; returns the product of inverses still to be used."""
    norm, prefix = scratch.load8(2 * i), scratch.load8(2 * i + 8)
    _, adjugate = norm_and_adjugate(load_ext(values, stride, i))
    store_ext(values, stride, i, ext_scale(adjugate, lazy_mul(rest, prefix)))
    return lazy_mul(rest, norm)


# ---------------------------------------------------------------- table rows


@function
def gather(columns: Ptr[Ptr[u64]], shifts: Ptr[u64], count: u64, stride: u64, mask: u64, block: Ptr[u64],
           first: u64, rows: u64) -> None:
    """Copy rows first .. first + rows - 1 of each column, every ``stride``-th word from its shift on, to ``block``."""
    for k in range(count):
        column = columns[k]
        to = block.offset(BLOCK * k)
        start = first * stride + shifts[k]
        if stride == 1 and start + rows <= mask + 1:
            for i in range(0, rows, 8):
                to.store8(i, column.load8(start + i))
        else:
            for i in range(rows):
                to[i] = column[(start + i * stride) & mask]


@function
def run_program(ops: Ptr[u64], count: u64, block: Ptr[u64], first_op: u64, rows: u64) -> None:
    """Execute a constraint program on a block of rows: slot s holds BLOCK words from BLOCK s on."""
    for k in range(count):
        a = block.offset(BLOCK * ops[3 * k + 1])
        b = block.offset(BLOCK * ops[3 * k + 2])
        to = block.offset(BLOCK * (first_op + k))
        match ops[3 * k]:
            case 0:
                for i in range(0, rows, 8):
                    to.store8(i, lazy_add(a.load8(i), b.load8(i)))
            case 1:
                for i in range(0, rows, 8):
                    to.store8(i, lazy_sub(a.load8(i), b.load8(i)))
            case _:
                for i in range(0, rows, 8):
                    to.store8(i, lazy_mul(a.load8(i), b.load8(i)))


@function
def broadcast(constants: Ptr[u64], count: u64, block: Ptr[u64]) -> None:
    """Fill one slot with each constant."""
    for k in range(count):
        for i in range(0, BLOCK, 8):
            block.store8(BLOCK * k + i, u64x8(constants[k]))


@function
def multiplicities(words: Ptr[u64], block: Ptr[u64], first_slot: u64, rows: u64) -> u64:
    """Evaluate a table's distinct multiplicities on a block, in slots from ``first_slot`` on.

    Words: their number; for each the number of terms, the constant, and (slot, coefficient) pairs. Returns the number
    of words.
    """
    at = u64(1)
    for k in range(words[0]):
        to = block.offset(BLOCK * (first_slot + k))
        terms = words[at]
        for i in range(0, rows, 8):
            m = u64x8(words[at + 1])
            for j in range(terms):
                w = words.offset(at + 2 + 2 * j)
                m = lazy_add(m, lazy_mul(block.load8(BLOCK * w[0] + i), u64x8(w[1])))
            to.store8(i, m)
        at += 2 + 2 * terms
    return at


@function
def next_message(words: Ptr[u64]) -> u64:
    """Length in words of a prepared bus message (see ``fingerprint``)."""
    return 6 + 7 * words[0]


def kernels(machine: Machine) -> list[Function]:
    """All compiled functions; those with accumulators depend on the CPU."""
    sums = Accumulator(machine.has("avx512ifma"))

    def weight_at(p: Any) -> list[Any]:
        return [p[j] for j in range(WEIGHT_WORDS)]

    @function
    def fingerprint(words: Ptr[u64], block: Ptr[u64], i: u64) -> tuple[u64x8, u64x8, u64x8]:
        """Fingerprint of a prepared bus message, for the rows of vector ``i`` of a block.

        Words of a message: number of terms, number of its multiplicity, how the latter goes with that of the message
        before it in the pair (ANY, SAME, OPPOSITE), constant (3 words), then a slot and six weight words a term.
        """
        terms = words[0]
        acc = sums.zero()
        at = u64(6)
        for _k in range(terms):
            acc = sums.add(acc, block.load8(BLOCK * words[at] + i), weight_at(words.offset(at + 1)))
            at += 7
        return ext_add(sums.finish(acc), (u64x8(words[3]), u64x8(words[4]), u64x8(words[5])))

    @function
    def fraction(words: Ptr[u64], block: Ptr[u64], first_multiplicity: u64, single: u64,
                 i: u64) -> tuple[u64x8, u64x8, u64x8, u64x8, u64x8, u64x8]:
        """Numerator and denominator of a pair of messages, or a ``single`` one: m/d + m2/e = (m e + m2 d) / (d e)."""
        zero = u64x8(0)
        m = block.load8(BLOCK * (first_multiplicity + words[1]) + i)
        d = fingerprint(words, block, i)
        n = (m, zero, zero)
        if single == 0:
            second = words.offset(next_message(words))
            e = fingerprint(second, block, i)
            match second[2]:
                case 1:
                    n = ext_scale(ext_add(d, e), m)
                case 2:
                    n = ext_scale(ext_sub(e, d), m)
                case _:
                    m2 = block.load8(BLOCK * (first_multiplicity + second[1]) + i)
                    n = ext_add(ext_scale(e, m), ext_scale(d, m2))
            d = lazy_ext_mul(d, e)
        return (*n, *d)

    @function
    def constraint_rows(columns: Ptr[Ptr[u64]], shifts: Ptr[u64], inputs: u64, stride: u64, mask: u64,
                        constants: Ptr[u64], constant_count: u64, ops: Ptr[u64], op_count: u64, zeros: Ptr[u64],
                        zero_count: u64, weights: Ptr[u64], messages: Ptr[u64], message_count: u64,
                        logup_weights: Ptr[u64], sigma: Ptr[u64], first_logup: u64, block: Ptr[u64], out: Ptr[u64],
                        out_stride: u64, lo: u64, hi: u64) -> None:
        """Add the random combination of a table's constraints on quotient rows lo .. hi - 1 to ``out``.

        Inputs are the table's columns in slot order (this row, following row, selectors), then the LogUp columns,
        whose slots begin with ``first_logup``; constants follow the selectors, so LogUp columns are copied behind
        all slots of the program, and multiplicities come last. ``messages`` are prepared (``multiplicities``, then
        ``fingerprint``); ``logup_weights`` three weights for each pair: w, and w times both roots of the extension.
        ``sigma``: claimed sum / height.
        """
        first_constant = inputs
        first_op = inputs + constant_count
        broadcast(constants, constant_count, block.offset(BLOCK * first_constant))
        pairs = (message_count + 1) >> 1
        extra = 0 * pairs
        if pairs != 0:
            extra = 3 * pairs + 3
        for first in range(lo, hi, BLOCK):
            rows = u64(BLOCK)
            if hi - first < rows:
                rows = hi - first
            gather(columns, shifts, inputs, stride, mask, block, first, rows)
            gather(columns.offset(inputs), shifts.offset(inputs), extra, stride, mask,
                   block.offset(BLOCK * first_logup), first, rows)
            run_program(ops, op_count, block, first_op, rows)
            first_message = multiplicities(messages, block, first_logup + extra, rows)
            for i in range(0, rows, 8):
                total = (u64x8(0), u64x8(0), u64x8(0))
                for part in range(0, zero_count, MAX_TERMS):
                    acc = sums.zero()
                    for k in range(part, part + umin(zero_count - part, MAX_TERMS)):
                        acc = sums.add(acc, block.load8(BLOCK * zeros[k] + i),
                                       weight_at(weights.offset(WEIGHT_WORDS * k)))
                    total = ext_add(total, sums.finish(acc))
                s = block.offset(BLOCK * first_logup)
                at = first_message
                step = (u64x8(0), u64x8(0), u64x8(0))
                if pairs != 0:
                    last = s.offset(BLOCK * (3 * pairs - 3))
                    here = (last.load8(i), last.load8(BLOCK + i), last.load8(2 * BLOCK + i))
                    there = (last.load8(3 * BLOCK + i), last.load8(4 * BLOCK + i), last.load8(5 * BLOCK + i))
                    step = ext_add(ext_sub(there, here), (u64x8(sigma[0]), u64x8(sigma[1]), u64x8(sigma[2])))
                acc = sums.zero()
                for j in range(pairs):
                    single = u64(2 * j + 1 == message_count)
                    n0, n1, n2, d0, d1, d2 = fraction(messages.offset(at), block, first_logup + extra, single, i)
                    at += next_message(messages.offset(at))
                    if single == 0:
                        at += next_message(messages.offset(at))
                    phi = step
                    if j + 1 < pairs:
                        p = s.offset(3 * BLOCK * j)
                        phi = (p.load8(i), p.load8(BLOCK + i), p.load8(2 * BLOCK + i))
                        step = ext_sub(step, phi)
                    value = ext_sub(lazy_ext_mul(phi, (d0, d1, d2)), (n0, n1, n2))
                    for c in unroll(range(3)):
                        acc = sums.add(acc, value[c], weight_at(logup_weights.offset(WEIGHT_WORDS * (3 * j + c))))
                total = ext_add(total, sums.finish(acc))
                place = first + i
                total = ext_add(total, load_ext(out, out_stride, place))
                store_ext(out, out_stride, place, total)

    @function
    def logup_rows(columns: Ptr[Ptr[u64]], shifts: Ptr[u64], inputs: u64, messages: Ptr[u64], message_count: u64,
                   block: Ptr[u64], chunk: Ptr[u64], scratch: Ptr[u64], out: Ptr[Ptr[u64]], lo: u64, hi: u64) -> None:
        """LogUp columns on trace rows lo .. hi - 1, at most CHUNK: pair sums, and in the last place the row's total.

        ``chunk`` has room for numerators and denominators of all pairs (6 words each and row), ``scratch`` for the
        inversion (2 words). ``block`` has a slot for each input and each multiplicity. ``out`` points to the three base
        columns of each pair's column.
        """
        pairs = (message_count + 1) >> 1
        rows = hi - lo
        size = pairs * rows
        bottom = chunk.offset(3 * size)
        for first in range(lo, hi, BLOCK):
            n = u64(BLOCK)
            if hi - first < n:
                n = hi - first
            gather(columns, shifts, inputs, u64(1), u64((1 << 40) - 1), block, first, n)
            first_message = multiplicities(messages, block, inputs, n)
            for i in range(0, n, 8):
                at = first_message
                for j in range(pairs):
                    single = u64(2 * j + 1 == message_count)
                    n0, n1, n2, d0, d1, d2 = fraction(messages.offset(at), block, inputs, single, i)
                    at += next_message(messages.offset(at))
                    if single == 0:
                        at += next_message(messages.offset(at))
                    place = j * rows + (first - lo) + i
                    store_ext(chunk, size, place, (n0, n1, n2))
                    store_ext(bottom, size, place, (d0, d1, d2))
        invert_ext(bottom, size, scratch, size)
        for i in range(0, rows, 8):
            total = (u64x8(0), u64x8(0), u64x8(0))
            for j in range(pairs):
                place = j * rows + i
                phi = lazy_ext_mul(load_ext(chunk, size, place), load_ext(bottom, size, place))
                total = ext_add(total, phi)
                if j + 1 < pairs:
                    for c in unroll(range(3)):
                        out[3 * j + c].store8(lo + i, canon(phi[c]))
            for c in unroll(range(3)):
                out[3 * pairs - 3 + c].store8(lo + i, canon(total[c]))

    @function
    def weighted_sum(columns: Ptr[Ptr[u64]], count: u64, weights: Ptr[u64], out: Ptr[u64], stride: u64, lo: u64,
                     hi: u64) -> None:
        """out = sum of weights[k] * columns[k] on rows lo .. hi - 1 (multiples of 16)."""
        for i in range(lo, hi, 16):
            first, second = (u64x8(0), u64x8(0), u64x8(0)), (u64x8(0), u64x8(0), u64x8(0))
            for part in range(0, count, MAX_TERMS):
                one, two = sums.zero(), sums.zero()
                for k in range(part, part + umin(count - part, MAX_TERMS)):
                    p = columns[k]
                    w = weight_at(weights.offset(WEIGHT_WORDS * k))
                    p.prefetch(i + 16)
                    one = sums.add(one, p.load8(i), w)
                    two = sums.add(two, p.load8(i + 8), w)
                first, second = ext_add(first, sums.finish(one)), ext_add(second, sums.finish(two))
            store_ext(out, stride, i, first)
            store_ext(out, stride, i + 8, second)

    @function
    def split_weights(weights: Ptr[u64], stride: u64, powers: Ptr[u64], out: Ptr[u64], lo: u64, rows: u64) -> None:
        """out[2 c + part][i] = the 52-bit parts of powers[lo + i] * weights[c][lo + i]; out has BLOCK * 8 a row."""
        for i in range(0, rows, 8):
            for c in unroll(range(3)):
                x = canon(lazy_mul(weights.load8(stride * c + lo + i), powers.load8(lo + i)))
                out.store8(8 * BLOCK * (2 * c) + i, x & MASK52)
                out.store8(8 * BLOCK * (2 * c + 1) + i, x >> 52)

    @function
    def dot_rows(columns: Ptr[Ptr[u64]], count: u64, weights: Ptr[u64], acc: Ptr[u64], lo: u64, rows: u64) -> None:
        """Add the sums over rows lo .. lo + rows - 1 (rows <= 8 BLOCK) of weight * column to three vectors each."""
        for k in range(count):
            p = columns[k]
            total = sums.zero()
            for i in range(0, rows, 8):
                w = [weights.load8(8 * BLOCK * j + i) for j in range(WEIGHT_WORDS)]
                total = sums.add(total, p.load8(lo + i), w)
            s = sums.finish(total)
            for c in unroll(range(3)):
                acc.store8(24 * k + 8 * c, canon(lazy_add(s[c], acc.load8(24 * k + 8 * c))))

    @function
    def logup_range(columns: Ptr[Ptr[u64]], shifts: Ptr[u64], inputs: u64, messages: Ptr[u64], message_count: u64,
                    block: Ptr[u64], chunk: Ptr[u64], scratch: Ptr[u64], out: Ptr[Ptr[u64]], lo: u64,
                    hi: u64) -> None:
        """As :func:`logup_rows` for any number of rows, CHUNK at a time."""
        for first in range(lo, hi, CHUNK):
            logup_rows(columns, shifts, inputs, messages, message_count, block, chunk, scratch, out, first,
                       first + umin(u64(CHUNK), hi - first))

    @function
    def dot_range(columns: Ptr[Ptr[u64]], count: u64, weights: Ptr[u64], stride: u64, powers: Ptr[u64],
                  split: Ptr[u64], acc: Ptr[u64], lo: u64, hi: u64) -> None:
        """Add the sums over rows lo .. hi - 1 of weight * power * column, PIECE rows at a time; see ``dot_rows``.

        ``split`` has room for 6 PIECE words.
        """
        for first in range(lo, hi, PIECE):
            rows = umin(u64(PIECE), hi - first)
            split_weights(weights, stride, powers, split, first, rows)
            dot_rows(columns, count, split, acc, first, rows)

    return [invert_ext, constraint_rows, logup_rows, logup_range, weighted_sum, split_weights, dot_rows, dot_range,
            *plain_kernels()]


# ---------------------------------------------------------------- columns


@function
def geometric(out: Ptr[u64], n: u64, first: Ptr[u64], ratio8: u64) -> None:
    """out[i + 8] = out[i] * ratio8, from the eight words of ``first``; n is a multiple of 8."""
    x = first.load8(0)
    for i in range(0, n, 8):
        out.store8(i, canon(x))
        x = lazy_mul(x, u64x8(ratio8))


@function
def subtract_point(xs: Ptr[u64], point: Ptr[u64], out: Ptr[u64], stride: u64, lo: u64, hi: u64) -> None:
    """out = x - point, extension, for base x."""
    p = (u64x8(point[0]), u64x8(point[1]), u64x8(point[2]))
    for i in range(lo, hi, 8):
        store_ext(out, stride, i, ext_sub((xs.load8(i), u64x8(0), u64x8(0)), p))


@function
def running_sum(c0: Ptr[u64], c1: Ptr[u64], c2: Ptr[u64], n: u64, sigma: Ptr[u64], step: Ptr[u64]) -> None:
    """Replace row totals by the sums of the rows before, less i * step; with step = sigma / n it is cyclic."""
    for c in unroll(range(3)):
        column = (c0, c1, c2)[c]
        total = u64(0)
        for i in range(n):
            x = column[i]
            column[i] = total
            total = canon(lazy_sub(lazy_add(total, x), step[c]))
        sigma[c] = total


@function
def sum_column(column: Ptr[u64], n: u64) -> u64:
    """Sum of n words (a multiple of 8) mod p."""
    acc = u64x8(0)
    for i in range(0, n, 8):
        acc = lazy_add(acc, column.load8(i))
    total = u64(0)
    for k in unroll(range(8)):
        total = canon(lazy_add(total, canon(lane(acc, k))))
    return total


@function
def scale_alternating(values: Ptr[u64], stride: u64, factors: Ptr[u64], lo: u64, hi: u64) -> None:
    """Multiply extension rows by eight repeating base factors."""
    f = factors.load8(0)
    for i in range(lo, hi, 8):
        store_ext(values, stride, i, ext_scale(load_ext(values, stride, i), f))


@function
def batch_quotients(here: Ptr[u64], following: Ptr[u64], inverses: Ptr[u64], claims: Ptr[u64], out: Ptr[u64],
                    n: u64, shift: u64, lo: u64, hi: u64) -> None:
    """out = (here - y1) / (x - z) + (following - y2) / (x - w z).

    ``inverses``: 1 / (x - z) as three arrays of n + 64 words, the row i at 64 + i with the last rows before it:
    1 / (x_i - w z) = w^-1 / (x_(i - shift) - z). ``claims``: y1, y2, w^-1.
    """
    y1 = (u64x8(claims[0]), u64x8(claims[1]), u64x8(claims[2]))
    y2 = (u64x8(claims[3]), u64x8(claims[4]), u64x8(claims[5]))
    w = u64x8(claims[6])
    stride = n + 64
    for i in range(lo, hi, 8):
        a = lazy_ext_mul(ext_sub(load_ext(here, n, i), y1), load_ext(inverses, stride, 64 + i))
        d = ext_scale(load_ext(inverses, stride, 64 + i - shift), w)
        b = lazy_ext_mul(ext_sub(load_ext(following, n, i), y2), d)
        store_ext(out, n, i, ext_add(a, b))


@function
def add_scaled(acc: Ptr[u64], x: Ptr[u64], factor: Ptr[u64], n: u64, lo: u64, hi: u64) -> None:
    """acc += factor * x, extension columns of n rows."""
    f = (u64x8(factor[0]), u64x8(factor[1]), u64x8(factor[2]))
    for i in range(lo, hi, 8):
        store_ext(acc, n, i, ext_add(load_ext(acc, n, i), lazy_ext_mul(load_ext(x, n, i), f)))


def make_fold(arity: int) -> Function:
    """FRI fold of ``arity`` values (see fold.py) on extension columns of m rows to m / arity."""
    scale = pow(arity, -1, P)

    @function
    def fold(values: Ptr[u64], m: u64, inverse_points: Ptr[u64], beta: Ptr[u64], out: Ptr[u64], lo: u64,
             hi: u64) -> None:
        rows = m // arity
        b = (u64x8(beta[0]), u64x8(beta[1]), u64x8(beta[2]))
        for i in range(lo, hi, 8):
            leaf = [tuple([values.load8(m * c + rows * t + i) for c in range(3)]) for t in range(arity)]
            y = fold_values(leaf, ext_scale(b, inverse_points.load8(i)))
            store_ext(out, rows, i, ext_scale(y, u64x8(scale)))

    fold.name = f"fold{arity}"
    return fold


@function
def find_nonce(block: Ptr[u64], bits: u64, first: u64, count: u64) -> u64:
    """Smallest nonce in first .. first + count - 1 (a multiple of 8) whose digest has ``bits`` zero bits; or -1.

    ``block``: the six words that precede the nonce.
    """
    start = u64x8((0, 1, 2, 3, 4, 5, 6, 7))
    zero = u64x8(0)
    for i in range(0, count, 8):
        s = (*[u64x8(block[k]) for k in range(6)], start + u64x8(first + i), u64x8(1), *([zero] * 8),
             u64x8(1 << 63), *([zero] * 8))
        for r in range(24):
            s = keccak_round(s, u64x8(ROUND_CONSTANTS[r]))
        for k in unroll(range(8)):
            if bswap(lane(s[0], k)) >> (64 - bits) == 0:
                return first + i + k
    return u64((1 << 64) - 1)


def plain_kernels() -> list[Function]:
    """Compiled functions that are the same for every CPU."""
    return [geometric, subtract_point, running_sum, sum_column, scale_alternating, batch_quotients, add_scaled,
            make_fold(2), make_fold(4), make_fold(8), find_nonce]


library = cpu.Library("kernels", kernels, packaged=True)
