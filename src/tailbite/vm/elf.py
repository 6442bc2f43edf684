"""ELF files: from any bytes to an :class:`Image` of what the machine starts with, or an :class:`ElfError`.

What a proof is about depends on this file, so it reads the few structures of the format itself (System V ABI, gABI
chapters 4 and 5; RISC-V ELF psABI), by array operations whose cost is bounded by the size of the file: sizes that a
header claims allocate nothing. Only PT_LOAD segments count; symbols serve messages and profiles, and damaged ones are
ignored.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TailbiteError
from .decode import Rom, decode

INPUT_BASE = 0xFF00_0000  # private input; no segment may lie from here to 2^32
MAX_ROWS = 1 << 20  # of ROM, and of IMAGE

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_EXECUTABLE, _RISCV, _COMPRESSED = 2, 243, 1  # e_type, e_machine, bit of e_flags
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3  # p_type
_PROGRAM_HEADER = np.dtype([("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("vaddr", "<u8"), ("paddr", "<u8"),
                            ("filesz", "<u8"), ("memsz", "<u8"), ("align", "<u8")])
_SECTION_HEADER = np.dtype([("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"),
                            ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entsize", "<u8")])
_SYMBOL = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
                    ("size", "<u8")])
_SYMBOL_TABLE, _NO_TYPE, _FUNCTION = 2, 0, 2  # sh_type; low 4 bits of st_info
_RESERVED_SECTIONS = 0xFF00
_LONGEST_NAME = 512  # longer ones are cut
_MOST_SYMBOLS = 1 << 17  # those behind are ignored: each is a step of the interpreter


class ElfError(TailbiteError):
    """The file is not a program that the machine can load; the text says what is wrong and where."""


class Segment(NamedTuple):
    """A PT_LOAD segment: ``data`` from ``address`` on, then zeros up to ``size`` bytes."""

    address: int
    data: bytes
    size: int
    executable: bool

    @property
    def end(self) -> int:
        return self.address + self.size


class Dwords(NamedTuple):
    """Aligned 8-byte units of memory, ascending: address 2^32 h + 8 w, content lo + 2^32 hi; uint64 arrays."""

    h: NDArray[np.uint64]
    w: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    hi: NDArray[np.uint64]


class Code(NamedTuple):
    """The non-zero words of executable segments by ascending address: ``pc`` (uint64) and ``word`` (uint32)."""

    pc: NDArray[np.uint64]
    word: NDArray[np.uint32]


class Symbol(NamedTuple):
    """A function, or a label in code; ``size`` 0 if unknown."""

    address: int
    size: int
    name: str


@dataclass(frozen=True)
class Image:
    """A loaded program. ``dwords`` are those of the segments that are not zero; all other memory starts at zero."""

    entry: int
    segments: tuple[Segment, ...]
    dwords: Dwords
    code: Code
    rom: Rom
    symbols: tuple[Symbol, ...]
    compressed: bool  # the file claims to use compressed instructions, which the machine does not have

    @functools.cached_property
    def _addresses(self) -> list[int]:
        return [s.address for s in self.symbols]

    def symbol_at(self, pc: int) -> str:
        """The name of the function that ``pc`` lies in, with the distance from its start; "" if there is none."""
        i = bisect.bisect_right(self._addresses, pc) - 1
        if i < 0 or not any(s.executable and s.address <= pc < s.end for s in self.segments):
            return ""
        symbol = self.symbols[i]
        distance = pc - symbol.address
        if symbol.size and distance >= symbol.size:
            return ""
        return f"{symbol.name}+{distance:#x}" if distance else symbol.name

    def word_at(self, pc: int) -> int | None:
        """The word that is fetched at ``pc``; None if that is not a word of code."""
        if pc % 4 or not any(s.executable and s.address <= pc and pc + 4 <= s.end for s in self.segments):
            return None
        i = int(np.searchsorted(self.code.pc, np.uint64(pc)))
        return int(self.code.word[i]) if i < len(self.code.pc) and int(self.code.pc[i]) == pc else 0


def load_elf(data: bytes) -> Image:
    """Load a static RV64 executable.

    ElfError unless: ELF64, little endian, EM_RISCV, ET_EXEC, no PT_DYNAMIC or PT_INTERP; the entry point is a multiple
    of 4 below 2^32; segments do not overlap, wrap 2^64 or meet the private input at [0xFF000000, 2^32); executable ones
    end at or below 0xFF000000; at most 2^20 instructions and 2^20 non-zero dwords. An entry point without an
    instruction loads: executing it is the error.
    """
    header = _header(data)
    segments = _segments(data, header)
    _check_layout(segments)
    dwords = _dwords(segments)
    code = _code(segments)
    rom = decode(*code)
    if len(rom) > MAX_ROWS:
        raise ElfError(f"the program has {len(rom)} instructions; at most 2^20 = {MAX_ROWS} are possible")
    return Image(header.entry, segments, dwords, code, rom, _symbols(data, header), bool(header.flags & _COMPRESSED))


# ---------------------------------------------------------------- headers


class _Header(NamedTuple):
    ident: bytes
    type: int
    machine: int
    version: int
    entry: int
    phoff: int
    shoff: int
    flags: int
    ehsize: int
    phentsize: int
    phnum: int
    shentsize: int
    shnum: int
    shstrndx: int


def _header(data: bytes) -> _Header:
    if not data.startswith(b"\x7fELF"):
        raise ElfError("not an ELF file: it does not begin with 7f 45 4c 46")
    if len(data) < _HEADER.size:
        raise ElfError(f"the ELF header is cut off: {len(data)} of {_HEADER.size} bytes")
    h = _Header(*_HEADER.unpack_from(data))
    if h.ident[4] != 2:
        raise ElfError(f"not a 64-bit ELF file (EI_CLASS {h.ident[4]}): compile for riscv64")
    if h.ident[5] != 1:
        raise ElfError(f"not a little-endian ELF file (EI_DATA {h.ident[5]})")
    if h.machine != _RISCV:
        raise ElfError(f"not a RISC-V program: e_machine is {h.machine}, not {_RISCV}")
    if h.type != _EXECUTABLE:
        raise ElfError(f"not a static executable: e_type is {h.type}, not {_EXECUTABLE}; link with -static -no-pie")
    if h.entry % 4 or h.entry >= 1 << 32:
        raise ElfError(f"the entry point {h.entry:#x} is not a multiple of 4 below 2^32")
    return h


def _table(data: bytes, what: str, kind: np.dtype[np.void], offset: int, count: int) -> NDArray[np.void]:
    """``count`` records at ``offset``, which must lie in the file."""
    end = offset + count * kind.itemsize
    if end > len(data):
        raise ElfError(f"{what} at {offset:#x} to {end:#x} lies beyond the end of the file ({len(data):#x} bytes)")
    return np.frombuffer(data, dtype=kind, count=count, offset=offset)


def _segments(data: bytes, h: _Header) -> tuple[Segment, ...]:
    """The PT_LOAD segments that are not empty, by ascending address."""
    if h.phnum == 0xFFFF or (h.phnum and h.phentsize != _PROGRAM_HEADER.itemsize):
        raise ElfError(f"{h.phnum} program headers of {h.phentsize} bytes: fewer than 65535 of 56 bytes are needed")
    found, total = [], 0
    for i, p in enumerate(_table(data, "the program header table", _PROGRAM_HEADER, h.phoff, h.phnum)):
        if p["type"] in (_DYNAMIC, _INTERPRETER):
            raise ElfError(f"program header {i} asks for dynamic linking: link with -static -no-pie")
        if p["type"] == _LOAD and p["memsz"]:
            total += int(p["filesz"])
            if total > len(data):
                raise ElfError(f"the segments up to {i} hold more bytes than the file ({len(data):#x})")
            found.append(_segment(data, i, *(int(p[k]) for k in ("flags", "offset", "vaddr", "filesz", "memsz"))))
    return tuple(sorted(found, key=lambda s: s.address))


def _segment(data: bytes, i: int, flags: int, offset: int, vaddr: int, filesz: int, memsz: int) -> Segment:
    if filesz > memsz:
        raise ElfError(f"segment {i} has {filesz} bytes in the file, more than its {memsz} bytes of memory")
    if offset + filesz > len(data):
        raise ElfError(f"segment {i} lies at {offset:#x} to {offset + filesz:#x}, beyond the end of the file "
                       f"({len(data):#x} bytes)")
    return Segment(vaddr, data[offset:offset + filesz], memsz, bool(flags & 1))


def _check_layout(segments: tuple[Segment, ...]) -> None:
    for s in segments:
        if s.end > 1 << 64:
            raise ElfError(f"the segment at {s.address:#x} with {s.size:#x} bytes of memory passes 2^64")
        if s.address < 1 << 32 and s.end > INPUT_BASE:
            raise ElfError(f"the segment at {s.address:#x} to {s.end:#x} meets the private input at 0xff000000 to 2^32")
        if s.executable and s.end > INPUT_BASE:
            raise ElfError(f"the executable segment at {s.address:#x} to {s.end:#x} ends above 0xff000000")
    for s, t in itertools.pairwise(segments):
        if s.end > t.address:
            raise ElfError(f"the segments at {s.address:#x} to {s.end:#x} and at {t.address:#x} to {t.end:#x} overlap")


# ---------------------------------------------------------------- contents


def _units(segment: Segment, size: int, limit: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Indices (address / size) and contents of the non-zero aligned units of ``size`` bytes, zeros around the data."""
    lead = segment.address % size
    data = bytes(lead) + segment.data
    values = np.frombuffer(data + bytes(-len(data) % size), dtype=f"<u{size}")
    used = np.flatnonzero(values)
    if len(used) > limit:
        raise ElfError(f"the segment at {segment.address:#x} has {len(used)} non-zero units of {size} bytes; "
                       f"at most {limit} are possible")
    index = used.astype(np.uint64) + np.uint64(segment.address // size)
    return index, values[used].astype(np.uint64)


def _joined(parts: Iterable[tuple[NDArray[np.uint64], NDArray[np.uint64]]]) -> list[NDArray[np.uint64]]:
    empty = np.zeros(0, dtype=np.uint64)
    return [np.concatenate([empty, *columns]) for columns in zip(*parts, strict=True)] or [empty, empty]


def _dwords(segments: tuple[Segment, ...]) -> Dwords:
    """Two segments may share a dword; its content is the union of their bytes."""
    index, values = _joined(_units(s, 8, MAX_ROWS) for s in segments)
    first = np.flatnonzero(np.diff(index, prepend=~index[:1]))  # segments ascend, so equal indices are neighbours
    if len(first) > MAX_ROWS:
        raise ElfError(f"the program has {len(first)} non-zero dwords; at most 2^20 = {MAX_ROWS} are possible")
    if len(first):
        index, values = index[first], np.bitwise_or.reduceat(values, first)
    low32, low29 = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFFFFF)
    return Dwords(index >> np.uint64(29), index & low29, values & low32, values >> np.uint64(32))


def _code(segments: tuple[Segment, ...]) -> Code:
    """Words whose four bytes lie in one executable segment. Words of zeros are left out: they do not decode."""
    parts = []
    for s in segments:
        if s.executable:
            index, words = _units(s, 4, 2 * MAX_ROWS)
            pc = index << np.uint64(2)
            whole = (pc >= np.uint64(s.address)) & (pc + np.uint64(4) <= np.uint64(s.end))
            parts.append((pc[whole], words[whole]))
    pc, words = _joined(parts)
    return Code(pc, words.astype(np.uint32))


def _symbols(data: bytes, h: _Header) -> tuple[Symbol, ...]:
    """Functions and labels, ascending, the best name of each address; nothing if the table is damaged."""
    try:
        if h.shentsize != _SECTION_HEADER.itemsize:
            return ()
        sections = _table(data, "the section header table", _SECTION_HEADER, h.shoff, h.shnum)
        tables = sections[sections["type"] == _SYMBOL_TABLE]
        if len(tables) == 0 or int(tables[0]["link"]) >= len(sections):
            return ()
        where, names = tables[0], sections[int(tables[0]["link"])]
        count = min(int(where["size"]) // _SYMBOL.itemsize, _MOST_SYMBOLS)
        entries = _table(data, "the symbol table", _SYMBOL, int(where["offset"]), count)
    except ElfError:
        return ()
    text = data[int(names["offset"]):int(names["offset"]) + int(names["size"])]
    return _named(entries, text)


def _named(entries: NDArray[np.void], text: bytes) -> tuple[Symbol, ...]:
    kind = entries["info"] & 15
    defined = (entries["section"] != 0) & (entries["section"] < _RESERVED_SECTIONS)
    entries = entries[defined & ((kind == _NO_TYPE) | (kind == _FUNCTION))]
    best: dict[int, tuple[bool, Symbol]] = {}
    for e in entries:
        start = int(e["name"])
        name = text[start:start + _LONGEST_NAME].partition(b"\0")[0].decode(errors="replace")
        if name and not name.startswith("$"):  # "$x" and "$d" are marks of the assembler
            is_function, address = bool(e["info"] & 15), int(e["value"])
            if address not in best or is_function > best[address][0]:
                best[address] = (is_function, Symbol(address, int(e["size"]), name))
    return tuple(best[a][1] for a in sorted(best))
