"""Goldilocks, p = 2^64 - 2^32 + 1, and its cubic extension F_p[w]/(w^3 - 2).

Plain helpers over u64 values, lanes or wrapping integers. Two conventions:

* ``add, sub, mul, neg, inv`` take and give canonical values (< p);
* ``lazy_*`` take and give any 64-bit representative; they are for kernels, which canonicalise what leaves them.

Reduction uses 2^64 = 2^32 - 1 and 2^96 = -1 (mod p).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .lang import function, mulhi, opaque, select, u64, umin

P = 0xFFFFFFFF00000001
EPSILON = 0xFFFFFFFF  # 2^64 mod p
GENERATOR = 7
TWO_ADICITY = 32
NON_RESIDUE = 2  # w^3


def root_of_unity(log_n: int) -> int:
    """The generator 7^((p-1)/n) of the subgroup of n = 2^log_n elements; 0 <= log_n <= 32."""
    if not 0 <= log_n <= TWO_ADICITY:
        raise ValueError(f"no subgroup of 2^{log_n} elements in Goldilocks")
    return pow(GENERATOR, (P - 1) >> log_n, P)


# ---------------------------------------------------------------- any representative


def canon(x: Any) -> Any:
    """The canonical representative: x + 2^32 - 1 wraps, to x - p, exactly if x >= p."""
    return umin(x, x + EPSILON)


def lazy_add_canonical(a: Any, b: Any) -> Any:
    """a + b for any a and canonical b."""
    t = a + b
    return select(t < a, t + EPSILON, t)


def lazy_sub_canonical(a: Any, b: Any) -> Any:
    """a - b for any a and canonical b."""
    t = a - b
    return select(a < b, t - EPSILON, t)


def lazy_add(a: Any, b: Any) -> Any:
    """a + b for any representatives."""
    return lazy_add_canonical(a, canon(b))


def lazy_sub(a: Any, b: Any) -> Any:
    """a - b for any representatives."""
    return lazy_sub_canonical(a, canon(b))


def reduce128(low: Any, high: Any) -> Any:
    """low + 2^64 high, reduced to some representative."""
    top = high >> 32
    t = low - top
    t = select(low < top, t - EPSILON, t)
    m = (high & EPSILON) * opaque(EPSILON, high)
    r = t + m
    return select(r < m, r + EPSILON, r)


def lazy_mul(a: Any, b: Any) -> Any:
    """a * b for any representatives."""
    return reduce128(a * b, mulhi(a, b))


def lazy_shift(x: Any, e: int) -> Any:
    """x * 2^e for any representative and a constant 0 <= e < 192."""
    if e >= 96:
        return lazy_sub(0 * x, lazy_shift(x, e - 96))
    if e == 0:
        return x
    if e < 64:
        low, high = x << e, x >> (64 - e)
        if e <= 32:
            m = high * opaque(EPSILON, x)
            return lazy_add_canonical(low, m)
        return reduce128(low, high)
    if e == 64:
        return reduce128(0 * x, x)
    # x = x0 + 2^(96-e) x1: x0 2^e = (x0 2^(e-64)) 2^64, and x1 2^96 = -x1
    m = ((x << (e - 64)) & EPSILON) * opaque(EPSILON, x)
    return lazy_sub_canonical(m, x >> (96 - e))


# ---------------------------------------------------------------- canonical


def add(a: Any, b: Any) -> Any:
    """a + b mod p, canonical."""
    c = P - b
    t = a - c
    return select(a < c, t + P, t)


def sub(a: Any, b: Any) -> Any:
    """a - b mod p, canonical."""
    t = a - b
    return select(a < b, t + P, t)


def neg(a: Any) -> Any:
    """-a mod p, canonical."""
    return select(a == 0, a, P - a)


def mul(a: Any, b: Any) -> Any:
    """a * b mod p, canonical."""
    return canon(lazy_mul(a, b))


@function
def power(x: u64, e: u64) -> u64:
    """x^e mod p."""
    result = u64(1)
    base = x
    while e != 0:
        if e & 1 != 0:
            result = mul(result, base)
        base = mul(base, base)
        e = e >> 1
    return result


@function
def inv(x: u64) -> u64:
    """1/x mod p, and 0 for x = 0."""
    return power(x, u64(P - 2))


# ---------------------------------------------------------------- the cubic extension


class Ext(NamedTuple):
    """c0 + c1 w + c2 w^2 with w^3 = 2; coordinates canonical."""

    c0: u64
    c1: u64
    c2: u64

    def __add__(self, o: Any) -> Ext:  # type: ignore[override]
        return Ext(add(self.c0, o.c0), add(self.c1, o.c1), add(self.c2, o.c2))

    def __sub__(self, o: Any) -> Ext:
        return Ext(sub(self.c0, o.c0), sub(self.c1, o.c1), sub(self.c2, o.c2))

    def __mul__(self, o: Any) -> Ext:  # type: ignore[override]
        return ext_mul(self, o)

    def scale(self, k: Any) -> Ext:
        """Product with a base element."""
        return Ext(mul(self.c0, k), mul(self.c1, k), mul(self.c2, k))

    def plus_base(self, k: Any) -> Ext:
        """Sum with a base element."""
        return Ext(add(self.c0, k), self.c1, self.c2)


def lazy_ext_mul(a: tuple[Any, Any, Any], b: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Product by Karatsuba's six multiplications, any representatives."""
    m0, m1, m2 = (lazy_mul(x, y) for x, y in zip(a, b, strict=True))

    def cross(i: int, j: int, mi: Any, mj: Any) -> Any:
        both = lazy_mul(lazy_add(a[i], a[j]), lazy_add(b[i], b[j]))
        return lazy_sub(lazy_sub(both, mi), mj)

    x12, x01, x02 = cross(1, 2, m1, m2), cross(0, 1, m0, m1), cross(0, 2, m0, m2)
    return (lazy_add(m0, double(x12)), lazy_add(x01, double(m2)), lazy_add(x02, m1))


def double(x: Any) -> Any:
    """2x, any representative."""
    c = canon(x)
    return lazy_add_canonical(c, c)


def norm_and_adjugate(a: tuple[Any, Any, Any]) -> tuple[Any, tuple[Any, Any, Any]]:
    """Norm N(a) in the base field and the element a' with a a' = N(a), any representatives."""
    a0, a1, a2 = a
    c0 = lazy_sub(lazy_mul(a0, a0), double(lazy_mul(a1, a2)))
    c1 = lazy_sub(double(lazy_mul(a2, a2)), lazy_mul(a0, a1))
    c2 = lazy_sub(lazy_mul(a1, a1), lazy_mul(a0, a2))
    n = lazy_add(lazy_mul(a0, c0), double(lazy_add(lazy_mul(a1, c2), lazy_mul(a2, c1))))
    return n, (c0, c1, c2)


class Wide(NamedTuple):
    """low + 2^64 high + 2^128 top: a sum of fewer than 2^32 products of words, not yet reduced."""

    low: u64
    high: u64
    top: u64

    def plus_product(self, x: Any, y: Any) -> Wide:
        """This sum and x y."""
        lo, hi = x * y, mulhi(x, y)
        low = self.low + lo
        hi = hi + u64(low < lo)
        high = self.high + hi
        return Wide(low, high, self.top + u64(high < hi))

    def reduced(self) -> Any:
        """The sum mod p, canonical; 2^128 = -2^32."""
        return canon(lazy_sub_canonical(reduce128(self.low, self.high), self.top << 32))


def sum_of_products(pairs: list[tuple[Any, Any]]) -> Any:
    """Sum of at most four products of any representatives, reduced once; canonical. For words, not lanes."""
    x, y = pairs[0]
    total = Wide(x * y, mulhi(x, y), u64(0))
    for x, y in pairs[1:]:
        total = total.plus_product(x, y)
    return total.reduced()


@function
def ext_mul(a: Ext, b: Ext) -> Ext:
    """a * b by nine products: on words carries are cheaper than Karatsuba's reductions."""
    twice1, twice2 = double(b.c1), double(b.c2)
    return Ext(sum_of_products([(a.c0, b.c0), (a.c1, twice2), (a.c2, twice1)]),
               sum_of_products([(a.c0, b.c1), (a.c1, b.c0), (a.c2, twice2)]),
               sum_of_products([(a.c0, b.c2), (a.c1, b.c1), (a.c2, b.c0)]))


@function
def ext_inv(a: Ext) -> Ext:
    """1/a, and 0 for a = 0."""
    n, adjugate = norm_and_adjugate(a)
    k = inv(canon(n))
    return Ext(mul(adjugate[0], k), mul(adjugate[1], k), mul(adjugate[2], k))


@function
def ext_power(a: Ext, e: u64) -> Ext:
    """a^e."""
    result = Ext(u64(1), u64(0), u64(0))
    base = a
    while e != 0:
        if e & 1 != 0:
            result = ext_mul(result, base)
        base = ext_mul(base, base)
        e = e >> 1
    return result


# ---------------------------------------------------------------- the extension in plain integers

ExtInts = tuple[int, int, int]


def mul_ints(a: ExtInts, b: ExtInts) -> ExtInts:
    """Product of extension elements given as canonical integers; for the few values that the prover handles singly."""
    a0, a1, a2 = a
    b0, b1, b2 = b
    return ((a0 * b0 + 2 * (a1 * b2 + a2 * b1)) % P, (a0 * b1 + a1 * b0 + 2 * a2 * b2) % P,
            (a0 * b2 + a1 * b1 + a2 * b0) % P)


def add_ints(a: ExtInts, b: ExtInts) -> ExtInts:
    """Sum of extension elements."""
    return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P


def scale_ints(a: ExtInts, k: int) -> ExtInts:
    """Product with a base element."""
    return a[0] * k % P, a[1] * k % P, a[2] * k % P


def power_ints(a: ExtInts, e: int) -> ExtInts:
    """a^e for e >= 0."""
    result = (1, 0, 0)
    while e:
        if e & 1:
            result = mul_ints(result, a)
        a = mul_ints(a, a)
        e >>= 1
    return result


ZERO = Ext(u64(0), u64(0), u64(0))
ONE = Ext(u64(1), u64(0), u64(0))
