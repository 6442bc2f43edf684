"""What can be fuzzed, by name; and targets that are broken on purpose, so that each kind of violation can be seen."""

from __future__ import annotations

import ctypes
import importlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz_watch import Target

from tailbite import TailbiteError

BAD_CASE = "1/3"  # seed 1, number 3


class Broken:
    """Answers as it should, but for one case."""

    def __init__(self, fault: Callable[[], None]) -> None:
        self.fault, self.bad = fault, random.Random(BAD_CASE).random()

    def case(self, rng: random.Random) -> str:
        if rng.random() == self.bad:
            self.fault()
        raise TailbiteError("as it should be")


def raises() -> None:
    raise ValueError("an error without a type of its own")


def hangs() -> None:
    while True:
        pass


def allocates() -> None:
    np.ones(3 << 27, dtype=np.uint64)


def crashes() -> None:
    ctypes.string_at(0)


class Accepts:
    """A verifier that accepts everything."""

    def __init__(self) -> None:
        self.seed = imported("fuzz_proofs", "machine_seeds")("min")[0]._replace(verify=lambda *args, **options: None)

    def case(self, rng: random.Random) -> str:
        return self.seed.case(rng)


def imported(module: str, name: str) -> Any:
    """What only some workers need."""
    return getattr(importlib.import_module(module), name)


BROKEN: dict[str, Callable[[], Target]] = {
    "broken-accepts": Accepts,
    "broken-raises": lambda: Broken(raises),
    "broken-hangs": lambda: Broken(hangs),
    "broken-allocates": lambda: Broken(allocates),
    "broken-crashes": lambda: Broken(crashes),
}
TARGETS: dict[str, Callable[[], Target]] = {
    "proofs": lambda: imported("fuzz_proofs", "Fast")(),
    "min": lambda: imported("fuzz_proofs", "Min")(),
    "standard": lambda: imported("fuzz_proofs", "Standard")(),
    "elfs": lambda: imported("fuzz_elfs", "Elfs")(),
    "files": lambda: imported("fuzz_files", "Files")(),
    **BROKEN,
}
