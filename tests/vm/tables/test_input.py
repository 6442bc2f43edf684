"""INPUT: the region of memory that holds the private input is a function of the bytes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness import DELTAS, as_trace, complaints, messages, plus, refused

from tailbite.air import lint
from tailbite.air.check import Trace, check_constraints
from tailbite.field import P
from tailbite.vm.buses import BUSES
from tailbite.vm.tables.input import Input

INPUT = Input()
W0 = 0xFF000000 // 8
HEIGHT = 32
LENGTHS = range(41)


def content(data: bytes) -> bytes:
    """The region in bytes."""
    return len(data).to_bytes(4, "little") + data


def data_of(length: int) -> bytes:
    """No byte is 0, so that a missing one shows."""
    return bytes(random.Random(length).randrange(1, 256) for _ in range(length))


def honest(data: bytes) -> Trace:
    return as_trace(INPUT, INPUT.witness(INPUT.rows(data), HEIGHT))


def by_hand(memory: bytes, used: Sequence[int], rows: int, start: int | None = None) -> Trace:
    """A table with these bytes, use flags of bytes and number of real rows; rem counts down from ``start``."""
    v = np.frombuffer(memory.ljust(8 * HEIGHT, b"\0"), np.uint8).reshape(HEIGHT, 8)
    k = np.array([*used, *[0] * (8 * HEIGHT - len(used))], np.uint64).reshape(HEIGHT, 8)
    start = 4 + int.from_bytes(memory[:4], "little") if start is None else start
    counts = k.sum(axis=1)
    main = np.zeros((INPUT.layout.main_count, HEIGHT), np.uint64)
    main[0, :rows], main[1] = 1, W0 + np.arange(HEIGHT)
    main[2] = [(start - int(x)) % P for x in np.cumsum(counts) - counts]
    main[3:11], main[11:] = v.T, k.T
    return as_trace(INPUT, main)


def accepted(trace: Trace) -> bool:
    return not complaints(trace)


def region(trace: Trace) -> dict[int, int]:
    """The dwords that the table puts in memory."""
    _, sent = messages(trace)
    return {int(w): int(lo) | int(hi) << 32 for h, w, t, lo, hi, m in sent if m}


def dwords(memory: bytes) -> dict[int, int]:
    memory = memory.ljust(-(-len(memory) // 8) * 8, b"\0")
    return {W0 + j: int.from_bytes(memory[8 * j:8 * j + 8], "little") for j in range(len(memory) // 8)}


def test_shape() -> None:
    lint([INPUT], BUSES)
    lay = INPUT.layout
    assert (lay.fixed_count, lay.main_count, len(lay.interactions)) == (0, 19, 5)
    assert (INPUT.required, INPUT.instances, INPUT.min_log, INPUT.max_log) == (True, 1, 5, 21)


@pytest.mark.parametrize("length", [*LENGTHS, 244, 251, 252])
def test_honest(length: int) -> None:
    data = data_of(length)
    trace = honest(data)
    assert not check_constraints(trace) and accepted(trace)
    assert region(trace) == dwords(content(data))
    _, sent = messages(trace)
    assert not sent[-(-(4 + length) // 8):].any()
    assert not sent[sent[:, -1] == 1][:, [0, 2]].any()  # h = 0, at time 0


def test_rows_by_hand_are_the_honest_ones() -> None:
    for length in LENGTHS:
        n = 4 + length
        assert np.array_equal(by_hand(content(data_of(length)), [1] * n, -(-n // 8)).main, honest(data_of(length)).main)


@pytest.mark.parametrize("length", LENGTHS)
def test_false_length(length: int) -> None:
    """Whatever length the first word claims, exactly the prefix of that many bytes may be in use."""
    data = data_of(length)
    for claimed in [*LENGTHS, 2**16, 2**24, 2**32 - 4, 2**32 - 1]:
        memory = claimed.to_bytes(4, "little") + data
        for used in {4 + claimed, 4 + length, 5 + length}:
            if used > 8 * HEIGHT:
                continue
            rows = -(-used // 8)
            good = used == 4 + claimed and claimed >= length
            assert accepted(by_hand(memory, [1] * used, rows)) == good, (claimed, used)


@pytest.mark.parametrize("length", LENGTHS)
def test_false_tail(length: int) -> None:
    """Bytes beyond the end are zero, and dwords beyond it are not in the region."""
    n = 4 + length
    rows = -(-n // 8)
    memory = content(data_of(length))
    used = [1] * n
    for at in range(n, 8 * rows + 8):
        assert not accepted(by_hand(memory.ljust(at, b"\0") + b"\1", used, rows))
        assert not accepted(by_hand(memory.ljust(at, b"\0") + b"\1", used, at // 8 + 1))
        assert not accepted(by_hand(memory, used + [0] * (at - n) + [1], max(rows, at // 8 + 1)))
    assert not accepted(by_hand(memory, used, rows + 1))
    assert not accepted(by_hand(memory, used, rows - 1))


@pytest.mark.parametrize("length", LENGTHS)
def test_holes(length: int) -> None:
    """As many bytes as the length says, but not the first ones."""
    n = 4 + length
    memory = content(data_of(length))
    for hole in range(n):
        used = [1] * n + [1]
        used[hole] = 0
        shifted = memory[:hole] + b"\0" + memory[hole + 1:] + b"\7"
        assert not accepted(by_hand(shifted, used, -(-(n + 1) // 8), n if hole < 4 else None)), hole


def test_use_flags_of_two_rows() -> None:
    """Of the patterns of flags in two rows, each with the length it could stand for, only the prefixes pass."""
    patterns = np.arange(1 << 16)
    flags = (patterns[:, None] >> np.arange(16) & 1).astype(np.uint64)
    for count in range(17):  # patterns with as many bytes as the length says: others fail by ``len.last``
        for p in {(1 << count) - 1, *patterns[flags.sum(axis=1) == count][::71]}:
            used = [int(x) for x in flags[p]]
            memory = max(count - 4, 0).to_bytes(4, "little")
            rows = 1 if p < 256 else 2
            good = count >= 4 and p == (1 << count) - 1
            assert accepted(by_hand(memory, used, rows)) == good, (bin(p), count)


def test_the_region_always_exists() -> None:
    """A table without a row in use, or one that begins later, is refused."""
    empty = by_hand(b"", [], 0, start=0)
    assert {"len.first", "len.whole"} & set(complaints(empty))
    late = honest(data_of(5)).main
    assert not accepted(as_trace(INPUT, np.roll(late, 1, axis=1)))


def test_addresses_are_fixed() -> None:
    for change in (1, -1, 2**29, 2**32):
        main = honest(data_of(20)).main.copy()
        main[1] = plus(main[1], change)
        assert set(complaints(as_trace(INPUT, main))) == {"w0"}
    main = honest(data_of(20)).main.copy()
    main[1, 1:] += np.uint64(1)
    assert set(complaints(as_trace(INPUT, main))) == {"w+"}


@pytest.mark.parametrize("length", [0, 5, 12])
def test_every_column_matters(length: int) -> None:
    """Changing any entry is refused, or is another input and shows on the bus."""
    trace = honest(data_of(length))
    for k, name in enumerate(INPUT.layout.columns):
        for delta in DELTAS:
            changed = plus(trace.main[k], delta)
            for row in (0, 1, 2, 3, HEIGHT - 1):
                main = trace.main.copy()
                main[k, row] = changed[row]
                other = as_trace(INPUT, main)
                assert refused(other).any() or told(trace, other), (name, row)


def told(one: Trace, other: Trace) -> Any:
    return any((x != y).any() for x, y in zip(messages(one), messages(other), strict=True))
