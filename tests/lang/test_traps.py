"""Failed assertions and bounds checks: exceptions with a place in the interpreter and on the CPU, panics on guests."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from lang_support import HEADER, LEVELS, Guest, OracleTrap, module_of, words

from tailbite.errors import Trap
from tailbite.lang import cpu

TEXT = '''

class Row(NamedTuple):
    a: u64
    ok: bool
    tail: tuple[u8, i64]


@function
def asserts(x: u64) -> u64:
    assert x != 3, "x is three"  # plain
    return x + 1


@function
def unexplained(x: u64) -> None:
    assert x > 5  # bare
    return


@function
def index(s: Slice[u64], k: u64) -> u64:
    return s[k]  # index


@function
def rows(s: Slice[u64], k: u64) -> Row:
    return Row(asserts(s[k]), k == 0, (u8(k), i64(k) - 1))  # rows


@function
def outer(s: Slice[u64], k: u64) -> tuple[Row, u64x8]:
    t = u64(0)
    for i in range(k):
        r = rows(s, i)
        if r.a > 100:
            unexplained(r.a - 101)
        t += r.a
    return rows(s, 0), u64x8(t)


@function
def never(x: u64) -> u64:
    match x:
        case 1:
            return u64(10)
        case 2:
            return u64(20)
        case _:
            assert False, "no such case"  # never


def checked(x):
    """A helper's check has the place of the statement that calls the helper."""
    return index_in(x)


def index_in(s):
    return s[length(s)]


@function
def by_helper(s: Slice[u64]) -> u64:
    t = u64(1)
    t += checked(s)  # helper
    return t


@function
def bounds(s: Slice[u64], lo: u64, hi: u64) -> u64:
    return length(s[lo:hi])  # bounds


@function
def eight(s: Slice[u64], k: u64) -> u64:
    return lane(s.load8(k), 0)  # eight
'''

S = [7, 3, 200, 5]
CASES: list[tuple[str, tuple[Any, ...], str, str]] = [  # function, arguments, mark of the line, message
    ("asserts", (3,), "# plain", "assertion failed: x is three"),
    ("unexplained", (5,), "# bare", "assertion failed: assert x > 5  # bare"),
    ("index", (S, 4), "# index", "index outside the slice"),
    ("index", (S, 2**64 - 1), "# index", "index outside the slice"),
    ("index", ([], 0), "# index", "index outside the slice"),
    ("rows", (S, 1), "# plain", "assertion failed: x is three"),
    ("rows", (S, 4), "# rows", "index outside the slice"),
    ("outer", (S, 2), "# plain", "assertion failed: x is three"),
    ("outer", ([105, 1], 1), "# bare", "assertion failed: assert x > 5  # bare"),
    ("outer", ([1, 2], 3), "# rows", "index outside the slice"),
    ("never", (3,), "# never", "assertion failed: no such case"),
    ("by_helper", (S,), "# helper", "index outside the slice"),
    ("bounds", (S, 0, 5), "# bounds", "slice bounds outside the slice"),
    ("bounds", (S, 3, 2), "# bounds", "slice bounds outside the slice"),
    ("eight", (S, 0), "# eight", "index outside the slice"),
]
FINE: list[tuple[str, tuple[Any, ...], Any]] = [
    ("asserts", (4,), 5),
    ("unexplained", (6,), None),
    ("index", (S, 3), 5),
    ("rows", (S, 0), (8, True, (0, -1))),
    ("outer", (S, 1), ((8, True, (0, -1)), (8,) * 8)),
    ("never", (2,), 20),
    ("bounds", (S, 4, 4), 0),
    ("bounds", (S, 0, 4), 4),
    ("eight", (list(range(9)), 1), 1),
]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return module_of(tmp_path_factory.mktemp("traps"), TEXT)


def functions(module: ModuleType) -> list[Any]:
    names = sorted({case[0] for case in CASES})
    return [getattr(module, n) for n in names]


@pytest.fixture(scope="module", params=LEVELS)
def library(request: pytest.FixtureRequest, module: ModuleType) -> cpu.Library:
    return cpu.Library("traps", functions(module), level=request.param)


@pytest.fixture(scope="module")
def guest(module: ModuleType) -> Guest:
    return Guest([f for f in functions(module) if f.name != "outer"] + [module.outer])


def place(module: ModuleType, mark: str) -> int:
    lines = Path(str(module.__file__)).read_text().split("\n")
    return next(k for k, line in enumerate(lines, 1) if line.endswith(mark))


def plain(x: Any) -> Any:
    """Python numbers and tuples, whatever the classes."""
    if x is None or isinstance(x, bool):
        return x
    if hasattr(x, "v"):
        return x.v
    return tuple(map(plain, x)) if isinstance(x, tuple) else int(x)


def arrays(args: tuple[Any, ...]) -> list[Any]:
    return [np.array(a, np.uint64) if isinstance(a, list) else a for a in args]


@pytest.mark.parametrize("name, args, mark, message", CASES)
def test_interpreter_traps(module: ModuleType, name: str, args: tuple[Any, ...], mark: str, message: str) -> None:
    with pytest.raises(Trap) as caught:
        getattr(module, name)(*args)
    if message.startswith("assertion"):
        assert str(caught.value) == f"{module.__file__}:{place(module, mark)}: {message}"


@pytest.mark.parametrize("name, args, result", FINE)
def test_interpreter_does_not_trap(module: ModuleType, name: str, args: tuple[Any, ...], result: Any) -> None:
    assert plain(getattr(module, name)(*args)) == result


@pytest.mark.parametrize("name, args, mark, message", CASES)
def test_cpu_traps(module: ModuleType, library: cpu.Library, name: str, args: tuple[Any, ...], mark: str,
                   message: str) -> None:
    """With the place, through every caller; afterwards all works as before."""
    for _ in range(2):
        with pytest.raises(Trap) as caught:
            getattr(library, name)(*arrays(args))
        assert str(caught.value) == f"{module.__file__}:{place(module, mark)}: {message}"
    assert library.asserts(4) == 5


@pytest.mark.parametrize("name, args, result", FINE)
def test_cpu_does_not_trap(library: cpu.Library, name: str, args: tuple[Any, ...], result: Any) -> None:
    got = getattr(library, name)(*arrays(args))
    assert plain(got) == result
    assert name not in ("rows", "asserts") or type(got).__name__ == {"rows": "Row", "asserts": "int"}[name]


def test_cpu_traps_in_threads(library: cpu.Library) -> None:
    def trapped(k: int) -> bool:
        try:
            return library.asserts(k % 5) != k % 5 + 1
        except Trap:
            return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(trapped, range(500))) == [k % 5 == 3 for k in range(500)]


def flat(args: tuple[Any, ...]) -> list[Any]:
    return [x for a in args for x in ([words(a), len(a)] if isinstance(a, list) else [a])]


@pytest.mark.parametrize("name, args, mark, message", CASES)
def test_guest_panics(module: ModuleType, guest: Guest, name: str, args: tuple[Any, ...], mark: str,
                      message: str) -> None:
    """The message names the function, not the line, so that an ELF does not depend on the layout of its source."""
    with pytest.raises(OracleTrap) as caught:
        if name == "outer":  # its result is returned in memory
            guest.run(name, bytes(256), *flat(args))
        else:
            guest.run(name, *(flat(args) if name != "rows" else [bytes(64), *flat(args)]))
    above = Path(str(module.__file__)).read_text().split("\n")[:place(module, mark)]
    function = [line for line in above if line.startswith("def ")][-1].split("(")[0][4:]
    assert str(caught.value) == f"panic: {function}: {message}"


@pytest.mark.parametrize("name, args, result", [case for case in FINE if isinstance(case[2], int)])
def test_guest_does_not_panic(guest: Guest, name: str, args: tuple[Any, ...], result: int) -> None:
    assert guest.run(name, *flat(args)).a0 == result


SCRIPT = HEADER + '''
from tailbite.errors import Trap


@function
def f(x: u64) -> u64:
    assert x == 1, "x is one"
    return x


assert False, "removed by -O"
for call in (f, cpu.Library("optimised", [f]).f):
    assert call(1) == 1
    try:
        call(2)
        raise SystemExit("no trap")
    except Trap as e:
        print(str(e).split(": ", 1)[1])
'''


@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_asserts_survive_optimisation(tmp_path: Path, option: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, option, str(script)], capture_output=True, text=True, check=False,
                          env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert done.stderr == ""
    assert done.stdout == "assertion failed: x is one\n" * 2


def test_without_optimisation_the_script_ends_at_its_own_assert(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert "removed by -O" in done.stderr
