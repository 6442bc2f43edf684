"""Operations beyond Python's operators; each works on run-time values and on wrapping integers alike."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable
from typing import Any

from ..errors import CompileError
from .types import (
    LANES,
    UNSIGNED,
    Int,
    Memory,
    PtrType,
    boolx8,
    i64,
    lanes_of,
    lift_int,
    rebuild,
    type_name,
    u64,
    u64x8,
)
from .values import MASK, VECTOR, SliceValue, Value, lift, llvm_type, type_of

_M64 = (1 << 64) - 1
_MIN = -(1 << 63)


def _first(*args: Any) -> Value | None:
    return next((a for a in args if isinstance(a, Value)), None)


def select(c: Any, a: Any, b: Any) -> Any:
    """``a`` where the condition holds, else ``b``; both are evaluated. Lanes select lane by lane."""
    if isinstance(a, tuple):
        if type(a) is not type(b) or len(a) != len(b):
            raise TypeError("select between tuples of different lengths or kinds")
        return rebuild(type(a), [select(c, x, y) for x, y in zip(a, b, strict=True)])
    if isinstance(c, boolx8):
        x, y = lanes_of(a), lanes_of(b)
        return u64x8(tuple(p if k else q for k, p, q in zip(c.v, x, y, strict=True)))
    if not isinstance(c, Value):
        if c is not True and c is not False:
            raise TypeError("the condition of select must be bool")
        return _adopted(a, b) if c else _adopted(b, a)
    known = _first(a, b)
    t = known.type if known is not None else type(a) if isinstance(a, Int | u64x8) else type(b)
    if c.type not in (bool, boolx8):
        raise TypeError("the condition of select must be bool")
    if t is int or (c.type is boolx8 and t is not u64x8):
        raise CompileError("select needs a typed value of the shape of its condition on one side")
    x, y = lift(a, t, c.b), lift(b, t, c.b)
    kind = MASK if c.type is boolx8 else "i1"
    return Value(c.b, t, c.b.emit(f"select {kind} {c.name}, {llvm_type(t)} {x.name}, {llvm_type(t)} {y.name}"))


def _adopted(chosen: Any, other: Any) -> Any:
    """``chosen`` in the type of both sides: an untyped literal takes that of the other."""
    if isinstance(other, Value):
        return lift(chosen, other.type, other.b)
    if isinstance(chosen, Value):
        lift(other, chosen.type, chosen.b)
    elif isinstance(other, Int) or isinstance(chosen, Int):
        t = type(other) if isinstance(other, Int) else type(chosen)
        lift_int(t, other)
        return t(lift_int(t, chosen))
    elif isinstance(other, u64x8) or isinstance(chosen, u64x8):
        lanes_of(other)
        return u64x8(lanes_of(chosen))
    return chosen


def mulhi(a: Any, b: Any) -> Any:
    """High 64 bits of the unsigned 128-bit product, for u64 or lanes."""
    v = _first(a, b)
    if v is None:
        if isinstance(a, u64x8) or isinstance(b, u64x8):
            return u64x8(tuple(x * y >> 64 for x, y in zip(lanes_of(a), lanes_of(b), strict=True)))
        return u64(lift_int(u64, a) * lift_int(u64, b) >> 64)
    if v.type is u64x8:
        return _mulhi_lanes(lift(a, u64x8, v.b), lift(b, u64x8, v.b))
    e = v.b.emit
    x, y = lift(a, u64, v.b), lift(b, u64, v.b)
    wide = e(f"mul i128 {e(f'zext i64 {x.name} to i128')}, {e(f'zext i64 {y.name} to i128')}")
    return Value(v.b, u64, e(f"trunc i128 {e(f'lshr i128 {wide}, 64')} to i64"))


def _mulhi_lanes(a: Any, b: Any) -> Any:
    low = 0xFFFFFFFF
    a0, a1, b0, b1 = a & low, a >> 32, b & low, b >> 32
    t = a1 * b0 + ((a0 * b0) >> 32)
    return a1 * b1 + (t >> 32) + ((a0 * b1 + (t & low)) >> 32)


def umin(a: Any, b: Any) -> Any:
    """The smaller of two unsigned values."""
    v = _first(a, b)
    if v is None or v.type is not u64x8:
        return select(a < b, a, b)
    return v.b.call(u64x8, f"llvm.umin.v{LANES}i64", lift(a, u64x8, v.b), lift(b, u64x8, v.b))


def rotl(a: Any, k: int) -> Any:
    """Rotate an unsigned value or each lane left by the constant ``k``."""
    t = type_of(a)
    if t is not u64x8 and t not in UNSIGNED:
        raise TypeError(f"{type_name(t)} used where an unsigned type is needed")
    bits = 64 if t is u64x8 else t.bits
    k = operator.index(k) % bits
    if k == 0:
        return a
    if isinstance(a, Value):
        name = f"llvm.fshl.v{LANES}i64" if t is u64x8 else f"llvm.fshl.i{bits}"
        return a.b.call(t, name, a, a, lift(k, t, a.b))
    return (a << k) | (a >> (bits - k))


def rotr(a: Any, k: int) -> Any:
    """Rotate an unsigned value or each lane right by the constant ``k``."""
    return rotl(a, -operator.index(k))


def bswap(a: Any) -> Any:
    """The u64 with its eight bytes in reverse order."""
    if isinstance(a, Value):
        return a.b.call(u64, "llvm.bswap.i64", lift(a, u64, a.b))
    return u64(int.from_bytes(lift_int(u64, a).to_bytes(8, "little"), "big"))


def sdiv(a: Any, b: Any) -> Any:
    """Signed quotient rounded to zero, as RISC-V: x / 0 = -1, MIN / -1 = MIN."""
    v = _first(a, b)
    if v is None:
        x, y = lift_int(i64, a), lift_int(i64, b)
        q = abs(x) // abs(y) if y else 1
        return i64(i64.wrap(-q if y == 0 or (x < 0) != (y < 0) else q))
    return _signed(lift(a, i64, v.b), lift(b, i64, v.b), "sdiv")


def srem(a: Any, b: Any) -> Any:
    """Signed remainder with the sign of the dividend, as RISC-V: x % 0 = x, MIN % -1 = 0."""
    v = _first(a, b)
    if v is None:
        x, y = lift_int(i64, a), lift_int(i64, b)
        r = abs(x) % abs(y) if y else abs(x)
        return i64(-r if x < 0 else r)
    return _signed(lift(a, i64, v.b), lift(b, i64, v.b), "srem")


def _signed(x: Value, y: Value, op: str) -> Value:
    zero, overflow = y == 0, (x == _MIN) & (y == -1)
    safe = select(zero | overflow, 1, y)
    r = Value(x.b, i64, x.b.emit(f"{op} i64 {x.name}, {safe.name}"))
    if op == "sdiv":  # MIN / 1 is MIN already
        return select(zero, -1, r)
    return select(zero, x, select(overflow, 0, r))


def length(s: Any) -> Any:
    """Number of elements of a slice or array, as u64."""
    if isinstance(s, SliceValue):
        return lift(s.n, u64, s.b)
    if isinstance(s, Memory):
        return u64(len(s))
    raise CompileError("length() takes a Slice or an Array")


def window(s: Any, start: Any, n: int) -> Any:
    """Elements ``start`` to ``start + n - 1`` of a slice, a constant number of them: one check serves them all."""
    if isinstance(s, Memory):
        return s[int(start):int(start) + n]
    if not isinstance(s, SliceValue):
        raise CompileError("window() takes a Slice or an Array")
    first, size = lift(start, u64, s.b), lift(s.n, u64, s.b)
    s.b.trap_unless((size >= n) & (first <= size - n), "window outside the slice")
    return SliceValue(s.b, s.elem, s.ptr.offset(first), n, s.homes)


def shuffle(a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
    """Lanes 0..7 name those of ``a``, 8..15 those of ``b``."""
    if len(lanes) != LANES or not all(0 <= k < 2 * LANES for k in lanes):
        raise TypeError(f"shuffle takes {LANES} lane numbers from 0 to {2 * LANES - 1}")
    v = _first(a, b)
    if v is not None:
        index = ", ".join(f"i32 {k}" for k in lanes)
        x, y = lift(a, u64x8, v.b), lift(b, u64x8, v.b)
        text = f"shufflevector {VECTOR} {x.name}, {VECTOR} {y.name}, <{LANES} x i32> <{index}>"
        return Value(v.b, u64x8, v.b.emit(text))
    both = lanes_of(a) + lanes_of(b)
    return u64x8(tuple(both[k] for k in lanes))


def lane(a: Any, k: int) -> Any:
    """Lane ``k`` as u64."""
    if not 0 <= k < LANES:
        raise TypeError(f"there is no lane {k}: they are 0 to {LANES - 1}")
    if isinstance(a, Value):
        return Value(a.b, u64, a.b.emit(f"extractelement {VECTOR} {lift(a, u64x8, a.b).name}, i32 {k}"))
    return u64(lanes_of(a)[k])


def opaque(constant: int, like: Any) -> Any:
    """A constant of the type of ``like`` that LLVM cannot see through, so that a multiplication stays one.

    A constant below 2^32 is loaded as i32: LLVM then knows its width, and chooses the cheap 32-bit multiplication.
    """
    if isinstance(like, Value):
        name, kind = f"tb_opaque_{constant}", "i32" if constant < 1 << 32 else "i64"
        like.b.declares.add(f"@{name} = internal global {kind} {constant}")
        word = like.b.emit(f"load {kind}, ptr @{name}")
        if kind == "i32":
            word = like.b.emit(f"zext i32 {word} to i64")
        value = Value(like.b, u64, word)
        return value if like.type is u64 else value.convert_to(u64x8)
    return constant


class Constants:
    """A table of u64 constants that run-time code may index; the index is checked."""

    def __init__(self, words: Iterable[int]) -> None:
        self.words = tuple(words)
        body = ", ".join(f"i64 {lift_int(u64, w)}" for w in self.words)
        digest = hashlib.sha256(body.encode()).hexdigest()[:16]
        self._name = f"@tb_constants_{digest}"
        self._global = f"{self._name} = private constant [{len(self.words)} x i64] [{body}]"

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, i: Any) -> Any:
        return self.placed(i.b)[i] if isinstance(i, Value) else Memory(u64, self.words)[i]

    def placed(self, b: Any) -> SliceValue:
        """The table in the memory of the code that ``b`` builds."""
        b.declares.add(self._global)
        return SliceValue(b, u64, Value(b, PtrType(u64), self._name), len(self.words))


class _Whole:
    """``whole(constants)``: all of a constant table as a slice; it must not be written to."""

    def __call__(self, table: Constants) -> Memory:
        return Memory(u64, table.words)

    def emit_with_builder(self, b: Any, table: Constants) -> SliceValue:
        return table.placed(b)


whole = _Whole()


def madd52lo(acc: Any, a: Any, b: Any) -> Any:
    """``acc`` + low 52 bits of the product of the low 52 bits of ``a`` and ``b``, lane by lane (AVX-512 IFMA)."""
    return _madd52(acc, a, b, "l")


def madd52hi(acc: Any, a: Any, b: Any) -> Any:
    """``acc`` + high 52 bits of the product of the low 52 bits of ``a`` and ``b``, lane by lane (AVX-512 IFMA)."""
    return _madd52(acc, a, b, "h")


def _madd52(acc: Any, a: Any, b: Any, part: str) -> Any:
    v = _first(acc, a, b)
    if v is not None:
        if v.b.traps_to != "cpu":
            raise CompileError("madd52 works only on the CPU")
        args = [lift(x, u64x8, v.b) for x in (acc, a, b)]
        return v.b.call(u64x8, f"llvm.x86.avx512.vpmadd52{part}.uq.512", *args)
    m, shift = (1 << 52) - 1, 0 if part == "l" else 52
    lanes = zip(lanes_of(acc), lanes_of(a), lanes_of(b), strict=True)
    return u64x8(tuple((c + ((x & m) * (y & m) >> shift & m)) & _M64 for c, x, y in lanes))
