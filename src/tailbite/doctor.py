"""Self-examination for ``tailbite doctor``."""

from __future__ import annotations

import platform
import sys
from typing import NamedTuple

from .errors import TailbiteError


class Check(NamedTuple):
    """One finding."""

    name: str
    good: bool
    found: str


def examine() -> list[Check]:
    """What the machine offers, and whether compiled code computes correctly on it."""
    return [_python(), _llvm(), _cpu(), _cache(), _keccak(), _field()]


def _python() -> Check:
    good = sys.version_info >= (3, 11) and sys.maxsize > 1 << 32
    return Check("Python", good, f"{platform.python_version()} on {platform.platform()}")


def _llvm() -> Check:
    try:
        from .lang.backend import RISCV, binding

        llvm = binding()
        RISCV.target_machine()
        return Check("LLVM", True, ".".join(map(str, llvm.llvm_version_info)) + ", with the RISC-V target")
    except (ImportError, RuntimeError) as e:
        return Check("LLVM", False, f"{e}: reinstall llvmlite")


def _cpu() -> Check:
    from .lang.backend import host
    from .program import default_threads

    m = host()
    level = "AVX-512 with 52-bit multiply-add" if m.has("avx512ifma") else "AVX-512" if m.has("avx512f") else \
        "AVX2" if m.has("avx2") else "baseline code"
    return Check("CPU", True, f"{m.cpu}, {default_threads()} threads, {level}")


def _cache() -> Check:
    from .lang.cache import directory

    where = directory()
    return Check("cache", where is not None, str(where) if where else "none: every start compiles again")


def _keccak() -> Check:
    from .hash.keccak import keccak256

    try:
        good = keccak256(b"").hex().startswith("c5d2460186f7233c927e7db2dcc703c0")
    except TailbiteError as e:
        return Check("hash", False, str(e))
    return Check("hash", good, "Keccak-256 of nothing is right" if good else "Keccak-256 is wrong")


def _field() -> Check:
    import numpy as np

    from . import columns
    from .field import P

    a = np.array([0, 1, P - 1, (1 << 32) - 1, 1 << 32, P - 2, 7, 12345], dtype=np.uint64)
    good = [int(x) for x in columns.mul_(a, a)] == [int(x) ** 2 % P for x in a]
    return Check("field", good, "Goldilocks products are right" if good else "Goldilocks products are wrong")
