"""The verifier's query phase: opened rows, the batched quotients they imply, and FRI. Typed Python."""

from __future__ import annotations

from typing import NamedTuple

from ..channel import Label, Reader, challenge, challenge_below, field_message, message
from ..channel import record as record_event
from ..field import GENERATOR, Ext, P, Wide, ext_mul, mul, power, root_of_unity, sub
from ..hash.keccak import keccak256_words
from ..lang import Array, Constants, Slice, bswap, function, length, u64, unroll
from ..lang.riscv import mark
from ..transcript import squeeze
from .fold import fold_leaf
from .params import FINAL_LOG_DEGREE, MAX_LOG_FOLD
from .phases import Phase
from .verify_constraints import LAST_ROWS, ROOTS, Claim, ext_at, invert_all, set_ext, zeta_row
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
from .view import PROGRAM, UNIVERSAL, Scratch, Shape, choose, choose_fixed, reserve, total

EIGHTH_ROOTS = Constants(pow(root_of_unity(3), k, P) for k in range(8))
POW_TAG = int.from_bytes(b"tb pow\0\0", "little")


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
    mark(Phase.BATCHING)
    weights = reserve(s, 3 * terms)
    set_ext(weights, u64(0), Ext(u64(1), u64(0), u64(0)))
    size = u64(1)
    while size < terms:
        mark(Phase.TRANSCRIPT)
        r = challenge(ch, u64(int(Label.BATCHING)))
        mark(Phase.BATCHING)
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
                  f: Folding, queries: Slice[u64], s: Scratch) -> None:
    """Open all trees at the queries, and check that the folded codewords agree with the rows."""
    mark(Phase.OPENINGS)
    top = shape.top + shape.blowup
    sets = index_sets(queries, top, s)
    digests = new_digests(sets, top, s)
    sums = new_sums(shape, sets, s)
    open_fixed(ch, shape, u64(UNIVERSAL), weights, sets, digests, sums, roots.universal, s)
    open_fixed(ch, shape, u64(PROGRAM), weights, sets, digests, sums, roots.program, s)
    open_main(ch, key, shape, weights, sets, digests, sums, roots.main, s)
    open_logup(ch, shape, weights, sets, digests, sums, roots.logup, s)
    open_quotient(ch, shape, weights, sets, digests, sums, roots.quotient, s)
    mark(Phase.BATCHING)
    points = domain_points(sets, top, s)
    codewords = batched_quotients(shape, c, weights, sets, sums, points, s)
    mark(Phase.FOLDS)
    check_folds(ch, shape, f, sets, digests, sums, points, codewords, s)


@function
def new_sums(shape: Shape, sets: Sets, s: Scratch) -> Sums:
    """Zeroed sums for every height present."""
    at = reserve(s, u64(64))
    count = u64(0)
    for log in range(1, shape.top + 1):
        if shape.present[log] != 0:
            at[log + shape.blowup] = count
            count += sets.sizes[log + shape.blowup]
    sums = Sums(at, reserve(s, 3 * count), reserve(s, 3 * count))
    for i in range(3 * count):
        sums.here[i] = u64(0)
        sums.following[i] = u64(0)
    return sums


@function
def add_base(sums: Slice[u64], i: u64, weights: Slice[u64], term: u64, row: Slice[u64]) -> None:
    """sums[i] += the weighted sum of the base values in ``row``, for terms from ``term`` on; reduced once."""
    part = weights[3 * term:3 * (term + length(row))]
    zero = Wide(u64(0), u64(0), u64(0))
    c0, c1, c2 = zero, zero, zero
    for k in range(length(row)):
        w, x = ext_at(part, k), row[k]
        c0, c1, c2 = c0.plus_product(w.c0, x), c1.plus_product(w.c1, x), c2.plus_product(w.c2, x)
    set_ext(sums, i, ext_at(sums, i) + Ext(c0.reduced(), c1.reduced(), c2.reduced()))


@function
def add_ext(sums: Slice[u64], i: u64, weights: Slice[u64], term: u64, row: Slice[u64]) -> None:
    """sums[i] += the weighted sum of the extension values in ``row``, for terms from ``term`` on."""
    acc = ext_at(sums, i)
    for k in range(length(row) // 3):
        acc = acc + ext_mul(ext_at(weights, term + k), ext_at(row, k))
    set_ext(sums, i, acc)


@function
def open_fixed(ch: Reader, shape: Shape, tree: u64, weights: Slice[u64], sets: Sets, d: Digests, sums: Sums,
               root: Slice[u64], s: Scratch) -> None:
    """A preprocessed tree is opened whole; tables absent from the proof are not batched."""
    top = u64(0)
    for k in range(shape.with_fixed[0]):
        i = shape.with_fixed[1 + k]
        if shape.fixed_in[i] == tree and shape.fixed_log[i] > top:
            top = shape.fixed_log[i]
    assert top <= shape.top, "shape: a preprocessed table is higher than every table of the proof"
    if top == 0:
        return
    clear_digests(d)
    log = top
    while log != 0:
        chosen = choose_fixed(shape, tree, log)
        if length(chosen) != 0:
            k = log + shape.blowup
            width = total(shape.fixed, chosen)
            begin_rows(d, k)
            for j in range(sets.sizes[k]):
                row = read_row(ch, width, d)
                mark(Phase.BATCHING)
                at = u64(0)
                for n in range(length(chosen)):
                    i = chosen[n]
                    if shape.log[i] != 0:
                        add_base(sums.here, sums.at[k] + j, weights, shape.fixed_term[i], row[at:at + shape.fixed[i]])
                    at += shape.fixed[i]
        log -= 1
    check_tree(ch, sets, top + shape.blowup, d, root, s)


@function
def open_main(ch: Reader, key: Slice[u64], shape: Shape, weights: Slice[u64], sets: Sets, d: Digests, sums: Sums,
              root: Slice[u64], s: Scratch) -> None:
    """Rows of the main tree."""
    clear_digests(d)
    top = u64(0)
    log = shape.top
    while log != 0:
        chosen = choose(shape, log)
        width = total(shape.main, chosen)
        if width != 0:
            k = log + shape.blowup
            if top == 0:
                top = k
            begin_rows(d, k)
            for j in range(sets.sizes[k]):
                row = read_row(ch, width, d)
                mark(Phase.BATCHING)
                at = u64(0)
                for n in range(length(chosen)):
                    i = chosen[n]
                    part = row[at:at + shape.main[i]]
                    place, term = sums.at[k] + j, shape.main_term[i]
                    add_base(sums.here, place, weights, term, part)
                    for m in range(shape.following[i]):
                        column = key[shape.following_at[i] + m] - shape.fixed[i]
                        add_base(sums.following, place, weights, term + shape.main[i] + m, part[column:column + 1])
                    at += shape.main[i]
        log -= 1
    if top != 0:
        check_tree(ch, sets, top, d, root, s)


@function
def open_logup(ch: Reader, shape: Shape, weights: Slice[u64], sets: Sets, d: Digests, sums: Sums, root: Slice[u64],
               s: Scratch) -> None:
    """Rows of the LogUp tree: extension columns, the last of which is opened in the following row too."""
    clear_digests(d)
    top = u64(0)
    log = shape.top
    while log != 0:
        chosen = choose(shape, log)
        width = 3 * total(shape.pairs, chosen)
        if width != 0:
            k = log + shape.blowup
            if top == 0:
                top = k
            begin_rows(d, k)
            for j in range(sets.sizes[k]):
                row = read_row(ch, width, d)
                mark(Phase.BATCHING)
                at = u64(0)
                for n in range(length(chosen)):
                    i = chosen[n]
                    pairs = shape.pairs[i]
                    if pairs != 0:
                        part = row[3 * at:3 * (at + pairs)]
                        place, term = sums.at[k] + j, shape.logup_term[i]
                        add_ext(sums.here, place, weights, term, part)
                        add_ext(sums.following, place, weights, term + pairs, part[3 * pairs - 3:3 * pairs])
                        at += pairs
        log -= 1
    if top != 0:
        check_tree(ch, sets, top, d, root, s)


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
            for j in range(sets.sizes[k]):
                row = read_row(ch, u64(6), d)
                mark(Phase.BATCHING)
                add_ext(sums.here, sums.at[k] + j, weights, shape.quotient_term[log], row)
        log -= 1
    check_tree(ch, sets, shape.top + shape.blowup, d, root, s)


# ---------------------------------------------------------------- codewords and folds


class Points(NamedTuple):
    """Powers w_m^i of the domains' generators, and their inverses, for every member of the index sets."""

    value: Slice[u64]
    inverse: Slice[u64]


@function
def domain_points(sets: Sets, top: u64, s: Scratch) -> Points:
    """Points of all sets: powers for the largest, squares for the others, as (w_m^i)^2 = w_(m/2)^(i mod m/2)."""
    points = Points(reserve(s, length(sets.memory)), reserve(s, length(sets.memory)))
    largest = members(sets, top)
    for j in range(length(largest)):
        points.value[sets.at[top] + j] = power(ROOTS[top], largest[j])
        points.inverse[sets.at[top] + j] = power(LAST_ROWS[top], largest[j])
    k = top
    while k != 0:
        children = members(sets, k)
        k -= 1
        parents, half = members(sets, k), u64(1) << k
        for j in range(length(children)):
            parent = sets.at[k] + find(parents, children[j] & (half - 1))
            child = sets.at[k + 1] + j
            points.value[parent] = mul(points.value[child], points.value[child])
            points.inverse[parent] = mul(points.inverse[child], points.inverse[child])
    return points


class Claimed(NamedTuple):
    """Batched claimed values of one height: at zeta, and at the following row."""

    here: Ext
    following: Ext


@function
def claimed(shape: Shape, c: Claim, weights: Slice[u64], log: u64) -> Claimed:
    """Weighted sums of the opened values of the tables of height 2^log."""
    here, following = Ext(u64(0), u64(0), u64(0)), Ext(u64(0), u64(0), u64(0))
    chosen = choose(shape, log)
    for n in range(length(chosen)):
        i = chosen[n]
        if shape.fixed[i] != 0:
            here = here + weighted(weights, c.values, shape.fixed_term[i], shape.fixed[i])
        term = shape.main_term[i]
        here = here + weighted(weights, c.values, term, shape.main[i])
        following = following + weighted(weights, c.values, term + shape.main[i], shape.following[i])
        if shape.pairs[i] != 0:
            here = here + weighted(weights, c.values, shape.logup_term[i], shape.pairs[i])
            following = following + weighted(weights, c.values, shape.logup_term[i] + shape.pairs[i], u64(1))
    here = here + weighted(weights, c.values, shape.quotient_term[log], u64(2))
    return Claimed(here, following)


@function
def weighted(weights: Slice[u64], values: Slice[u64], term: u64, count: u64) -> Ext:
    """Sum of weight * value over ``count`` terms."""
    acc = Ext(u64(0), u64(0), u64(0))
    for k in range(count):
        acc = acc + ext_mul(ext_at(weights, term + k), ext_at(values, term + k))
    return acc


@function
def batched_quotients(shape: Shape, c: Claim, weights: Slice[u64], sets: Sets, sums: Sums, points: Points,
                      s: Scratch) -> Slice[u64]:
    """Value of each height's codeword at its queried points; placed as the sums are.

    (row - claimed)(zeta) / (x - zeta) + (row - claimed)(w_n zeta) / (x - w_n zeta) with x = 7 w^i.
    """
    count = length(sums.here) // 3
    out = reserve(s, 3 * count)
    used = s.used[0]
    denominators, prefix = reserve(s, 6 * count), reserve(s, 6 * count)
    for log in range(1, shape.top + 1):
        if shape.present[log] != 0:
            k = log + shape.blowup
            second = zeta_row(c.zeta, log)
            for j in range(sets.sizes[k]):
                x = mul(points.value[sets.at[k] + j], u64(GENERATOR))
                at = 2 * (sums.at[k] + j)
                set_ext(denominators, at, Ext(sub(x, c.zeta.c0), sub(u64(0), c.zeta.c1), sub(u64(0), c.zeta.c2)))
                set_ext(denominators, at + 1, Ext(sub(x, second.c0), sub(u64(0), second.c1), sub(u64(0), second.c2)))
    invert_all(denominators, prefix)
    for log in range(1, shape.top + 1):
        if shape.present[log] != 0:
            k = log + shape.blowup
            claim = claimed(shape, c, weights, log)
            for j in range(sets.sizes[k]):
                at = sums.at[k] + j
                a = ext_mul(ext_at(sums.here, at) - claim.here, ext_at(denominators, 2 * at))
                b = ext_mul(ext_at(sums.following, at) - claim.following, ext_at(denominators, 2 * at + 1))
                set_ext(out, at, a + b)
    s.used[0] = used
    return out


@function
def check_folds(ch: Reader, shape: Shape, f: Folding, sets: Sets, d: Digests, sums: Sums, points: Points,
                codewords: Slice[u64], s: Scratch) -> None:
    """Open each FRI layer, check it against the codeword above, fold it, and meet the final polynomial."""
    size = f.sizes[0]
    first = 3 * sums.at[size]
    current = codewords[first:first + 3 * sets.sizes[size]]
    for step in range(f.steps):
        folded = f.sizes[step + 1]
        above, leaves = members(sets, size), members(sets, folded)
        arity = u64(1) << (size - folded)
        values = open_layer(ch, sets, folded, arity, d, f.roots[4 * step:4 * step + 4], s)
        mark(Phase.FOLDS)
        bases = reserve(s, length(leaves))
        for i in range(length(above)):
            leaf, place = find(leaves, above[i] & ((u64(1) << folded) - 1)), above[i] >> folded
            for k in unroll(range(3)):
                same = values[3 * (leaf * arity + place) + k] == current[3 * i + k]
                assert same, "fri: a layer differs from the one above"
            # the leaf's first point is u with u w_k^place the point of this member
            bases[leaf] = mul(points.inverse[sets.at[size] + i], EIGHTH_ROOTS[place * (8 // arity)])
        following = reserve(s, 3 * length(leaves))
        beta = ext_at(f.betas, step)
        for j in range(length(leaves)):
            x = fold_leaf(values[3 * j * arity:3 * (j + 1) * arity], size - folded, bases[j], beta)
            if shape.present[folded - shape.blowup] != 0:
                x = x + ext_mul(ext_at(f.lambdas, step), ext_at(codewords, sums.at[folded] + j))
            set_ext(following, j, x)
        current = following
        size = folded
    mark(Phase.FINAL)
    check_final(f, sets, size, points, current)


@function
def check_final(f: Folding, sets: Sets, size: u64, points: Points, current: Slice[u64]) -> None:
    """The last layer's values are those of the final polynomial."""
    for j in range(sets.sizes[size]):
        u = points.value[sets.at[size] + j]
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
    count = sets.sizes[folded]
    first = ch.at[0]
    for _j in range(count):
        read_row(ch, width, d)
    check_tree(ch, sets, folded, d, root, s)
    return ch.proof[first:first + count * width]


__all__ = ["Folding", "Roots", "batching_weights", "check_queries", "check_work", "draw_queries", "read_folding"]
