"""``commit(x)``: add bytes to the public output, in a guest and in its interpretation."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

from ..errors import CompileError
from ..lang.riscv import address_of, ecall
from ..lang.types import Int, Memory, u64
from ..lang.values import Builder, SliceValue, Value, lift, llvm_type, store

COMMIT = 64
_output: contextvars.ContextVar[list[bytes] | None] = contextvars.ContextVar("tailbite_output", default=None)


@contextlib.contextmanager
def collecting() -> Iterator[list[bytes]]:
    """Collect what an interpreted guest commits."""
    out: list[bytes] = []
    token = _output.set(out)
    try:
        yield out
    finally:
        _output.reset(token)


class _Commit:
    """Commit an integer, a bool, an Array or a Slice of integers, little-endian, without a length."""

    def __call__(self, x: Any) -> None:
        if isinstance(x, Value | SliceValue):
            self.emit_with_builder(x.b, x)
            return
        out = _output.get()
        if out is not None:
            out.append(_bytes(x))

    def emit_with_builder(self, b: Builder, x: Any) -> None:
        if b.traps_to != "riscv":
            raise CompileError("commit works only in a guest")
        if isinstance(x, SliceValue):
            size = lift(x.n, u64, b) * (x.elem.bits // 8)
            commit_bytes(b, address_of(x), size)
            return
        if isinstance(x, Int):
            x = lift(x, type(x), b)
        if not isinstance(x, Value):
            raise CompileError("commit takes a typed value: write commit(u64(1)), not commit(1)")
        size = 1 if x.type is bool else x.type.bits // 8
        slot = b.alloca("i8" if x.type is bool else llvm_type(x.type), "commit", 8)
        store(b, x.type, x, slot)
        address = Value(b, u64, b.emit(f"ptrtoint ptr {slot} to i64"))
        commit_bytes(b, address, size)


def commit_bytes(b: Builder, address: Any, size: Any) -> None:
    """The system call: ``size`` bytes at ``address`` become public."""
    ecall.emit_with_builder(b, COMMIT, 1, address, size)


def _bytes(x: Any) -> bytes:
    if isinstance(x, Memory):
        return b"".join(_bytes(x[i]) for i in range(len(x)))
    if isinstance(x, bool):
        return bytes([x])
    if isinstance(x, Int):
        return (int(x) & ((1 << x.bits) - 1)).to_bytes(x.bits // 8, "little")
    raise CompileError("commit takes a typed value: write commit(u64(1)), not commit(1)")


commit = _Commit()
