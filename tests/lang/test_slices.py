"""Slices, arrays and pointers: bounds, windows, zeroing, element types, and what Python may pass."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from lang_support import LEVELS, Guest, OracleTrap, from_words, module_of, words

from tailbite.errors import CompileError, Trap
from tailbite.lang import Array, Constants, Memory, Slice, cpu, function, length, u8, u64, u64x8

TYPES: dict[str, tuple[Any, str, list[Any]]] = {  # dtype, struct format, values
    "u8": (np.uint8, "B", [0, 1, 127, 128, 255]),
    "u16": (np.uint16, "H", [0, 1, 2**15, 2**16 - 1]),
    "u32": (np.uint32, "I", [0, 1, 2**31, 2**32 - 1, 7]),
    "u64": (np.uint64, "Q", [0, 1, 2**63, 2**64 - 1]),
    "i64": (np.int64, "q", [0, -1, -(2**63), 2**63 - 1]),
    "bool": (np.bool_, "?", [True, False, True]),
}
PER_TYPE = '''
@function
def get_{t}(s: Slice[{t}], k: u64) -> {t}:
    return s[k]


@function
def put_{t}(s: Slice[{t}], k: u64, x: {t}) -> None:
    s[k] = x


@function
def part_{t}(s: Slice[{t}], lo: u64, hi: u64, k: u64) -> {t}:
    return s[lo:hi][k]


@function
def rest_{t}(s: Slice[{t}], lo: u64, k: u64) -> {t}:
    whole = s[:][lo:]
    part = whole[:length(whole)]
    return part[k]


@function
def zeroed_{t}(x: {t}, n: u64) -> u64:
    """How many elements were not zero when their array was made."""
    dirty = u64(0)
    for i in range(n):
        a = Array[{t}, 5]()
        for j in range(5):
            dirty += u64(a[j] != {zero})
            a[j] = x
        b = Array[{t}, 300]()
        for j in range(300):
            dirty += u64(b[j] != {zero})
            b[j] = x
    return dirty
'''
TEXT = "".join(PER_TYPE.format(t=t, zero="False" if t == "bool" else "0") for t in TYPES) + '''

@function
def load_lanes(s: Slice[u64], k: u64) -> u64x8:
    return s.load8(k)


@function
def store_lanes(s: Slice[u64], k: u64, x: u64) -> None:
    s.store8(k, u64x8(x) + s.load8(0))


@function
def part_lanes(s: Slice[u64], lo: u64, k: u64) -> u64x8:
    return s[lo:].load8(k)


@function
def lane_elements(s: Slice[u64x8], k: u64, x: u64) -> u64:
    a = Array[u64x8, 3]()
    a[k] = s[k] + u64x8(x)
    s[k] = a[k]
    return length(s) + lane(a[2 - k], 5)


@function
def aliases(s: Slice[u64]) -> u64:
    t = s[1:]
    t[0] = s[1] + 5
    u = t
    u[1] = t[0]
    return s[2]


@function
def pointers(p: Ptr[u64], q: Ptr[u64]) -> u64:
    p.offset(3).store8(0, q.offset(u64(1)).load8(2))
    p.prefetch(64)
    return p[5] + p.offset(1)[4]


@function
def stream(p: Ptr[u64], x: u64) -> None:
    p.stream8(8, u64x8(x))


@function
def rows(p: Ptr[Ptr[u64]], n: u64) -> u64:
    t = u64(0)
    for i in range(n):
        t = t * 10 + p[i][i]
    return t


@function
def fixed(a: Array[u32, 4], k: u64) -> u32:
    a[k] += 1
    return a[3] + u32(length(a)) + u32(len(a))


@function
def lengths(s: Slice[u8], k: u64) -> u64:
    return len(s[k:]) - 10 + length(s) * 100


@function
def nested(s: Slice[u64], n: u64) -> u64:
    """An array of a callee's caller, through two functions, and one in a branch."""
    a = Array[u64, 8]()
    fill(a, n)
    if n > 2:
        b = Array[u64, 8]()
        fill(b[2:6], n)
        a[0] = b[2] + b[7] + copy(b, a[4:])
    return a[0] + s[0]


@function
def fill(s: Slice[u64], x: u64) -> None:
    for i in range(length(s)):
        s[i] = x + i


@function
def copy(s: Slice[u64], t: Slice[u64]) -> u64:
    for i in range(length(t)):
        t[i] = s[i]
    return t[length(t) - 1]


DIGITS = Constants([3, 1, 4, 1, 5, 2**64 - 1])


@function
def digit(k: u64) -> u64:
    return DIGITS[k] + DIGITS[0] - 3


@function
def digits_from(k: u64) -> u64:
    return fold(whole(DIGITS)[k:])


@function
def fold(s: Slice[u64]) -> u64:
    t = u64(0)
    for i in range(length(s)):
        t = t * 10 + s[i]
    return t
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return module_of(tmp_path_factory.mktemp("slices"), TEXT)


def functions(module: ModuleType) -> list[Any]:
    return [f for f in vars(module).values() if type(f).__name__ == "Function" and f.fn.__module__ == module.__name__]


@pytest.fixture(scope="module", params=LEVELS)
def library(request: pytest.FixtureRequest, module: ModuleType) -> cpu.Library:
    return cpu.Library("slices", functions(module), level=request.param)


@pytest.fixture(scope="module")
def guest(module: ModuleType) -> Guest:
    return Guest(functions(module))


# ---------------------------------------------------------------- bounds


def reads(values: list[Any]) -> list[tuple[str, tuple[int, ...], Any]]:
    """Calls of get, part and rest with their results; None is a trap."""
    n = len(values)
    out: list[tuple[str, tuple[int, ...], Any]] = [("get", (k,), values[k]) for k in range(n)]
    out += [("get", (k,), None) for k in (n, n + 1, 2**63, 2**64 - 1)]
    for lo in range(n + 2):
        for hi in range(n + 2):
            inside = lo <= hi <= n
            out += [("part", (lo, hi, k), values[lo + k] if inside and k < hi - lo else None) for k in range(n + 1)]
        out += [("rest", (lo, k), values[lo + k] if lo + k < n else None) for k in range(n + 1)]
    huge = 2**64 - 1
    out += [("part", (huge, 0, 0), None), ("part", (0, huge, 0), None), ("part", (huge, huge, 0), None)]
    out += [("part", (1, n, 2**64 - 1), None), ("rest", (1, 2**64 - 1), None), ("rest", (n, 0), None)]
    return out


@pytest.mark.parametrize("t", TYPES)
def test_bounds_in_the_interpreter(module: ModuleType, t: str) -> None:
    _, _, values = TYPES[t]
    for name, args, result in reads(values):
        check(lambda name=name, args=args: getattr(module, f"{name}_{t}")(list(values), *args), result, Trap)


@pytest.mark.parametrize("t", TYPES)
def test_bounds_on_the_cpu(library: cpu.Library, t: str) -> None:
    dtype, _, values = TYPES[t]
    data = np.array(values, dtype)
    for name, args, result in reads(values):
        check(lambda name=name, args=args: getattr(library, f"{name}_{t}")(data, *args), result, Trap)


@pytest.mark.parametrize("t", TYPES)
def test_bounds_on_a_guest(guest: Guest, t: str) -> None:
    _, form, values = TYPES[t]
    data = struct.pack(f"<{len(values)}{form}", *values)
    mask = 1 if t == "bool" else 2**64 - 1 if t == "i64" else 2 ** (8 * struct.calcsize(form)) - 1

    def call(name: str, args: tuple[int, ...]) -> int:
        return guest.run(f"{name}_{t}", data, len(values), *args).a0 & mask

    for name, args, result in reads(values):
        check(lambda name=name, args=args: call(name, args), None if result is None else result & mask, OracleTrap)


def check(call: Any, result: Any, trap: type[Exception]) -> None:
    if result is None:
        with pytest.raises(trap):
            call()
    else:
        got = call()
        assert getattr(got, "v", got) == result


@pytest.mark.parametrize("t", TYPES)
def test_writes_change_one_element(module: ModuleType, library: cpu.Library, guest: Guest, t: str) -> None:
    dtype, form, values = TYPES[t]
    n = len(values)
    for k in range(n):
        want = [values[-1] if i == k else v for i, v in enumerate(values)]
        data, array = list(values), np.array(values, dtype)
        getattr(module, f"put_{t}")(data, k, values[-1])
        getattr(library, f"put_{t}")(array, k, values[-1])
        memory = guest.run(f"put_{t}", struct.pack(f"<{n}{form}", *values), n, k, int(values[-1])).memory
        assert data == want
        assert array.tolist() == want
        assert list(struct.unpack(f"<{n}{form}", memory.popitem()[1])) == want
    for k in (n, 2**64 - 1):
        array = np.array([*values, *values], dtype)
        with pytest.raises(Trap):
            getattr(module, f"put_{t}")(list(values), k, values[0])
        with pytest.raises(Trap):
            getattr(library, f"put_{t}")(array[:n], k, values[0])
        assert array.tolist() == [*values, *values]


@pytest.mark.parametrize("t", TYPES)
def test_an_array_is_zero_on_each_pass(module: ModuleType, library: cpu.Library, guest: Guest, t: str) -> None:
    x = TYPES[t][2][-1] or True
    assert getattr(module, f"zeroed_{t}")(x, 3) == 0
    assert getattr(library, f"zeroed_{t}")(x, 3) == 0
    assert guest.run(f"zeroed_{t}", int(x), 3).a0 == 0


# ---------------------------------------------------------------- lanes

TEN = list(range(10, 28))


@pytest.mark.parametrize("k", [0, 1, 2, 9, 10])
def test_lanes_inside(module: ModuleType, library: cpu.Library, k: int) -> None:
    want = tuple(TEN[k:k + 8])
    stored = TEN[:k] + [x + 3 for x in TEN[:8]] + TEN[k + 8:]
    assert module.load_lanes(TEN, k).v == want
    assert library.load_lanes(np.array(TEN, np.uint64), k).v == want
    for target, data in ((module, list(TEN)), (library, np.array(TEN, np.uint64))):
        target.store_lanes(data, k, 3)
        assert list(data) == stored
    if k:
        assert module.part_lanes(TEN, k, 0).v == library.part_lanes(np.array(TEN, np.uint64), k, 0).v == want


@pytest.mark.parametrize("k", [11, 17, 18, 2**64 - 8, 2**64 - 1])
def test_lanes_outside(module: ModuleType, library: cpu.Library, guest: Guest, k: int) -> None:
    array = np.array(TEN, np.uint64)
    for call in (lambda: module.load_lanes(TEN, k), lambda: library.load_lanes(array, k),
                 lambda: module.store_lanes(TEN, k, 3), lambda: library.store_lanes(array, k, 3),
                 lambda: module.part_lanes(TEN, 1, k - 1), lambda: library.part_lanes(array, 1, k - 1)):
        with pytest.raises(Trap):
            call()
    assert array.tolist() == TEN
    with pytest.raises(OracleTrap, match="panic"):
        guest.run("store_lanes", words(TEN), len(TEN), k, 3)


def test_too_few_elements_for_lanes(module: ModuleType, library: cpu.Library) -> None:
    for call in (lambda: module.load_lanes(TEN[:7], 0), lambda: library.load_lanes(np.array(TEN[:7], np.uint64), 0)):
        with pytest.raises(Trap):
            call()


def test_elements_may_be_lanes(module: ModuleType, library: cpu.Library) -> None:
    for target in (module, library):
        data = np.arange(24, dtype=np.uint64)
        assert int(target.lane_elements(data, 0, 100)) == 3
        assert int(target.lane_elements(data, 1, 100)) == 3 + 13 + 100
        assert data.tolist() == [x + 100 if x < 16 else x for x in range(24)]
        with pytest.raises(Trap):
            target.lane_elements(data, 3, 0)
    with pytest.raises(TypeError, match="C-contiguous array of uint64"):
        library.lane_elements(np.zeros(12, np.uint32), 0, 0)
    with pytest.raises(TypeError):
        library.lane_elements(np.zeros(12, np.uint64), 0, 0)


# ---------------------------------------------------------------- windows


def test_windows_share_memory(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    data, array = [1, 2, 3], np.array([1, 2, 3], np.uint64)
    assert module.aliases(data) == library.aliases(array) == guest.run("aliases", words([1, 2, 3]), 3).a0 == 7
    assert data == array.tolist() == [1, 7, 7]


def test_pointers(module: ModuleType, library: cpu.Library) -> None:
    for target, kind in ((module, list), (library, lambda v: np.array(v, np.uint64))):
        p, q = kind([0] * 16), kind(list(range(16)))
        assert target.pointers(p, q) == 2 * 5
        assert list(p) == [0] * 3 + list(range(3, 11)) + [0] * 5


def test_streams(module: ModuleType, library: cpu.Library) -> None:
    room = np.zeros(32, np.uint64)
    skip = -room.ctypes.data % 64 // 8
    for target in (module, library):
        room[:] = 0
        target.stream(room[skip:], 9)
        assert np.flatnonzero(room).tolist() == list(range(skip + 8, skip + 16))


def test_pointers_to_pointers(module: ModuleType, library: cpu.Library) -> None:
    data = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.uint64)
    addresses = np.array([row.ctypes.data for row in data], np.uint64)
    assert library.rows(addresses, 3) == 159
    assert module.rows([list(row) for row in data], 3) == 159


def test_nested_arrays(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    for n, want in ((0, 5), (2, 7), (3, 3 + 0 + 4 + 5), (2**64 - 1, 4)):
        assert library.nested(np.array([5], np.uint64), n) == want
        assert module.nested([5], n) == want == guest.run("nested", words([5]), 1, n).a0


def test_constants(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    digits = [3, 1, 4, 1, 5, 2**64 - 1]
    for k, d in enumerate(digits):
        assert module.digit(k) == library.digit(k) == guest.run("digit", k).a0 == d
    for k in (6, 2**64 - 1):
        for target in (module, library):
            with pytest.raises(Trap):
                target.digit(k)
        with pytest.raises(OracleTrap, match="panic"):
            guest.run("digit", k)
    for k in range(7):
        want = sum(d * 10 ** (5 - i) for i, d in enumerate(digits) if i >= k) % 2**64
        assert module.digits_from(k) == library.digits_from(k) == guest.run("digits_from", k).a0 == want
    assert len(Constants(digits)) == 6
    with pytest.raises(OverflowError):
        Constants([2**64])


def test_lengths(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    """``len`` of a slice is a u64, which wraps."""
    want = (300 + 1 - 10) % 2**64
    assert module.lengths([1, 2, 3], 2) == library.lengths(np.zeros(3, np.uint8), 2) == want
    wrapped = (2 - 10) % 2**64
    assert module.lengths([], 0) == library.lengths(np.zeros(0, np.uint8), 0) == (wrapped - 2) % 2**64
    assert guest.run("lengths", b"\1\2\3", 3, 2).a0 == want


# ---------------------------------------------------------------- arguments from Python


def test_arrays_from_python(library: cpu.Library) -> None:
    good = np.arange(6, dtype=np.uint64)
    assert library.get_u64(good, 5) == 5
    assert library.get_u64(good[2:4], 1) == 3
    assert library.get_u64(good.reshape(2, 3), 5) == 5
    for bad in (good.astype(np.int64), good.astype(np.uint32), good[::2], good.astype(">u8"), list(good), None, 7,
                np.asfortranarray(good.reshape(2, 3))):
        with pytest.raises(TypeError, match="argument 's' of get_u64"):
            library.get_u64(bad, 0)


def test_an_array_parameter_has_its_size(module: ModuleType, library: cpu.Library) -> None:
    assert library.fixed(np.array([1, 2, 3, 4], np.uint32), 3) == module.fixed([1, 2, 3, 4], 3) == 13
    for n in (3, 5):
        with pytest.raises(TypeError):
            library.fixed(np.zeros(n, np.uint32), 0)
        with pytest.raises(TypeError):
            module.fixed([0] * n, 0)


def test_a_pointer_may_be_an_address(library: cpu.Library) -> None:
    p, q = np.zeros(16, np.uint64), np.arange(16, dtype=np.uint64)
    assert library.pointers(p.ctypes.data, q) == 10
    with pytest.raises(TypeError):
        library.get_u64(p.ctypes.data, 0)


def test_memory_in_python() -> None:
    """The interpreter's slices also serve plain Python code."""
    m = Slice[u8]([1, 2, 3])
    assert list(m) == [u8(1), u8(2), u8(3)]
    assert len(m[1:]) == 2
    assert isinstance(m[u64(1):u64(2)], Memory)
    with pytest.raises(OverflowError):
        m[0] = 256
    with pytest.raises(TypeError):
        m[0] = True
    with pytest.raises(TypeError):
        m[u8(0)]
    with pytest.raises(CompileError, match="no step"):
        m[0:2:1]
    with pytest.raises(OverflowError):
        Slice[u8]([256])[0]
    lanes = Array[u64x8, 2]()
    assert [x.v for x in lanes] == [(0,) * 8] * 2


@function
def first(s: Slice[u64]) -> u64:
    return s[0]


@function
def size(s: Slice[u64]) -> u64:
    return length(s)


def test_the_interpreter_checks_the_elements() -> None:
    assert first(Slice[u64]([5])) == size(Slice[u64]([0] * 5)) == 5
    with pytest.raises(TypeError):
        size(Slice[u8]([5]))
    with pytest.raises(TypeError):
        first(Slice[u8]([5]))
    with pytest.raises(OverflowError):
        first([-1])


def test_guest_words_round_trip() -> None:
    assert from_words(words([1, -1, 2**63])) == [1, 2**64 - 1, 2**63]
