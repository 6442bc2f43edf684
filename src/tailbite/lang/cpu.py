"""The CPU target: functions compiled into this process, with their objects cached on disk."""

from __future__ import annotations

import ctypes
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import CompileError, Trap
from . import cache
from .backend import Machine, binding, compile_object, host
from .function import Function
from .lower import Module
from .types import (
    LANES,
    ArrayType,
    PtrType,
    SliceType,
    argument,
    i64,
    rebuild,
    tuple_parts,
    type_name,
    u8,
    u16,
    u32,
    u64,
    u64x8,
)
from .values import flatten

log = logging.getLogger("tailbite")
_DTYPES = {bool: np.bool_, u8: np.uint8, u16: np.uint16, u32: np.uint32, u64: np.uint64, i64: np.int64,
           u64x8: np.uint64}
_SLOT = 64  # bytes of a result slot


class Library:
    """Functions compiled together on first use; each is an attribute by its Python name.

    ``packaged`` functions are part of Tailbite itself: a cached object is then found by the digest of the
    package's sources, without lowering anything. ``level`` is that of :func:`backend.host`, ``replace`` that of
    :class:`Module`; a packaged library replaces nothing.
    """

    def __init__(self, name: str, functions: Iterable[Function] | Callable[[Machine], Iterable[Function]],
                 packaged: bool = False, level: str = "native",
                 replace: Mapping[Function, Function] | None = None) -> None:
        if packaged and replace:
            raise CompileError(f"library {name} is part of the package, so it replaces no function")
        self.name, self.packaged, self.level, self.replace = name, packaged, level, replace
        self._source = functions if callable(functions) else list(functions)
        self._lock = threading.Lock()
        self._ready: dict[str, Compiled] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.load()[name]
        except KeyError:
            raise AttributeError(f"library {self.name} has no function {name}") from None

    @property
    def machine(self) -> Machine:
        return host(self.level)

    def functions(self) -> list[Function]:
        return list(self._source(self.machine) if callable(self._source) else self._source)

    def load(self) -> dict[str, Compiled]:
        """Compile, or take from the cache, and bind all functions."""
        with self._lock:
            if self._ready is None:
                self._ready = self._bind(*self._object())
        return self._ready

    def _package_key(self) -> str:
        return cache.key_of("packaged code", cache.package_digest(), self.name, self.machine.key)

    def cached(self) -> tuple[bytes, dict[str, Any]] | None:
        """The cached object with its table of symbols and trap sites, if the package is unchanged."""
        head = cache.load(self._package_key()) if self.packaged else None
        if head is None:
            return None
        meta = json.loads(head)
        code = cache.load(meta["object"])
        return None if code is None else (code, meta)

    def lowered(self) -> tuple[str, dict[str, Any]]:
        """LLVM text, and a table of its symbols, its trap sites and the cache key of its object."""
        module, functions = Module("cpu", self.replace), self.functions()
        symbols = {f.name: module.entry(f) for f in functions}
        if len(symbols) != len(functions):
            raise CompileError(f"library {self.name} has two functions of one name")
        for name in symbols.keys() & set(dir(self)):
            raise CompileError(f"library {self.name}: '{name}' means something else here, so no function can have it")
        text = module.text()
        key = cache.key_of("code", text, self.machine.key)
        return text, {"symbols": symbols, "sites": module.sites, "object": key}

    def _object(self) -> tuple[bytes, dict[str, Any]]:
        found = self.cached()
        if found is not None:
            return found
        text, meta = self.lowered()
        code = cache.load(meta["object"])
        if code is None:
            log.info("compiling %s (first use on this machine)", self.name)
            code = compile_object(text, self.machine)
            cache.store(meta["object"], code)
        if self.packaged:
            cache.store(self._package_key(), json.dumps(meta).encode())
        return code, meta

    def _bind(self, code: bytes, meta: dict[str, Any]) -> dict[str, Compiled]:
        llvm = binding()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), self.machine.target_machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return {f.name: Compiled(f, engine, meta["symbols"][f.name], meta["sites"]) for f in self.functions()}


def prepare(libraries: Iterable[Library]) -> None:
    """Compile what is missing in the cache, two at a time in processes of their own, then bind all.

    LLVM holds a global lock, so threads would not help; a worker process is this module's interpreter again.
    """
    jobs, libraries = [], list(libraries)
    for lib in libraries:
        if lib._ready is None and lib.cached() is None and cache.directory() is not None:
            text, meta = lib.lowered()
            if cache.load(meta["object"]) is None:
                jobs.append((lib, text, meta["object"]))
    if len(jobs) > 1:
        log.info("compiling %s (first use on this machine)", ", ".join(lib.name for lib, *_ in jobs))
        jobs.sort(key=lambda j: -len(j[1]))
        lock = threading.Lock()

        def worker() -> None:
            while True:
                with lock:
                    if not jobs:
                        return
                    lib, text, key = jobs.pop(0)
                try:
                    cache.store(key, compile_in_process(text, lib.machine))
                except (OSError, CompileError) as e:
                    log.debug("worker failed, compiling here later: %s", e)

        threads = [threading.Thread(target=worker) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    for lib in libraries:
        lib.load()


def compile_in_process(text: str, machine: Machine) -> bytes:
    """:func:`compile_object` in a fresh interpreter."""
    head = json.dumps({"triple": machine.triple, "cpu": machine.cpu, "features": machine.features}).encode()
    done = subprocess.run([sys.executable, "-m", "tailbite.lang._worker"], input=head + b"\n" + text.encode(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"compiler process failed: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


class Compiled:
    """A compiled function. Arrays go in as C-contiguous NumPy arrays of the element type; the GIL is released.

    Raises :class:`Trap` with file and line if an assertion or bounds check fails, TypeError for wrong arguments.
    """

    def __init__(self, fn: Function, engine: Any, symbol: str, sites: list[Any]) -> None:
        self.fn, self.engine, self.sites = fn, engine, sites
        self.__name__ = fn.name
        kinds = [k for t in fn.signature.values() for k in _ctypes_of(t)]
        address = engine.get_function_address(symbol)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *kinds)(address)
        self._converters = [(name, _converter(t)) for name, t in fn.signature.items()]
        self._results = flatten(fn.returns)

    def __call__(self, *args: Any) -> Any:
        if len(args) != len(self._converters):
            raise TypeError(f"{self.fn.name}() takes {len(self._converters)} arguments, got {len(args)}")
        out = (ctypes.c_uint8 * (_SLOT * len(self._results)))()
        flat: list[Any] = []
        for (name, convert), a in zip(self._converters, args, strict=True):
            try:
                convert(a, flat)
            except (TypeError, OverflowError) as e:
                raise type(e)(f"argument '{name}' of {self.fn.name}: {e}") from None
        status = self._call(ctypes.addressof(out), *flat)
        if status:
            file, line, message = self.sites[status - 1]
            raise Trap(f"{file}:{line}: {message}")
        if self.fn.returns is None:
            return None
        words = [_result(out, i, t) for i, t in enumerate(self._results)]
        return words[0] if len(words) == 1 and tuple_parts(self.fn.returns) is None else _nest(self.fn.returns, words)


def _result(out: Any, i: int, t: Any) -> Any:
    at = ctypes.addressof(out) + _SLOT * i
    if t is u64x8:
        return u64x8(tuple(int(x) for x in (ctypes.c_uint64 * 8).from_address(at)))
    if t is bool:
        return bool(ctypes.c_uint64.from_address(at).value)
    kind = {u8: ctypes.c_uint8, u16: ctypes.c_uint16, u32: ctypes.c_uint32, u64: ctypes.c_uint64,
            i64: ctypes.c_int64}[t]
    return kind.from_address(at).value


def _nest(t: Any, words: list[Any]) -> Any:
    parts = tuple_parts(t)
    if parts is None:
        return words.pop(0)
    return rebuild(t, [_nest(p, words) for p in parts])


def _ctypes_of(t: Any) -> list[Any]:
    if isinstance(t, SliceType):
        return [ctypes.c_void_p, ctypes.c_uint64]
    if isinstance(t, PtrType | ArrayType):
        return [ctypes.c_void_p]
    parts = tuple_parts(t)
    if parts is not None:
        return [k for p in parts for k in _ctypes_of(p)]
    if t is u64x8:
        raise CompileError("lanes cannot be an argument from Python: pass an array")
    return [{bool: ctypes.c_bool, u8: ctypes.c_uint8, u16: ctypes.c_uint16, u32: ctypes.c_uint32,
             u64: ctypes.c_uint64, i64: ctypes.c_int64}[t]]


def _converter(t: Any) -> Callable[[Any, list[Any]], None]:
    """Function that checks a Python argument and appends its machine form."""
    if isinstance(t, SliceType | PtrType | ArrayType):
        dtype = np.uint64 if isinstance(t.elem, PtrType) else _DTYPES[t.elem]
        sized, words = isinstance(t, SliceType), LANES if t.elem is u64x8 else 1

        def memory(a: Any, out: list[Any]) -> None:
            if isinstance(t, PtrType) and isinstance(a, int):
                out.append(a)
                return
            if not isinstance(a, np.ndarray) or a.dtype != dtype or not a.flags.c_contiguous:
                raise TypeError(f"a C-contiguous array of {np.dtype(dtype).name} is needed for {type_name(t)}")
            if a.size % words or (isinstance(t, ArrayType) and a.size != t.n * words):
                raise TypeError(f"{a.size} elements where {type_name(t)} is needed")
            out.append(a.ctypes.data)
            if sized:
                out.append(a.size // words)

        return memory
    parts = tuple_parts(t)
    if parts is not None:
        inner = [_converter(p) for p in parts]

        def group(a: Any, out: list[Any]) -> None:
            if len(a) != len(inner):
                raise TypeError(f"{len(a)} values where {type_name(t)} needs {len(inner)}")
            for c, x in zip(inner, a, strict=True):
                c(x, out)

        return group

    return lambda a, out: out.append(argument(a, t))
