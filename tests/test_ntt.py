"""Low-degree extension against transforms of plain Python integers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tailbite.errors import CompileError
from tailbite.field import GENERATOR, P, root_of_unity
from tailbite.lang import Ptr, cpu, function, u64, u64x8
from tailbite.stark import ntt
from tailbite.stark import ntt_kernels as kernels
from tailbite.stark.ntt import Extension, evaluate, extension, interpolate

EDGES = {
    "zero": lambda i: 0, "one": lambda i: 1, "minus one": lambda i: P - 1, "alternating": lambda i: (0, P - 1)[i % 2],
    "delta": lambda i: int(i == 3), "high halves": lambda i: (P - 1) - i % 5 * ((1 << 32) - 1),
}


# ---------------------------------------------------------------- plain Python twins


def naive(x: list[int], root: int) -> list[int]:
    """Sum of x[i] root^(ik), for each k."""
    return [sum(v * pow(root, i * k, P) for i, v in enumerate(x)) % P for k in range(len(x))]


def recursive(x: list[int], root: int) -> list[int]:
    """The same by halving."""
    if len(x) == 1:
        return x
    even, odd = (recursive(x[k::2], root * root % P) for k in range(2))
    low, high, w = [], [], 1
    for a, b in zip(even, odd, strict=True):
        low.append((a + b * w) % P)
        high.append((a - b * w) % P)
        w = w * root % P
    return low + high


def coefficients(values: list[int], shift: int = 1) -> list[int]:
    n = len(values)
    root = pow(root_of_unity(n.bit_length() - 1), -1, P)
    return [v * pow(n, -1, P) * pow(shift, -i, P) % P for i, v in enumerate(recursive(values, root))]


def values_of(poly: list[int], shift: int, log_size: int) -> list[int]:
    padded = [c * pow(shift, i, P) % P for i, c in enumerate(poly)] + [0] * ((1 << log_size) - len(poly))
    return recursive(padded, root_of_unity(log_size))


def expected(values: list[int], log_blowup: int, shift: int = GENERATOR) -> list[int]:
    return values_of(coefficients(values), shift, len(values).bit_length() - 1 + log_blowup)


def random_column(n: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed * 1000 + n)
    return [rng.choice((rng.randrange(P), P - 1 - rng.randrange(4), rng.randrange(4))) for _ in range(n)]


def extended(values: list[int], log_blowup: int, plan: Extension | None = None, skew: int = 0) -> list[int]:
    """By the kernels, to memory ``skew`` words past a 64-byte boundary; checks that the source is left alone."""
    n = len(values)
    plan = plan or extension(n.bit_length() - 1, log_blowup)
    source, memory = np.array(values, dtype=np.uint64), np.full((n << log_blowup) + 16, 1234567, dtype=np.uint64)
    start = -(memory.ctypes.data // 8) % 8 + skew
    out = memory[start:start + (n << log_blowup)]
    plan.extend(source, out)
    assert source.tolist() == values
    assert set(memory[:start]) | set(memory[start + out.size:]) <= {1234567}
    return out.tolist()


def test_twins_agree() -> None:
    x = random_column(16)
    assert recursive(x, root_of_unity(4)) == naive(x, root_of_unity(4))
    assert values_of(coefficients(x, 5), 5, 4) == x


# ---------------------------------------------------------------- extension


@pytest.mark.parametrize("log_blowup", [1, 2, 3])
@pytest.mark.parametrize("log_n", range(3, 15))
def test_extension(log_n: int, log_blowup: int) -> None:
    x = random_column(1 << log_n)
    assert extended(x, log_blowup) == expected(x, log_blowup)


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("log_n", [3, 8, 9, 10])
def test_edges(log_n: int, edge: str) -> None:
    x = [EDGES[edge](i) for i in range(1 << log_n)]
    assert extended(x, 1) == expected(x, 1)


@pytest.mark.parametrize("skew", range(8))
def test_any_alignment(skew: int) -> None:
    x = random_column(512)
    assert extended(x, 1, skew=skew) == expected(x, 1)


def by_rows(monkeypatch: pytest.MonkeyPatch, log_n: int, log_blowup: int, log_rows: int) -> Extension:
    """An extension that works in rows though the column is small."""
    monkeypatch.setattr(ntt, "log_rows_of", lambda _: log_rows)
    return Extension(log_n, log_blowup)


@pytest.mark.parametrize("edge", [*EDGES, None])
@pytest.mark.parametrize(("log_rows", "log_blowup"), [(4, 1), (4, 2), (4, 3), (6, 0), (6, 1), (8, 1)])
def test_rows_agree_with_one_block(monkeypatch: pytest.MonkeyPatch, log_rows: int, log_blowup: int,
                                   edge: str | None) -> None:
    n = 1 << log_rows + 9
    x = random_column(n) if edge is None else [EDGES[edge](i) for i in range(n)]
    assert extended(x, log_blowup, by_rows(monkeypatch, log_rows + 9, log_blowup, log_rows)) == extended(x, log_blowup)


def test_slices_agree_with_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    x = random_column(1 << 14)
    monkeypatch.setattr(ntt, "SLICE", 1 << 10)
    assert extended(x, 1, by_rows(monkeypatch, 14, 1, 4)) == extended(x, 1)


@pytest.mark.parametrize("log_n", [15, 16, 17, 18, 19, 20])
def test_monomials_at_full_size(log_n: int) -> None:
    """A polynomial with few terms has geometric series as values: every shape of plan in use."""
    n, rng = 1 << log_n, random.Random(log_n)
    w, big = root_of_unity(log_n), root_of_unity(log_n + 1)
    values, out = np.zeros(n, dtype=np.uint64), np.zeros(2 * n, dtype=np.uint64)
    for k in (0, 1, n - 1, rng.randrange(n), rng.randrange(n)):
        c = rng.randrange(P)
        values = add(values, ntt.powers_of(pow(w, k, P), n, c))
        out = add(out, ntt.powers_of(pow(big, k, P), 2 * n, c * pow(GENERATOR, k, P) % P))
    found = np.empty(2 * n, dtype=np.uint64)
    extension(log_n, 1).extend(values, found)
    assert np.array_equal(found, out)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    s = a + b
    return np.where((s < a) | (s >= np.uint64(P)), s - np.uint64(P), s)


def test_plans_of_all_sizes_have_steps() -> None:
    for log_n in range(ntt.LOG_SMALL, 27):
        r = ntt.log_rows_of(log_n)
        assert sum(ntt.RADICES[r]) == r
        assert sum(ntt.RADICES[log_n - r - 6]) == log_n - r - 6
        assert set(ntt.RADICES[r]) <= {4, 6}
        assert 6 not in ntt.RADICES[r][:-1]  # radix 64 over rows has no twiddles


def test_linear() -> None:
    a, b, k = random_column(1024, 1), random_column(1024, 2), 0x123456789ABCDEF
    together = extended([(x + k * y) % P for x, y in zip(a, b, strict=True)], 2)
    assert together == [(x + k * y) % P for x, y in zip(extended(a, 2), extended(b, 2), strict=True)]


def test_low_degree_extends_to_its_own_values() -> None:
    poly = [3, 0, P - 1, 1 << 40]
    log_n, log_blowup = 10, 2
    x = [sum(c * pow(root_of_unity(log_n), i * k, P) for k, c in enumerate(poly)) % P for i in range(1 << log_n)]
    w = root_of_unity(log_n + log_blowup)
    points = [GENERATOR * pow(w, j, P) % P for j in range(4 << log_n)]
    assert extended(x, log_blowup) == [sum(c * pow(p, k, P) for k, c in enumerate(poly)) % P for p in points]


def test_threads_do_not_disturb_each_other() -> None:
    columns = [random_column(1 << 12, seed) for seed in range(8)]
    alone = [extended(x, 1) for x in columns]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda x: extended(x, 1), columns * 3)) == alone * 3


@pytest.mark.parametrize("level", ["avx2", "baseline"])
@pytest.mark.parametrize(("log_n", "log_rows"), [(10, 0), (13, 4)])
def test_levels(monkeypatch: pytest.MonkeyPatch, level: str, log_n: int, log_rows: int) -> None:
    x = random_column(1 << log_n)
    native = extended(x, 1)
    library = cpu.Library(f"ntt-{level}", kernels.KERNELS, level=level)
    try:
        library.load()
    except CompileError as e:
        pytest.skip(str(e))
    monkeypatch.setattr(ntt, "LIBRARY", library)
    assert extended(x, 1, by_rows(monkeypatch, log_n, 1, log_rows)) == native


@pytest.mark.parametrize("size", [0, 7, 16])
def test_wrong_shapes_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="contiguous array of 8"):
        extension(3, 1).extend(np.zeros(size, dtype=np.uint64), np.zeros(16, dtype=np.uint64))
    with pytest.raises(ValueError, match="contiguous array of 16"):
        extension(3, 1).extend(np.zeros(8, dtype=np.uint64), np.zeros(32, dtype=np.uint64)[::2])
    with pytest.raises(ValueError, match="no extension"):
        Extension(2, 1)


# ---------------------------------------------------------------- split, interpolate


@pytest.mark.parametrize("log_n", [3, 5, 9, 10, 12])
def test_split(log_n: int) -> None:
    n = 1 << log_n
    q = random_column(2 * n)
    t0, t1 = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    extension(log_n, 1).split(np.array(values_of(q, GENERATOR, log_n + 1), dtype=np.uint64), t0, t1)
    assert t0.tolist() == values_of(q[:n], 1, log_n)
    assert t1.tolist() == values_of(q[n:], 1, log_n)


@pytest.mark.parametrize("log_n", range(10))
@pytest.mark.parametrize("shift", [1, 7, P - 2])
def test_interpolate(log_n: int, shift: int) -> None:
    x = random_column(1 << log_n)
    column = np.array(x, dtype=np.uint64)
    poly = interpolate(column, shift)
    assert column.tolist() == x
    assert poly.tolist() == coefficients(x, shift)
    assert evaluate(poly, shift, log_n).tolist() == x
    assert evaluate(poly, 5, log_n + 2).tolist() == values_of(poly.tolist(), 5, log_n + 2)


# ---------------------------------------------------------------- steps on every representative


ANY = [0, 1, (1 << 32) - 1, 1 << 32, 1 << 63, P - 1, P, P + 1, (1 << 64) - (1 << 32) + 5, (1 << 64) - 2, (1 << 64) - 1]


def representatives(count: int, seed: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.choice((rng.choice(ANY), rng.randrange(1 << 64))) for _ in range(count)]


def reversed_bits(size: int) -> list[int]:
    return ntt.bit_reversal(size.bit_length() - 1).tolist()


def transforms(size: int, inverse: bool, shift: list[int]) -> Iterator[tuple[Callable[..., list], Callable[..., list]]]:
    """Kernels' helpers beside the twins, on one list of integers."""
    root = kernels.root_log2(size.bit_length() - 1, inverse)
    order, base = reversed_bits(size), pow(2, root % 192, P)

    def dif(x: list[int]) -> list[int]:
        y = naive([v * pow(2, e % 192, P) for v, e in zip(x, shift, strict=True)], base)
        return [y[k] for k in order]

    def dit(x: list[int]) -> list[int]:
        y = naive([x[k] for k in order], base)
        return [v * pow(2, e % 192, P) % P for v, e in zip(y, shift, strict=True)]

    yield lambda x: kernels.dif(x, root, shift), dif
    yield lambda x: kernels.dit(x, root, shift), dit


@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_register_transforms_take_any_representative(size: int, inverse: bool) -> None:
    for part in range(8):
        shift = [kernels.root_log2(6, inverse) * part * m for m in range(size)]
        for kernel, twin in transforms(size, inverse, shift):
            for seed in range(20):
                x = representatives(size, seed)
                assert [int(v) % P for v in kernel([u64(v) for v in x])] == twin(x)


def test_compiled_steps_take_any_representative() -> None:
    """What the interpreter says of a step, the compiled step says too, for each lane."""
    step = kernels.make_step(3, True, kernels.all_lanes, 5)

    @function
    def run(x: Ptr[u64], y: Ptr[u64], tw: Ptr[u64]) -> None:
        step(x, u64(8), y, u64(8), tw)

    library = cpu.Library("test-step", [run])
    for seed in range(50):
        x, tw = (np.array(representatives(64, seed + k), dtype=np.uint64) for k in (0, 1000))
        y, z = np.zeros(64, dtype=np.uint64), np.zeros(64, dtype=np.uint64)
        library.run(x, y, tw)
        run(x, z, tw)
        assert y.tolist() == z.tolist()
        for lane in range(8):
            shift = [kernels.root_log2(6, True) * 5 * m for m in range(8)]
            (_, dif), _ = transforms(8, True, shift)
            found = [int(v) % P for v in y[lane::8]]
            assert found == [a * int(b) % P for a, b in zip(dif(x[lane::8].tolist()), tw[lane::8], strict=True)]


def test_lane_shuffles() -> None:
    rows = [u64x8(tuple(8 * j + i for i in range(8))) for j in range(8)]
    assert [r.v for r in kernels.transpose(rows)] == [tuple(8 * i + j for i in range(8)) for j in range(8)]
    for count in (1, 2, 4, 8):
        mixed = [v for r in kernels.interleave(rows[:count]) for v in r.v]
        assert mixed == [8 * j + i for i in range(8) for j in range(count)]
