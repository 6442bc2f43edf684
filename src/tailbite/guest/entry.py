"""The program around a guest function: read the arguments, commit the public ones, call, commit the result.

Private input holds all arguments in their encoding. What is public is committed from there, so what the proof shows
is what the function was given.
"""

from __future__ import annotations

from typing import Any

from ..lang import Ptr, function, u8, u32, u64
from ..lang.function import Function
from ..lang.lower import emit_call
from ..lang.riscv import pointer_at
from ..lang.types import ArrayType, PtrType, SliceType
from ..lang.values import Builder, SliceValue, Value, flatten, lift, llvm_type, parts_of, store
from .commit import commit_bytes

INPUT = 0xFF000000
PADDING = 4  # zero bytes before the arguments, so that words of 8 bytes are aligned


@function
def copy_items(to: Ptr[u64], source: Ptr[u64], count: u64) -> None:
    """Copy dwords; the source may lie at any address."""
    for i in range(count):
        to[i] = source[i]


def make_entry(fn: Function, public: set[str]) -> Function:
    """The entry function of the program that runs ``fn``."""
    stub = _Stub(fn, public)

    @function
    def main() -> None:
        stub()

    return main


class _Stub:
    """Emits the body of the entry function."""

    def __init__(self, fn: Function, public: set[str]) -> None:
        self.fn, self.public = fn, public

    def __call__(self) -> None:
        raise TypeError("the entry of a guest runs only on the machine")

    def emit_with_builder(self, b: Builder) -> None:
        at: Any = lift(INPUT + 4 + PADDING, u64, b)
        args, public = [], []
        for name, t in self.fn.signature.items():
            start = at
            value, at = read(b, at, t)
            args.append(value)
            if name in self.public:
                public.append((start, at - start))
        size = pointer_at.emit_with_builder(b, lift(INPUT, u64, b), u64)[0]  # the length, as the padding is zero
        b.trap_unless(at - (INPUT + 4) == size, "the input is not the arguments of this guest")
        for start, n in public:
            commit_bytes(b, start, n)
        result = emit_call(b.module, b, self.fn, tuple(args))  # type: ignore[attr-defined]
        if self.fn.returns is not None:
            commit_result(b, result, self.fn.returns)


def read(b: Builder, at: Any, t: Any) -> tuple[Any, Any]:
    """The argument of type ``t`` at address ``at``, and the address after it."""
    if isinstance(t, SliceType):
        n = u64(pointer_at(at, u32)[0])
        b.trap_unless(n < 1 << 24, "an argument is longer than the input")
        return SliceValue(b, t.elem, pointer_at(at + 4, t.elem), n), at + 4 + n
    if isinstance(t, ArrayType):
        return copied(b, at, t), at + t.n * (t.elem.bits // 8)
    if t is bool:
        byte = pointer_at(at, u8)[0]
        b.trap_unless(byte < 2, "a bool in the input is neither 0 nor 1")
        return byte != 0, at + 1
    return pointer_at(at, t)[0], at + t.bits // 8


def copied(b: Builder, at: Any, t: ArrayType) -> SliceValue:
    """An array argument on the stack, where its items are aligned and may be changed."""
    words = -(-t.n * t.elem.bits // 64)
    slot = b.alloca(f"[{words} x i64]", "argument", 8)
    emit_call(b.module, b, copy_items, (  # type: ignore[attr-defined]
        Value(b, PtrType(u64), slot), pointer_at(at, u64), lift(words, u64, b)))
    return SliceValue(b, t.elem, Value(b, PtrType(t.elem), slot), t.n)


def commit_result(b: Builder, x: Any, t: Any) -> None:
    """Commit an integer, a bool, or the parts of a tuple, packed in order."""
    kinds = flatten(t)
    sizes = [1 if k is bool else k.bits // 8 for k in kinds]
    slot = b.alloca(f"[{sum(sizes)} x i8]", "result", 8)
    offset = 0
    for p, size in zip(parts_of(lift(x, t, b), t, b), sizes, strict=True):
        place = b.emit(f"getelementptr i8, ptr {slot}, i64 {offset}")
        if p.type is bool:
            store(b, bool, p, place)
        else:
            b.put(f"store {llvm_type(p.type)} {p.name}, ptr {place}, align 1")
        offset += size
    commit_bytes(b, Value(b, u64, b.emit(f"ptrtoint ptr {slot} to i64")), sum(sizes))


