"""Every operator and intrinsic on every type: interpreter, CPU and RV64IM code against Python's integers.

For each type one function evaluates a list of expressions on pairs (x, y); the expected values are formulas over
unbounded integers, written without the package.
"""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from lang_support import LEVELS, MASK64, Guest, from_words, module_of, words

import tailbite.lang
from tailbite.lang import backend, cpu

BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i64": 64}
FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}
DTYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "i64": np.int64}
P = 2**64 - 2**32 + 1
Formula = Callable[[int, int], int]


def limits(t: str) -> tuple[int, int]:
    return (-(2**63), 2**63 - 1) if t == "i64" else (0, 2 ** BITS[t] - 1)


def wrapped(v: int, t: str) -> int:
    v &= 2 ** BITS[t] - 1
    return v - 2**64 if t == "i64" and v >= 2**63 else v


def edges(t: str) -> list[int]:
    low, high = limits(t)
    candidates = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 2**31 - 1, 2**31, 2**32 - 1,
                  2**32, 2**63 - 1, 2**63, P - 1, P, P + 1, 2**64 - 1, high, high - 1, high // 2, high // 2 + 1, low,
                  low + 1]
    candidates += [-c for c in (1, 2, 3, 7, 63, 64, 65, 2**31, 2**32, 2**62)]
    return sorted({c for c in candidates if low <= c <= high})


def pairs(t: str) -> list[tuple[int, int]]:
    """All pairs of edge values, and some of random ones."""
    rng, (low, high) = random.Random(BITS[t]), limits(t)
    values = edges(t)
    some = [(rng.randint(low, high), rng.randint(low, high)) for _ in range(50)]
    return [(x, y) for x in values for y in values] + some


def quotient(x: int, y: int) -> int:
    """Truncated, as RISC-V DIV and DIVU: all ones for a zero divisor."""
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int:
    return x if y == 0 else x - quotient(x, y) * y


def rotated(x: int, k: int, bits: int) -> int:
    k %= bits
    return (x << k | x >> (bits - k)) & (2**bits - 1)


def common(t: str) -> dict[str, Formula]:
    """Expressions of every integer type."""
    n, top = BITS[t], limits(t)[1]
    out: dict[str, Formula] = {
        "x + y": lambda x, y: x + y,
        "x - y": lambda x, y: x - y,
        "x * y": lambda x, y: x * y,
        "x & y": lambda x, y: x & y,
        "x | y": lambda x, y: x | y,
        "x ^ y": lambda x, y: x ^ y,
        "x << y": lambda x, y: x << (y % n),
        "x >> y": lambda x, y: x >> (y % n),
        "~x": lambda x, y: ~x,
        "-x": lambda x, y: -x,
        "x + 7": lambda x, y: x + 7,
        "7 - x": lambda x, y: 7 - x,
        "x - 7": lambda x, y: x - 7,
        "5 * x": lambda x, y: 5 * x,
        "x & 85": lambda x, y: x & 85,
        "85 | x": lambda x, y: x | 85,
        f"x ^ {top}": lambda x, y: x ^ top,
        "1 << y": lambda x, y: 1 << (y % n),
        f"{top} >> y": lambda x, y: top >> (y % n),
        f"{t}(9) + x": lambda x, y: x + 9,
        f"{t}(3) << y": lambda x, y: 3 << (y % n),
        f"x << {t}(9)": lambda x, y: x << (9 % n),
        "select(x < y, x, y)": lambda x, y: min(x, y),
        "select(x == y, 3, x)": lambda x, y: 3 if x == y else x,
        "select(x > y, x, 77)": lambda x, y: x if x > y else 77,
        "select(x == y, 3, x) - 4": lambda x, y: (3 if x == y else x) - 4,
        "4 + select(x > y, x, 77)": lambda x, y: (x if x > y else 77) + 4,
        "x if x >= y else y": lambda x, y: max(x, y),
    }
    for k in (0, 1, 7, 63, 64, 65, 100):
        out[f"x << {k}"] = lambda x, y, k=k: x << (k % n)
        out[f"x >> {k}"] = lambda x, y, k=k: x >> (k % n)
    return out


def converting(t: str) -> dict[str, Formula]:
    """Expressions whose result is of another type."""
    out: dict[str, Formula] = {}
    for op, compare in COMPARISONS.items():
        out[f"x {op} y"] = lambda x, y, c=compare: int(c(x, y))
        out[f"x {op} 5"] = lambda x, y, c=compare: int(c(x, 5))
        out[f"5 {op} x"] = lambda x, y, c=compare: int(c(5, x))
    for to in BITS:
        out[f"{to}(x)"] = lambda x, y, to=to: wrapped(x, to)
    if t == "u64":
        out |= {
            "u8(x) * u8(y)": lambda x, y: x * y % 256,
            "u16(x) - u16(y)": lambda x, y: (x - y) % 2**16,
            "i64(x) >> 1": lambda x, y: wrapped(x, "i64") >> 1,
        }
    return out


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}


def unsigned(t: str) -> dict[str, Formula]:
    n = BITS[t]
    out: dict[str, Formula] = {"x // y": quotient, "x % y": remainder,
                               "umin(x, y)": min, "umin(x, 9)": lambda x, y: min(x, 9)}
    for k in (0, 1, 3, 7, 10, 2 ** (n - 1)):
        out[f"x // {k}"] = lambda x, y, k=k: quotient(x, k)
        out[f"x % {k}"] = lambda x, y, k=k: remainder(x, k)
        out[f"{k} // y"] = lambda x, y, k=k: quotient(k, y)
        out[f"{k} % y"] = lambda x, y, k=k: remainder(k, y)
    for k in (0, 1, 5, n - 1, n, n + 1):
        out[f"rotl(x, {k})"] = lambda x, y, k=k: rotated(x, k, n)
        out[f"rotr(x, {k})"] = lambda x, y, k=k: rotated(x, -k, n)
    return out


def special(t: str) -> dict[str, Formula]:
    """What only some types have."""
    if t == "i64":
        return {
            "sdiv(x, y)": quotient, "srem(x, y)": remainder,
            "sdiv(x, -1)": lambda x, y: -x, "srem(x, -1)": lambda x, y: 0,
            "sdiv(x, 7)": lambda x, y: quotient(x, 7), "srem(x, -7)": lambda x, y: remainder(x, -7),
            "sdiv(x, 0)": lambda x, y: -1, "srem(x, 0)": lambda x, y: x,
            "sdiv(-9, y)": lambda x, y: quotient(-9, y), "srem(-9, y)": lambda x, y: remainder(-9, y),
            f"sdiv({-(2**63)}, y)": lambda x, y: quotient(-(2**63), y), "x + -3": lambda x, y: x - 3,
        }
    if t != "u64":
        return {}
    return {
        "mulhi(x, y)": lambda x, y: x * y >> 64,
        f"mulhi(x, {2**63 + 1})": lambda x, y: x * (2**63 + 1) >> 64,
        "bswap(x)": lambda x, y: int.from_bytes(x.to_bytes(8, "little"), "big"),
        "x * opaque(4294967295, x)": lambda x, y: x * (2**32 - 1),
        f"x ^ opaque({P}, x)": lambda x, y: x ^ P,
    }


def expressions(t: str) -> dict[str, Formula]:
    """Expressions and the 64 bits that ``u64(...)`` makes of their values."""
    own = common(t) | ({} if t == "i64" else unsigned(t)) | special(t)
    out: dict[str, Formula] = {text: lambda x, y, f=f: wrapped(f(x, y), t) & MASK64 for text, f in own.items()}
    return out | {text: lambda x, y, f=f: f(x, y) & MASK64 for text, f in converting(t).items()}


@functools.cache
def expected(t: str) -> list[int]:
    """The value of every expression on every pair, pair by pair."""
    formulas = list(expressions(t).values())
    return [f(x, y) for x, y in pairs(t) for f in formulas]


def source(t: str) -> str:
    body = [f"        out[j + {k}] = u64({text})" for k, text in enumerate(expressions(t))]
    return "\n".join([
        "@function",
        f"def on_{t}(xs: Slice[{t}], ys: Slice[{t}], out: Ptr[u64]) -> None:",
        "    for i in range(length(xs)):",
        "        x = xs[i]",
        "        y = ys[i]",
        f"        j = i * {len(body)}",
        *body, ""])


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return module_of(tmp_path_factory.mktemp("operators"), "\n".join(map(source, BITS)) + BOOLEANS + LANES)


@pytest.fixture(scope="module")
def guest(module: ModuleType) -> Guest:
    return Guest([getattr(module, f"on_{t}") for t in BITS] + [module.on_bool])


def same(got: list[int], t: str) -> None:
    texts, inputs = list(expressions(t)), pairs(t)
    for k, (a, b) in enumerate(zip(got, expected(t), strict=True)):
        x, y = inputs[k // len(texts)]
        assert a == b, f"{texts[k % len(texts)]} for {t} x = {x}, y = {y}: got {a:#x}, not {b:#x}"


def test_the_formulas_themselves() -> None:
    """Values from the RISC-V specification, table "Semantics for division by zero and overflow"."""
    assert (quotient(5, 0) & MASK64, remainder(5, 0)) == (MASK64, 5)
    low = -(2**63)
    assert (wrapped(quotient(low, -1), "i64"), remainder(low, -1)) == (low, 0)
    assert (quotient(-7, 2), remainder(-7, 2), quotient(7, -2), remainder(7, -2)) == (-3, -1, -3, 1)


@pytest.mark.parametrize("t", BITS)
def test_interpreter(module: ModuleType, t: str) -> None:
    xs, ys = zip(*pairs(t), strict=True)
    out = [0] * len(expected(t))
    getattr(module, f"on_{t}")(list(xs), list(ys), out)
    same(out, t)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("t", BITS)
def test_cpu(module: ModuleType, t: str, level: str) -> None:
    xs, ys = (np.array(v, DTYPES[t]) for v in zip(*pairs(t), strict=True))
    out = np.zeros(len(expected(t)), np.uint64)
    lib = cpu.Library(f"operators {t}", [getattr(module, f"on_{t}")], level=level)
    getattr(lib, f"on_{t}")(xs, ys, out)
    same(out.tolist(), t)


@pytest.mark.parametrize("t", BITS)
def test_guest(guest: Guest, t: str) -> None:
    inputs = pairs(t)
    xs, ys = (struct.pack(f"<{len(inputs)}{FORMATS[t]}", *v) for v in zip(*inputs, strict=True))
    run = guest.run(f"on_{t}", xs, len(inputs), ys, len(inputs), bytes(8 * len(expected(t))))
    same(from_words(list(run.memory.values())[2]), t)


# ---------------------------------------------------------------- bool

BOOL_EXPRESSIONS: dict[str, Callable[[bool, bool], bool]] = {
    "p & q": lambda p, q: p & q, "p | q": lambda p, q: p | q, "p ^ q": lambda p, q: p ^ q,
    "p and q": lambda p, q: p and q, "p or q": lambda p, q: p or q, "not p": lambda p, q: not p,
    "p == q": lambda p, q: p == q, "p != q": lambda p, q: p != q, "p < q": lambda p, q: p < q,
    "p <= q": lambda p, q: p <= q, "p > q": lambda p, q: p > q, "p >= q": lambda p, q: p >= q,
    "p ^ True": lambda p, q: not p, "True & p": lambda p, q: p, "False | p": lambda p, q: p,
    "select(p, q, True)": lambda p, q: q if p else True, "select(p, False, q)": lambda p, q: False if p else q,
    "q if p else not q": lambda p, q: q if p else not q,
    "not (p and not q) or q": lambda p, q: not (p and not q) or q,
    "u64(p) + 1 == 2": lambda p, q: p, "u8(p) << 7 == 128": lambda p, q: p, "i64(p) - 1 < 0": lambda p, q: not p,
}
BOOLEANS = "\n".join([
    "@function",
    "def on_bool(ps: Slice[bool], qs: Slice[bool], out: Ptr[bool]) -> None:",
    "    for i in range(length(ps)):",
    "        p = ps[i]",
    "        q = qs[i]",
    *(f"        out[i * {len(BOOL_EXPRESSIONS)} + {k}] = {text}" for k, text in enumerate(BOOL_EXPRESSIONS)), "", ""])
BOOL_PAIRS = [(p, q) for p in (False, True) for q in (False, True)]
BOOL_EXPECTED = [f(p, q) for p, q in BOOL_PAIRS for f in BOOL_EXPRESSIONS.values()]


def test_bool_interpreter(module: ModuleType) -> None:
    out = [False] * len(BOOL_EXPECTED)
    module.on_bool([p for p, _ in BOOL_PAIRS], [q for _, q in BOOL_PAIRS], out)
    assert out == BOOL_EXPECTED


@pytest.mark.parametrize("level", LEVELS)
def test_bool_cpu(module: ModuleType, level: str) -> None:
    out = np.zeros(len(BOOL_EXPECTED), bool)
    ps, qs = (np.array(v, bool) for v in zip(*BOOL_PAIRS, strict=True))
    cpu.Library("booleans", [module.on_bool], level=level).on_bool(ps, qs, out)
    assert out.tolist() == BOOL_EXPECTED


def test_bool_guest(guest: Guest) -> None:
    ps, qs = (bytes(v) for v in zip(*BOOL_PAIRS, strict=True))
    run = guest.run("on_bool", ps, 4, qs, 4, bytes(len(BOOL_EXPECTED)))
    assert [bool(b) for b in list(run.memory.values())[2]] == BOOL_EXPECTED


# ---------------------------------------------------------------- lanes

LANE_EXPRESSIONS: dict[str, Formula] = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y,
    "x & y": lambda x, y: x & y, "x | y": lambda x, y: x | y, "x ^ y": lambda x, y: x ^ y,
    "x << y": lambda x, y: x << (y % 64), "x >> y": lambda x, y: x >> (y % 64),
    "~x": lambda x, y: ~x, "-x": lambda x, y: -x,
    "3 + x": lambda x, y: x + 3, "x - 3": lambda x, y: x - 3, "3 - x": lambda x, y: 3 - x,
    f"x * {P}": lambda x, y: x * P, "1 << x": lambda x, y: 1 << (x % 64), "999 >> x": lambda x, y: 999 >> (x % 64),
    "x << u64x8(y)": lambda x, y: x << (y % 64), "x + u64x8(u64(5))": lambda x, y: x + 5,
    "x << u64x8(65)": lambda x, y: x << 1, "x + u64x8(lane(y, 3) * 0 + 7)": lambda x, y: x + 7,
    "mulhi(x, y)": lambda x, y: x * y >> 64, f"mulhi({P}, y)": lambda x, y: P * y >> 64,
    "umin(x, y)": min, "umin(9, x)": lambda x, y: min(9, x),
    "x * opaque(4294967295, x)": lambda x, y: x * (2**32 - 1),
    "select((x < y) & (x != 0), x, y)": lambda x, y: x if x < y and x else y,
    "select((x < y) | (y == 1), x, 5)": lambda x, y: x if x < y or y == 1 else 5,
    "select((x < y) ^ (x > 9), 5, y)": lambda x, y: 5 if (x < y) != (x > 9) else y,
    "select(~(x < y), x, y)": lambda x, y: x if x >= y else y,
    "select(kept, x, y)": lambda x, y: max(x, y),
} | {
    f"x {op} {k}": (lambda x, y, k=k: x << (k % 64)) if op == "<<" else (lambda x, y, k=k: x >> (k % 64))
    for op in ("<<", ">>") for k in (0, 1, 63, 64, 65)
} | {
    f"rotl(x, {k})": (lambda x, y, k=k: rotated(x, k, 64)) for k in (0, 1, 63, 64, 65)
} | {
    f"rotr(x, {k})": (lambda x, y, k=k: rotated(x, -k, 64)) for k in (0, 1, 63, 64, 65)
} | {
    f"select(x {op} {side}, 1, u64x8(0))": (lambda x, y, c=c, side=side: int(c(x, y if side == "y" else 5)))
    for op, c in COMPARISONS.items() for side in ("y", "5")
}
MIXES = ((0, 1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1, 0), (8, 0, 9, 1, 15, 7, 0, 8))
LANES = "\n".join([
    "@function",
    "def on_lanes(xs: Ptr[u64], ys: Ptr[u64], n: u64, out: Ptr[u64], lanes: Ptr[u64]) -> None:",
    "    for i in range(0, n, 8):",
    "        x = xs.load8(i)",
    "        y = ys.load8(i)",
    "        kept = x >= y",
    *(f"        out.store8(i + {k} * n, {text})" for k, text in enumerate(LANE_EXPRESSIONS)),
    *(f"        lanes.store8(i + {k} * n, shuffle(x, y, {mix}))" for k, mix in enumerate(MIXES)),
    *(f"        lanes[i + {len(MIXES)} * n + {k}] = lane(x, {k})" for k in range(8)),
    "",
    "@function",
    "def multiply_add(xs: Ptr[u64], ys: Ptr[u64], n: u64, out: Ptr[u64]) -> None:",
    "    for i in range(0, n, 8):",
    "        x = xs.load8(i)",
    "        y = ys.load8(i)",
    "        out.store8(i, madd52lo(x, x, y))",
    "        out.store8(n + i, madd52hi(y, x, y))",
    ""])


def lane_inputs() -> tuple[list[int], list[int]]:
    xs, ys = (list(v) for v in zip(*pairs("u64"), strict=True))
    return (xs + xs[: -len(xs) % 8], ys + ys[: -len(ys) % 8])


def lanes_expected() -> tuple[list[int], list[int]]:
    xs, ys = lane_inputs()
    out = [f(x, y) & MASK64 for f in LANE_EXPRESSIONS.values() for x, y in zip(xs, ys, strict=True)]
    both = [xs[i:i + 8] + ys[i:i + 8] for i in range(0, len(xs), 8)]
    return out, [b[k] for mix in MIXES for b in both for k in mix] + xs


def same_lanes(out: list[int], lanes: list[int]) -> None:
    want, want_lanes = lanes_expected()
    n = len(lane_inputs()[0])
    for text, k in zip(LANE_EXPRESSIONS, range(0, len(want), n), strict=True):
        assert out[k:k + n] == want[k:k + n], text
    assert lanes == want_lanes


def test_lanes_interpreter(module: ModuleType) -> None:
    xs, ys = lane_inputs()
    out, lanes = ([0] * len(v) for v in lanes_expected())
    module.on_lanes(xs, ys, len(xs), out, lanes)
    same_lanes(out, lanes)


@pytest.mark.parametrize("level", LEVELS)
def test_lanes_cpu(module: ModuleType, level: str) -> None:
    xs, ys = (np.array(v, np.uint64) for v in lane_inputs())
    out, lanes = (np.zeros(len(v), np.uint64) for v in lanes_expected())
    cpu.Library("lanes", [module.on_lanes], level=level).on_lanes(xs, ys, len(xs), out, lanes)
    same_lanes(out.tolist(), lanes.tolist())


def test_lanes_guest(module: ModuleType) -> None:
    xs, ys = lane_inputs()
    buffers = [bytes(8 * len(v)) for v in lanes_expected()]
    run = Guest([module.on_lanes]).run("on_lanes", words(xs), words(ys), len(xs), *buffers)
    same_lanes(*map(from_words, list(run.memory.values())[2:]))


def madd_expected() -> list[int]:
    xs, ys = lane_inputs()
    products = [(x % 2**52) * (y % 2**52) for x, y in zip(xs, ys, strict=True)]
    low = [(x + p % 2**52) & MASK64 for x, p in zip(xs, products, strict=True)]
    return low + [(y + (p >> 52)) & MASK64 for y, p in zip(ys, products, strict=True)]


def test_multiply_add_interpreter(module: ModuleType) -> None:
    xs, ys = lane_inputs()
    out = [0] * (2 * len(xs))
    module.multiply_add(xs, ys, len(xs), out)
    assert out == madd_expected()


@pytest.mark.skipif(not backend.host().has("avx512ifma"), reason="no AVX-512 IFMA")
def test_multiply_add_cpu(module: ModuleType) -> None:
    xs, ys = (np.array(v, np.uint64) for v in lane_inputs())
    out = np.zeros(2 * len(xs), np.uint64)
    cpu.Library("multiply-add", [module.multiply_add]).multiply_add(xs, ys, len(xs), out)
    assert out.tolist() == madd_expected()


# ---------------------------------------------------------------- compile-time constants


@pytest.mark.parametrize("t", BITS)
def test_constants_compute_the_same(t: str) -> None:
    """An expression of typed constants is computed while compiling, outside of any function."""
    names = vars(tailbite.lang)
    codes = [compile(f"int(u64({text}))", text, "eval") for text in expressions(t)]
    got = [eval(code, {**names, "x": names[t](x), "y": names[t](y)}) for x, y in pairs(t) for code in codes]
    same(got, t)
