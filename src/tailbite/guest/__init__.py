"""Guests: typed Python functions as programs of the machine.

    @tailbite.guest
    def collatz(start: u64) -> u64:
        ...

Arguments are public: the program commits their encoding, then that of the result, so a proof says
"collatz(837799) is 524". An argument annotated ``Private[T]`` is not committed. ``commit(x)`` adds to the output.
The same function called in Python is interpreted, and means the same.

Encoding: little-endian, fixed width, in order; ``Bytes`` as a u32 length and the bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CompileError, TailbiteError
from ..lang.function import Function
from ..lang.types import ArrayType, Int, Memory, tuple_parts, type_name, u8
from ..lang.types import Slice as _Slice
from .commit import collecting, commit
from .entry import PADDING, make_entry

if TYPE_CHECKING:
    from ..program import Program, Run
    from ..proof import Proof

Bytes = _Slice[u8]


class ArgumentError(TailbiteError):
    """An argument that does not fit its type."""


class PrivateType(NamedTuple):
    """``Private[T]``."""

    inner: Any


class Private:
    """``Private[T]`` in an annotation: the argument is known to the prover only."""

    def __class_getitem__(cls, inner: Any) -> Any:
        return PrivateType(inner)


class _GuestFunction(Function):
    """The body as the compiler sees it: ``Private`` is no part of a type."""

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        return {k: t.inner if isinstance(t, PrivateType) else t for k, t in self.declared_hints().items()}

    @functools.cached_property
    def private(self) -> set[str]:
        """Names of the private parameters."""
        return {k for k, t in self.declared_hints().items() if isinstance(t, PrivateType)}


class Guest:
    """A guest function. Call it to interpret it; ``run``, ``prove`` and ``program`` treat it as a program."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.function = _GuestFunction(fn)
        self.name = fn.__name__

    # ------------------------------------------------------------ types

    @property
    def parameters(self) -> dict[str, Any]:
        """Types of all parameters, private ones included."""
        return self.function.signature

    @property
    def public(self) -> dict[str, Any]:
        """Types of the parameters that are committed."""
        return {k: t for k, t in self.parameters.items() if k not in self.function.private}

    @property
    def returns(self) -> Any:
        return self.function.returns

    # ------------------------------------------------------------ as Python

    def __call__(self, *args: Any) -> Any:
        """Interpret the function; the result is a plain Python value."""
        return plain(self.function(*map(own, self._checked(args))))

    def expected_output(self, *args: Any) -> bytes:
        """The public output that the program makes for these arguments, by the interpreter."""
        checked = self._checked(args)
        with collecting() as extra:
            result = self.function(*map(own, checked))
        public = [(a, t) for (name, t), a in zip(self.parameters.items(), checked, strict=True)
                  if name in self.public]
        out = b"".join(encode(a, t) for a, t in public) + b"".join(extra)
        return out + (encode(plain(result), self.returns) if self.returns is not None else b"")

    def _checked(self, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(self.parameters):
            raise ArgumentError(f"{self.name} takes {len(self.parameters)} arguments, got {len(args)}")
        return [checked(a, t, name) for a, (name, t) in zip(args, self.parameters.items(), strict=True)]

    # ------------------------------------------------------------ as a program

    def elf(self) -> bytes:
        """The program's ELF. Raises :class:`CompileError`."""
        for name, t in self.parameters.items():
            if not encodable(t):
                raise CompileError(f"{self.name}: the type of '{name}', {type_name(t)}, is not one a guest can take: "
                                   f"use integers, bool, Array[T, n] or Bytes")
        if self.returns is not None and not encodable(self.returns, result=True):
            raise CompileError(f"{self.name}: a guest returns integers, bool, a tuple of them, or None")
        from ..lang.riscv import link

        return link(make_entry(self.function, set(self.public)))

    @functools.cached_property
    def program(self) -> Program:
        """The program, compiled on first use."""
        from ..program import Program

        return Program.from_elf(self.elf(), guest=self)

    def encode(self, *args: Any) -> bytes:
        """The private input that carries the arguments to the program: padding, then their encoding."""
        arguments = zip(self._checked(args), self.parameters.values(), strict=True)
        return bytes(PADDING) + b"".join(encode(a, t) for a, t in arguments)

    def run(self, *args: Any, **options: Any) -> Run:
        """Run the program; see :meth:`Program.run` for the options."""
        return self.program.run(self.encode(*args), **options)

    def prove(self, *args: Any, **options: Any) -> Proof:
        """Prove the program's run on these arguments; see :meth:`Program.prove` for the options."""
        return self.program.prove(self.encode(*args), **options)

    def decode(self, output: bytes) -> Decoded:
        """Arguments, result and other committed bytes in a public output."""
        args, at = [], 0
        for name, t in self.public.items():
            value, at = decode(output, at, t, name)
            args.append(value)
        end = len(output)
        result = None
        if self.returns is not None:
            end -= size_of(self.returns)
            if end < at:
                raise ArgumentError("the public output is too short for the result")
            result, _ = decode(output, end, self.returns, "result")
        return Decoded(tuple(args), result, output[at:end])


class Decoded(NamedTuple):
    """A public output as typed values; ``committed`` is what ``commit`` added."""

    args: tuple[Any, ...]
    result: Any
    committed: bytes


def guest(fn: Callable[..., Any]) -> Guest:
    """Make a typed function a program of the machine."""
    return Guest(fn)


# ---------------------------------------------------------------- values


def _is_int(t: Any) -> bool:
    return isinstance(t, type) and issubclass(t, Int)


def encodable(t: Any, result: bool = False) -> bool:
    """Can ``t`` be an argument, or a result?"""
    if t is bool or _is_int(t):
        return True
    parts = tuple_parts(t)
    if parts is not None:
        return result and all(encodable(p, True) for p in parts)
    return not result and (t == Bytes or (isinstance(t, ArrayType) and _is_int(t.elem)))


def size_of(t: Any) -> int:
    """Bytes of an encoded value of fixed size."""
    if t is bool:
        return 1
    if isinstance(t, ArrayType):
        return t.n * size_of(t.elem)
    parts = tuple_parts(t)
    if parts is not None:
        return sum(map(size_of, parts))
    return int(t.bits) // 8


def checked(x: Any, t: Any, name: str) -> Any:
    """``x`` if it fits ``t``, in plain form; ArgumentError otherwise."""
    if t == Bytes:
        if not isinstance(x, bytes | bytearray):
            raise ArgumentError(f"'{name}' must be bytes, not {type(x).__name__}")
        return bytes(x)
    if isinstance(t, ArrayType):
        try:
            items = list(x)
        except TypeError:
            raise ArgumentError(f"'{name}' must be a sequence, not {type(x).__name__}") from None
        if len(items) != t.n:
            raise ArgumentError(f"'{name}' needs {t.n} items, got {len(items)}")
        return [checked(e, t.elem, name) for e in items]
    if t is bool:
        if x not in (0, 1):
            raise ArgumentError(f"'{name}' must be True or False")
        return bool(x)
    if not _is_int(t):
        return x
    try:
        value = x.__index__()
    except AttributeError:
        raise ArgumentError(f"'{name}' must be an integer, not {type(x).__name__}") from None
    if not t.low <= value <= t.high:
        shown = str(value) if value.bit_length() <= 256 else f"a number of {value.bit_length()} bits"
        raise ArgumentError(f"'{name}' = {shown} does not fit {t.__name__} ({t.low} to {t.high})")
    return int(value)


def own(x: Any) -> Any:
    """A copy of what a function may change, as the program has one of its own."""
    return bytearray(x) if isinstance(x, bytes) else list(x) if isinstance(x, list) else x


def encode(x: Any, t: Any) -> bytes:
    """Little-endian encoding of a checked value."""
    if t == Bytes:
        return len(x).to_bytes(4, "little") + x
    if isinstance(t, ArrayType):
        return b"".join(encode(e, t.elem) for e in x)
    parts = tuple_parts(t)
    if parts is not None:
        return b"".join(encode(e, p) for e, p in zip(x, parts, strict=True))
    return int(x).to_bytes(size_of(t), "little", signed=t is not bool and t.low < 0)


def decode(data: bytes, at: int, t: Any, name: str) -> tuple[Any, int]:
    """The value of type ``t`` at ``at``, and where it ends."""
    if t == Bytes:
        size, at = decode_int(data, at, 4, False, name), at + 4
        if at + size > len(data):
            raise ArgumentError(f"the public output ends inside '{name}'")
        return data[at:at + size], at + size
    if isinstance(t, ArrayType):
        items = []
        for _ in range(t.n):
            value, at = decode(data, at, t.elem, name)
            items.append(value)
        return items, at
    parts = tuple_parts(t)
    if parts is not None:
        values = []
        for p in parts:
            value, at = decode(data, at, p, name)
            values.append(value)
        return tuple(values), at
    size = size_of(t)
    value = decode_int(data, at, size, t is not bool and t.low < 0, name)
    return (bool(value) if t is bool else value), at + size


def decode_int(data: bytes, at: int, size: int, signed: bool, name: str) -> int:
    """A little-endian integer."""
    if at + size > len(data):
        raise ArgumentError(f"the public output ends inside '{name}'")
    return int.from_bytes(data[at:at + size], "little", signed=signed)


def plain(x: Any) -> Any:
    """Interpreter values as plain Python ones."""
    if isinstance(x, Int):
        return int(x)
    if isinstance(x, Memory):
        return [int(e) for e in x.data[x.start:x.start + x.n]]
    if isinstance(x, tuple):
        return type(x)(*map(plain, x)) if hasattr(x, "_fields") else tuple(map(plain, x))
    return x


__all__ = ["ArgumentError", "Bytes", "Decoded", "Guest", "Private", "commit", "guest"]
