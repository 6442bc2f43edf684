"""The guest target: what is in an ELF, its relocations, and that its bytes depend on the functions alone."""

from __future__ import annotations

import io
import itertools
import os
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from lang_support import HEADER, Guest, module_of
from rv_oracle import OracleTrap, is_rv64im, run_elf

from tailbite.errors import CompileError
from tailbite.lang import cpu, riscv
from tailbite.lang.backend import RISCV, compile_object

GUEST = '''
from tailbite.lang.riscv import address_of, ecall, link, pointer_at, slice_at

PRIMES = Constants((2, 3, 5, 7, 11, 13, 17, 19, 23, 29))


@function
def commit(s: Slice[u8]) -> None:
    ecall(64, u64(1), address_of(s), length(s))


@function
def dispatch(x: u64) -> u64:
    match x & 15:
        case 0:
            return x + 11
        case 1:
            return x * 7
        case 2:
            return x - 13
        case 3:
            return x ^ 99
        case 4:
            return x << 8
        case 5:
            return x >> 1
        case 6:
            return x | 64
        case 9:
            return opaque(0x123456789ABCDEF0, x)
    return PRIMES[x % 10]


@function
def main() -> None:
    n = pointer_at(0xFF000008, u64)[0]
    words = slice_at(u64(0xFF000010), n, u64)
    out = Array[u8, 8]()
    for i in range(n):
        x = dispatch(words[i])
        for k in range(8):
            out[k] = u8(x >> (k * 8))
        commit(out[0:8])
    assert n < 6, "at most five words"
    if n == 5 and words[4] == 1000:
        commit(out[0:words[n] & 1])
'''

TWINS = '''
@function
def step(x: u64) -> u64:
    return x + 10


@step.on_guest
@function
def step_on_guest(x: u64) -> u64:
    return x + 100


@function
def main(x: u64) -> u64:
    return step(x)
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return module_of(tmp_path_factory.mktemp("linker"), GUEST)


@pytest.fixture(scope="module")
def elf(module: ModuleType) -> bytes:
    return riscv.link(module.main)


def private_input(xs: list[int]) -> bytes:
    """So that the words begin at 0xFF000008, 4 bytes behind the length that the machine writes."""
    return bytes(4) + struct.pack(f"<{len(xs) + 1}Q", len(xs), *xs)


# ---------------------------------------------------------------- running


def test_a_guest_runs(module: ModuleType, elf: bytes) -> None:
    for xs in ([], [0, 1, 2, 3, 4], [5, 6, 9, 7, 2**64 - 1]):
        run = run_elf(elf, private_input(xs))
        assert run.exit_code == 0
        assert run.output == b"".join(int(module.dispatch(x)).to_bytes(8, "little") for x in xs)


def test_a_slice_at_an_address_is_checked(elf: bytes) -> None:
    assert run_elf(elf, private_input([0, 0, 0, 0, 999])).exit_code == 0
    with pytest.raises(OracleTrap, match=r"^panic: main: index outside the slice$"):
        run_elf(elf, private_input([0, 0, 0, 0, 1000]))


def test_a_guest_may_have_a_twin(tmp_path: Path) -> None:
    """Calls in guests go to the twin of a function, all others to the function."""
    m = module_of(tmp_path, TWINS)
    assert m.main(3) == cpu.Library("twins", [m.main]).main(3) == 13
    assert Guest([m.main]).run("main", 3).a0 == 103


def test_a_trap_is_the_panic_call(elf: bytes) -> None:
    with pytest.raises(OracleTrap, match=r"^panic: main: assertion failed: at most five words$"):
        run_elf(elf, private_input([0] * 6))


# ---------------------------------------------------------------- the file


def segments(elf: bytes) -> list[Any]:
    return list(ELFFile(io.BytesIO(elf)).iter_segments())


def check_layout(elf: bytes) -> None:
    """What the machine asks of an ELF."""
    file = ELFFile(io.BytesIO(elf))
    head = file.header
    assert (head["e_type"], head["e_machine"], head["e_flags"]) == ("ET_EXEC", "EM_RISCV", 0)
    assert (file.elfclass, file.little_endian) == (64, True)
    parts = segments(elf)
    assert {p["p_type"] for p in parts} == {"PT_LOAD"}
    assert all(p["p_flags"] & 3 != 3 for p in parts)  # never writable and executable
    assert all(p["p_flags"] & 4 for p in parts)
    assert all(p["p_offset"] % 4096 == p["p_vaddr"] % 4096 == 0 for p in parts)
    assert all(p["p_offset"] + p["p_filesz"] <= len(elf) for p in parts)
    ends = [(p["p_vaddr"], p["p_vaddr"] + p["p_memsz"]) for p in parts]
    assert all(a_end <= b for (_, a_end), (b, _) in itertools.pairwise(ends))
    (code,) = [p for p in parts if p["p_flags"] & 1]
    assert code["p_vaddr"] <= head["e_entry"] < code["p_vaddr"] + code["p_filesz"]
    words = [w for (w,) in struct.iter_unpack("<I", code.data())]
    assert all(is_rv64im(w) for w in words)
    assert words.count(0x73) == 1  # the one system call


def test_layout(elf: bytes) -> None:
    check_layout(elf)
    flags = [p["p_flags"] for p in segments(elf)]
    assert flags == [5, 4, 6]  # code, constants, data
    head = ELFFile(io.BytesIO(elf)).header
    assert head["e_entry"] == riscv.BASE


def test_a_guest_without_constants_and_data(tmp_path: Path) -> None:
    m = module_of(tmp_path, "@function\ndef main() -> None:\n    return\n")
    elf = riscv.link(m.main)
    check_layout(elf)
    assert len(segments(elf)) == 1
    run = run_elf(elf)
    assert (run.exit_code, run.output) == (0, b"")


def test_symbols_cover_the_code(module: ModuleType, elf: bytes) -> None:
    """For profiles: each function with its extent, none overlapping."""
    table: Any = ELFFile(io.BytesIO(elf)).get_section_by_name(".symtab")
    found = {s.name: (s["st_value"], s["st_size"]) for s in table.iter_symbols() if s.name}
    assert {"main", "dispatch", "commit", "_start", "memset"} <= found.keys()
    extents = sorted(found.values())
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(extents))
    (code,) = [p for p in segments(elf) if p["p_flags"] & 1]
    assert extents[-1][0] + extents[-1][1] <= code["p_vaddr"] + code["p_memsz"]


# ---------------------------------------------------------------- reproducible


SCRIPT = HEADER + GUEST + '''
import hashlib
print(hashlib.sha256(link(main)).hexdigest())
'''


def test_the_same_bytes_in_every_process_and_place(tmp_path: Path) -> None:
    """Whatever the seed of hashes, the directory of the source and of the process, and what was linked before."""
    digests = set()
    for seed in ("0", "1", "4242"):
        place = tmp_path / seed
        place.mkdir()
        (place / "program.py").write_text(SCRIPT + (SCRIPT.splitlines()[-1] if seed == "1" else ""))
        done = subprocess.run([sys.executable, str(place / "program.py")], capture_output=True, text=True, check=True,
                              cwd=place, env={**os.environ, "PYTHONHASHSEED": seed, "XDG_CACHE_HOME": str(place)})
        digests |= set(done.stdout.split())
    assert len(digests) == 1


def test_the_layout_of_the_source_does_not_matter(elf: bytes, tmp_path: Path) -> None:
    spread = GUEST.replace("\n\n", "\n\n# a comment\n\n")
    assert riscv.link(module_of(tmp_path, spread).main) == elf


def test_other_functions_give_other_bytes(module: ModuleType, elf: bytes, tmp_path: Path) -> None:
    assert riscv.link(module.main) == elf
    other = module_of(tmp_path, GUEST.replace("x + 11", "x + 12"))
    assert riscv.link(other.main) != elf


# ---------------------------------------------------------------- relocations

KINDS = {1: "32", 2: "64", 16: "BRANCH", 17: "JAL", 18: "CALL", 19: "CALL_PLT", 23: "PCREL_HI20", 24: "PCREL_LO12_I",
         25: "PCREL_LO12_S"}
LLVM = '''
@word = internal global i64 5
@half = internal global i32 7
@far = internal global [4096 x i64] zeroinitializer
@table = internal constant [2 x ptr] [ptr @one, ptr @two]

define i64 @one(i64 %x) noinline nounwind {
  %y = load i64, ptr @word
  %z = add i64 %x, %y
  store i64 %z, ptr @word
  ret i64 %z
}

define i64 @two(i64 %x) noinline nounwind {
  %w = trunc i64 %x to i32
  store i32 %w, ptr @half
  %y = load i32, ptr @half
  %z = zext i32 %y to i64
  %p = getelementptr [4096 x i64], ptr @far, i64 0, i64 4095
  store i64 %z, ptr %p
  %q = load i64, ptr %p
  %r = call i64 @one(i64 %q)
  %s = tail call i64 @one(i64 %r)
  ret i64 %s
}

define i64 @choose(i64 %k, i64 %x) noinline nounwind {
  %p = getelementptr [2 x ptr], ptr @table, i64 0, i64 %k
  %f = load ptr, ptr %p
  %y = call i64 %f(i64 %x)
  ret i64 %y
}

define void @_start() noreturn nounwind section ".text.start" {
  ret void
}
'''


def kinds_of(obj: bytes) -> set[str]:
    file = ELFFile(io.BytesIO(obj))
    kept = {i for i, s in enumerate(file.iter_sections()) if s["sh_flags"] & 2 and not s.name.startswith(".eh_frame")}
    return {KINDS.get(r["r_info_type"], str(r["r_info_type"]))
            for s in file.iter_sections("SHT_RELA") if s["sh_info"] in kept for r in s.iter_relocations()}


def test_relocations_of_functions(module: ModuleType) -> None:
    """Jump tables, calls, constants."""
    kinds = kinds_of(riscv.object_of([module.main], module.main))
    assert {"64", "CALL_PLT", "PCREL_HI20", "PCREL_LO12_I"} <= kinds <= set(KINDS.values())


def test_relocations_of_stores(module: ModuleType) -> None:
    """Stores to globals, which the language does not have, need one kind more."""
    obj = compile_object(LLVM, RISCV)
    assert "PCREL_LO12_S" in kinds_of(obj)
    elf = riscv.link_object(obj)
    guest = Guest([])
    guest.elf = elf
    assert guest.run("one", 10).a0 == 15
    assert guest.run("two", 2**32 + 3).a0 == 3 + 5 + 3 + 5
    assert guest.run("choose", 0, 1).a0 == 6
    assert guest.run("choose", 1, 2).a0 == 14
    ours = ELFFile(io.BytesIO(elf))
    assert [s["p_flags"] for s in ours.iter_segments()] == [5, 4, 6]


ASSEMBLED = [  # kind, instruction before, distance, instruction after
    (16, 0x00B50063, 8, 0x00B50463),  # beq a0, a1, .+8
    (16, 0x00B50063, -4096, 0x80B50063),  # beq a0, a1, .-4096
    (16, 0x00B51063, 4094, 0x7EB51FE3),  # bne a0, a1, .+4094
    (17, 0x0000006F, 16, 0x0100006F),  # j .+16
    (17, 0x000000EF, -1048576, 0x800000EF),  # jal ra, .-1048576
    (17, 0x000000EF, 1048574, 0x7FFFF0EF),  # jal ra, .+1048574
    (23, 0x00000517, 0x12345678, 0x12345517),  # auipc a0, 0x12345
    (23, 0x00000517, 0x12345800, 0x12346517),  # the low half will be negative
    (23, 0x00000517, -1, 0x00000517),
]


@pytest.mark.parametrize("kind, before, distance, after", ASSEMBLED)
def test_fields(kind: int, before: int, distance: int, after: int) -> None:
    section = riscv._Section(".text", bytearray(struct.pack("<II", 0x13, before)), 8, 4, address=0x4000_0000)
    riscv._relocate(section, 4, kind, 0x4000_0004 + distance, {})
    assert struct.unpack("<II", section.data) == (0x13, after)


@pytest.mark.parametrize("low", [0, 1, 0x7FF, 0x800, 0xFFF])
def test_low_halves(low: int) -> None:
    """ld a0, %pcrel_lo(label)(a1) and sd a0, %pcrel_lo(label)(a1)."""
    high = {0x5000_0000: 0x1234_5000 + low}
    for kind, word in ((24, 0x0005B503), (25, 0x00A5B023)):
        section = riscv._Section(".text", bytearray(struct.pack("<I", word)), 4, 4, address=0x5000_0010)
        riscv._relocate(section, 0, kind, 0x5000_0000, high)
        (got,) = struct.unpack("<I", section.data)
        assert got == (word | low << 20 if kind == 24 else word | (low >> 5) << 25 | (low & 31) << 7)


@pytest.mark.parametrize("kind, distance", [
    (16, 4096), (16, -4098), (17, 2**20), (17, -(2**20) - 2), (23, 2**31 - 0x800), (23, -(2**31) - 0x801), (19, 2**31),
    (18, -(2**32))])
def test_a_distance_that_does_not_fit(kind: int, distance: int) -> None:
    section = riscv._Section(".text", bytearray(8), 8, 4, address=0x4000_0000_0000)
    with pytest.raises(CompileError, match="too large"):
        riscv._relocate(section, 0, kind, 0x4000_0000_0000 + distance, {})


def test_an_unknown_relocation() -> None:
    section = riscv._Section(".text", bytearray(8), 8, 4)
    with pytest.raises(CompileError, match="relocation type 20 is not supported"):
        riscv._relocate(section, 0, 20, 0, {})


def test_a_low_half_without_its_high_half() -> None:
    section = riscv._Section(".text", bytearray(8), 8, 4)
    with pytest.raises(CompileError, match="nothing loads the high half"):
        riscv._relocate(section, 0, 24, 0x1000, {})


def test_an_unknown_symbol() -> None:
    text = "declare i64 @nowhere(i64)\n" + LLVM.replace("@one(i64 %q)", "@nowhere(i64 %q)")
    with pytest.raises(CompileError, match="the guest needs 'nowhere', which nothing defines"):
        riscv.link_object(compile_object(text, RISCV))


def test_no_start(module: ModuleType) -> None:
    with pytest.raises(CompileError, match="the guest has no 'begin'"):
        riscv.link_object(compile_object(LLVM, RISCV), start="begin")
    assert riscv.link_object(compile_object(LLVM, RISCV), start="one")


@pytest.mark.parametrize("text", [
    "@function\ndef main(x: u64) -> None:\n    return\n",
    "@function\ndef main() -> u64:\n    return u64(1)\n",
])
def test_the_entry_takes_and_returns_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(CompileError, match="main: the entry of a guest takes and returns nothing"):
        riscv.link(module_of(tmp_path, text).main)
