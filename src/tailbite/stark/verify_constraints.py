"""The verifier's check of all constraints at the out-of-domain point. Typed Python."""

from __future__ import annotations

from typing import NamedTuple

from ..field import Ext, P, ext_inv, ext_mul, ext_power, root_of_unity
from ..lang import Constants, Slice, function, length, u64
from .view import KEY_OUTPUT_BUS, KEY_START_BUS, Scratch, Shape, TableView, choose, reserve, table_at

ROOTS = Constants(root_of_unity(k) for k in range(33))
LAST_ROWS = Constants(pow(root_of_unity(k), -1, P) for k in range(33))  # the points of the last rows
INVERSE_HEIGHTS = Constants(pow(1 << k, -1, P) for k in range(33))


class Claim(NamedTuple):
    """Opened values and challenges: what the constraint check needs of the proof."""

    values: Slice[u64]
    sigmas: Slice[u64]
    output: Slice[u64]
    alpha: Ext
    beta: Ext
    challenge: Ext
    zeta: Ext


@function
def ext_at(words: Slice[u64], i: u64) -> Ext:
    """Extension element number ``i``."""
    return Ext(words[3 * i], words[3 * i + 1], words[3 * i + 2])


@function
def set_ext(words: Slice[u64], i: u64, x: Ext) -> None:
    """Store extension element number ``i``."""
    words[3 * i] = x.c0
    words[3 * i + 1] = x.c1
    words[3 * i + 2] = x.c2


@function
def invert_all(values: Slice[u64], prefix: Slice[u64]) -> None:
    """Invert every element in place (Montgomery's trick); none is zero, as zeta is outside the base field."""
    n = length(values) // 3
    product = Ext(u64(1), u64(0), u64(0))
    for i in range(n):
        set_ext(prefix, i, product)
        product = ext_mul(product, ext_at(values, i))
    rest = ext_inv(product)
    left = n
    while left != 0:
        left -= 1
        x = ext_at(values, left)
        set_ext(values, left, ext_mul(ext_at(prefix, left), rest))
        rest = ext_mul(rest, x)


@function
def check_constraints(key: Slice[u64], shape: Shape, c: Claim, s: Scratch) -> None:
    """For every height: the random combination of its tables' constraints is Z_H times the quotient, at zeta."""
    used = s.used[0]
    log = shape.top
    while log != 0:
        if shape.present[log] != 0:
            zeta_n = ext_power(c.zeta, u64(1) << log)
            first, last = row_selectors(c.zeta, zeta_n, log)
            power = Ext(u64(1), u64(0), u64(0))
            total = Ext(u64(0), u64(0), u64(0))
            chosen = choose(shape, log)
            for n in range(length(chosen)):
                i = chosen[n]
                table = table_at(key, shape.table[i])
                slots = evaluate(table, shape, i, c, first, last, s)
                for k in range(length(table.zeros)):
                    total = total + ext_mul(power, ext_at(slots, table.zeros[k]))
                    power = ext_mul(power, c.challenge)
                if table.interactions != 0:
                    total, power = logup(table, shape, i, c, slots, total, power)
                s.used[0] = used
            q = shape.quotient_term[log]
            quotient = ext_at(c.values, q) + ext_mul(zeta_n, ext_at(c.values, q + 1))
            expected = ext_mul(zeta_n.plus_base(P - 1), quotient)
            assert same(total, expected), "constraints: the quotient does not match at the out-of-domain point"
        log -= 1


@function
def same(a: Ext, b: Ext) -> bool:
    """Are two canonical elements equal?"""
    return (a.c0 == b.c0) & (a.c1 == b.c1) & (a.c2 == b.c2)


@function
def evaluate(table: TableView, shape: Shape, slot: u64, c: Claim, first: Ext, last: Ext, s: Scratch) -> Slice[u64]:
    """All slots of the table's program at zeta, as extension elements; ``first`` and ``last`` select rows."""
    columns = table.fixed + table.main
    first_op = columns + length(table.following) + 2 + length(table.publics) + length(table.constants)
    count = length(table.ops) // 3
    slots = reserve(s, 3 * (first_op + count))
    for k in range(table.fixed):
        set_ext(slots, k, ext_at(c.values, shape.fixed_term[slot] + k))
    for k in range(table.main + length(table.following)):
        set_ext(slots, table.fixed + k, ext_at(c.values, shape.main_term[slot] + k))
    at = columns + length(table.following)
    set_ext(slots, at, first)
    set_ext(slots, at + 1, last)
    at += 2
    for k in range(length(table.publics)):
        set_ext(slots, at, Ext(c.output[table.publics[k]], u64(0), u64(0)))
        at += 1
    for k in range(length(table.constants)):
        set_ext(slots, at, Ext(table.constants[k], u64(0), u64(0)))
        at += 1
    for k in range(count):
        a, b = ext_at(slots, table.ops[3 * k + 1]), ext_at(slots, table.ops[3 * k + 2])
        kind = table.ops[3 * k]
        if kind == 0:
            set_ext(slots, first_op + k, a + b)
        elif kind == 1:
            set_ext(slots, first_op + k, a - b)
        else:
            set_ext(slots, first_op + k, ext_mul(a, b))
    return slots


@function
def row_selectors(zeta: Ext, zeta_n: Ext, log: u64) -> tuple[Ext, Ext]:
    """Lagrange polynomials of the first and the last row of a table of n = 2^log rows, at zeta."""
    vanishing = zeta_n.plus_base(P - 1).scale(INVERSE_HEIGHTS[log])
    last_row = LAST_ROWS[log]
    first = ext_mul(vanishing, ext_inv(zeta.plus_base(P - 1)))
    last = ext_mul(vanishing.scale(last_row), ext_inv(zeta.plus_base(P - last_row)))
    return first, last


class Affine(NamedTuple):
    """Value of a serialised affine form, and where the words after it begin."""

    value: Ext
    end: u64


@function
def affine(words: Slice[u64], at: u64, slots: Slice[u64]) -> Affine:
    """Evaluate the affine form at ``at``."""
    total = Ext(words[at], u64(0), u64(0))
    count = words[at + 1]
    for k in range(count):
        total = total + ext_at(slots, words[at + 2 + 2 * k]).scale(words[at + 3 + 2 * k])
    return Affine(total, at + 2 + 2 * count)


class Fraction(NamedTuple):
    """Multiplicity and fingerprint of one bus message, and where the words after it begin."""

    m: Ext
    d: Ext
    end: u64


@function
def message_at(words: Slice[u64], at: u64, slots: Slice[u64], alpha: Ext, beta: Ext) -> Fraction:
    """The message at ``at``: fingerprint alpha - (bus + beta x1 + beta^2 x2 + ...)."""
    bus = words[at]
    m = affine(words, at + 1, slots)
    d = alpha.plus_base(P - bus)
    power = beta
    arity = words[m.end]
    i = m.end + 1
    for _k in range(arity):
        x = affine(words, i, slots)
        d = d - ext_mul(power, x.value)
        power = ext_mul(power, beta)
        i = x.end
    return Fraction(m.value, d, i)


@function
def logup(table: TableView, shape: Shape, slot: u64, c: Claim, slots: Slice[u64], start: Ext,
          start_power: Ext) -> tuple[Ext, Ext]:
    """Add the table's LogUp constraints to the combination: one for each pair of messages, the last cumulative."""
    total, power = start, start_power
    term = shape.logup_term[slot]
    pairs = shape.pairs[slot]
    step = ext_at(c.values, term + pairs) - ext_at(c.values, term + pairs - 1)
    step = step + ext_at(c.sigmas, shape.sigma[slot]).scale(INVERSE_HEIGHTS[shape.log[slot]])
    at = u64(0)
    for j in range(pairs):
        one = message_at(table.messages, at, slots, c.alpha, c.beta)
        at = one.end
        d, m = one.d, one.m
        if 2 * j + 1 < table.interactions:
            two = message_at(table.messages, at, slots, c.alpha, c.beta)
            at = two.end
            m = ext_mul(one.m, two.d) + ext_mul(two.m, one.d)
            d = ext_mul(one.d, two.d)
        phi = step
        if j + 1 < pairs:
            phi = ext_at(c.values, term + j)
            step = step - phi
        total = total + ext_mul(power, ext_mul(phi, d) - m)
        power = ext_mul(power, c.challenge)
    return total, power


@function
def check_balance(key: Slice[u64], c: Claim, sigma_count: u64, entry: u64, output_bytes: u64) -> None:
    """The claimed sums of all tables and the verifier's own messages add up to zero.

    Without a table that talks no challenges are drawn, so nothing could show that the verifier's messages cancel.
    """
    if sigma_count == 0:
        silent = (key[KEY_START_BUS] == 0) & ((key[KEY_OUTPUT_BUS] == 0) | (output_bytes == 0))
        assert silent, "balance: no table takes the verifier's messages"
        return
    total = Ext(u64(0), u64(0), u64(0))
    for k in range(sigma_count):
        total = total + ext_at(c.sigmas, k)
    # the verifier's messages as one fraction numerator / denominator
    numerator, denominator = Ext(u64(0), u64(0), u64(0)), Ext(u64(1), u64(0), u64(0))
    if key[KEY_START_BUS] != 0:
        beta2 = ext_mul(c.beta, c.beta)
        d = c.alpha.plus_base(P - key[KEY_START_BUS]) - c.beta.scale(entry) - beta2.scale(u64(4))
        numerator, denominator = Ext(u64(1), u64(0), u64(0)), d
    if key[KEY_OUTPUT_BUS] != 0:
        base = c.alpha.plus_base(P - key[KEY_OUTPUT_BUS])
        beta2 = ext_mul(c.beta, c.beta)
        for i in range(output_bytes):
            byte = (c.output[i >> 3] >> ((i & 7) << 3)) & 255
            d = base - c.beta.scale(i) - beta2.scale(byte)
            numerator = ext_mul(numerator, d) - denominator
            denominator = ext_mul(denominator, d)
    total = ext_mul(total, denominator) + numerator
    assert same(total, Ext(u64(0), u64(0), u64(0))), "balance: the bus messages do not cancel"
    assert not same(denominator, Ext(u64(0), u64(0), u64(0))), "balance: a challenge hits a message of the verifier"


@function
def zeta_row(zeta: Ext, log: u64) -> Ext:
    """The point that stands for the following row: w_n zeta."""
    return zeta.scale(ROOTS[log])


__all__ = ["ROOTS", "Claim", "check_balance", "check_constraints", "ext_at", "invert_all", "same", "set_ext",
           "zeta_row"]
