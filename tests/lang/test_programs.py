"""Random programs: the interpreter, the CPU and RV64IM code agree on results, traps and places of traps."""

from __future__ import annotations

import random
import re
import traceback
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from lang_support import LEVELS, Guest, OracleTrap, module_of, words
from program_generator import Generator

from tailbite.errors import Trap
from tailbite.lang import cpu

PER_MODULE = 25
MODULES = 16


class Trapped(NamedTuple):
    """Where a program trapped. The CPU tells the line, a guest the function."""

    line: int
    function: str


def inputs(seed: int) -> list[tuple[int, int, int, list[int]]]:
    rng = random.Random(seed)
    some = [(0, 0, 0, [1]), (2**64 - 1, -(2**63), 255, [2**64 - 1, 5, 2**63])]
    for _ in range(4):
        size = rng.randint(1, 9)
        some.append((rng.getrandbits(64), rng.randint(-(2**63), 2**63 - 1), rng.getrandbits(8),
                     [rng.getrandbits(rng.choice((3, 64))) for _ in range(size)]))
    return some


def interpreted(module: ModuleType, name: str, args: tuple[Any, ...]) -> int | Trapped:
    try:
        return int(getattr(module, name)(*args))
    except Trap as e:
        frame = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == module.__file__][-1]
        return Trapped(frame.lineno or 0, frame.name)


def compiled(lib: cpu.Library, name: str, args: tuple[Any, ...]) -> int | str:
    """The result, or the line of the trap as text."""
    try:
        return getattr(lib, name)(*args[:3], np.array(args[3], np.uint64))
    except Trap as e:
        place = re.match(r".*?:(\d+): ", str(e))
        assert place, e
        return place[1]


def on_guest(guest: Guest, name: str, args: tuple[Any, ...]) -> int | str:
    """The result, or the function of the trap."""
    try:
        return guest.run(name, *args[:3], words(args[3]), len(args[3])).a0
    except OracleTrap as e:
        place = re.match(r"panic: (\w+): ", str(e))
        assert place, e
        return place[1]


@pytest.fixture(scope="module", params=range(MODULES))
def programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    module = module_of(tmp_path_factory.mktemp("programs"), Generator(request.param).module(PER_MODULE))
    module.seed = request.param
    module.functions = [getattr(module, f"f{k}") for k in range(PER_MODULE)]
    module.outcomes = {(f.name, i): interpreted(module, f.name, args)
                       for f in module.functions for i, args in enumerate(inputs(request.param))}
    return module


@pytest.mark.parametrize("level", LEVELS[:1])
def test_cpu(programs: ModuleType, level: str) -> None:
    lib = cpu.Library(f"programs {programs.seed}", programs.functions, level=level)
    for (name, i), outcome in programs.outcomes.items():
        args = inputs(programs.seed)[i]
        want = str(outcome.line) if isinstance(outcome, Trapped) else outcome
        assert compiled(lib, name, args) == want, (programs.__file__, name, args)


def test_guest(programs: ModuleType) -> None:
    guest = Guest(programs.functions)
    for (name, i), outcome in programs.outcomes.items():
        args = inputs(programs.seed)[i]
        want = outcome.function if isinstance(outcome, Trapped) else outcome
        assert on_guest(guest, name, args) == want, (programs.__file__, name, args)


def test_programs_differ_and_some_trap(programs: ModuleType) -> None:
    """A generator whose programs all trap, or all give one number, would test nothing."""
    results = list(programs.outcomes.values())
    traps = [r for r in results if isinstance(r, Trapped)]
    assert 0 < len(traps) < 0.6 * len(results)
    assert len(set(results)) > 0.3 * len(results)
