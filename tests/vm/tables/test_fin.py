"""FIN: what it accepts is exactly a strictly increasing list of canonical keys, and it closes memory."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from harness import DELTAS, M32, as_trace, complaints, forgeries, messages, plus, refused, u64

from tailbite import columns as col
from tailbite.air import lint
from tailbite.air.check import Trace, check_buses, check_constraints
from tailbite.field import P
from tailbite.vm.buses import BUSES, RAM
from tailbite.vm.chip import Chip, Rows
from tailbite.vm.elf import Dwords as ImageDwords
from tailbite.vm.executor import Dwords
from tailbite.vm.tables.fin import Fin
from tailbite.vm.tables.image import Image

FIN = Fin()
MAX_W = 2**29 - 1
EDGE_KEYS = [(h, w) for h in (0, 1, M32 - 1, M32) for w in (0, 1, 0xFFFF, 0x10000, MAX_W - 1, MAX_W)]


# ---------------------------------------------------------------- tables by hand


def log_of(keys: Sequence[tuple[int, int]], seed: int = 1) -> Any:
    """An executor's log of memory with these keys touched."""
    rng = np.random.default_rng(seed)
    n = len(keys)
    return SimpleNamespace(memory=Dwords(
        u64(h for h, _ in keys), u64(w for _, w in keys), rng.integers(0, 2**32, n, dtype=np.uint64),
        rng.integers(0, 2**64, n, dtype=np.uint64), rng.integers(0, 2, n, dtype=bool)))


def by_hand(keys: Sequence[tuple[int, int]], flip: bool = False) -> Trace:
    """A trace of exactly these keys, in this order; entries may be any field elements.

    u1 and d are the only candidates that the lookups could take; ``flip`` takes the other bit for nh in all rows.
    """
    n = len(keys)
    h, w = (np.array([k[j] % P for k in keys], dtype=np.uint64) for j in (0, 1))
    zero = np.zeros(n, np.uint64)
    trace = as_trace(FIN, Chip.witness(FIN, Rows(h=h, w=w, tf=zero, v=zero, z=zero, act=zero + 1), n))
    if flip:
        at = dict(zip(FIN.layout.columns, trace.main, strict=True))
        at["nh"][:-1] ^= np.uint64(1)
        follow = np.where(at["nh"] == 1, col.sub_(np.roll(h, -1), h), col.sub_(np.roll(w, -1), w))
        step = col.sub_(follow, 1)
        at["d.0"][:-1], at["d.1"][:-1] = (step & 0xFFFF)[:-1], (step >> 16)[:-1]
    return trace


def accepted(keys: Sequence[tuple[int, int]]) -> bool:
    """Is there a choice of nh, row by row, that the table accepts?"""
    return not (refused(by_hand(keys)) & refused(by_hand(keys, flip=True))).any()


def allowed(keys: Sequence[tuple[int, int]]) -> bool:
    """What the table is for."""
    canonical = all(0 <= h <= M32 and 0 <= w <= MAX_W for h, w in keys)
    return canonical and keys[0][0] == 0 and all(a < b for a, b in itertools.pairwise(keys))


def random_keys(rng: random.Random, count: int) -> list[tuple[int, int]]:
    """Ascending canonical keys with edges among them, the first in the lowest 4 GiB."""
    keys = {(0, rng.randrange(2**29))} | set(rng.sample(EDGE_KEYS, rng.randrange(min(count, len(EDGE_KEYS)))))
    while len(keys) < count:
        keys.add((rng.choice((0, 0, 1, 2, M32, rng.getrandbits(32))), rng.randrange(rng.choice((64, 2**16, 2**29)))))
    return sorted(sorted(keys)[:1] + rng.sample(sorted(keys)[1:], count - 1))


# ---------------------------------------------------------------- shape and honest tables


def test_shape() -> None:
    lint([FIN], BUSES)
    lay = FIN.layout
    assert (lay.fixed_count, lay.main_count, len(lay.interactions)) == (0, 11, 7)
    assert (FIN.required, FIN.instances, FIN.min_log, FIN.max_log) == (True, 1, 5, 24)


@pytest.mark.parametrize("count", [1, 2, 5, 31, 32, 33, 64, 100])
def test_touched_dwords_and_padding(count: int) -> None:
    """Each touched dword is in one row with its values; the other rows take unused keys and send nothing."""
    rng = random.Random(count)
    for _ in range(8):
        keys = random_keys(rng, count)
        log = log_of(keys, count)
        height = max(32, 1 << (count - 1).bit_length())
        trace = as_trace(FIN, FIN.witness(FIN.rows(log), height))
        assert not check_constraints(trace) and not complaints(trace)
        at = dict(zip(FIN.layout.columns, trace.main, strict=True))
        listed = [(int(h), int(w)) for h, w in zip(at["h"], at["w"], strict=True)]
        assert allowed(listed) and set(keys) <= set(listed)
        used = at["act"] == 1
        m, received, sent = log.memory, *messages(trace)
        assert not received[~used].any() and not sent[~used].any()
        final = np.stack([m.h, m.w, m.t, m.value & M32, m.value >> 32, np.full(count, P - 1, np.uint64)], axis=1)
        assert np.array_equal(received[used], final)
        initial = np.stack([m.h, m.w, *np.zeros((3, count), np.uint64), np.ones(count, np.uint64)], axis=1)
        assert np.array_equal(sent[used], initial * m.zero[:, None].astype(np.uint64))


@pytest.mark.parametrize("keys", [
    [(0, k) for k in range(32)],  # full, and no low key is left
    [(0, k) for k in range(0, 40, 2)],
    [(0, MAX_W - k) for k in reversed(range(20))],
    [(0, 0x1FE00000), *((M32, MAX_W - k) for k in reversed(range(31)))],
    [(0, MAX_W), (1, 0), (1, MAX_W), (2, 0), (M32, 0), (M32, MAX_W)],
])
def test_corners(keys: list[tuple[int, int]]) -> None:
    trace = as_trace(FIN, FIN.witness(FIN.rows(log_of(keys)), 32))
    assert not complaints(trace)


# ---------------------------------------------------------------- forged tables, against the oracle


def forged(rng: random.Random, keys: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The keys with one or two faults, or what may turn out to be none."""
    keys = list(keys)
    for _ in range(rng.choice((1, 1, 2))):
        i, j = rng.randrange(len(keys)), rng.randrange(len(keys))
        h, w = keys[i]
        keys[i] = rng.choice([
            keys[j], (h, w + 1), (h, w - 1), (h + 1, w), (h - 1, w), (h, 2**29), (h, 2**29 + w), (h, MAX_W), (M32, w),
            (M32, MAX_W), (2**32, w), (h, -1), (-1, w), (h, w * pow(8, -1, P) % P), (h, P - 2**29 + w),
            (h, w + rng.randrange(1, 8) * pow(8, -1, P)), (h * pow(2, -1, P), w), (0, w), (2**32 + h, w)])
        if rng.random() < 0.3:
            keys[i], keys[j] = keys[j], keys[i]
    return [(h % P, w % P) for h, w in keys]


def test_accepts_exactly_ordered_canonical_keys() -> None:
    rng = random.Random(5)
    seen = {True: 0, False: 0}
    for _ in range(1200):
        keys = random_keys(rng, 32)
        assert allowed(keys) and accepted(keys)
        keys = forged(rng, keys)
        assert accepted(keys) == allowed(keys), keys
        seen[allowed(keys)] += 1
    assert min(seen.values()) > 30


def test_all_short_orders() -> None:
    """Every triple over a few keys, as the end of a table that is good before."""
    few = [(0, 99), (0, 100), (0, MAX_W), (1, 0), (1, 100), (M32, MAX_W), (0, 2**29), (2**32, 5), (P - 1, 7),
           (1, P - 1)]
    for three in itertools.product(few, repeat=3):
        keys = [*((0, k) for k in range(29)), *three]
        assert accepted(keys) == allowed(keys), three


@pytest.mark.parametrize("first", [1, M32, 2**32, P - 1])
def test_first_row_is_in_the_lowest_4_gib(first: int) -> None:
    keys = [(first, k) for k in range(32)]
    assert "h0" in complaints(by_hand(keys))


def test_the_end_is_below_2_to_64() -> None:
    keys = [(0, k) for k in range(31)]
    assert accepted([*keys, (M32, MAX_W)])
    for h in (2**32, 2**32 + 5, 2**33, P - 1):
        assert not accepted([*keys, (h, 0)])


def test_a_fraction_is_no_key() -> None:
    """w = u1 = k / 8: the lookup of 8 u1 holds, that of u1 itself does not."""
    keys = [(0, k) for k in range(31)]
    for k in (1, 3, 0x1001):
        w = k * pow(8, -1, P) % P
        trace = by_hand([*keys, (M32, w)])
        u1 = w * pow(2**16, -1, P) % P  # the choice that satisfies the lookup of w - 2^16 u1
        trace.main[FIN.column_index("u1")][-1] = u1
        assert any(name.startswith("R16") for name in complaints(trace))
        trace.main[FIN.column_index("u1")][-1] = w
        assert any(name.startswith("R16") for name in complaints(trace))


def test_every_column_matters() -> None:
    """Changing any entry is refused or shows on the bus, but for tf and v of rows not in use and nh of the last."""
    keys = random_keys(random.Random(9), 40)
    log = log_of(keys)
    honest = as_trace(FIN, FIN.witness(FIN.rows(log), 64))
    act = honest.main[FIN.column_index("act")] == 1
    for k, name in enumerate(FIN.layout.columns):
        for delta in DELTAS:
            main = honest.main.copy()
            main[k] = plus(main[k], delta)
            for row in range(64):
                one = honest.main.copy()
                one[k, row] = main[k, row]
                other = as_trace(FIN, one)
                told = any((x != y).any() for x, y in zip(messages(honest), messages(other), strict=True))
                if (name in ("tf", "v.lo", "v.hi") and not act[row]) or (name == "nh" and row == 63 and delta == 1):
                    assert not told and not refused(other).any()
                else:
                    assert told or refused(other).any(), (name, row)


def test_zero_start_only_on_touched_rows() -> None:
    trace = as_trace(FIN, FIN.witness(FIN.rows(log_of([(0, 5)])), 32))
    trace.main[FIN.column_index("z")][:] = 1
    assert complaints(trace)["start"].sum() == 31


# ---------------------------------------------------------------- memory as a whole


class Memory:
    """A small memory with some accesses, as the traces of IMAGE and FIN and the accesses' own messages."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.keys = random_keys(rng, rng.randrange(2, 12))
        self.image = {k: rng.getrandbits(64) for k in self.keys if rng.random() < 0.5}
        self.image[self.keys[-1]] = 77
        self.terms: list[tuple[int, tuple[int, ...], int]] = []
        self.state = {k: (0, self.image.get(k, 0)) for k in self.keys}
        for ts in range(4, 100, 4):
            key = rng.choice(self.keys)
            if key != self.keys[-1]:  # the last key is in the image and never accessed
                self.access(key, ts, rng.getrandbits(64))

    def access(self, key: tuple[int, int], ts: int, new: int) -> None:
        t, old = self.state[key]
        self.terms.append((RAM.id, (*key, t, old & M32, old >> 32), -1))
        self.terms.append((RAM.id, (*key, ts + 2, new & M32, new >> 32), 1))
        self.state[key] = (ts + 2, new)

    def rows(self) -> Rows:
        keys = sorted(k for k in self.keys if k in self.image or self.state[k][0])
        t, v = zip(*(self.state[k] for k in keys), strict=True)
        zero = np.array([k not in self.image for k in keys])
        return FIN.rows(SimpleNamespace(memory=Dwords(u64(h for h, _ in keys), u64(w for _, w in keys), u64(t), u64(v),
                                                      zero)))

    def unbalanced(self, fin: Trace) -> bool:
        table, keys = Image(), sorted(self.image)
        values = [self.image[k] for k in keys]
        fixed = table.fixed_columns(ImageDwords(u64(h for h, _ in keys), u64(w for _, w in keys),
                                                u64(v & M32 for v in values), u64(v >> 32 for v in values)))
        image = Trace(table, fixed, np.zeros((0, fixed.shape[1]), np.uint64))
        return any(f"bus {RAM.name}" in f.name for f in check_buses([image, fin], self.terms))


@pytest.mark.parametrize("seed", range(12))
def test_memory_balances(seed: int) -> None:
    memory = Memory(seed)
    assert not memory.unbalanced(as_trace(FIN, FIN.witness(memory.rows(), 32)))


@pytest.mark.parametrize("seed", range(6))
def test_memory_cannot_start_otherwise(seed: int) -> None:
    """No row of FIN can be left out, doubled, start a key of the image at zero, or end with another value or time."""
    memory = Memory(seed)
    rows = memory.rows()

    def refuses(main: Any) -> bool:
        trace = as_trace(FIN, main)
        return bool(complaints(trace)) or memory.unbalanced(trace)

    for k in range(len(rows)):
        main = FIN.witness(rows, 32)
        found = (main[FIN.column_index("h")] == rows.h[k]) & (main[FIN.column_index("w")] == rows.w[k])
        row = int(np.nonzero(found)[0][0])
        for name, values in (("act", (0,)), ("z", (1 - int(rows.z[k]),)), ("tf", (0, 3)), ("v.lo", (5,)), ("h", (9,))):
            for value in values:
                changed = main.copy()
                if changed[FIN.column_index(name), row] == value:
                    continue
                changed[FIN.column_index(name), row] = value
                assert refuses(changed), (name, value)
        assert refuses(FIN.witness(rows.select(np.arange(len(rows)) != k), 32))
        twice = np.sort(np.append(np.arange(len(rows)), k))
        assert complaints(as_trace(FIN, FIN.witness(rows.select(twice), 32)))
    for v in forgeries(rows.v):
        other = Rows(**{name: getattr(rows, name) for name in ("h", "w", "tf", "z", "act")}, v=v)
        assert (v == rows.v).all() or memory.unbalanced(as_trace(FIN, FIN.witness(other, 32)))
