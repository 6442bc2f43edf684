"""Types of typed Python, which are also the wrapping values of its interpreter.

``u64(5)`` is an integer that wraps at 64 bits; ``u64`` in an annotation is the type. Arithmetic never widens,
two different types never mix, and a plain Python ``int`` adopts the type of the other operand if it fits.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from ..errors import CompileError, Trap


def lift_int(cls: type[Int], x: Any) -> int:
    """The plain integer of ``x`` as a ``cls`` operand; TypeError if the types differ, OverflowError if too big."""
    if type(x) is cls:
        return x.v
    if isinstance(x, int) and not isinstance(x, bool):
        if not cls.low <= x <= cls.high:
            raise OverflowError(f"literal {x} does not fit {cls.__name__}")
        return int(x)
    raise TypeError(f"{type(x).__name__} used where {cls.__name__} is needed: convert it, e.g. {cls.__name__}(x)")


class Int:
    """A machine integer that wraps. ``u64(x)`` converts another machine integer by truncation or extension."""

    __slots__ = ("v",)
    v: int
    bits = 0
    low = 0
    high = 0

    def __new__(cls, x: Any = 0) -> Any:
        convert = getattr(x, "convert_to", None)
        if convert is not None:  # a run-time value of the compiler
            return convert(cls)
        n = operator.index(x)
        if not isinstance(x, Int) and not cls.low <= n <= cls.high:
            raise OverflowError(f"literal {n} does not fit {cls.__name__}")
        self = object.__new__(cls)
        self.v = cls.wrap(n)
        return self

    @classmethod
    def wrap(cls, x: int) -> int:
        return x & cls.high

    def __index__(self) -> int:
        return self.v

    __int__ = __index__

    def __bool__(self) -> bool:
        raise TypeError(f"a {type(self).__name__} is not a condition: write x != 0")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.v})"

    def __hash__(self) -> int:
        return hash(self.v)

    def __add__(self, o: Any) -> Any: ...
    def __radd__(self, o: Any) -> Any: ...
    def __sub__(self, o: Any) -> Any: ...
    def __rsub__(self, o: Any) -> Any: ...
    def __mul__(self, o: Any) -> Any: ...
    def __rmul__(self, o: Any) -> Any: ...
    def __and__(self, o: Any) -> Any: ...
    def __rand__(self, o: Any) -> Any: ...
    def __or__(self, o: Any) -> Any: ...
    def __ror__(self, o: Any) -> Any: ...
    def __xor__(self, o: Any) -> Any: ...
    def __rxor__(self, o: Any) -> Any: ...
    def __lshift__(self, o: Any) -> Any: ...
    def __rlshift__(self, o: Any) -> Any: ...
    def __rshift__(self, o: Any) -> Any: ...
    def __rrshift__(self, o: Any) -> Any: ...
    def __floordiv__(self, o: Any) -> Any: ...
    def __rfloordiv__(self, o: Any) -> Any: ...
    def __mod__(self, o: Any) -> Any: ...
    def __rmod__(self, o: Any) -> Any: ...
    def __lt__(self, o: Any) -> Any: ...
    def __le__(self, o: Any) -> Any: ...
    def __gt__(self, o: Any) -> Any: ...
    def __ge__(self, o: Any) -> Any: ...
    def __invert__(self) -> Any: ...
    def __neg__(self) -> Any: ...


class u8(Int):
    """An unsigned 8-bit integer."""

    __slots__ = ()


class u16(Int):
    """An unsigned 16-bit integer."""

    __slots__ = ()


class u32(Int):
    """An unsigned 32-bit integer."""

    __slots__ = ()


class u64(Int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


class i64(Int):
    """A signed 64-bit integer, two's complement."""

    __slots__ = ()

    @classmethod
    def wrap(cls, x: int) -> int:
        return ((x + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


UNSIGNED: tuple[type[Int], ...] = (u8, u16, u32, u64)
for _cls, _bits in ((u8, 8), (u16, 16), (u32, 32), (u64, 64), (i64, 64)):
    _cls.bits = _bits
    _cls.low, _cls.high = (0, (1 << _bits) - 1) if _cls is not i64 else (-(1 << 63), (1 << 63) - 1)


def _divide(a: int, b: int) -> int:
    return a // b if b else -1


def _remainder(a: int, b: int) -> int:
    return a % b if b else a


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}


def _install(cls: type[Int]) -> None:
    """Give ``cls`` its operators, with the masks bound early for speed."""
    make, wrap, mask = object.__new__, cls.wrap, cls.bits - 1
    signed = cls is i64

    def binary(name: str, fn: Callable[[int, int], int]) -> None:
        def forward(a: Any, b: Any) -> Any:
            if type(b) is not cls and hasattr(b, "convert_to"):
                return NotImplemented
            r = make(cls)
            r.v = wrap(fn(a.v, b.v if type(b) is cls else lift_int(cls, b)))
            return r

        def backward(a: Any, b: Any) -> Any:
            r = make(cls)
            r.v = wrap(fn(lift_int(cls, b), a.v))
            return r

        setattr(cls, f"__{name}__", forward)
        setattr(cls, f"__r{name}__", backward)

    for name, fn in _ARITHMETIC.items():
        binary(name, fn)
    binary("lshift", lambda a, b: a << (b & mask))
    binary("rshift", lambda a, b: a >> (b & mask))
    if signed:
        def refuse(a: Any, b: Any) -> Any:
            raise CompileError("// and % on i64 are ambiguous: use sdiv(a, b) or srem(a, b)")

        for name in ("floordiv", "rfloordiv", "mod", "rmod"):
            setattr(cls, f"__{name}__", refuse)
    else:
        binary("floordiv", _divide)
        binary("mod", _remainder)

    def compare(name: str, fn: Callable[[int, int], bool]) -> None:
        def op(a: Any, b: Any) -> Any:
            if type(b) is not cls and hasattr(b, "convert_to"):
                return NotImplemented
            return fn(a.v, b.v if type(b) is cls else lift_int(cls, b))

        setattr(cls, f"__{name}__", op)

    for name, fn2 in _COMPARE.items():
        compare(name, fn2)
    cls.__invert__ = lambda a: cls(wrap(~a.v))  # type: ignore[method-assign]
    cls.__neg__ = lambda a: cls(wrap(-a.v))  # type: ignore[method-assign]


for _cls in (u8, u16, u32, u64, i64):
    _install(_cls)


LANES = 8


class boolx8:
    """Eight lanes of a condition; the result of comparing :class:`u64x8`."""

    __slots__ = ("v",)

    def __init__(self, v: tuple[bool, ...]) -> None:
        self.v = v

    def __and__(self, o: boolx8) -> boolx8:
        return boolx8(tuple(a & b for a, b in zip(self.v, o.v, strict=True)))

    def __or__(self, o: boolx8) -> boolx8:
        return boolx8(tuple(a | b for a, b in zip(self.v, o.v, strict=True)))

    def __xor__(self, o: boolx8) -> boolx8:
        return boolx8(tuple(a ^ b for a, b in zip(self.v, o.v, strict=True)))

    def __invert__(self) -> boolx8:
        return boolx8(tuple(not a for a in self.v))

    def __bool__(self) -> bool:
        raise TypeError("lanes are not a condition: use select(mask, a, b)")


class u64x8:
    """Eight lanes of u64. ``u64x8(x)`` puts x in every lane."""

    __slots__ = ("v",)
    v: tuple[int, ...]

    def __new__(cls, x: Any = 0) -> Any:
        convert = getattr(x, "convert_to", None)
        if convert is not None:
            return convert(cls)
        if isinstance(x, tuple):
            lanes = tuple(lift_int(u64, e) for e in x)
            if len(lanes) != LANES:
                raise TypeError(f"u64x8 takes {LANES} lanes, got {len(lanes)}")
        elif isinstance(x, u64x8):
            lanes = x.v
        else:
            lanes = (lift_int(u64, x),) * LANES
        self = object.__new__(cls)
        self.v = lanes
        return self

    def __repr__(self) -> str:
        return f"u64x8{self.v}"

    def __bool__(self) -> bool:
        raise TypeError("lanes are not a condition: use select(mask, a, b)")

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, o: Any) -> Any: ...
    def __radd__(self, o: Any) -> Any: ...
    def __sub__(self, o: Any) -> Any: ...
    def __rsub__(self, o: Any) -> Any: ...
    def __mul__(self, o: Any) -> Any: ...
    def __rmul__(self, o: Any) -> Any: ...
    def __and__(self, o: Any) -> Any: ...
    def __rand__(self, o: Any) -> Any: ...
    def __or__(self, o: Any) -> Any: ...
    def __ror__(self, o: Any) -> Any: ...
    def __xor__(self, o: Any) -> Any: ...
    def __rxor__(self, o: Any) -> Any: ...
    def __lshift__(self, o: Any) -> Any: ...
    def __rlshift__(self, o: Any) -> Any: ...
    def __rshift__(self, o: Any) -> Any: ...
    def __rrshift__(self, o: Any) -> Any: ...
    def __lt__(self, o: Any) -> Any: ...
    def __le__(self, o: Any) -> Any: ...
    def __gt__(self, o: Any) -> Any: ...
    def __ge__(self, o: Any) -> Any: ...
    def __invert__(self) -> Any: ...
    def __neg__(self) -> Any: ...


def lanes_of(x: Any) -> tuple[int, ...]:
    """The lanes of ``x``; a literal is in each. TypeError for another type."""
    if isinstance(x, u64x8):
        return x.v
    if isinstance(x, int) and not isinstance(x, bool):
        return (lift_int(u64, x),) * LANES
    raise TypeError(f"{type(x).__name__} used where u64x8 is needed: splat it with u64x8(x)")


def _install_lanes() -> None:
    mask = (1 << 64) - 1
    shifts: dict[str, Callable[[int, int], int]] = {
        "lshift": lambda a, b: a << (b & 63), "rshift": lambda a, b: a >> (b & 63)}

    def binary(name: str, fn: Callable[[int, int], int]) -> None:
        def forward(a: Any, b: Any) -> Any:
            if hasattr(b, "convert_to"):
                return NotImplemented
            return u64x8(tuple(fn(x, y) & mask for x, y in zip(a.v, lanes_of(b), strict=True)))

        def backward(a: Any, b: Any) -> Any:
            return u64x8(tuple(fn(x, y) & mask for x, y in zip(lanes_of(b), a.v, strict=True)))

        setattr(u64x8, f"__{name}__", forward)
        setattr(u64x8, f"__r{name}__", backward)

    for name, fn in (_ARITHMETIC | shifts).items():
        binary(name, fn)

    def compare(name: str, fn: Callable[[int, int], bool]) -> None:
        def op(a: Any, b: Any) -> Any:
            if hasattr(b, "convert_to"):
                return NotImplemented
            return boolx8(tuple(fn(x, y) for x, y in zip(a.v, lanes_of(b), strict=True)))

        setattr(u64x8, f"__{name}__", op)

    for name, fn2 in _COMPARE.items():
        compare(name, fn2)
    u64x8.__invert__ = lambda a: u64x8(tuple(~x & mask for x in a.v))  # type: ignore[method-assign]
    u64x8.__neg__ = lambda a: 0 - a  # type: ignore[method-assign]


_install_lanes()


# ---------------------------------------------------------------- memory


@dataclass(frozen=True)
class PtrType:
    """``Ptr[T]``: an unchecked address, for kernels whose lengths the caller has checked."""

    elem: Any


@dataclass(frozen=True)
class SliceType:
    """``Slice[T]``: address and length; every access is checked."""

    elem: Any

    def __call__(self, data: Any) -> Memory:
        return Memory(self.elem, data)


@dataclass(frozen=True)
class ArrayType:
    """``Array[T, n]``: n elements on the stack, zero at first, checked like a slice."""

    elem: Any
    n: int

    def __call__(self) -> Memory:
        zero = False if self.elem is bool else u64x8(0) if self.elem is u64x8 else 0
        return Memory(self.elem, [zero] * self.n)


if TYPE_CHECKING:
    T = TypeVar("T")

    class Ptr(Generic[T]):
        """``Ptr[T]`` in an annotation, as a type checker sees it."""

        def __getitem__(self, i: Any) -> Any: ...
        def __setitem__(self, i: Any, x: Any) -> None: ...
        def load8(self, i: Any) -> Any: ...
        def store8(self, i: Any, x: Any) -> None: ...
        def stream8(self, i: Any, x: Any) -> None: ...
        def prefetch(self, i: Any) -> None: ...
        def offset(self, i: Any) -> Any: ...

    class Slice(Ptr[T]):
        """``Slice[T]`` in an annotation, as a type checker sees it."""

        def __len__(self) -> int: ...

    Array: Any
else:

    class Ptr:
        """``Ptr[T]`` in an annotation."""

        def __class_getitem__(cls, elem: Any) -> Any:
            return PtrType(elem)


    class Slice:
        """``Slice[T]`` in an annotation."""

        def __class_getitem__(cls, elem: Any) -> Any:
            return SliceType(elem)


    class Array:
        """``Array[T, n]`` in an annotation; ``Array[T, n]()`` makes one, filled with zeros."""

        def __class_getitem__(cls, args: tuple[Any, int]) -> Any:
            elem, n = args
            return ArrayType(elem, int(n))


class Memory:
    """Interpreter twin of pointers, slices and arrays: a window on a list or a NumPy array."""

    __slots__ = ("data", "elem", "n", "start")

    def __init__(self, elem: Any, data: Any, start: int = 0, n: int | None = None) -> None:
        self.elem, self.data, self.start = elem, data, start
        self.n = len(data) - start if n is None else n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(self.n))

    def at(self, i: Any, count: int = 1) -> int:
        k = i.v if type(i) is u64 else lift_int(u64, i)
        if not 0 <= k <= self.n - count:
            raise Trap(f"index {k} is outside a slice of {self.n} elements")
        return self.start + k

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            lo, hi = slice_bounds(i)
            lo, hi = lift_int(u64, lo), self.n if hi is None else lift_int(u64, hi)
            if not 0 <= lo <= hi <= self.n:
                raise Trap(f"slice [{lo}:{hi}] is outside a slice of {self.n} elements")
            return Memory(self.elem, self.data, self.start + lo, hi - lo)
        x = self.data[self.at(i)]
        return from_python(x, self.elem)

    def __setitem__(self, i: Any, x: Any) -> None:
        k, x = self.at(i), from_python(x, self.elem)
        self.data[k] = x.v if isinstance(x, Int) or (isinstance(x, u64x8) and not isinstance(self.data, list)) else x

    def load8(self, i: Any) -> u64x8:
        k = self._at8(i)
        return u64x8(tuple(int(x) for x in self.data[k:k + LANES]))

    def store8(self, i: Any, x: u64x8) -> None:
        k, lanes = self._at8(i), lanes_of(x)
        self.data[k:k + LANES] = list(lanes) if isinstance(self.data, list) else np.array(lanes, dtype=np.uint64)

    def _at8(self, i: Any) -> int:
        if self.elem is not u64:
            raise TypeError(f"lanes are made of u64 elements, not of {type_name(self.elem)}")
        return self.at(i, LANES)

    stream8 = store8

    def prefetch(self, i: Any) -> None:
        """A hint to the memory system; no effect here."""

    def offset(self, i: Any) -> Memory:
        """The pointer ``i`` elements further on."""
        k = int(i)
        return Memory(self.elem, self.data, self.start + k, self.n - k)


def slice_bounds(s: slice) -> tuple[Any, Any]:
    """Start and stop of a slice expression; None as stop means the end."""
    if s.step is not None:
        raise CompileError("a slice has no step: index with i * step")
    return 0 if s.start is None else s.start, s.stop


def argument(x: Any, t: Any) -> Any:
    """A Python scalar as the plain ``bool`` or ``int`` of a scalar of type ``t``, which it must fit."""
    if isinstance(x, bool | np.bool_) is not (t is bool):
        raise TypeError(f"{type(x).__name__} used where {t.__name__} is needed")
    return bool(x) if t is bool else lift_int(t, x if isinstance(x, Int) else operator.index(x))


def from_python(x: Any, t: Any) -> Any:
    """Convert a Python argument to a value of type ``t``; TypeError or OverflowError if it does not fit."""
    if t is bool:
        return argument(x, bool)
    if isinstance(t, type) and issubclass(t, Int):
        return x if type(x) is t else t(argument(x, t))
    if t is u64x8:
        return x if isinstance(x, u64x8) else u64x8(tuple(int(e) for e in x))
    if t is boolx8 and isinstance(x, boolx8):
        return x
    if isinstance(t, PtrType | SliceType | ArrayType):
        return _memory(x, t)
    parts = tuple_parts(t)
    if parts is not None:
        if len(x) != len(parts):
            raise TypeError(f"{len(x)} values where {type_name(t)} needs {len(parts)}")
        return rebuild(t, [from_python(e, p) for e, p in zip(x, parts, strict=True)])
    if t is None or t is type(None):
        if x is not None:
            raise TypeError("the function is declared to return None")
        return None
    raise TypeError(f"{t!r} is not a type of the language")


def _memory(x: Any, t: Any) -> Memory:
    if t.elem is u64x8 and isinstance(x, np.ndarray):
        x = x.reshape(-1, LANES)
    m = x if isinstance(x, Memory) else Memory(t.elem, x)
    if m.elem != t.elem or (isinstance(t, ArrayType) and m.n != t.n):
        raise TypeError(f"{m.n} elements of {type_name(m.elem)} used where {type_name(t)} is needed")
    return m


def tuple_parts(t: Any) -> list[Any] | None:
    """Element types of ``tuple[...]`` or of a NamedTuple class; None for other types."""
    if get_origin(t) is tuple:
        return list(get_args(t))
    if isinstance(t, type) and issubclass(t, tuple) and hasattr(t, "_fields"):
        return list(_field_types(t))
    return None


@functools.cache
def _field_types(t: Any) -> tuple[Any, ...]:
    return tuple(get_type_hints(t).values())


def rebuild(t: Any, parts: list[Any]) -> Any:
    """A tuple or NamedTuple of type ``t`` from its elements."""
    return t(*parts) if isinstance(t, type) and t is not tuple and hasattr(t, "_fields") else tuple(parts)


def type_name(t: Any) -> str:
    """How to write ``t`` in an error message."""
    if isinstance(t, PtrType | SliceType):
        return f"{type(t).__name__[:-4]}[{type_name(t.elem)}]"
    if isinstance(t, ArrayType):
        return f"Array[{type_name(t.elem)}, {t.n}]"
    if get_origin(t) is tuple:
        return f"tuple[{', '.join(map(type_name, get_args(t)))}]"
    return getattr(t, "__name__", str(t))


def typed_range(*args: Any) -> Iterator[Any]:
    """``range`` of the interpreter: yields u64, bounds are u64, the step is a positive constant."""
    lo, hi, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    if int(step) <= 0:
        raise CompileError("the step of a range must be a positive constant")
    return (u64(i) for i in range(lift_int(u64, lo), lift_int(u64, hi), int(step)))
