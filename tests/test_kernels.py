"""The prover's compiled loops against plain Python, at every level of the processor and in the interpreter."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plain
import pytest
from plain import EDGES, LEVELS, P, Triple, array, ext_add, ext_inverse, ext_mul, ext_power, ext_scale, ext_sub, ints

from tailbite import transcript as ts
from tailbite.air import Bus, Program, Table, bit, compile_table, fixed, free, token
from tailbite.channel import Label, Reader, Writer
from tailbite.errors import Trap
from tailbite.lang import cpu, u64x8
from tailbite.lang.backend import Machine
from tailbite.stark import kernels as k
from tailbite.stark import prove_fri, verify_queries
from tailbite.stark.job import Job, split_weight
from tailbite.stark.params import preset
from tailbite.stark.prove_logup import ANY, OPPOSITE, SAME, multiplicity_forms, prepared
from tailbite.stark.prove_quotient import ROOTS

ENGINES = (*LEVELS, "interpreter", "interpreted ifma")
NOT_FOUND = 2**64 - 1


class Interpreted:
    """Kernels by name, interpreted; as on a processor with or without 52-bit multiply-add."""

    def __init__(self, features: str) -> None:
        self.functions = {f.name: f for f in k.kernels(Machine("", "", features))}

    def __getattr__(self, name: str) -> Any:
        f = self.functions[name]
        return lambda *args: f(*(a.reshape(-1) if isinstance(a, np.ndarray) else a for a in args))


@functools.cache
def engine(name: str) -> Any:
    """All kernels, compiled for a level or interpreted."""
    if name in LEVELS:
        return cpu.Library("kernels-test", k.kernels, level=name)
    return Interpreted("+avx512ifma" if "ifma" in name else "")


def pointers(lib: Any, columns: Sequence[Any]) -> Any:
    """A table of columns: addresses for compiled code, the arrays themselves for the interpreter."""
    return list(columns) if isinstance(lib, Interpreted) else array(c.ctypes.data for c in columns or [array([0])])


@pytest.fixture(params=ENGINES)
def lib(request: pytest.FixtureRequest) -> Any:
    """Every engine in turn."""
    return engine(request.param)


def elements(seed: int, n: int) -> list[Triple]:
    """Random extension elements, not zero, with edges among the coordinates."""
    c = plain.random_elements(seed, 3 * n)
    return [(c[3 * i], c[3 * i + 1], c[3 * i + 2] or 1) for i in range(n)]


def loose(seed: int, n: int) -> list[Triple]:
    """The same with any representatives."""
    c = plain.random_words(seed, 3 * n)
    return [(c[3 * i], c[3 * i + 1], c[3 * i + 2] or 1) for i in range(n)]


def columns_of(xs: Sequence[Triple], stride: int | None = None) -> Any:
    """Three columns one after the other, ``stride`` words apart."""
    out = np.full((3, stride or len(xs)), 77, dtype=np.uint64)
    out[:, :len(xs)] = np.array(xs, dtype=np.uint64).T
    return out


def rows_of(columns: Any) -> list[Triple]:
    """Extension elements of three columns."""
    return [(int(a), int(b), int(c)) for a, b, c in columns.T]


def reduced(x: Sequence[int]) -> Triple:
    return x[0] % P, x[1] % P, x[2] % P


def total(xs: Sequence[Triple]) -> Triple:
    """Sum of extension elements."""
    return functools.reduce(ext_add, xs, (0, 0, 0))


# ---------------------------------------------------------------- inversion


@pytest.mark.parametrize("n", [8, 16, 24, 32, 40])
def test_inversion(lib: Any, n: int) -> None:
    xs = loose(n, n)
    xs[:4] = [(1, 0, 0), (P - 1, 0, 0), (0, 1, 0), (P, P, P + 1)]
    values = columns_of(xs, n + 8)
    lib.invert_ext(values, n + 8, array([0] * (2 * n)), n)
    assert [ext_mul(x, y) for x, y in zip(xs, rows_of(values), strict=False)] == [(1, 0, 0)] * n
    assert all(c < P for row in rows_of(values) for c in row)
    assert (values[:, n:] == 77).all()


def test_a_zero_spoils_its_own_lane_only(lib: Any) -> None:
    """Documented: callers' elements are zero with negligible probability."""
    xs = elements(3, 24)
    xs[9] = (0, 0, 0)
    values = columns_of(xs)
    lib.invert_ext(values, 24, array([0] * 48), 24)
    good = [ext_mul(x, y) == (1, 0, 0) for x, y in zip(xs, rows_of(values), strict=True)]
    assert [i for i, ok in enumerate(good) if not ok] == [1, 9, 17]


# ---------------------------------------------------------------- weighted sums


def coded(weights: Sequence[Triple]) -> Any:
    """Weights as the accumulators take them."""
    return array([x for w in weights for x in split_weight(w)] or [0])


def sum_of(lib: Any, columns: Sequence[Any], weights: Sequence[Triple], lo: int = 0, hi: int = 16) -> Any:
    out = columns_of([(77, 77, 77)] * 16)
    lib.weighted_sum(pointers(lib, columns), len(columns), coded(weights), out, 16, lo, hi)
    return out


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_weighted_sum(lib: Any, count: int) -> None:
    columns, weights = [plain.random_words(c, 16) for c in range(count)], elements(5, count)
    out = sum_of(lib, [array(c) for c in columns], weights)
    assert rows_of(out) == [total([ext_scale(w, c[i]) for c, w in zip(columns, weights, strict=True)])
                            for i in range(16)]


def test_weighted_sum_of_edges(lib: Any) -> None:
    column = [*EDGES, *EDGES][:16]
    for w in ((1, P - 1, 2**52), (2**52 - 1, P - 2, 2**64 - 2**52 - 1)):
        assert w[2] < P
        out = sum_of(lib, [array(column)] * 3, [w, w, w])
        assert rows_of(out) == [ext_scale(w, 3 * x) for x in column]


WORST = (0xFFE << 52) + 2**52 - 1  # the weight whose partial products are largest
SUM_COUNTS = (k.MAX_TERMS - 1, k.MAX_TERMS, k.MAX_TERMS + 1, 2 * k.MAX_TERMS + 1, 4096)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("count", SUM_COUNTS)
def test_long_sums_do_not_overflow(level: str, count: int) -> None:
    column = array([2**64 - 1] * 8 + [2**52 - 1] * 8)
    out = sum_of(engine(level), [column] * count, [(WORST, WORST, 1)] * count)
    assert rows_of(out) == [ext_scale((WORST, WORST, 1), count * int(x)) for x in column]


def accumulated(count: int) -> list[Triple]:
    """``count`` times the worst product in one 52-bit accumulator, interpreted."""
    sums = k.Accumulator(True)
    acc, weight = sums.zero(), [u64x8(x) for x in split_weight((WORST, 5, 0))]
    for _ in range(count):
        acc = sums.add(acc, u64x8(2**64 - 1), weight)
    return [reduced(x) for x in zip(*(part.v for part in sums.finish(acc)), strict=True)]


def test_the_limit_of_an_accumulator_is_exact() -> None:
    """One term more and 64 bits overflow."""
    for count, fits in ((k.MAX_TERMS, True), (k.MAX_TERMS + 1, False)):
        want = ext_scale((WORST, 5, 0), count * (2**64 - 1))
        assert (accumulated(count) == [want] * 8) == fits


def test_weighted_sum_keeps_to_its_rows(lib: Any) -> None:
    columns = [array(plain.random_elements(1, 32))]
    out = columns_of([(77, 77, 77)] * 32)
    lib.weighted_sum(pointers(lib, columns), 1, coded([(1, 2, 3)]), out, 32, 16, 32)
    assert (out[:, :16] == 77).all()
    assert rows_of(out)[16:] == [ext_scale((1, 2, 3), int(x)) for x in columns[0][16:]]


@pytest.mark.parametrize("lo", [0, 16])
def test_dot_products_of_rows(lib: Any, lo: int) -> None:
    n, rows = 40, 24
    weights, powers = loose(1, n), plain.random_words(2, n)
    columns = [plain.random_words(9 + c, n) for c in range(3)]
    split = array([0] * (6 * 8 * k.BLOCK))
    lib.split_weights(columns_of(weights), n, array(powers), split, lo, rows)
    scaled = [ext_scale(w, x) for w, x in zip(weights, powers, strict=True)]
    for i in range(rows):
        assert [int(split[8 * k.BLOCK * j + i]) for j in range(6)] == split_weight(scaled[lo + i])
    acc = np.full((3, 3, 8), P - 1, dtype=np.uint64)
    lib.dot_rows(pointers(lib, [array(c) for c in columns]), 3, split, acc.reshape(-1), lo, rows)
    for c, column in enumerate(columns):
        for lane in range(8):
            parts = [ext_scale(scaled[i], column[i]) for i in range(lo + lane, lo + rows, 8)]
            assert tuple(ints(acc[c, :, lane])) == total([(P - 1, P - 1, P - 1), *parts])


# ---------------------------------------------------------------- columns


def test_geometric(lib: Any) -> None:
    first, ratio = plain.random_words(1, 8), P - 5
    out = array([0] * 40)
    lib.geometric(out, 40, array(first), ratio)
    assert ints(out) == [first[i % 8] * pow(ratio, i // 8, P) % P for i in range(40)]


def test_subtract_point(lib: Any) -> None:
    xs, point = [*EDGES], (5, P - 1, 2**63)
    out = columns_of([(77, 77, 77)] * 24, 32)
    lib.subtract_point(array(xs), array(point), out, 32, 8, 24)
    assert rows_of(out)[8:24] == [ext_sub((x, 0, 0), point) for x in xs[8:]]
    assert (out[:, :8] == 77).all() and (out[:, 24:] == 77).all()


@pytest.mark.parametrize("n", [1, 8, 33])
def test_running_sum(lib: Any, n: int) -> None:
    xs, step = [plain.random_elements(c, n) for c in range(3)], plain.random_elements(7, 3)
    columns, sigma = [array(x) for x in xs], array([0] * 3)
    lib.running_sum(*columns, n, sigma, array(step))
    for c in range(3):
        assert ints(columns[c]) == [(sum(xs[c][:i]) - i * step[c]) % P for i in range(n)]
        assert int(sigma[c]) == (sum(xs[c]) - n * step[c]) % P


def test_a_running_sum_with_the_right_step_is_cyclic(lib: Any) -> None:
    n = 8
    xs = plain.random_elements(3, n)
    step = sum(xs) * pow(n, -1, P) % P
    sigma = array([0] * 3)
    lib.running_sum(array(xs), array(xs), array(xs), n, sigma, array([step] * 3))
    assert ints(sigma) == [0, 0, 0]


@pytest.mark.parametrize("xs", [[0] * 8, [P - 1] * 24, [2**64 - 1] * 16, plain.random_words(1, 64)])
def test_sum_of_a_column(lib: Any, xs: list[int]) -> None:
    assert int(lib.sum_column(array(xs), len(xs))) == sum(xs) % P


def test_alternating_factors(lib: Any) -> None:
    xs, factors = loose(1, 32), plain.random_elements(2, 8)
    values = columns_of(xs)
    lib.scale_alternating(values, 32, array(factors), 8, 24)
    want = [ext_scale(x, factors[i % 8]) if 8 <= i < 24 else x for i, x in enumerate(xs)]
    assert rows_of(values) == want


def test_adding_a_scaled_column(lib: Any) -> None:
    acc, xs, factor = loose(1, 24), loose(2, 24), (P - 1, 2**32, 7)
    out = columns_of(acc)
    lib.add_scaled(out, columns_of(xs), array(factor), 24, 8, 24)
    assert rows_of(out) == acc[:8] + [ext_add(a, ext_mul(x, factor)) for a, x in zip(acc[8:], xs[8:], strict=True)]


# ---------------------------------------------------------------- quotients and folds


@pytest.mark.parametrize("blowup", [2, 4, 8])
def test_batched_quotients(lib: Any, blowup: int) -> None:
    """(f - y1) / (x - z) + (g - y2) / (x - w z) on the coset; w generates the rows, so x / w is ``blowup`` before."""
    n = 64
    generator, w = root(n), root(n // blowup)
    xs = [7 * pow(generator, i, P) % P for i in range(n)]
    z = (3, P - 4, 2**40)
    here, following, claims = loose(1, n), loose(2, n), elements(3, 2)
    inverse = [ext_inverse(ext_sub((x, 0, 0), z)) for x in xs]
    out = columns_of([(0, 0, 0)] * n)
    lib.batch_quotients(columns_of(here), columns_of(following), columns_of([*inverse, *inverse]),
                        array([*claims[0], *claims[1], pow(w, -1, P)]), out, n, blowup, 0, n)
    want = []
    for i, x in enumerate(xs):
        a = ext_mul(ext_sub(here[i], claims[0]), inverse[i])
        b = ext_mul(ext_sub(following[i], claims[1]), ext_inverse(ext_sub((x, 0, 0), ext_scale(z, w))))
        want.append(ext_add(a, b))
    assert rows_of(out) == want


def root(n: int) -> int:
    """Generator of the subgroup of n elements."""
    return pow(7, (P - 1) // n, P)


def evaluate(coefficients: Sequence[Triple], x: Triple) -> Triple:
    """Horner's rule."""
    return functools.reduce(lambda y, c: ext_add(ext_mul(y, x), c), reversed(coefficients), (0, 0, 0))


@pytest.mark.parametrize("arity", [2, 4, 8])
def test_fold(lib: Any, arity: int) -> None:
    """f(u) = sum u^t f_t(u^k) becomes sum beta^t f_t, also for a word that is no low-degree polynomial."""
    rows = 16
    m, beta = rows * arity, (5, P - 2, 2**63)
    c = elements(arity, m)
    w = root(m)
    values = columns_of([evaluate(c, (pow(w, i, P), 0, 0)) for i in range(m)])
    folded = [total([ext_mul(c[arity * i + t], ext_power(beta, t)) for t in range(arity)]) for i in range(rows)]
    out = columns_of([(0, 0, 0)] * rows)
    inverse_points = array(pow(w, -j, P) for j in range(rows))
    getattr(lib, f"fold{arity}")(values, m, inverse_points, array(beta), out, 0, rows)
    assert rows_of(out) == [evaluate(folded, (pow(root(rows), j, P), 0, 0)) for j in range(rows)]


@pytest.mark.parametrize("arity", [2, 4, 8])
def test_fold_of_any_representatives(arity: int) -> None:
    """The levels agree on words that no evaluation gives."""
    xs = loose(arity, 8 * arity)
    outs = []
    for name in ENGINES:
        out = columns_of([(0, 0, 0)] * 8)
        points = array(plain.random_elements(1, 8))
        getattr(engine(name), f"fold{arity}")(columns_of(xs), 8 * arity, points, array([1, 2, P - 1]), out, 0, 8)
        outs.append(rows_of(out))
    canonical = columns_of([(0, 0, 0)] * 8)
    getattr(engine("native"), f"fold{arity}")(columns_of([reduced(x) for x in xs]), 8 * arity, points,
                                              array([1, 2, P - 1]), canonical, 0, 8)
    assert outs == [rows_of(canonical)] * len(ENGINES)


# ---------------------------------------------------------------- constraints and LogUp

BUS, OTHER = Bus(3, "BUS", ("a", "b", "c"), state=True), Bus(4, "OTHER", ("a",))


class Shape(Table):
    """Constraints of every kind; subclasses differ in their messages."""

    name = "SHAPE"
    fixed_in = "universal"
    messages = 0
    f = fixed("f", 2)
    on = bit("on")
    x = token("x", 3)
    m = free("count")

    def rules(t) -> None:
        t.zero("mix", t.on * (t.next(t.x[0]) - t.f[1] * 5) + t.last * t.x[1] - t.public(1))
        t.zero("deep", (t.x[0] - t.x[1]) * (t.x[1] + t.next(t.x[2])) * t.f[0])
        t.zero("start", t.first * (t.x[2] - t.public(0)) + 3)
        sends = [lambda: t.send(BUS, (t.x[0], 3 * t.x[1] - t.x[2] + 5, 9), t.on),
                 lambda: t.receive(OTHER, (t.x[2] - 1,), 1),
                 lambda: t.send(OTHER, (t.f[0],), t.m, lookup_table=True),
                 lambda: t.receive(BUS, (7, t.x[0] + t.f[1], t.on), t.on),
                 lambda: t.receive(OTHER, (0,), t.on),
                 lambda: t.receive(OTHER, (t.x[1],), t.on),
                 lambda: t.send(OTHER, (t.x[0],), t.on),
                 lambda: t.receive(OTHER, (t.x[0] + 1,), t.on)]
        for send in sends[:t.messages]:
            send()


@functools.cache
def program(messages: int) -> Program:
    """The lowered table with this number of messages."""
    return compile_table(type("Shaped", (Shape,), {"messages": messages})())


ALPHA, BETA = (11, P - 7, 2**50), (2**33, 5, P - 1)


def fractions(p: Program, row: Sequence[int]) -> list[tuple[int, Triple]]:
    """Multiplicity and fingerprint of every message on one row."""
    out = []
    for i in p.interactions:
        d, power = ext_sub(ALPHA, (i.bus.id, 0, 0)), BETA
        for e in i.entries:
            d = ext_sub(d, ext_scale(power, affine(e, row)))
            power = ext_mul(power, BETA)
        out.append((affine(i.multiplicity, row) % P, d))
    return out


def affine(form: Any, row: Sequence[int]) -> int:
    return form.constant + sum(w * row[c] for c, w in form.terms.items())


def sums_of_pairs(p: Program, row: Sequence[int]) -> list[Triple]:
    """m1/d1 + m2/d2 of each pair."""
    terms = [ext_scale(ext_inverse(d), m) for m, d in fractions(p, row)]
    return [total(terms[j:j + 2]) for j in range(0, len(terms), 2)]


def test_pairs_by_their_multiplicities() -> None:
    """Messages 5 and 6 have the same one, 7 and 8 opposite ones, the pairs before them neither; four are distinct."""
    p = program(8)
    words, relations = prepared(p, ALPHA, BETA).tolist(), []
    at = 1
    for _ in range(words[0]):
        at += 2 + 2 * words[at]
    for _ in p.interactions:
        relations.append(words[at + 2])
        at += 6 + 7 * words[at]
    assert at == len(words) and words[0] == len(multiplicity_forms(p)) == 4
    assert relations[1::2] == [ANY, ANY, SAME, OPPOSITE]


@pytest.mark.parametrize("messages", [1, 2, 3, 5, 6, 8])
@pytest.mark.parametrize("bounds", [[0, 40], [0, 8], [8, 16, 40]])
def test_logup_columns(lib: Any, messages: int, bounds: list[int]) -> None:
    if isinstance(lib, Interpreted) and len(bounds) > 2:
        return
    p, n = program(messages), 40
    columns = [array(plain.random_elements(c, n)) for c in range(p.column_count)]
    out = [array([77] * n) for _ in range(3 * p.pairs)]
    block = array([0] * k.BLOCK * (p.column_count + len(multiplicity_forms(p))))
    chunk, scratch = array([0] * 6 * p.pairs * n), array([0] * (2 * p.pairs * n + 32))
    for lo, hi in itertools.pairwise(bounds):
        lib.logup_rows(pointers(lib, columns), array([0] * p.column_count), p.column_count,
                       prepared(p, ALPHA, BETA), messages, block, chunk, scratch, pointers(lib, out), lo, hi)
    for i in range(n):
        pairs = sums_of_pairs(p, [int(c[i]) for c in columns])
        want = [*pairs[:-1], total(pairs)] if bounds[0] <= i < bounds[-1] else [(77, 77, 77)] * p.pairs
        assert [(int(out[3 * j][i]), int(out[3 * j + 1][i]), int(out[3 * j + 2][i])) for j in range(p.pairs)] == want


def values_of(p: Program, here: Sequence[int], following: Sequence[int], selectors: Sequence[int],
              publics: Sequence[int]) -> list[int]:
    """Values of the table's constraints on one row."""
    slots = [*here, *(following[c] for c in p.following), *selectors, *(publics[i] for i in p.publics), *p.constants]
    for kind, a, b in p.ops:
        x, y = slots[a], slots[b]
        slots.append((x + y, x - y, x * y)[kind] % P)
    return [slots[z] for z in p.zeros]


def logup_values(p: Program, here: Sequence[int], phis: list[Triple], following: Triple, share: Triple) -> list[Triple]:
    """Values of the LogUp constraints: each column times its denominators, less the numerator."""
    terms = fractions(p, here)
    step = ext_add(ext_sub(following, phis[-1]), share)
    phis = [*phis[:-1], functools.reduce(ext_sub, phis[:-1], step)]
    out = []
    for j, phi in enumerate(phis):
        (m, d), *rest = terms[2 * j:2 * j + 2]
        numerator = (m, 0, 0)
        for m2, d2 in rest:
            numerator = ext_add(ext_scale(d2, m), ext_scale(d, m2))
            d = ext_mul(d, d2)
        out.append(ext_sub(ext_mul(phi, d), numerator))
    return out


@pytest.mark.parametrize(("messages", "blowup"), [(0, 2), (1, 2), (2, 4), (3, 2), (3, 8), (5, 2), (6, 2), (8, 2)])
@pytest.mark.parametrize("n", [8, 64])
def test_constraint_rows(lib: Any, messages: int, blowup: int, n: int) -> None:
    """The random combination on the quotient domain: 2 n rows out of an extension by ``blowup``."""
    if isinstance(lib, Interpreted) and n > 8:
        return
    p, size = program(messages), n * blowup
    here = [array(plain.random_elements(c, size)) for c in range(p.column_count)]
    selectors = [array(plain.random_elements(90 + c, size)) for c in range(2)]
    logup = [array(plain.random_elements(50 + c, size)) for c in range(3 * p.pairs)]
    inputs = [*here, *(here[c] for c in p.following), *selectors]
    extra = [*logup, *logup[-3:]]
    shifts = array([0] * (len(inputs) + len(extra) + 1))
    shifts[len(here):len(here) + len(p.following)] = blowup
    if extra:
        shifts[len(inputs) + len(extra) - 3:len(inputs) + len(extra)] = blowup
    publics, powers, share = (P - 1, 12345), elements(1, p.constraint_count), (4, 5, P - 6)
    constants = array([*(publics[i] for i in p.publics), *p.constants])
    before = elements(2, 2 * n)
    out = columns_of(before)
    block = array([0] * k.BLOCK * (p.slot_count + len(extra) + len(multiplicity_forms(p))))
    for lo, hi in ((0, n), (n, 2 * n)):
        lib.constraint_rows(
            pointers(lib, [*inputs, *extra]), shifts, len(inputs), blowup // 2, size - 1, constants, len(constants),
            array(x for op in p.ops for x in op), len(p.ops), array(p.zeros), len(p.zeros),
            coded(powers[:len(p.zeros)]), prepared(p, ALPHA, BETA), messages,
            coded([ext_mul(w, c) for w in powers[len(p.zeros):] for c in ROOTS] or [(0, 0, 0)]),
            array(share), p.slot_count, block, out, 2 * n, lo, hi)
    rows = [[int(c[i]) for c in here] for i in range(size)]
    phis = [[(int(logup[3 * j][i]), int(logup[3 * j + 1][i]), int(logup[3 * j + 2][i])) for j in range(p.pairs)]
            for i in range(size)]
    for r in range(2 * n):
        i = r * blowup // 2
        following = (i + blowup) % size
        values: list[Triple] = [(v, 0, 0) for v in values_of(p, rows[i], rows[following],
                                                              [int(s[i]) for s in selectors], publics)]
        if p.pairs:
            values += logup_values(p, rows[i], phis[i], phis[following][-1], share)
        want = total([before[r], *(ext_mul(v, w) for v, w in zip(values, powers, strict=True))])
        assert rows_of(out[:, r:r + 1]) == [want]


@pytest.mark.parametrize("level", LEVELS)
def test_many_constraints_do_not_overflow(level: str) -> None:
    """More constraints than an accumulator takes, all of the worst value."""
    count, n = k.MAX_TERMS + 700, 8
    column, zeros = array([2**64 - 1] * 2 * n), array([0] * count)
    out = columns_of([(0, 0, 0)] * 2 * n)
    lib = engine(level)
    lib.constraint_rows(pointers(lib, [column]), array([0, 0]), 1, 1, 2 * n - 1, array([0]), 0, array([0]), 0, zeros,
                        count, coded([(WORST, 3, WORST)] * count), array([0]), 0, array([0]), array([0] * 3), 1,
                        array([0] * 4 * k.BLOCK), out, 2 * n, 0, 2 * n)
    assert rows_of(out) == [ext_scale((WORST, 3, WORST), count * (2**64 - 1))] * (2 * n)


# ---------------------------------------------------------------- proof of work


def zero_bits(block: Sequence[int], nonce: int) -> int:
    """Leading zero bits of the digest, from the top bit of byte 0."""
    digest = plain.keccak256(array([*block, nonce]).tobytes())
    return 256 - int.from_bytes(digest, "big").bit_length()


def smallest(block: Sequence[int], bits: int, first: int, count: int) -> int:
    return next((x for x in range(first, first + count) if zero_bits(block, x) >= bits), NOT_FOUND)


BLOCK = [5, 2**64 - 1, 7, 8, 9, 10]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bits", range(1, 11))
def test_the_smallest_nonce_is_found(level: str, bits: int) -> None:
    lib = engine(level)
    for first in (0, 8, 1000):
        assert int(lib.find_nonce(array(BLOCK), bits, first, 2048)) == smallest(BLOCK, bits, first, 2048)


@pytest.mark.parametrize("bits", [31, 32, 33, 63, 64])
def test_large_difficulties_are_not_trivial(bits: int) -> None:
    """A shift that wraps would take any nonce."""
    assert int(engine("native").find_nonce(array(BLOCK), bits, 0, 4096)) == NOT_FOUND


def test_nonces_interpreted() -> None:
    assert int(engine("interpreter").find_nonce(array(BLOCK), 3, 0, 16)) == smallest(BLOCK, 3, 0, 16)


def ground(bits: int, threads: int, seed: Sequence[int] = (1, 2, 3, 4)) -> int:
    job = Job(preset("fast"), threads, None)
    try:
        return prove_fri.grind(job, seed, bits)
    finally:
        job.close()


@pytest.mark.parametrize("bits", [1, 8, 14, 17])
def test_grinding_is_the_same_on_any_number_of_threads(bits: int) -> None:
    nonce = ground(bits, 1)
    assert nonce == ground(bits, 2)
    assert zero_bits([verify_queries.POW_TAG, 1, 2, 3, 4, bits], nonce) >= bits


def work_refusal(bits: int, choose: Callable[[list[int]], int | None]) -> tuple[str, Any]:
    """What the verifier says of the nonce chosen for a seed (None: not sent), and its transcript afterwards."""
    w = Writer()
    w.message(Label.FINAL, [1, 2, 3])
    nonce = choose(w.pow_seed())
    state = array([0] * ts.STATE_WORDS)
    ts.library.start(state)
    ts.library.absorb_words(state, array([1, 2, 3]))
    reader = Reader(array([] if nonce is None else [nonce]), array([0]), state, array([]))
    try:
        verify_queries.check_work(reader, bits)
    except Trap as e:
        return str(e), state
    return "", state


def test_the_verifier_takes_the_nonce_and_refuses_others() -> None:
    bits = 6
    assert work_refusal(bits, lambda seed: ground(bits, 1, seed))[0] == ""
    bad = [work_refusal(bits, lambda seed, d=d: ground(bits, 1, seed) - d)[0] for d in (1, 2, 3)]
    assert all("work: the nonce does not reach the difficulty" in text for text in bad)
    assert "work" in work_refusal(64, lambda seed: 12345)[0]
    assert "truncated" in work_refusal(bits, lambda seed: None)[0]


def test_the_nonce_of_another_difficulty_or_seed_is_refused() -> None:
    rng = random.Random(1)
    refused = [work_refusal(9, lambda seed: ground(9, 1, [rng.randrange(P)] * 4))[0] for _ in range(3)]
    assert all("work" in text for text in refused)


def test_no_bits_change_nothing() -> None:
    text, state = work_refusal(0, lambda seed: None)
    untouched = array([0] * ts.STATE_WORDS)
    ts.library.start(untouched)
    ts.library.absorb_words(untouched, array([1, 2, 3]))
    assert text == "" and np.array_equal(state, untouched)


def test_the_nonce_changes_what_is_drawn_after_it() -> None:
    def drawn(nonce: int) -> list[int]:
        w = Writer()
        w.pow_seed()
        w.message(Label.NONCE, [nonce])
        return [w.challenge_below(Label.INDEX, 1 << 40) for _ in range(6)]

    assert all(a != b for a, b in zip(drawn(1), drawn(2), strict=True))
    assert drawn(1) == drawn(1)
