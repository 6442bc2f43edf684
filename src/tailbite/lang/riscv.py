"""The guest target: functions become one static RV64IM ELF, byte for byte reproducible.

Layout: code at 0x10000, then constants, then data, each on pages of its own (W^X). ``_start`` calls the entry
function and halts with exit code 0. The stack pointer is set by the machine.
"""

from __future__ import annotations

import io
import operator
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ..errors import CompileError
from .backend import RISCV, compile_object
from .function import Function
from .lower import Module
from .types import u64
from .values import Builder, SliceValue, Value, lift

BASE = 0x10000
PAGE = 0x1000
_ECALL, _RET = 0x00000073, 0x00008067
_MARK, _LAST_MARK = 0x00002013, 2047  # slti x0, x0, 0

# The machine's system calls have no instruction in LLVM's IR: `ecall; ret` is placed as data among the code.
_RUNTIME = f"""
@tb_ecall = constant [2 x i32] [i32 {_ECALL}, i32 {_RET}], section ".text.ecall", align 4

define void @_start() noreturn nounwind section ".text.start" {{
  call void @ENTRY()
  %x = call i64 @tb_ecall(i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 93)
  unreachable
}}

define void @tb_panic(ptr %message, i64 %size) noreturn nounwind noinline {{
  %address = ptrtoint ptr %message to i64
  %x = call i64 @tb_ecall(i64 %address, i64 %size, i64 0, i64 0, i64 0, i64 0, i64 0, i64 2)
  unreachable
}}
"""
_MEMORY = """
define ptr @memset(ptr %to, i32 %byte, i64 %size) nounwind noinline {
entry:
  %b8 = trunc i32 %byte to i8
  %b64 = zext i8 %b8 to i64
  %pattern = mul i64 %b64, 72340172838076673
  %address = ptrtoint ptr %to to i64
  %both = or i64 %address, %size
  %low = and i64 %both, 7
  %words = icmp eq i64 %low, 0
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i8, %word ], [ %i1, %single ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %p = getelementptr i8, ptr %to, i64 %i
  br i1 %words, label %word, label %single
word:
  store volatile i64 %pattern, ptr %p, align 8
  %i8 = add i64 %i, 8
  br label %head
single:
  store volatile i8 %b8, ptr %p
  %i1 = add i64 %i, 1
  br label %head
done:
  ret ptr %to
}
define ptr @memcpy(ptr %to, ptr %from, i64 %size) nounwind noinline {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %body ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %p = getelementptr i8, ptr %from, i64 %i
  %q = getelementptr i8, ptr %to, i64 %i
  %x = load volatile i8, ptr %p
  store volatile i8 %x, ptr %q
  %j = add i64 %i, 1
  br label %head
done:
  ret ptr %to
}
"""


class _Ecall:
    """``ecall(number, a0, ...)``: a system call of the machine with up to three arguments; returns a0. Guests only."""

    def __call__(self, number: Any, *args: Any) -> Any:
        for x in args:
            if isinstance(x, Value):
                return self.emit_with_builder(x.b, number, *args)
        raise CompileError("ecall works only in a compiled guest")

    def emit_with_builder(self, b: Builder, number: Any, *args: Any) -> Value:
        if b.traps_to != "riscv":
            raise CompileError("ecall works only in a guest, not on the CPU")
        if len(args) > 3:
            raise CompileError("ecall takes up to three arguments")
        words = [lift(x, u64, b).name for x in args]
        words += ["poison"] * (7 - len(words))  # registers that the call does not read are left as they are
        words.append(str(operator.index(number)))
        return Value(b, u64, b.emit(f"call i64 @tb_ecall({', '.join(f'i64 {w}' for w in words)})"))


ecall = _Ecall()


class _Mark:
    """``mark(phase)``: here a phase of the program begins, an IntEnum member from 1 to 2047. Only a profile sees it.

    In a helper, which is no @function, ``near`` must be one of its values: without it the mark would be lost.
    On guests a call of ``slti x0, x0, phase; ret``, placed as data under the name ``phase.NAME``: LLVM knows nothing
    of what it does, so the mark stays where it is, in every copy of the code. Elsewhere nothing.
    """

    def __call__(self, phase: IntEnum, near: Any = None) -> None:
        if not 1 <= phase <= _LAST_MARK:
            raise CompileError(f"a phase is a number from 1 to {_LAST_MARK}, not {int(phase)}")
        if isinstance(near, Value):
            self.emit_with_builder(near.b, phase)

    def emit_with_builder(self, b: Builder, phase: IntEnum, near: Any = None) -> None:
        self(phase)
        if b.traps_to == "riscv":
            name = f'@"phase.{phase.name.lower()}"'
            body = f"[2 x i32] [i32 {_MARK | phase << 20}, i32 {_RET}]"
            b.declares.add(f'{name} = internal constant {body}, section ".text.phase", align 4')
            b.put(f"call void {name}()")


mark = _Mark()


class _AddressOf:
    """``address_of(s)``: where a slice, array or pointer begins, as u64; for system calls of guests."""

    def __call__(self, s: Any) -> Any:
        p = getattr(s, "ptr", s)
        if not isinstance(p, Value):
            raise CompileError("address_of works only in a compiled guest")
        return Value(p.b, u64, p.b.emit(f"ptrtoint ptr {p.name} to i64"))


class _PointerAt:
    """``pointer_at(address, T)``: an unchecked pointer to an absolute address; for memory-mapped guest input."""

    def __call__(self, address: Any, elem: Any) -> Any:
        if not isinstance(address, Value):
            raise CompileError("pointer_at works only in a compiled guest, with a run-time address")
        return self.emit_with_builder(address.b, address, elem)

    def emit_with_builder(self, b: Builder, address: Any, elem: Any) -> Value:
        from .types import PtrType

        return Value(b, PtrType(elem), b.emit(f"inttoptr i64 {lift(address, u64, b).name} to ptr"))


class _SliceAt:
    """``slice_at(address, n, T)``: n elements from an absolute address on, checked by that length; guests only."""

    def __call__(self, address: Any, n: Any, elem: Any) -> Any:
        raise CompileError("slice_at works only in a compiled guest")

    def emit_with_builder(self, b: Builder, address: Any, n: Any, elem: Any) -> SliceValue:
        p = pointer_at.emit_with_builder(b, address, elem)
        return SliceValue(b, elem, p, lift(n, u64, b))


address_of = _AddressOf()
slice_at = _SliceAt()
pointer_at = _PointerAt()


def link(entry: Function, replace: Mapping[Function, Function] | None = None) -> bytes:
    """The ELF of a program that runs ``entry``, a function without parameters and result.

    ``replace`` is that of :class:`Module`. Raises :class:`CompileError` if the function or anything it calls is
    outside the language.
    """
    if entry.signature or entry.returns is not None:
        raise CompileError(f"{entry.name}: the entry of a guest takes and returns nothing")
    return link_object(object_of([entry], entry, replace))


def object_of(functions: list[Function], entry: Function | None = None,
              replace: Mapping[Function, Function] | None = None) -> bytes:
    """Relocatable RV64IM object of the functions; with ``entry`` also the start code and memory routines."""
    module = Module("riscv", replace)
    symbols = [module.add(f) for f in functions]
    text = module.text()
    if entry is not None:
        used = _RUNTIME.replace("@ENTRY", f"@{symbols[functions.index(entry)]}")
        text = _without_declares(text) + used + _MEMORY
    return compile_object(text, RISCV)


def _without_declares(text: str) -> str:
    own = ("@tb_panic", "@memset(", "@memcpy(")
    return "\n".join(line for line in text.split("\n")
                     if not (line.startswith("declare") and any(name in line for name in own)))


# ---------------------------------------------------------------- linker


@dataclass
class _Section:
    name: str
    data: bytearray
    size: int
    align: int
    address: int = 0


def link_object(obj: bytes, start: str = "_start") -> bytes:
    """Link one RISC-V object to a static ELF. CompileError for a relocation or symbol it does not know."""
    from elftools.elf.elffile import ELFFile
    from elftools.elf.relocation import RelocationSection

    elf = ELFFile(io.BytesIO(obj))
    sections = list(elf.iter_sections())
    kept: dict[int, _Section] = {}
    for i, s in enumerate(sections):
        if s["sh_flags"] & 2 and s["sh_size"] and not s.name.startswith(".eh_frame"):
            nobits = s["sh_type"] == "SHT_NOBITS"
            data = bytearray(s["sh_size"]) if nobits else bytearray(s.data())
            kept[i] = _Section(s.name, data, s["sh_size"], max(s["sh_addralign"], 1))
    segments = _place(list(kept.values()))
    table: Any = elf.get_section_by_name(".symtab")

    def value(sym: Any) -> int:
        index = sym["st_shndx"]
        if index not in kept:
            raise CompileError(f"the guest needs '{sym.name}', which nothing defines")
        return kept[index].address + sym["st_value"]

    fixes = []
    for r in sections:
        if isinstance(r, RelocationSection) and r["sh_info"] in kept:
            where = kept[r["sh_info"]]
            for x in r.iter_relocations():
                sym = table.get_symbol(x["r_info_sym"])
                if x["r_info_type"] != 51:  # RELAX is only a permission
                    fixes.append((where, x["r_offset"], x["r_info_type"], value(sym) + x["r_addend"]))
    high = {w.address + o: target - (w.address + o) for w, o, kind, target in fixes if kind == 23}
    for w, offset, kind, target in fixes:
        _relocate(w, offset, kind, target, high)
    names = sorted((value(s), s["st_size"], s.name) for s in table.iter_symbols()
                   if s["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT") and s["st_shndx"] in kept
                   and kept[s["st_shndx"]].name.startswith(".text"))
    entry = next((a for a, _, n in names if n == start), None)
    if entry is None:
        raise CompileError(f"the guest has no '{start}'")
    return _write(segments, entry, names)


def _place(sections: list[_Section]) -> list[tuple[int, int, _Image]]:
    """Give addresses; returns segments as (flags, address, content)."""
    def group(s: _Section) -> int:
        return 0 if s.name.startswith(".text") else 1 if s.name.startswith((".rodata", ".srodata")) else 2

    order = sorted(sections, key=lambda s: (group(s), s.name != ".text.start", s.name))
    at, out = BASE, []
    for g, flags in ((0, 5), (1, 4), (2, 6)):
        members = [s for s in order if group(s) == g]
        if not members:
            continue
        at = first = (at + PAGE - 1) // PAGE * PAGE
        for s in members:
            at = s.address = (at + s.align - 1) // s.align * s.align
            at += s.size
        out.append((flags, first, _Image(members, first, at - first)))
    return out


class _Image:
    """Content of a segment, read after relocation."""

    def __init__(self, members: list[_Section], first: int, size: int) -> None:
        self.members, self.first, self.size = members, first, size

    def bytes(self) -> bytes:
        image = bytearray(self.size)
        for s in self.members:
            image[s.address - self.first:s.address - self.first + s.size] = s.data
        return bytes(image)


def _relocate(s: _Section, offset: int, kind: int, target: int, high: dict[int, int]) -> None:
    """Apply one relocation (RISC-V ELF psABI, "Relocations")."""
    pc = s.address + offset

    def get(k: int = 0) -> int:
        return int(struct.unpack_from("<I", s.data, offset + k)[0])

    def put(x: int, k: int = 0) -> None:
        struct.pack_into("<I", s.data, offset + k, x & 0xFFFFFFFF)

    def within(d: int, bits: int) -> int:
        if not -1 << bits - 1 <= d < 1 << bits - 1:
            raise CompileError(f"the guest is too large: relocation type {kind} spans {d} bytes")
        return d

    def upper(d: int) -> int:
        return within(d + 0x800, 32) & 0xFFFFF000

    def lower() -> int:
        if target not in high:
            raise CompileError("nothing loads the high half of an address of which there is a low half")
        return high[target] & 0xFFF

    if kind == 1:  # R_RISCV_32
        put(target)
    elif kind == 2:  # R_RISCV_64
        struct.pack_into("<Q", s.data, offset, target & (1 << 64) - 1)
    elif kind == 17:  # R_RISCV_JAL
        d = within(target - pc, 21)
        put(get() & 0xFFF | (d >> 20 & 1) << 31 | (d >> 1 & 0x3FF) << 21 | (d >> 11 & 1) << 20 | (d >> 12 & 0xFF) << 12)
    elif kind == 16:  # R_RISCV_BRANCH
        d = within(target - pc, 13)
        put(get() & 0x01FFF07F | (d >> 12 & 1) << 31 | (d >> 5 & 0x3F) << 25 | (d >> 1 & 0xF) << 8 | (d >> 11 & 1) << 7)
    elif kind in (18, 19):  # R_RISCV_CALL, R_RISCV_CALL_PLT
        d = target - pc
        put(get() & 0xFFF | upper(d))
        put(get(4) & 0xFFFFF | (d & 0xFFF) << 20, 4)
    elif kind == 23:  # R_RISCV_PCREL_HI20
        put(get() & 0xFFF | upper(target - pc))
    elif kind == 24:  # R_RISCV_PCREL_LO12_I: the target is the label of the HI20 instruction
        put(get() & 0xFFFFF | lower() << 20)
    elif kind == 25:  # R_RISCV_PCREL_LO12_S
        low = lower()
        put(get() & 0x01FFF07F | low >> 5 << 25 | (low & 31) << 7)
    else:
        raise CompileError(f"relocation type {kind} is not supported by the guest linker")


def _write(segments: list[Any], entry: int, symbols: list[tuple[int, int, str]]) -> bytes:
    """ELF64 file: headers, segments on page-aligned offsets, symbol table."""
    body, headers = bytearray(), b""
    first_offset = PAGE
    for flags, address, image in segments:
        content = image.bytes()
        body += bytes(-len(body) % PAGE)
        headers += struct.pack("<IIQQQQQQ", 1, flags, first_offset + len(body), address, address,
                               len(content), len(content), PAGE)
        body += content
    names, table = bytearray(b"\0"), bytearray(24)
    for address, size, name in symbols:
        table += struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, address, size)
        names += name.encode() + b"\0"
    body += bytes(-len(body) % 8)
    section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    at_table = first_offset + len(body)
    at_names = at_table + len(table)
    at_section_names = at_names + len(names)
    tail = bytes(table) + bytes(names) + section_names
    tail += bytes(-(len(body) + len(tail)) % 8)
    at_headers = first_offset + len(body) + len(tail)
    text = segments[0]

    def section(name: int, kind: int, flags: int, address: int, offset: int, size: int, link: int = 0,
                info: int = 0, align: int = 1, entsize: int = 0) -> bytes:
        return struct.pack("<IIQQQQIIQQ", name, kind, flags, address, offset, size, link, info, align, entsize)

    table_of_sections = (
        bytes(64)
        + section(1, 1, 6, text[1], first_offset, text[2].size, align=4)
        + section(7, 2, 0, 0, at_table, len(table), link=3, info=1, align=8, entsize=24)
        + section(15, 3, 0, 0, at_names, len(names))
        + section(23, 3, 0, 0, at_section_names, len(section_names))
    )
    head = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 2, 243, 1, entry, 64, at_headers, 0,
                       64, 56, len(segments), 64, 5, 4)
    return (head + headers).ljust(PAGE, b"\0") + bytes(body) + tail + table_of_sections
