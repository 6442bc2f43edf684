"""Goldilocks and its cubic extension against Python integers, on every kind of representative a kernel may see."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import plain
import pytest
from plain import CANONICAL, EDGES, LEVELS, P, array, ints

from tailbite import field
from tailbite.field import Ext
from tailbite.lang import Function, Ptr, cpu, function, select, u64, u64x8, unroll

ENGINES = (*LEVELS, "interpreter")
SHIFTS = 192


class Op(NamedTuple):
    """A helper of two operands, what it should be, whether operands and result are canonical."""

    helper: Callable[[Any, Any], Any]
    meaning: Callable[[int, int], int]
    a: tuple[int, ...] = EDGES
    b: tuple[int, ...] = EDGES
    canonical: bool = False


OPS = {
    "canon": Op(lambda a, b: field.canon(a), lambda a, b: a, canonical=True),
    "double": Op(lambda a, b: field.double(a), lambda a, b: 2 * a),
    "lazy_add_canonical": Op(field.lazy_add_canonical, lambda a, b: a + b, b=CANONICAL),
    "lazy_sub_canonical": Op(field.lazy_sub_canonical, lambda a, b: a - b, b=CANONICAL),
    "lazy_add": Op(field.lazy_add, lambda a, b: a + b),
    "lazy_sub": Op(field.lazy_sub, lambda a, b: a - b),
    "lazy_mul": Op(field.lazy_mul, lambda a, b: a * b),
    "reduce128": Op(field.reduce128, lambda a, b: a + (b << 64)),
    "add": Op(field.add, lambda a, b: a + b, CANONICAL, CANONICAL, canonical=True),
    "sub": Op(field.sub, lambda a, b: a - b, CANONICAL, CANONICAL, canonical=True),
    "neg": Op(lambda a, b: field.neg(a), lambda a, b: -a, CANONICAL, canonical=True),
    "mul": Op(field.mul, lambda a, b: a * b, canonical=True),
}


def _uncorrected_add(a: Any, b: Any) -> Any:
    """``lazy_add`` without making one operand canonical."""
    return field.lazy_add_canonical(a, b)


def _uncorrected_sub(a: Any, b: Any) -> Any:
    return field.lazy_sub_canonical(a, b)


def _strict_canon(a: Any, _b: Any) -> Any:
    """Leaves p as it is."""
    return select(a > P, a - P, a)


def _forgetful_mul(a: Any, b: Any) -> Any:
    """The product by a helper that drops the last carry."""
    low, high = a * b, field.mulhi(a, b)
    t = field.lazy_sub_canonical(low, high >> 32)
    return t + (high & field.EPSILON) * field.EPSILON


MUTANTS = {
    "lazy_add": _uncorrected_add, "lazy_sub": _uncorrected_sub, "canon": _strict_canon, "lazy_mul": _forgetful_mul,
    "double": lambda a, b: field.lazy_add_canonical(a, a),
}


def lanes_function(name: str, op: Callable[[Any, Any], Any]) -> Function:
    """``op`` over arrays, eight elements at a time."""
    @function
    def run(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
        for i in range(0, n, 8):
            out.store8(i, op(a.load8(i), b.load8(i)))

    run.name = f"{name}_lanes"
    return run


def scalar_function(name: str, op: Callable[[Any, Any], Any]) -> Function:
    """``op`` over arrays, one element at a time."""
    @function
    def run(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
        for i in range(n):
            out[i] = op(a[i], b[i])

    run.name = f"{name}_scalar"
    return run


@function
def shift_lanes(x: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """Row e of ``out``: x * 2^e."""
    for e in unroll(range(SHIFTS)):
        for i in range(0, n, 8):
            out.store8(n * e + i, field.lazy_shift(x.load8(i), e))


@function
def shift_scalar(x: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """The same, one at a time."""
    for e in unroll(range(SHIFTS)):
        for i in range(n):
            out[n * e + i] = field.lazy_shift(x[i], e)


@function
def power_scalar(x: Ptr[u64], e: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """Powers."""
    for i in range(n):
        out[i] = field.power(x[i], e[i])


@function
def inverse_scalar(x: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """Inverses."""
    for i in range(n):
        out[i] = field.inv(x[i])


@function
def ext_lanes(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """Five triples a row: the product, then norm, adjugate of a, and Karatsuba again on lanes."""
    for i in range(0, n, 8):
        x = (a.load8(i), a.load8(n + i), a.load8(2 * n + i))
        y = (b.load8(i), b.load8(n + i), b.load8(2 * n + i))
        product = field.lazy_ext_mul(x, y)
        norm, adjugate = field.norm_and_adjugate(x)
        for c in unroll(range(3)):
            out.store8(n * c + i, product[c])
            out.store8(n * (4 + c) + i, adjugate[c])
        out.store8(3 * n + i, norm)


@function
def ext_scalar(a: Ptr[u64], b: Ptr[u64], out: Ptr[u64], n: u64) -> None:
    """Sum, difference, product, scaled, plus base, inverse and power: seven triples a row, canonical operands."""
    for i in range(n):
        x = Ext(a[i], a[n + i], a[2 * n + i])
        y = Ext(b[i], b[n + i], b[2 * n + i])
        rows = (x + y, x - y, x * y, x.scale(y.c1), x.plus_base(y.c2), field.ext_inv(x), field.ext_power(x, y.c0))
        for k in unroll(range(7)):
            for c in unroll(range(3)):
                out[n * (3 * k + c) + i] = rows[k][c]


FUNCTIONS = [
    *(make(name, op.helper) for name, op in OPS.items() for make in (lanes_function, scalar_function)),
    shift_lanes, shift_scalar, power_scalar, inverse_scalar, ext_lanes, ext_scalar,
]


@functools.cache
def engine(name: str) -> dict[str, Callable[..., Any]]:
    """All functions, compiled for a level or interpreted."""
    if name == "interpreter":
        return {f.name: f for f in FUNCTIONS}
    library = cpu.Library("field-test", FUNCTIONS, level=name)
    return {f.name: getattr(library, f.name) for f in FUNCTIONS}


def operands(op: Op) -> tuple[list[int], list[int]]:
    """All pairs of edges and some random pairs, a multiple of eight of them."""
    rng = random.Random(5)
    high_a, high_b = (2**64 if P in xs else P for xs in (op.a, op.b))
    pairs = list(itertools.product(op.a, op.b))
    pairs += [(rng.randrange(high_a), rng.randrange(high_b)) for _ in range(64 + -len(pairs) % 8)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def failures(run: Callable[..., Any], op: Op) -> list[tuple[int, int]]:
    """Pairs on which ``run`` gives something else than the operation means."""
    a, b = operands(op)
    out = array([0] * len(a))
    run(array(a), array(b), out, len(a))
    reduced = [x if op.canonical else x % P for x in ints(out)]
    return [(x, y) for x, y, r in zip(a, b, reduced, strict=True) if r != op.meaning(x, y) % P]


@pytest.mark.parametrize("level", ENGINES)
@pytest.mark.parametrize("shape", ["lanes", "scalar"])
@pytest.mark.parametrize("name", OPS)
def test_operation_on_all_pairs_of_edges(name: str, shape: str, level: str) -> None:
    assert failures(engine(level)[f"{name}_{shape}"], OPS[name]) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_missing_correction_is_seen(name: str) -> None:
    """The edges are sharp enough: the same check refuses a helper that leaves out one correction."""
    library = cpu.Library("field-mutants", [lanes_function(n, m) for n, m in MUTANTS.items()])
    assert failures(getattr(library, f"{name}_lanes"), OPS[name])
    assert failures(scalar_function(name, MUTANTS[name]), OPS[name])


@pytest.mark.parametrize("level", ENGINES)
@pytest.mark.parametrize("shape", ["lanes", "scalar"])
def test_every_shift(shape: str, level: str) -> None:
    xs = [*EDGES, *plain.random_words(1, 8)]
    out = array([0] * (SHIFTS * len(xs)))
    engine(level)[f"shift_{shape}"](array(xs), out, len(xs))
    got = [x % P for x in ints(out)]
    assert got == [(x << e) % P for e in range(SHIFTS) for x in xs]


@pytest.mark.parametrize("level", ENGINES)
def test_power_and_inverse(level: str) -> None:
    exponents = [0, 1, 2, 3, 2**32, P - 2, P - 1, 2**64 - 1]
    pairs = list(itertools.product([0, 1, 7, P - 1, 2**32, 2**63], exponents))
    out = array([0] * len(pairs))
    engine(level)["power_scalar"](array(x for x, _ in pairs), array(e for _, e in pairs), out, len(pairs))
    assert ints(out) == [pow(x, e, P) for x, e in pairs]
    out = array([0] * len(CANONICAL))
    engine(level)["inverse_scalar"](array(CANONICAL), out, len(CANONICAL))
    assert ints(out) == [pow(x, -1, P) if x else 0 for x in CANONICAL]


# ---------------------------------------------------------------- extension


def triples(values: tuple[int, ...], n: int, seed: int) -> list[plain.Triple]:
    """Zero, the powers of w and random triples of ``values``."""
    rng = random.Random(seed)
    some = [(rng.choice(values), rng.choice(values), rng.choice(values)) for _ in range(n - 4)]
    return [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), *some]


def flat(xs: list[plain.Triple]) -> Any:
    """Triples as three arrays one after the other."""
    return array(x[c] for c in range(3) for x in xs)


def rows_of(out: Any, n: int) -> list[list[int]]:
    """Rows of ``n`` words each."""
    return [ints(r) for r in out.reshape(-1, n)]


@pytest.mark.parametrize("level", ENGINES)
def test_extension_on_any_representatives(level: str) -> None:
    n = 32 if level == "interpreter" else 1024
    a, b = triples(EDGES, n, 1), triples(EDGES, n, 2)[::-1]
    out = array([0] * (7 * n))
    engine(level)["ext_lanes"](flat(a), flat(b), out, n)
    r = [[x % P for x in row] for row in rows_of(out, n)]
    assert list(zip(*r[:3], strict=True)) == [plain.ext_mul(x, y) for x, y in zip(a, b, strict=True)]
    for x, norm, adjugate in zip(a, r[3], zip(*r[4:], strict=True), strict=True):
        assert plain.ext_mul(x, adjugate) == (norm, 0, 0)
        assert (norm == 0) == (not any(c % P for c in x))


@pytest.mark.parametrize("level", ENGINES)
def test_canonical_extension(level: str) -> None:
    n = 8 if level == "interpreter" else 512
    a, b = triples(CANONICAL, n, 3), triples(CANONICAL, n, 4)[::-1]
    out = array([0] * (21 * n))
    engine(level)["ext_scalar"](flat(a), flat(b), out, n)
    r = rows_of(out, n)
    got = [list(zip(*r[3 * k:3 * k + 3], strict=True)) for k in range(7)]
    pairs = list(zip(a, b, strict=True))
    assert got[0] == [plain.ext_add(x, y) for x, y in pairs]
    assert got[1] == [plain.ext_sub(x, y) for x, y in pairs]
    assert got[2] == [plain.ext_mul(x, y) for x, y in pairs]
    assert got[3] == [plain.ext_scale(x, y[1]) for x, y in pairs]
    assert got[4] == [plain.ext_add(x, (y[2], 0, 0)) for x, y in pairs]
    assert got[6] == [plain.ext_power(x, y[0]) for x, y in pairs]
    for x, inverse in zip(a, got[5], strict=True):
        assert plain.ext_mul(x, inverse) == ((1, 0, 0) if any(x) else (0, 0, 0))


def test_extension_in_plain_integers() -> None:
    elements = triples(CANONICAL, 40, 6)
    for a, b in itertools.product(elements, elements[:20]):
        assert field.mul_ints(a, b) == plain.ext_mul(a, b)
        assert field.add_ints(a, b) == plain.ext_add(a, b)
        assert field.scale_ints(a, b[2]) == plain.ext_scale(a, b[2])
    for a in elements[:8]:
        for e in (0, 1, 2, 3, 2**32 + 1, P):
            assert field.power_ints(a, e) == plain.ext_power(a, e)


def test_inverse_by_fermat_agrees() -> None:
    x = (3, P - 5, 2**40)
    assert tuple(map(int, field.ext_inv(Ext(*x)))) == plain.ext_inverse(x)


def test_constants_of_the_extension() -> None:
    assert plain.ext_power((0, 1, 0), 3) == (field.NON_RESIDUE, 0, 0)
    assert pow(field.NON_RESIDUE, (P - 1) // 3, P) != 1, "w^3 - 2 must have no root"
    assert (*map(int, field.ZERO), *map(int, field.ONE)) == (0, 0, 0, 1, 0, 0)


# ---------------------------------------------------------------- roots of unity


def test_generator() -> None:
    assert P - 1 == 2**32 * 3 * 5 * 17 * 257 * 65537
    assert all(pow(field.GENERATOR, (P - 1) // q, P) != 1 for q in (2, 3, 5, 17, 257, 65537))
    assert field.P == P and field.EPSILON == 2**64 % P


@pytest.mark.parametrize("log_n", range(33))
def test_root_has_the_exact_order(log_n: int) -> None:
    w = field.root_of_unity(log_n)
    assert pow(w, 1 << log_n, P) == 1
    assert log_n == 0 or pow(w, 1 << (log_n - 1), P) == P - 1
    assert log_n == 0 or w * w % P == field.root_of_unity(log_n - 1)


@pytest.mark.parametrize("log_n", [-1, 33, 64])
def test_no_root_of_other_orders(log_n: int) -> None:
    with pytest.raises(ValueError, match="no subgroup"):
        field.root_of_unity(log_n)


def test_lanes_and_words_are_one_meaning() -> None:
    """A helper on plain wrapping integers, without compiler or arrays."""
    for a, b in itertools.product(EDGES, EDGES):
        assert int(field.lazy_mul(u64(a), u64(b))) % P == a * b % P
    eight = u64x8(tuple(EDGES[:8]))
    assert [int(x) for x in field.mul(eight, eight).v] == [x * x % P for x in EDGES[:8]]
