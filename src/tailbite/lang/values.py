"""Run-time values of the compiler: operators on them emit LLVM instructions.

A helper (``field.mul``, one Keccak round) is a plain Python function over values. It runs while its caller is
compiled, so its own loops unroll; given wrapping integers of :mod:`.types` instead it simply computes.
"""

from __future__ import annotations

import re
from typing import Any

from ..errors import CompileError
from .types import (
    LANES,
    ArrayType,
    Int,
    Memory,
    PtrType,
    SliceType,
    boolx8,
    i64,
    lift_int,
    rebuild,
    slice_bounds,
    tuple_parts,
    type_name,
    u64,
    u64x8,
)

VECTOR = f"<{LANES} x i64>"
MASK = f"<{LANES} x i1>"


def llvm_type(t: Any) -> str:
    """LLVM type of a scalar, vector or pointer."""
    if isinstance(t, PtrType):
        return "ptr"
    if t is bool:
        return "i1"
    if t is u64x8:
        return VECTOR
    if t is boolx8:
        return MASK
    if isinstance(t, type) and issubclass(t, Int):
        return f"i{t.bits}"
    raise CompileError(f"{type_name(t)} is not a type of the language")


def flatten(t: Any) -> list[Any]:
    """Scalar parts in which a value of type ``t`` travels: a slice is pointer and length, a tuple its parts."""
    if t is None or t is type(None):
        return []
    if isinstance(t, SliceType):
        return [PtrType(t.elem), u64]
    if isinstance(t, ArrayType):
        return [PtrType(t.elem)]
    parts = tuple_parts(t)
    if parts is not None:
        return [s for p in parts for s in flatten(p)]
    llvm_type(t)
    return [t]


class Builder:
    """Text of one LLVM function under construction."""

    def __init__(self, traps_to: str) -> None:
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.count = 0
        self.declares: set[str] = set()
        self.region: tuple[int, ...] = ()
        self.traps_to = traps_to
        self.can_trap = False
        self.location = ("?", 0)
        self.sites: list[tuple[str, int, str]] = []

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def emit(self, text: str) -> str:
        name = f"%v{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def put(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def alloca(self, llvm: str, hint: str, align: int = 0) -> str:
        name = f"%{re.sub(r'[^A-Za-z0-9_.]', '_', hint)}.{self.fresh()}"
        self.allocas.append(f"  {name} = alloca {llvm}" + (f", align {align}" if align else ""))
        return name

    def call(self, t: Any, name: str, *args: Value) -> Value:
        """Call of an LLVM intrinsic or stub that cannot trap."""
        kinds = [llvm_type(a.type) for a in args]
        self.declares.add(f"declare {llvm_type(t)} @{name}({', '.join(kinds)})")
        text = ", ".join(f"{k} {a.name}" for k, a in zip(kinds, args, strict=True))
        return Value(self, t, self.emit(f"call {llvm_type(t)} @{name}({text})"))

    def trap_unless(self, ok: Value, message: str) -> None:
        """Leave the function with a trap that names this place, unless ``ok`` holds."""
        k = self.fresh()
        self.put(f"br i1 {ok.name}, label %ok{k}, label %trap{k}")
        self.label(f"trap{k}")
        self.trap(message)
        self.label(f"ok{k}")

    def trap(self, message: str) -> None:
        """Leave the function with a trap that names this place."""
        self.can_trap = True
        self.sites.append((*self.location, message))
        self.put(f"; TRAP {len(self.sites) - 1}")


class Value:
    """A run-time scalar, vector or pointer: its type and the name of its SSA register."""

    __slots__ = ("b", "name", "type")

    def __init__(self, b: Builder, t: Any, name: str) -> None:
        self.b, self.type, self.name = b, t, name

    def __bool__(self) -> bool:
        raise CompileError("a run-time condition in a plain helper: use select(c, a, b), or make it a @function")

    def __iter__(self) -> Any:
        raise CompileError("cannot iterate over a run-time value")

    def __hash__(self) -> int:
        raise CompileError("a run-time value cannot be a key")

    def __index__(self) -> int:
        raise CompileError("a run-time value where Python needs an integer (list index, bound of unroll)")

    def __repr__(self) -> str:
        return f"<run-time {type_name(self.type)}>"

    def convert_to(self, t: Any) -> Value:
        """``t(x)``: truncate, zero-extend (unsigned), sign-extend (i64), splat into lanes."""
        b, s = self.b, self.type
        if s is t:
            return self
        if t is u64x8 and s is u64:
            v = b.emit(f"insertelement {VECTOR} poison, i64 {self.name}, i32 0")
            zeros = f"<{LANES} x i32> zeroinitializer"
            return Value(b, t, b.emit(f"shufflevector {VECTOR} {v}, {VECTOR} poison, {zeros}"))
        if t is bool or s is u64x8 or not (isinstance(t, type) and issubclass(t, Int)):
            raise CompileError(f"cannot convert {type_name(s)} to {type_name(t)}")
        have = 1 if s is bool else s.bits if isinstance(s, type) and issubclass(s, Int) else 0
        if not have:
            raise CompileError(f"cannot convert {type_name(s)} to {type_name(t)}")
        if have == t.bits:
            return Value(b, t, self.name)
        op = "zext" if have < t.bits else "trunc"
        return Value(b, t, b.emit(f"{op} i{have} {self.name} to i{t.bits}"))

    def _mismatch(self, other: Any) -> CompileError:
        return CompileError(f"cannot combine {type_name(self.type)} and {type_name(type_of(other))}: convert one")

    def _arith(self, other: Any, op: str, swap: bool = False) -> Value:
        t = self.type
        if not (t is u64x8 or t is bool or t is boolx8 or (isinstance(t, type) and issubclass(t, Int))):
            raise CompileError(f"no arithmetic on {type_name(t)}")
        if (t is bool or t is boolx8) and op not in ("and", "or", "xor"):
            raise CompileError(f"no arithmetic on {type_name(t)}: use & | ^")
        x, y = self, lift(other, t, self.b)
        if swap:
            x, y = y, x
        return Value(self.b, t, self.b.emit(f"{op} {llvm_type(t)} {x.name}, {y.name}"))

    def _shift(self, other: Any, op: str, swap: bool = False) -> Value:
        t = self.type
        if t is not u64x8 and not (isinstance(t, type) and issubclass(t, Int)):
            raise CompileError(f"no shift of {type_name(t)}")
        x, y = self, lift(other, t, self.b)
        if swap:
            x, y = y, x
        mask: int = getattr(t, "bits", 64) - 1
        if isinstance(other, int) and not swap:
            y = lift(other & mask, t, self.b)
        else:
            y = Value(self.b, t, self.b.emit(f"and {llvm_type(t)} {y.name}, {lift(mask, t, self.b).name}"))
        if op == "lshr" and t is i64:
            op = "ashr"
        return Value(self.b, t, self.b.emit(f"{op} {llvm_type(t)} {x.name}, {y.name}"))

    def _compare(self, other: Any, op: str) -> Value:
        t = self.type
        if isinstance(t, PtrType) or t is boolx8:
            raise CompileError(f"no comparison of {type_name(t)}")
        y = lift(other, t, self.b)
        sign = "" if op in ("eq", "ne") else "s" if t is i64 else "u"
        r = self.b.emit(f"icmp {sign}{op} {llvm_type(t)} {self.name}, {y.name}")
        return Value(self.b, boolx8 if t is u64x8 else bool, r)

    def _divide(self, other: Any, op: str, swap: bool = False) -> Value:
        t = self.type
        if t is i64:
            raise CompileError("// and % on i64 are ambiguous: use sdiv(a, b) or srem(a, b)")
        if not (isinstance(t, type) and issubclass(t, Int)):
            raise CompileError(f"no division on {type_name(t)}")
        x, y = self, lift(other, t, self.b)
        if swap:
            x, y = y, x
        return guarded_division(x, y, op)

    def __add__(self, o: Any) -> Any: return self._arith(o, "add")
    def __radd__(self, o: Any) -> Any: return self._arith(o, "add", True)
    def __sub__(self, o: Any) -> Any: return self._arith(o, "sub")
    def __rsub__(self, o: Any) -> Any: return self._arith(o, "sub", True)
    def __mul__(self, o: Any) -> Any: return self._arith(o, "mul")
    def __rmul__(self, o: Any) -> Any: return self._arith(o, "mul", True)
    def __and__(self, o: Any) -> Any: return self._arith(o, "and")
    def __rand__(self, o: Any) -> Any: return self._arith(o, "and", True)
    def __or__(self, o: Any) -> Any: return self._arith(o, "or")
    def __ror__(self, o: Any) -> Any: return self._arith(o, "or", True)
    def __xor__(self, o: Any) -> Any: return self._arith(o, "xor")
    def __rxor__(self, o: Any) -> Any: return self._arith(o, "xor", True)
    def __lshift__(self, o: Any) -> Any: return self._shift(o, "shl")
    def __rlshift__(self, o: Any) -> Any: return self._shift(o, "shl", True)
    def __rshift__(self, o: Any) -> Any: return self._shift(o, "lshr")
    def __rrshift__(self, o: Any) -> Any: return self._shift(o, "lshr", True)
    def __floordiv__(self, o: Any) -> Any: return self._divide(o, "udiv")
    def __rfloordiv__(self, o: Any) -> Any: return self._divide(o, "udiv", True)
    def __mod__(self, o: Any) -> Any: return self._divide(o, "urem")
    def __rmod__(self, o: Any) -> Any: return self._divide(o, "urem", True)
    def __lt__(self, o: Any) -> Any: return self._compare(o, "lt")
    def __le__(self, o: Any) -> Any: return self._compare(o, "le")
    def __gt__(self, o: Any) -> Any: return self._compare(o, "gt")
    def __ge__(self, o: Any) -> Any: return self._compare(o, "ge")
    def __eq__(self, o: Any) -> Any: return self._compare(o, "eq")
    def __ne__(self, o: Any) -> Any: return self._compare(o, "ne")

    def __neg__(self) -> Any:
        return 0 - self

    def __invert__(self) -> Any:
        if self.type is bool:
            raise CompileError("write `not x` for a bool")
        if self.type is u64x8:
            return self ^ ((1 << 64) - 1)
        if self.type is boolx8:
            return self ^ True
        return self ^ (-1 if self.type is i64 else self.type.high)

    # -- memory; a pointer is unchecked

    def _element(self, i: Any) -> str:
        if not isinstance(self.type, PtrType):
            raise CompileError(f"a {type_name(self.type)} cannot be indexed")
        index = lift(i, u64, self.b)
        return self.b.emit(f"getelementptr {llvm_type(self.type.elem)}, ptr {self.name}, i64 {index.name}")

    def __getitem__(self, i: Any) -> Value:
        return load(self.b, self.type.elem, self._element(i))

    def __setitem__(self, i: Any, x: Any) -> None:
        store(self.b, self.type.elem, lift(x, self.type.elem, self.b), self._element(i))

    def _element8(self, i: Any) -> str:
        if self.type != PtrType(u64):
            raise CompileError(f"lanes are made of u64 elements: a {type_name(self.type)} has none")
        return self._element(i)

    def load8(self, i: Any) -> Value:
        """Eight consecutive u64 from element ``i`` on, at any alignment of 8 bytes."""
        return load(self.b, u64x8, self._element8(i))

    def store8(self, i: Any, x: Any) -> None:
        """Store eight lanes to elements ``i`` to ``i + 7``."""
        store(self.b, u64x8, lift(x, u64x8, self.b), self._element8(i))

    def stream8(self, i: Any, x: Any) -> None:
        """Store eight lanes past the caches; the address must be a multiple of 64."""
        v = lift(x, u64x8, self.b)
        self.b.put(f"store {VECTOR} {v.name}, ptr {self._element8(i)}, align 64, !nontemporal !0")

    def prefetch(self, i: Any) -> None:
        """Hint that the cache line of element ``i`` will be read soon; never faults."""
        self.b.declares.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.b.put(f"call void @llvm.prefetch.p0(ptr {self._element(i)}, i32 0, i32 3, i32 1)")

    def offset(self, i: Any) -> Value:
        """The pointer ``i`` elements further on."""
        return Value(self.b, self.type, self._element(i))


class SliceValue:
    """Run-time slice or array: a pointer, a length, and a check at every access.

    ``homes`` names the regions whose arrays it may view: it must not outlive them.
    """

    def __init__(self, b: Builder, elem: Any, ptr: Value, n: Value | int, homes: frozenset[Any] = frozenset()) -> None:
        self.b, self.elem, self.ptr, self.n, self.homes = b, elem, ptr, n, homes

    @property
    def type(self) -> Any:
        return SliceType(self.elem)

    def __len__(self) -> int:
        if isinstance(self.n, int):
            return self.n
        raise CompileError("the length of a slice is a run-time value: use length(s)")

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    def _check(self, i: Any, count: int = 1) -> Any:
        if isinstance(i, Int | int) and not isinstance(i, bool) and isinstance(self.n, int):
            if not 0 <= int(i) <= self.n - count:
                raise CompileError(f"index {int(i)} is outside an array of {self.n} elements")
            return int(i)
        i = lift(i, u64, self.b)
        n = lift(self.n, u64, self.b)
        if count == 1:
            self.b.trap_unless(i < n, "index outside the slice")
        else:
            self.b.trap_unless((n >= count) & (i <= n - count), "index outside the slice")
        return i

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self._part(*slice_bounds(i))
        return self.ptr[self._check(i)]

    def _part(self, start: Any, stop: Any) -> SliceValue:
        lo = lift(start, u64, self.b)
        hi = lift(self.n if stop is None else stop, u64, self.b)
        n = lift(self.n, u64, self.b)
        self.b.trap_unless((lo <= hi) & (hi <= n), "slice bounds outside the slice")
        return SliceValue(self.b, self.elem, self.ptr.offset(lo), hi - lo, self.homes)

    def __setitem__(self, i: Any, x: Any) -> None:
        self.ptr[self._check(i)] = x

    def load8(self, i: Any) -> Value:
        return self.ptr.load8(self._check(i, LANES))

    def store8(self, i: Any, x: Any) -> None:
        self.ptr.store8(self._check(i, LANES), x)


def load(b: Builder, t: Any, address: str) -> Value:
    if t is bool:
        byte = b.emit(f"load i8, ptr {address}")
        return Value(b, bool, b.emit(f"trunc i8 {byte} to i1"))
    return Value(b, t, b.emit(f"load {llvm_type(t)}, ptr {address}, align {min(size_of(t), 8)}"))


def store(b: Builder, t: Any, v: Value, address: str) -> None:
    if t is bool:
        b.put(f"store i8 {b.emit(f'zext i1 {v.name} to i8')}, ptr {address}")
        return
    b.put(f"store {llvm_type(t)} {v.name}, ptr {address}, align {min(size_of(t), 8)}")


def size_of(t: Any) -> int:
    """Bytes of a scalar, vector or pointer in memory."""
    if t is bool or t is boolx8:
        return 1
    return 8 * LANES if t is u64x8 else 8 if isinstance(t, PtrType) else t.bits // 8


def type_of(x: Any) -> Any:
    return x.type if isinstance(x, Value | SliceValue) else type(x)


def lift(x: Any, t: Any, b: Builder) -> Any:
    """``x`` as a value of type ``t``: an untyped literal adopts it, anything else must have it already."""
    if isinstance(x, Value):
        if x.type == t:
            return x
        if isinstance(t, SliceType | ArrayType):
            raise CompileError(f"a {type_name(x.type)} has no length: {type_name(t)} is needed")
    elif isinstance(x, SliceValue):
        return _lift_slice(x, t, b)
    elif t is u64x8 and isinstance(x, u64x8 | int) and not isinstance(x, bool):
        try:
            lanes = x.v if isinstance(x, u64x8) else (lift_int(u64, x),) * LANES
        except OverflowError as e:
            raise CompileError(str(e)) from None
        return Value(b, t, "<" + ", ".join(f"i64 {e}" for e in lanes) + ">")
    elif t is boolx8 and isinstance(x, bool):
        return Value(b, t, "splat (i1 " + ("true" if x else "false") + ")")
    elif t is bool and isinstance(x, bool):
        return Value(b, t, "true" if x else "false")
    elif isinstance(t, type) and issubclass(t, Int) and isinstance(x, Int | int) and not isinstance(x, bool):
        try:
            return Value(b, t, str(lift_int(t, x)))
        except (TypeError, OverflowError) as e:
            raise CompileError(str(e)) from None
    elif isinstance(x, tuple) and tuple_parts(t) is not None:
        parts = tuple_parts(t) or []
        if len(parts) != len(x):
            raise CompileError(f"{len(x)} values where {type_name(t)} needs {len(parts)}")
        return rebuild(t, [lift(e, p, b) for e, p in zip(x, parts, strict=True)])
    raise CompileError(f"{type_name(type_of(x))} used where {type_name(t)} is needed")


def _lift_slice(x: SliceValue, t: Any, b: Builder) -> Any:
    if isinstance(t, PtrType) and t.elem == x.elem:
        return x.ptr
    if isinstance(t, SliceType) and t.elem == x.elem:
        return SliceValue(b, x.elem, x.ptr, x.n, x.homes)
    if isinstance(t, ArrayType) and t.elem == x.elem and x.n == t.n:
        return x
    raise CompileError(f"{type_name(x.type)} used where {type_name(t)} is needed")


def parts_of(x: Any, t: Any, b: Builder) -> list[Value]:
    """The scalars in which the lifted value ``x`` of type ``t`` travels; inverse of :func:`assemble`."""
    if t is None or t is type(None):
        return []
    if isinstance(x, SliceValue):
        return [x.ptr, lift(x.n, u64, b)] if isinstance(t, SliceType) else [x.ptr]
    if isinstance(x, tuple):
        return [s for e, p in zip(x, tuple_parts(t) or [], strict=True) for s in parts_of(e, p, b)]
    return [x]


def assemble(t: Any, parts: list[Value], b: Builder, homes: frozenset[Any] = frozenset()) -> Any:
    """The value of type ``t`` whose scalars are the head of ``parts``, which are consumed."""
    if t is None or t is type(None):
        return None
    if isinstance(t, SliceType):
        return SliceValue(b, t.elem, parts.pop(0), parts.pop(0), homes)
    if isinstance(t, ArrayType):
        return SliceValue(b, t.elem, parts.pop(0), t.n, homes)
    inner = tuple_parts(t)
    if inner is not None:
        return rebuild(t, [assemble(p, parts, b, homes) for p in inner])
    return parts.pop(0)


def homes_of(x: Any) -> frozenset[Any]:
    """Regions whose arrays the slices in ``x`` may view."""
    if isinstance(x, SliceValue):
        return x.homes
    return frozenset().union(*map(homes_of, x)) if isinstance(x, tuple) else frozenset()


def inferred_type(x: Any) -> Any:
    """Type of a local that is initialised with ``x``; None if ``x`` is a compile-time object."""
    if isinstance(x, Value):
        return x.type
    if isinstance(x, SliceValue):
        return ArrayType(x.elem, x.n) if isinstance(x.n, int) else x.type
    if isinstance(x, Int | u64x8 | bool):
        return type(x)
    if isinstance(x, tuple) and x and not isinstance(x, Memory):
        kinds = [inferred_type(e) for e in x]
        if all(k is not None for k in kinds):
            return type(x) if hasattr(x, "_fields") else tuple[tuple(kinds)]  # type: ignore[misc]
    return None


def guarded_division(x: Value, y: Value, op: str) -> Value:
    """Unsigned division as RISC-V defines it: by zero gives all ones, and the dividend as remainder."""
    b, t = x.b, x.type
    if y.name.isdigit() and y.name != "0":
        return Value(b, t, b.emit(f"{op} {llvm_type(t)} {x.name}, {y.name}"))
    zero = b.emit(f"icmp eq {llvm_type(t)} {y.name}, 0")
    safe = b.emit(f"select i1 {zero}, {llvm_type(t)} 1, {llvm_type(t)} {y.name}")
    r = b.emit(f"{op} {llvm_type(t)} {x.name}, {safe}")
    other = "-1" if op == "udiv" else x.name
    return Value(b, t, b.emit(f"select i1 {zero}, {llvm_type(t)} {other}, {llvm_type(t)} {r}"))
