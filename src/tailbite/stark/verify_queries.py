"""The verifier's query phase: opened rows, the batched quotients they imply, and FRI. Typed Python."""

from __future__ import annotations

from typing import NamedTuple

from ..channel import Label, Reader, challenge, challenge_below, field_message, message
from ..channel import record as record_event
from ..field import GENERATOR, P, Ext, ext_inv, ext_mul, inv, mul, power, root_of_unity, sub
from ..hash.keccak import keccak256_words
from ..lang import Array, Slice, bswap, function, length, u64, unroll
from ..transcript import squeeze
from .params import FINAL_LOG_DEGREE, MAX_LOG_FOLD
from .verify_constraints import ROOTS, Claim, ext_at, set_ext, zeta_row
from .verify_trees import (
    Digests,
    Sets,
    begin_rows,
    check_tree,
    clear_digests,
    find,
    index_sets,
    members,
    new_digests,
    read_row,
)
from .view import PROGRAM, UNIVERSAL, Scratch, Shape, pairs_of, reserve, table_at

MAIN, LOGUP, QUOTIENT = 3, 4, 5
POW_TAG = int.from_bytes(b"tb pow\0\0", "little")
ROOT8_POWERS = [pow(root_of_unity(3), -k, P) for k in range(8)]


class Roots(NamedTuple):
    """Committed roots by tree, four words each; FRI roots in a row."""

    universal: Slice[u64]
    program: Slice[u64]
    main: Slice[u64]
    logup: Slice[u64]
    quotient: Slice[u64]


class Folding(NamedTuple):
    """FRI messages: for each step the root, beta and lambda; sizes; and the final polynomial."""

    steps: u64
    sizes: Slice[u64]
    roots: Slice[u64]
    betas: Slice[u64]
    lambdas: Slice[u64]
    final: Slice[u64]


class Sums(NamedTuple):
    """For each log size with rows and each member of its set: batched values at zeta, and at the following row."""

    at: Slice[u64]
    here: Slice[u64]
    following: Slice[u64]


# ---------------------------------------------------------------- messages


@function
def batching_weights(ch: Reader, terms: u64, s: Scratch) -> Slice[u64]:
    """Weight of term t: the product of challenge k over the set bits k of t."""
    weights = reserve(s, 3 * terms)
    set_ext(weights, u64(0), Ext(u64(1), u64(0), u64(0)))
    size = u64(1)
    while size < terms:
        r = challenge(ch, u64(int(Label.BATCHING)))
        for i in range(size):
            if size + i < terms:
                set_ext(weights, size + i, ext_mul(ext_at(weights, i), r))
        size = size << 1
    return weights


@function
def next_size(shape: Shape, size: u64, final: u64) -> u64:
    """Log size after folding 2^size: by up to 8, but not past the next size at which a codeword joins."""
    target = final
    if size >= final + MAX_LOG_FOLD:
        target = size - MAX_LOG_FOLD
    k = size - 1
    while k > target:
        if k >= shape.blowup and shape.present[k - shape.blowup] != 0:
            target = k
        else:
            k -= 1
    return target


@function
def read_folding(ch: Reader, shape: Shape, s: Scratch) -> Folding:
    """Commit phase of FRI, then the final polynomial."""
    f = Folding(u64(0), reserve(s, u64(40)), reserve(s, u64(4 * 40)), reserve(s, u64(3 * 40)), reserve(s, u64(3 * 40)),
                reserve(s, u64(0)))
    final = shape.blowup + FINAL_LOG_DEGREE
    size = shape.top + shape.blowup
    f.sizes[0] = size
    steps = u64(0)
    while size > final:
        root = message(ch, u64(int(Label.FRI_ROOT)), u64(4))
        for k in unroll(range(4)):
            f.roots[4 * steps + k] = root[k]
        set_ext(f.betas, steps, challenge(ch, u64(int(Label.FRI_BETA))))
        size = next_size(shape, size, final)
        if shape.present[size - shape.blowup] != 0:
            set_ext(f.lambdas, steps, challenge(ch, u64(int(Label.FRI_LAMBDA))))
        steps += 1
        f.sizes[steps] = size
    poly = field_message(ch, u64(int(Label.FINAL)), u64(3 << FINAL_LOG_DEGREE))
    return Folding(steps, f.sizes, f.roots, f.betas, f.lambdas, poly)


@function
def check_work(ch: Reader, bits: u64) -> None:
    """Proof of work before the queries; 0 bits: nothing is sent."""
    if bits == 0:
        return
    seed = squeeze(ch.t)
    record_event(ch, u64(int(Label.POW_SEED)), u64(2), u64(4), seed.w0)
    nonce = message(ch, u64(int(Label.NONCE)), u64(1))
    block = Array[u64, 7]()
    digest = Array[u64, 4]()
    block[0] = u64(POW_TAG)
    block[1], block[2], block[3], block[4] = seed.w0, seed.w1, seed.w2, seed.w3
    block[5] = bits
    block[6] = nonce[0]
    keccak256_words(block, digest)
    assert bswap(digest[0]) >> (64 - bits) == 0, "work: the nonce does not reach the difficulty"


@function
def draw_queries(ch: Reader, count: u64, top: u64, s: Scratch) -> Slice[u64]:
    """Query indices below 2^top, with replacement."""
    queries = reserve(s, count)
    for i in range(count):
        queries[i] = challenge_below(ch, u64(int(Label.INDEX)), u64(1) << top)
    return queries


# ---------------------------------------------------------------- opened rows


@function
def check_queries(ch: Reader, key: Slice[u64], shape: Shape, c: Claim, weights: Slice[u64], roots: Roots,
                  f: Folding, queries: Slice[u64], program_logs: Slice[u64], s: Scratch) -> None:
    """Open all trees at the queries, and check that the folded codewords agree with the rows."""
    top = shape.top + shape.blowup
    for tree in range(UNIVERSAL, PROGRAM + 1):
        highest = highest_fixed(key, shape, tree, program_logs)
        assert highest <= top, "shape: a preprocessed table is higher than every table of the proof"
    sets = index_sets(queries, top, s)
    digests = new_digests(sets, top, s)
    sums = new_sums(shape, sets, s)
    open_fixed(ch, key, shape, u64(UNIVERSAL), weights, sets, digests, sums, roots.universal, program_logs, s)
    open_fixed(ch, key, shape, u64(PROGRAM), weights, sets, digests, sums, roots.program, program_logs, s)
    open_main(ch, key, shape, weights, sets, digests, sums, roots.main, s)
    open_logup(ch, key, shape, weights, sets, digests, sums, roots.logup, s)
    open_quotient(ch, shape, weights, sets, digests, sums, roots.quotient, s)
    codewords = batched_quotients(key, shape, c, weights, sets, sums, s)
    check_folds(ch, shape, f, sets, digests, sums, codewords, s)


@function
def highest_fixed(key: Slice[u64], shape: Shape, tree: u64, program_logs: Slice[u64]) -> u64:
    """Log size of the largest matrix in a preprocessed tree; 0 if the tree is empty."""
    best = u64(0)
    programs = u64(0)
    for i in range(shape.slots):
        table = table_at(key, shape.table[i])
        if shape.instance[i] == 0 and table.fixed_in == tree:
            log = table.min_log
            if tree == PROGRAM:
                log = program_logs[programs]
                programs += 1
            if log != 0 and log + shape.blowup > best:
                best = log + shape.blowup
    return best


@function
def new_sums(shape: Shape, sets: Sets, s: Scratch) -> Sums:
    """Zeroed sums for every height present."""
    at = reserve(s, u64(64))
    total = u64(0)
    for log in range(1, shape.top + 1):
        if shape.present[log] != 0:
            at[log + shape.blowup] = total
            total += sets.count[log + shape.blowup]
    sums = Sums(at, reserve(s, 3 * total), reserve(s, 3 * total))
    for i in range(3 * total):
        sums.here[i] = u64(0)
        sums.following[i] = u64(0)
    return sums


@function
def add_base(sums: Slice[u64], i: u64, weights: Slice[u64], term: u64, row: Slice[u64], count: u64) -> None:
    """sums[i] += the weighted sum of ``count`` base values, for terms from ``term`` on."""
    total = ext_at(sums, i)
    for k in range(count):
        total = total + ext_at(weights, term + k).scale(row[k])
    set_ext(sums, i, total)


@function
def open_fixed(ch: Reader, key: Slice[u64], shape: Shape, tree: u64, weights: Slice[u64], sets: Sets, d: Digests,
               sums: Sums, root: Slice[u64], program_logs: Slice[u64], s: Scratch) -> None:
    """A preprocessed tree is opened whole; tables absent from the proof are not batched."""
    top = highest_fixed(key, shape, tree, program_logs)
    if top == 0:
        return
    clear_digests(d)
    k = top
    while k != 0:
        width = fixed_width(key, shape, tree, k, program_logs)
        if width != 0:
            begin_rows(d, k)
            for j in range(sets.count[k]):
                row = read_row(ch, width, d)
                at = u64(0)
                programs = u64(0)
                for i in range(shape.slots):
                    table = table_at(key, shape.table[i])
                    if shape.instance[i] == 0 and table.fixed_in == tree:
                        log = table.min_log
                        if tree == PROGRAM:
                            log = program_logs[programs]
                            programs += 1
                        if log != 0 and log + shape.blowup == k:
                            if shape.log[i] != 0:
                                add_base(sums.here, sums.at[k] + j, weights, shape.fixed_term[i],
                                         row[at:at + table.fixed], table.fixed)
                            at += table.fixed
        k -= 1
    check_tree(ch, sets, top, d, root, s)


@function
def fixed_width(key: Slice[u64], shape: Shape, tree: u64, k: u64, program_logs: Slice[u64]) -> u64:
    """Words of a row of a preprocessed tree at log size ``k``."""
    width = u64(0)
    programs = u64(0)
    for i in range(shape.slots):
        table = table_at(key, shape.table[i])
        if shape.instance[i] == 0 and table.fixed_in == tree:
            log = table.min_log
            if tree == PROGRAM:
                log = program_logs[programs]
                programs += 1
            if log != 0 and log + shape.blowup == k:
                width += table.fixed
    return width


@function
def open_main(ch: Reader, key: Slice[u64], shape: Shape, weights: Slice[u64], sets: Sets, d: Digests, sums: Sums,
              root: Slice[u64], s: Scratch) -> None:
    """Rows of the main tree."""
    clear_digests(d)
    top = u64(0)
    log = shape.top
    while log != 0:
        k = log + shape.blowup
        width = u64(0)
        for i in range(shape.slots):
            if shape.log[i] == log:
                width += table_at(key, shape.table[i]).main
        if width != 0:
            if top == 0:
                top = k
            begin_rows(d, k)
            for j in range(sets.count[k]):
                row = read_row(ch, width, d)
                at = u64(0)
                for i in range(shape.slots):
                    if shape.log[i] == log:
                        table = table_at(key, shape.table[i])
                        part = row[at:at + table.main]
                        place, term = sums.at[k] + j, shape.main_term[i]
                        add_base(sums.here, place, weights, term, part, table.main)
                        for n in range(length(table.following)):
                            column = table.following[n] - table.fixed
                            add_base(sums.following, place, weights, term + table.main + n,
                                     part[column:column + 1], u64(1))
                        at += table.main
        log -= 1
    if top != 0:
        check_tree(ch, sets, top, d, root, s)


@function
def open_logup(ch: Reader, key: Slice[u64], shape: Shape, weights: Slice[u64], sets: Sets, d: Digests, sums: Sums,
               root: Slice[u64], s: Scratch) -> None:
    """Rows of the LogUp tree: extension columns, the last of which is opened in the following row too."""
    clear_digests(d)
    top = u64(0)
    log = shape.top
    while log != 0:
        k = log + shape.blowup
        width = u64(0)
        for i in range(shape.slots):
            if shape.log[i] == log:
                width += 3 * pairs_of(table_at(key, shape.table[i]).interactions)
        if width != 0:
            if top == 0:
                top = k
            begin_rows(d, k)
            for j in range(sets.count[k]):
                row = read_row(ch, width, d)
                at = u64(0)
                for i in range(shape.slots):
                    if shape.log[i] == log:
                        pairs = pairs_of(table_at(key, shape.table[i]).interactions)
                        if pairs != 0:
                            part = row[3 * at:3 * (at + pairs)]
                            place, term = sums.at[k] + j, shape.logup_term[i]
                            add_ext(sums.here, place, weights, term, part)
                            add_ext(sums.following, place, weights, term + pairs,
                                    part[3 * pairs - 3:3 * pairs])
                            at += pairs
        log -= 1
    if top != 0:
        check_tree(ch, sets, top, d, root, s)


@function
def add_ext(sums: Slice[u64], i: u64, weights: Slice[u64], term: u64, row: Slice[u64]) -> None:
    """sums[i] += the weighted sum of the extension values in ``row``, for terms from ``term`` on."""
    total = ext_at(sums, i)
    for k in range(length(row) // 3):
        total = total + ext_mul(ext_at(weights, term + k), ext_at(row, k))
    set_ext(sums, i, total)


@function
def open_quotient(ch: Reader, shape: Shape, weights: Slice[u64], sets: Sets, d: Digests, sums: Sums,
                  root: Slice[u64], s: Scratch) -> None:
    """Rows of the quotient tree: two extension columns at every height."""
    clear_digests(d)
    log = shape.top
    while log != 0:
        if shape.present[log] != 0:
            k = log + shape.blowup
            begin_rows(d, k)
            for j in range(sets.count[k]):
                add_ext(sums.here, sums.at[k] + j, weights, shape.quotient_term[log], read_row(ch, u64(6), d))
        log -= 1
    check_tree(ch, sets, shape.top + shape.blowup, d, root, s)


# ---------------------------------------------------------------- codewords and folds


class Points(NamedTuple):
    """Batched claimed values of one height: at zeta, and at the following row."""

    here: Ext
    following: Ext


@function
def claimed(key: Slice[u64], shape: Shape, c: Claim, weights: Slice[u64], log: u64) -> Points:
    """Weighted sums of the opened values of the tables of height 2^log."""
    here, following = Ext(u64(0), u64(0), u64(0)), Ext(u64(0), u64(0), u64(0))
    for i in range(shape.slots):
        if shape.log[i] == log:
            table = table_at(key, shape.table[i])
            if table.fixed != 0:
                here = here + weighted(weights, c.values, shape.fixed_term[i], table.fixed)
            term = shape.main_term[i]
            here = here + weighted(weights, c.values, term, table.main)
            following = following + weighted(weights, c.values, term + table.main, length(table.following))
            pairs = pairs_of(table.interactions)
            if pairs != 0:
                here = here + weighted(weights, c.values, shape.logup_term[i], pairs)
                following = following + weighted(weights, c.values, shape.logup_term[i] + pairs, u64(1))
    here = here + weighted(weights, c.values, shape.quotient_term[log], u64(2))
    return Points(here, following)


@function
def weighted(weights: Slice[u64], values: Slice[u64], term: u64, count: u64) -> Ext:
    """Sum of weight * value over ``count`` terms."""
    total = Ext(u64(0), u64(0), u64(0))
    for k in range(count):
        total = total + ext_mul(ext_at(weights, term + k), ext_at(values, term + k))
    return total


@function
def batched_quotients(key: Slice[u64], shape: Shape, c: Claim, weights: Slice[u64], sets: Sets, sums: Sums,
                      s: Scratch) -> Slice[u64]:
    """Value of each height's codeword at its queried points; placed as the sums are.

    (row - claimed)(zeta) / (x - zeta) + (row - claimed)(w_n zeta) / (x - w_n zeta) with x = 7 w^i.
    """
    total = length(sums.here) // 3
    out = reserve(s, 3 * total)
    used = s.used[0]
    denominators, prefix = reserve(s, 6 * total), reserve(s, 6 * total)
    for log in range(1, shape.top + 1):
        if shape.present[log] != 0:
            k = log + shape.blowup
            points = members(sets, k)
            second = zeta_row(c.zeta, log)
            for j in range(length(points)):
                x = mul(power(ROOTS[k], points[j]), u64(GENERATOR))
                at = 2 * (sums.at[k] + j)
                set_ext(denominators, at, Ext(sub(x, c.zeta.c0), sub(u64(0), c.zeta.c1), sub(u64(0), c.zeta.c2)))
                set_ext(denominators, at + 1, Ext(sub(x, second.c0), sub(u64(0), second.c1), sub(u64(0), second.c2)))
    invert_all(denominators, prefix)
    for log in range(1, shape.top + 1):
        if shape.present[log] != 0:
            k = log + shape.blowup
            claim = claimed(key, shape, c, weights, log)
            for j in range(sets.count[k]):
                at = sums.at[k] + j
                a = ext_mul(ext_at(sums.here, at) - claim.here, ext_at(denominators, 2 * at))
                b = ext_mul(ext_at(sums.following, at) - claim.following, ext_at(denominators, 2 * at + 1))
                set_ext(out, at, a + b)
    s.used[0] = used
    return out


@function
def invert_all(values: Slice[u64], prefix: Slice[u64]) -> None:
    """Invert every element in place (Montgomery's trick); none is zero, as zeta is outside the base field."""
    n = length(values) // 3
    product = Ext(u64(1), u64(0), u64(0))
    for i in range(n):
        set_ext(prefix, i, product)
        product = ext_mul(product, ext_at(values, i))
    rest = ext_inv(product)
    i = n
    while i != 0:
        i -= 1
        x = ext_at(values, i)
        set_ext(values, i, ext_mul(ext_at(prefix, i), rest))
        rest = ext_mul(rest, x)


@function
def check_folds(ch: Reader, shape: Shape, f: Folding, sets: Sets, d: Digests, sums: Sums, codewords: Slice[u64],
                s: Scratch) -> None:
    """Open each FRI layer, check it against the codeword above, fold it, and meet the final polynomial."""
    size = f.sizes[0]
    first = 3 * sums.at[size]
    current = codewords[first:first + 3 * sets.count[size]]
    for step in range(f.steps):
        folded = f.sizes[step + 1]
        arity = u64(1) << (size - folded)
        points, leaves = members(sets, size), members(sets, folded)
        values = open_layer(ch, sets, folded, arity, d, f.roots[4 * step:4 * step + 4], s)
        for i in range(length(points)):
            leaf = find(leaves, points[i] & ((u64(1) << folded) - 1))
            at = leaf * arity + (points[i] >> folded)
            for k in unroll(range(3)):
                assert values[3 * at + k] == current[3 * i + k], "fri: a layer differs from the one above"
        beta = ext_at(f.betas, step)
        following = reserve(s, 3 * length(leaves))
        for j in range(length(leaves)):
            x = fold(values[3 * j * arity:3 * (j + 1) * arity], size, folded, leaves[j], beta)
            if shape.present[folded - shape.blowup] != 0:
                joining = ext_at(codewords, sums.at[folded] + j)
                x = x + ext_mul(ext_at(f.lambdas, step), joining)
            set_ext(following, j, x)
        current = following
        size = folded
    ends = members(sets, size)
    for j in range(length(ends)):
        u = power(ROOTS[size], ends[j])
        y = Ext(u64(0), u64(0), u64(0))
        n = u64(1 << FINAL_LOG_DEGREE)
        while n != 0:
            n -= 1
            y = y.scale(u) + ext_at(f.final, n)
        for k in unroll(range(3)):
            assert current[3 * j + k] == (y.c0, y.c1, y.c2)[k], "fri: the last layer is not the final polynomial"


@function
def open_layer(ch: Reader, sets: Sets, folded: u64, arity: u64, d: Digests, root: Slice[u64],
               s: Scratch) -> Slice[u64]:
    """Leaves of a FRI layer at the queries: ``arity`` extension values each."""
    clear_digests(d)
    begin_rows(d, folded)
    width = 3 * arity
    count = sets.count[folded]
    start = ch.at[0]
    for _j in range(count):
        read_row(ch, width, d)
    check_tree(ch, sets, folded, d, root, s)
    return ch.proof[start:start + count * width]


@function
def fold(leaf: Slice[u64], size: u64, folded: u64, j: u64, beta: Ext) -> Ext:
    """Value at beta of the polynomial of degree < k through a leaf's k values at the points u w_k^t, u = w_m^j.

    With f(u) = sum u^t f_t(u^k), the inverse transform of the leaf gives u^t f_t; the result is sum beta^t f_t.
    """
    arity = u64(1) << (size - folded)
    stride = 8 // arity  # w_k^-1 is this power of the inverse eighth root
    u_inverse = power(inv(ROOTS[size]), j)
    z = beta.scale(u_inverse)
    y = Ext(u64(0), u64(0), u64(0))
    t = arity
    while t != 0:
        t -= 1
        coefficient = Ext(u64(0), u64(0), u64(0))
        for i in range(arity):
            root = root8_power(stride * i * t & 7)
            coefficient = coefficient + ext_at(leaf, i).scale(root)
        y = ext_mul(y, z) + coefficient
    return y.scale(inv(arity))


@function
def root8_power(k: u64) -> u64:
    """Power -k of the eighth root of unity."""
    w = u64(ROOT8_POWERS[0])
    for n in unroll(range(1, 8)):
        if k == n:
            w = u64(ROOT8_POWERS[n])
    return w


__all__ = ["Folding", "Roots", "batching_weights", "check_queries", "check_work", "draw_queries",
           "read_folding"]
