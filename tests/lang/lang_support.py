"""What the tests of typed Python share: modules made from text, and functions run as RV64IM code."""

from __future__ import annotations

import importlib.util
import itertools
import platform
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rv_oracle import FunctionRun, OracleTrap, run_function

from tailbite.lang import backend
from tailbite.lang.function import Function, function
from tailbite.lang.riscv import link_object, object_of

MASK64 = 2**64 - 1
HEADER = "from typing import NamedTuple\nfrom tailbite.lang import *\nfrom tailbite.lang import cpu\n"
_number = itertools.count()

_X86 = platform.machine().lower() in ("x86_64", "amd64")
LEVELS = [
    "native",
    pytest.param("avx2", marks=pytest.mark.skipif(not (_X86 and "avx2" in backend.host().features), reason="no AVX2")),
    pytest.param("baseline", marks=pytest.mark.skipif(not _X86, reason="levels are those of x86-64")),
]


def module_of(directory: Path, text: str) -> ModuleType:
    """Write ``text``, below the usual imports, to a file and import it."""
    name = f"typed_{next(_number)}"
    path = directory / f"{name}.py"
    path.write_text(HEADER + text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@function
def nothing() -> None:
    return


class Guest:
    """Functions linked into one ELF, each of which can be called under the oracle."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.elf = link_object(object_of([nothing, *functions], entry=nothing))

    def run(self, name: str, *args: int | bytes, max_steps: int = 10_000_000) -> FunctionRun:
        """Call ``name``. Bytes go to memory, each buffer on pages of its own, and their address is the argument.

        ``memory`` of the result holds the buffers by address, in the order of the arguments.
        """
        words: list[int] = []
        memory: dict[int, bytes] = {}
        for a in args:
            if isinstance(a, bytes):
                at = 0x4000_0000 + len(memory) * 0x100_0000
                memory[at] = a
                words.append(at)
            else:
                words.append(a)
        return run_function(self.elf, words, memory, name, max_steps)


def words(xs: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(xs)}Q", *(x & MASK64 for x in xs))


def from_words(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


__all__ = ["HEADER", "LEVELS", "MASK64", "Any", "Guest", "OracleTrap", "from_words", "module_of", "nothing", "words"]
