"""Calls, tuples, evaluation order, loops at the borders of u64, names, and numbers that Python passes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from lang_support import LEVELS, Guest, from_words, module_of, words

from tailbite.errors import CompileError
from tailbite.lang import backend, cpu, riscv
from tailbite.lang.lower import Module

TEXT = '''
from enum import IntEnum
from tailbite.errors import Trap

EMPTY = Array[u64, 0]


class Op(IntEnum):
    ADD = 1
    SUB = 2
    TOP = 255


class Point(NamedTuple):
    """Arithmetic of a class of values."""

    x: u64
    y: u32

    def __add__(self, o):
        return Point(self.x + o.x, self.y + o.y)

    def doubled(self):
        return self + self


class Deep(NamedTuple):
    flag: bool
    point: Point
    pair: tuple[i64, tuple[u8, u16]]
    tail: u64


@function
def turn(d: Deep, k: u8) -> tuple[Deep, u64]:
    p = d.point + Point(u64(1), u32(2))
    return Deep(not d.flag, p.doubled(), (-d.pair[0], (d.pair[1][0] + k, d.pair[1][1] - 1)), d.tail ^ p.x), u64(k) << 60


@function
def turn_twice(d: Deep, k: u8) -> tuple[Deep, u64]:
    e, _ = turn(d, k)
    deep = d
    if e.flag:
        deep = e
    deep, n = turn(deep, k)
    return (deep, n + 1)


@function
def turned(s: Slice[u64], out: Slice[u64]) -> None:
    d, n = turn_twice(Deep(s[0] != 0, Point(s[1], u32(s[2])), (i64(s[3]), (u8(s[4]), u16(s[5]))), s[6]), u8(s[7]))
    xs = [u64(d.flag), d.point.x, u64(d.point.y), u64(d.pair[0]), u64(d.pair[1][0]), u64(d.pair[1][1]), d.tail, n, s[7]]
    for k in unroll(range(9)):
        out[k] = xs[k]


@function
def many(a: u64, b: i64, c: u8, d: u16, e: u32, f: bool, g: u64, h: u64, i: i64, j: u8, k: bool) -> i64:
    return b + i + i64(a + u64(c) + u64(d) + u64(e) + u64(f) + g * h + u64(j)) * i64(k)


@function
def pass_many(x: u64) -> i64:
    return many(x, i64(-3), u8(x), u16(x), u32(x), x > 2, x, x + 1, i64(x) - 9, u8(7), True)


@function
def pick(s: Slice[u64], k: u64) -> tuple[Slice[u64], u64]:
    return s[k:], length(s)


@function
def picked(s: Slice[u64]) -> u64:
    a, n = pick(s, u64(1))
    a[0] = n
    b = pick(a, u64(1))[0]
    t = (b, n)
    if n > 2:
        t = (a, n + 1)
    return t[0][0] * 100 + t[1]


@function
def nothing_much() -> None:
    return


@function
def procedures(s: Slice[u64]) -> None:
    nothing_much()
    if s[0] == 0:
        return
    s[1] = s[0]
    nothing_much()


# ---- order of evaluation


@function
def log(s: Slice[u64], x: u64) -> u64:
    """Appends x to s, whose first element counts."""
    s[0] += 1
    s[s[0]] = x
    return x


@function
def ordered(s: Slice[u64], x: u64) -> u64:
    t = log(s, u64(1)) + log(s, u64(2)) * log(s, u64(3))
    if log(s, x) > 4 and log(s, u64(5)) == 5 or log(s, u64(6)) == x:
        t += log(s, u64(7))
    ok = log(s, x) == 9 or log(s, u64(8)) == 8 and log(s, u64(9)) == x
    t += log(s, u64(10)) if ok else log(s, u64(11))
    return select(ok, log(s, u64(12)), log(s, u64(13)) + t)


@function
def item(s: Slice[u64], x: u64) -> u64:
    s[log(s, u64(5))] = log(s, u64(1)) + x
    s[log(s, u64(6))] += log(s, u64(2))
    return s[5] * 100 + s[6]


@function
def guarded(s: Slice[u64], k: u64) -> bool:
    return k < length(s) and s[k] != 0


@function
def guarded_or(s: Slice[u64], k: u64) -> bool:
    return k >= length(s) or s[k] != 0


# ---- loops


@function
def count(lo: u64, hi: u64) -> tuple[u64, u64]:
    """Passes, at most 50, and the last value of the loop variable."""
    n = u64(0)
    last = u64(12345)
    for i in range(lo, hi):
        n += 1
        last = i
        i += 7
        if n == 50:
            break
    return n, last


def counter(step):
    @function
    def count_by(lo: u64, hi: u64) -> tuple[u64, u64]:
        n = u64(0)
        last = u64(12345)
        for i in range(lo, hi, step):
            n += 1
            last = i
            if n == 50:
                break
            if n & 1 == 1:
                continue
            n += 0
        return n, last
    count_by.name = f"count_by_{step}"
    return count_by


@function
def bounds_once(n: u64) -> u64:
    """Bounds are evaluated once."""
    t = u64(0)
    m = n
    for i in range(t, m):
        m = u64(0)
        t += 10
    return t


@function
def nested_loops(n: u64) -> u64:
    t = u64(0)
    for i in range(n):
        for j in range(i, n):
            if j == i + 2:
                break
            if (i + j) & 1 == 0:
                continue
            while t < 1000:
                t += 1
                if t % 5 == j % 5:
                    break
            else_ = t
            t = else_ + j
        if i == 6:
            return t + 100000
    return t


@function
def dispatch(x: u64, op: u8) -> u64:
    match op:
        case Op.ADD:
            return x + 1
        case Op.SUB | 7 | Op.SUB:
            x -= 1
        case Op.TOP:
            x = u64(0)
        case _:
            x ^= 5
    return x * 2 + Op.SUB


@function
def many_cases(x: u64) -> u64:
    t = u64(1)
    match x:
        case 0:
            t = t + 5
        case 1:
            t = t * 7
        case 2:
            t = t - 3
        case 3:
            t = t ^ 99
        case 4:
            t = t << 8
        case 5:
            t = t + 1000
        case 6:
            t = t | 64
        case 7:
            t = ~t
        case 18446744073709551615:
            t = t + 77
        case 3:
            t = t + 5000
    return t


def specialised(kind):
    """Compile-time branches: only one is compiled, whatever the others say."""
    @function
    def special(x: u64) -> u64:
        if kind == 0:
            return x
        match kind:
            case 1:
                x += 1
            case 2:
                for k in unroll(range(3)):
                    if k == kind - 1:
                        return x * 3
                    x += k
            case _:
                x += unknown_name
        return x
    special.name = f"special_{kind}"
    return special


# ---- names that mean something to a linker, to LLVM, or to the compiler


@function
def memset(x: u64) -> u64:
    a = Array[u64, 40]()
    a[3] = x
    return a[3] + a[4] + 1


@function
def memcpy(x: u64) -> u64:
    return memset(x) + 1


@function
def _start(x: u64) -> u64:
    return memcpy(x) + 1


@function
def main(x: u64) -> u64:
    return _start(x) + 1


@function
def main_entry(x: u64) -> u64:
    return main(x) + 1


@function
def größe(größe_lokal: u64) -> u64:
    é = main_entry(größe_lokal)
    return é + 1


@function
def shadow(length: u64, range: u64) -> u64:
    """Parameters may hide intrinsics and builtins."""
    len = length + range
    return len
'''
COUNTS = [(0, 0), (0, 1), (0, 3), (3, 0), (5, 5), (2**64 - 1, 2**64 - 1), (2**64 - 2, 2**64 - 1),
          (2**64 - 4, 2**64 - 1), (2**64 - 1, 0), (0, 2**64 - 1), (2**63 - 2, 2**63 + 2), (7, 2**64 - 1)]
STEPS = (1, 2, 3, 50, 2**63, 2**64 - 1)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    m = module_of(tmp_path_factory.mktemp("functions"), TEXT)
    for step in STEPS:
        setattr(m, f"count_by_{step}", m.counter(step))
    for kind in range(3):
        setattr(m, f"special_{kind}", m.specialised(kind))
    return m


def functions(module: ModuleType) -> list[Any]:
    """All but the one whose result Python cannot take."""
    found = [f for f in vars(module).values() if type(f).__name__ == "Function" and f.fn.__module__ == module.__name__]
    return [f for f in found if f.name != "pick"]


@pytest.fixture(scope="module", params=LEVELS)
def library(request: pytest.FixtureRequest, module: ModuleType) -> cpu.Library:
    return cpu.Library("functions", functions(module), level=request.param)


@pytest.fixture(scope="module")
def guest(module: ModuleType) -> Guest:
    return Guest(functions(module))


def plain(x: Any) -> Any:
    if isinstance(x, bool):
        return x
    return tuple(map(plain, x)) if isinstance(x, tuple) else int(x)


# ---------------------------------------------------------------- calls and tuples

DEEP = (True, (2**64 - 1, 2**32 - 1), (-(2**63), (250, 0)), 7)
TURNED = ((False, (0, 2), (-(2**63), (255, 65535)), 7), 5 << 60)


def test_tuples_go_in_and_out(module: ModuleType, library: cpu.Library) -> None:
    assert plain(module.turn(DEEP, 5)) == TURNED
    got = library.turn(DEEP, 5)
    assert got == TURNED
    assert type(got[0]).__name__ == "Deep" and type(got[0].point).__name__ == "Point"
    assert got[0].pair[1][1] == 65535
    assert plain(module.turn_twice(DEEP, 9)) == library.turn_twice(DEEP, 9)
    assert plain(module.turn_twice(TURNED[0], 9)) == library.turn_twice(TURNED[0], 9)


def test_tuples_on_a_guest(module: ModuleType, guest: Guest) -> None:
    """A function from words to words, for which tuples go in and out of calls."""
    for k in (0, 9, 255):
        inputs, out = [1, 2**64 - 1, 2**32 - 1, -(2**63), 250, 0, 7, k], [0] * 9
        module.turned([x % 2**64 for x in inputs], out)
        run = guest.run("turned", words(inputs), 8, bytes(72), 9)
        assert from_words(list(run.memory.values())[1]) == out
        deep, n = plain(module.turn_twice(DEEP, k))
        assert out == [deep[0], *deep[1], deep[2][0] % 2**64, *deep[2][1], deep[3], n, k]


def test_many_arguments(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    """More than registers hold."""
    for x in (0, 3, 255, 2**16, 2**64 - 1):
        a = (x - 3 + x % 256 + x % 2**16 + x % 2**32 + (x > 2) + x * (x + 1) + 7 + x - 9) % 2**64
        want = a - 2**64 if a >= 2**63 else a
        assert module.pass_many(x) == library.pass_many(x) == want
        assert guest.run("pass_many", x).a0 == a
    args = (1, -2, 3, 4, 5, True, 7, 8, -9, 10, True)
    assert module.many(*args) == library.many(*args) == -11 + 1 + 3 + 4 + 5 + 1 + 56 + 10
    assert library.many(*args[:-1], False) == -11


def test_slices_in_tuples(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    for data, want in (([1, 2, 3], 304), ([4, 5, 6, 7], 405)):
        array = np.array(data, np.uint64)
        assert module.picked(list(data)) == library.picked(array) == want
        assert guest.run("picked", words(data), len(data)).a0 == want


def test_results_in_memory_are_numbers(module: ModuleType) -> None:
    with pytest.raises(CompileError, match=r"pick cannot give Python a tuple\[Slice\[u64\], u64\]"):
        Module("cpu").entry(module.pick)


def test_procedures(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    for data, want in (([0, 5], [0, 5]), ([3, 5], [3, 3])):
        mine, array = list(data), np.array(data, np.uint64)
        assert module.procedures(mine) is None and library.procedures(array) is None
        memory = guest.run("procedures", words(data), 2).memory
        assert mine == array.tolist() == from_words(memory.popitem()[1]) == want


# ---------------------------------------------------------------- order


@pytest.mark.parametrize("x, trace", [
    (9, [1, 2, 3, 9, 5, 7, 9, 10, 12, 13]),
    (4, [1, 2, 3, 4, 6, 4, 8, 9, 11, 12, 13]),
    (6, [1, 2, 3, 6, 5, 7, 6, 8, 9, 11, 12, 13]),
])
def test_order_of_evaluation(module: ModuleType, library: cpu.Library, guest: Guest, x: int, trace: list[int]) -> None:
    """Left to right, and of `and`, `or` and `if` only what is needed, as in Python; select evaluates both sides."""
    want = [len(trace), *trace] + [0] * (31 - len(trace))
    mine, array = [0] * 32, np.zeros(32, np.uint64)
    results = {int(module.ordered(mine, x)), library.ordered(array, x)}
    run = guest.run("ordered", bytes(256), 32, x)
    assert mine == array.tolist() == from_words(run.memory.popitem()[1]) == want
    assert results == {run.a0}


def test_order_in_assignments(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    """The value before the index; of an augmented assignment the index before the value."""
    mine, array = [0] * 32, np.zeros(32, np.uint64)
    results = {int(module.item(mine, 3)), library.item(array, 3)}
    run = guest.run("item", bytes(256), 32, 3)
    assert mine == array.tolist() == from_words(run.memory.popitem()[1])
    assert mine[:5] == [4, 1, 5, 6, 2]
    assert results == {run.a0} == {400 + 2}


def test_and_or_stop_early(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    """The right side would trap."""
    data = [1, 0]
    array = np.array(data, np.uint64)
    for k, inside in ((0, True), (1, False), (2, None), (2**64 - 1, None)):
        for name, outside in (("guarded", False), ("guarded_or", True)):
            want = outside if inside is None else inside
            assert getattr(module, name)(data, k) is getattr(library, name)(array, k) is want
            assert guest.run(name, words(data), 2, k).a0 & 1 == want


# ---------------------------------------------------------------- loops


def passes(lo: int, hi: int, step: int) -> tuple[int, int]:
    seen = range(lo, hi, step)[:50]
    return len(seen), seen[-1] if seen else 12345


@pytest.mark.parametrize("lo, hi", COUNTS)
def test_ranges_at_the_borders(module: ModuleType, library: cpu.Library, guest: Guest, lo: int, hi: int) -> None:
    for step in STEPS:
        want = passes(lo, hi, step)
        assert plain(getattr(module, f"count_by_{step}")(lo, hi)) == want
        assert getattr(library, f"count_by_{step}")(lo, hi) == want
        run = guest.run(f"count_by_{step}", lo, hi)
        assert (run.a0, run.a1) == want
    assert plain(module.count(lo, hi)) == library.count(lo, hi) == passes(lo, hi, 1)


def test_loops(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    for n in range(10):
        for name in ("bounds_once", "nested_loops", "many_cases"):
            want = getattr(library, name)(n)
            assert getattr(module, name)(n) == want == guest.run(name, n).a0
    assert library.bounds_once(4) == 40
    assert library.nested_loops(7) > 100000 > library.nested_loops(6)
    assert [library.many_cases(k) for k in (0, 2, 3, 7, 8, 2**64 - 1)] == [6, 2**64 - 2, 98, 2**64 - 2, 1, 78]


def test_match(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    """Alternatives, members of an enumeration, the first of equal cases, the default."""
    for op, want in ((1, 11), (2, 20), (7, 20), (255, 2), (0, 32), (254, 32)):
        assert module.dispatch(10, op) == library.dispatch(10, op) == guest.run("dispatch", 10, op).a0 == want


def test_compile_time_branches(module: ModuleType, library: cpu.Library) -> None:
    for kind, want in ((0, 10), (1, 11), (2, 30)):
        f = f"special_{kind}"
        assert getattr(module, f)(10) == getattr(library, f)(10) == want


# ---------------------------------------------------------------- names


def test_names(module: ModuleType, library: cpu.Library, guest: Guest) -> None:
    for k, name in enumerate(("memset", "memcpy", "main", "main_entry", "größe"), 1):
        want = 10 + k + (k > 2)
        assert getattr(module, name)(10) == getattr(library, name)(10) == want
    assert guest.run("main_entry", 10).a0 == 15
    assert module.shadow(3, 4) == library.shadow(3, 4) == 7


def test_one_name_one_function(module: ModuleType) -> None:
    with pytest.raises(CompileError, match="two functions of one name"):
        cpu.Library("twice", [module.count, module.counter(2), module.counter(2)]).count(0, 1)


def test_attributes_of_a_library_are_no_functions(module: ModuleType, tmp_path: Any) -> None:
    f = module_of(tmp_path, "@function\ndef load(x: u64) -> u64:\n    return x\n").load
    assert f(5) == 5
    with pytest.raises(CompileError, match="'load' means something else here"):
        cpu.Library("odd", [f]).load()


def test_a_library_has_what_it_was_given(module: ModuleType) -> None:
    lib = cpu.Library("some", (f for f in (module.count, module.bounds_once)))
    assert lib.count(0, 2) == (2, 1) and lib.bounds_once(1) == 10
    with pytest.raises(AttributeError, match="library some has no function dispatch"):
        _ = lib.dispatch


# ---------------------------------------------------------------- numbers from Python


def test_numbers_from_python(module: ModuleType, library: cpu.Library) -> None:
    """The interpreter and the CPU accept and refuse the same arguments."""
    from tailbite.lang import u8, u32, u64

    for target in (module, library):
        for good in (5, u64(5), np.uint64(5), np.int8(5)):
            assert target.bounds_once(good) == 50
        for bad in (-1, 2**64, np.int64(-1)):
            with pytest.raises(OverflowError):
                target.bounds_once(bad)
        for bad in (u32(5), u8(5), 5.0, "5", None, True, [5], np.bool_(True)):
            with pytest.raises(TypeError):
                target.bounds_once(bad)
        for bad in ((), (1, 2)):
            with pytest.raises(TypeError):
                target.bounds_once(*bad)
        for bad in ((1, 256), (-1, 0)):
            with pytest.raises(OverflowError):
                target.dispatch(*bad)
        assert target.many(1, 0, 0, 0, 0, np.bool_(True), 0, 0, 0, 0, True) == 2
        for bad in (1, "", None):
            with pytest.raises(TypeError):
                target.many(1, 0, 0, 0, 0, bad, 0, 0, 0, 0, True)
        with pytest.raises(TypeError):
            target.turn((True, (1, 2), (3, (4, 5))), 1)
    with pytest.raises(TypeError, match="argument 'n' of bounds_once"):
        library.bounds_once(None)


def test_lanes_are_no_argument(module: ModuleType) -> None:
    m = Module("cpu")
    assert m.entry(module.count)
    from tailbite.lang import function, u64x8

    @function
    def takes_lanes(x: u64x8) -> None:
        return

    takes_lanes.hints = {"x": u64x8, "return": None}
    with pytest.raises(CompileError, match="lanes cannot be an argument"):
        cpu.Library("lanes", [takes_lanes]).takes_lanes(0)


def test_what_only_a_machine_has(module: ModuleType, tmp_path: Any) -> None:
    text = '''
from tailbite.lang.riscv import address_of, ecall, pointer_at


@function
def call(x: u64) -> None:
    ecall(1, x)


@function
def fused(p: Ptr[u64]) -> None:
    x = p.load8(0)
    p.store8(0, madd52lo(x, x, x))
'''
    m = module_of(tmp_path, text)
    with pytest.raises(CompileError, match="ecall works only in a guest"):
        Module("cpu").add(m.call)
    with pytest.raises(CompileError, match="ecall works only in a compiled guest"):
        m.call(1)
    with pytest.raises(CompileError, match="madd52 works only on the CPU"):
        Module("riscv").add(m.fused)
    if backend.host().triple.startswith("x86_64"):
        with pytest.raises(CompileError, match="madd52 needs AVX-512 IFMA"):
            _ = cpu.Library("fused", [m.fused], level="baseline").fused
        with pytest.raises(CompileError, match="no CPU level 'sse'"):
            backend.host("sse")
    with pytest.raises(CompileError, match="the entry of a guest takes and returns nothing"):
        riscv.link(m.call)
