"""The C side of guests: shipped ELF files, the code they are made of, and the machine that runs them here."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import struct
import subprocess
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from llvmlite import binding as llvm
from rv_oracle import (
    CODE_BASE,
    OracleTrap,
    UnicornMachine,
    is_rv64im,
    keccak_f1600,
    load_executable,
    run_elf,
    run_function,
    run_words,
)
from unicorn import UC_HOOK_CODE

ROOT = Path(__file__).parent.parent
C_EXAMPLES = ROOT / "examples" / "c"
LOOPS = ROOT / "benchmarks" / "guests"
RUNTIME = ROOT / "src" / "tailbite" / "guest" / "c"
GUESTS = sorted(C_EXAMPLES.glob("elf/*.elf")) + sorted(LOOPS.glob("*.elf"))
FLAGS = ["-march=rv64im", "-mabi=lp64", "-O2", "-ffreestanding", "-nostdlib", f"-I{RUNTIME}"]
GCC = ["riscv64-unknown-elf-gcc", *FLAGS]
CLANG = ["clang-19", "--target=riscv64-unknown-elf", *FLAGS]
M = 2**64 - 1

needs_gcc = pytest.mark.skipif(shutil.which(GCC[0]) is None, reason=f"{GCC[0]} is not installed")


def sha256(name: str) -> bytes:
    return (C_EXAMPLES / "elf" / f"sha256.{name}.elf").read_bytes()


def fib() -> bytes:
    return (C_EXAMPLES / "elf" / "fib.gcc.elf").read_bytes()


# --- The shipped files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [C_EXAMPLES / "elf", LOOPS], ids=["examples", "benchmarks"])
def test_files_are_pinned(folder: Path) -> None:
    lines = [line.split() for line in (folder / "SHA256SUMS").read_text().splitlines()]
    pinned = {name: digest for digest, name in lines}
    assert pinned == {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.glob("*.elf")}


def elf_faults(elf: bytes) -> set[str]:
    """What keeps a file from being a guest: the rules of eth-act/zkvm-standards, and some of our own."""
    if elf[:7] != b"\x7fELF\2\1\1":  # 64 bits, little endian, version 1
        return {"class"}
    file: Any = ELFFile(BytesIO(elf))
    header, segments = file.header, list(file.iter_segments())
    spans = sorted((s["p_vaddr"], s["p_vaddr"] + s["p_memsz"]) for s in segments)
    code = [s for s in segments if s["p_flags"] & 1]
    words = [w for s in code for (w,) in struct.iter_unpack("<I", s.data())]
    checks = {
        "machine": header["e_machine"] == "EM_RISCV" and header["e_flags"] == 0,  # no RVC, no float ABI
        "type": header["e_type"] == "ET_EXEC",
        "segments": all(s["p_type"] == "PT_LOAD" and s["p_memsz"] > 0 for s in segments),
        "protection": not any(s["p_flags"] & 3 == 3 for s in segments),
        "pages": all(end - 1 >> 12 < start >> 12 for (_, end), (start, _) in pairwise(spans)),
        "range": spans[0][0] >= CODE_BASE and spans[-1][1] <= 0xFF000000,
        "entry": any(s["p_vaddr"] <= header["e_entry"] < s["p_vaddr"] + s["p_filesz"] for s in code),
        "instructions": all(is_rv64im(word) for word in words),
        "symbols": "_start" in load_executable(elf).symbols,
        "debug": not any(s.name.startswith((".debug", ".comment")) for s in file.iter_sections()),
        "paths": not any("/" in name for name in load_executable(elf).symbols),
    }
    return {name for name, holds in checks.items() if not holds}


@pytest.mark.parametrize("path", GUESTS, ids=lambda p: p.name)
def test_guest_obeys_the_requirements(path: Path) -> None:
    assert elf_faults(path.read_bytes()) == set()


# Offsets in the ELF64 header (64 bytes) and in the program headers (56 bytes each) after it.
@pytest.mark.parametrize(
    ("fault", "offset", "data"),
    [
        ("class", 4, b"\x01"),  # 32 bits
        ("machine", 48, b"\x01"),  # e_flags: compressed instructions
        ("type", 16, b"\x03"),  # ET_DYN
        ("entry", 24, struct.pack("<Q", 0x11000)),  # entry in the data
        ("segments", 64 + 56, b"\x04"),  # the second is a PT_NOTE
        ("protection", 64 + 4, b"\x07"),  # read, write, execute
        ("pages", 64 + 40, struct.pack("<Q", 0x1001)),  # p_memsz of the code reaches the page of the data
        ("range", 64 + 56 + 16, struct.pack("<Q", 0xFF000000)),  # data over the private input
        ("instructions", 0x1000, struct.pack("<I", 0xC0001073)),  # csrrw at the first word
        ("instructions", 0x1000, struct.pack("<I", 0x00010001)),  # two compressed nops
    ],
)
def test_each_requirement_is_checked(fault: str, offset: int, data: bytes) -> None:
    elf = bytearray(fib())
    elf[offset : offset + len(data)] = data
    assert elf_faults(bytes(elf)) == {fault}


@pytest.mark.parametrize(
    ("fault", "old", "new"),
    [
        ("symbols", b"_start\0", b"_stort\0"),
        ("debug", b".rodata\0", b".debug_\0"),
        ("paths", b"fib.c\0", b"/ib.c\0"),
    ],
)
def test_each_rule_about_names_is_checked(fault: str, old: bytes, new: bytes) -> None:
    assert old in fib()
    assert elf_faults(fib().replace(old, new)) == {fault}


@pytest.mark.parametrize("compiler", ["gcc", "clang", "zig"])
@pytest.mark.parametrize("length", [0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 1000])
def test_sha256(compiler: str, length: int) -> None:
    message = random.Random(length).randbytes(length)
    run = run_elf(sha256(compiler), message)
    assert (run.exit_code, run.output) == (0, hashlib.sha256(message).digest())


@pytest.mark.parametrize("n", [0, 1, 2, 10, 93, 94, 1000])
def test_fib(n: int) -> None:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    run = run_elf(fib(), struct.pack("<Q", n))
    assert (run.exit_code, run.output) == (0, struct.pack("<QQ", n, a & M))


@pytest.mark.parametrize("length", [0, 7, 9])
def test_fib_panics_on_other_lengths(length: int) -> None:
    with pytest.raises(OracleTrap, match="panic: fib: the input must be one u64"):
        run_elf(fib(), bytes(length))


@pytest.mark.parametrize(("log_cycles", "iterations"), [(16, 13103), (20, 209711)])
def test_fib_loop_takes_a_power_of_two_cycles(log_cycles: int, iterations: int) -> None:
    elf = (LOOPS / f"fib_loop_{log_cycles}.elf").read_bytes()
    a, b = 0, 1
    for _ in range(iterations):
        a, b = b, a + b & M
    run = run_elf(elf)
    assert run.output == struct.pack("<Q", a)
    assert run.cycles == 2**log_cycles
    assert run.instructions == 5 * iterations + 13


def test_fib_loop_is_add_mv_mv_addi_bne() -> None:
    image = load_executable((LOOPS / "fib_loop_20.elf").read_bytes())
    address, code, _ = image.parts[0]
    loop = struct.unpack_from("<5I", code, image.symbols["loop"] - address)
    add, mv1, mv2, addi, bne = 0x00628E33, 0x00030293, 0x000E0313, 0xFFF38393, 0xFE0398E3
    assert loop == (add, mv1, mv2, addi, bne)


# --- Rebuilding ---------------------------------------------------------------------------------------------

BUILDS = {
    "gcc": (["riscv64-unknown-elf-gcc", "-dumpversion"], "12.2.0", ["sha256", "fib"]),
    "clang": (["clang-19", "-dumpversion"], "19.1.7", ["sha256"]),
    "zig": (["python3", "-m", "ziglang", "version"], "0.17.1", ["sha256"]),
}


def installed_version(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def skip_unless_pinned(compiler: str) -> None:
    command, pinned, _ = BUILDS[compiler]
    found = installed_version(command)
    if found != pinned:
        pytest.skip(f"{compiler} {pinned} is what the files were built with; here: {found}")


@pytest.mark.parametrize("compiler", BUILDS)
def test_rebuild_gives_the_same_bytes(compiler: str, tmp_path: Path) -> None:
    skip_unless_pinned(compiler)
    programs = BUILDS[compiler][2]
    subprocess.run([C_EXAMPLES / "build.sh", compiler, *programs], env=environment(tmp_path), check=True)
    for program in programs:
        name = f"{program}.{compiler}.elf"
        assert (tmp_path / name).read_bytes() == (C_EXAMPLES / "elf" / name).read_bytes()


def test_rebuild_of_benchmarks_gives_the_same_bytes(tmp_path: Path) -> None:
    skip_unless_pinned("gcc")
    subprocess.run([LOOPS / "build.sh"], env=environment(tmp_path), check=True)
    for name in ("fib_loop_16.elf", "fib_loop_20.elf"):
        assert (tmp_path / name).read_bytes() == (LOOPS / name).read_bytes()


def environment(out: Path) -> dict[str, str]:
    return {**os.environ, "OUT": str(out)}


# --- tailbite.h and mem.c -----------------------------------------------------------------------------------


def build(tmp_path: Path, source: str) -> bytes:
    (tmp_path / "guest.c").write_text(source)
    sources = [RUNTIME / "start.S", RUNTIME / "mem.c", tmp_path / "guest.c"]
    out = tmp_path / "guest.elf"
    options = ["-Wall", "-Wextra", "-Werror", f"-Wl,-T,{RUNTIME / 'link.ld'}"]
    subprocess.run([*GCC, *options, "-o", out, *sources], check=True)
    return out.read_bytes()


@needs_gcc
def test_every_call(tmp_path: Path) -> None:
    source = """
        #include "tailbite.h"
        static uint64_t state[25], counter = 5;
        int main(void) {
            tb_print("hello", 5);
            uint64_t before = tb_cycles();
            tb_commit(tb_input(), tb_input_len());
            uint64_t spent = tb_cycles() - before;
            tb_keccak_permute(state);
            tb_commit(state, sizeof state);
            tb_commit(&spent, 8);
            tb_commit(&counter, 8);
            return 7;
        }"""
    elf = build(tmp_path, source)
    assert elf_faults(elf) == set()
    run = run_elf(elf, b"private")
    data, state, spent, counter = struct.unpack("<7s200sQQ", run.output)
    assert run.exit_code == 7
    assert data == b"private"
    assert struct.unpack("<25Q", state) == tuple(keccak_f1600([0] * 25))
    assert 7 < spent < 40  # a few instructions and one cycle for each of the seven bytes
    assert counter == 5


@needs_gcc
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ('tb_panic("no", 2);', "panic: no"),
        ("tb_call1(1234, 0);", "unknown call 1234"),
        ("tb_call3(TB_COMMIT, 2, 0, 0);", "commit with a0 = 2"),
        ("tb_commit((void *)0xFFFFFFFF, 2);", "crosses a multiple"),
        ("for (int i = 0; i < 3; i++) tb_commit((void *)0x20000, 1 << 19);", "public output over"),
        ("tb_keccak_permute((uint64_t *)0x20004);", "keccak_permute"),
    ],
)
def test_misuse_traps(tmp_path: Path, statement: str, message: str) -> None:
    elf = build(tmp_path, f'#include "tailbite.h"\nint main(void) {{ {statement} return 0; }}')
    with pytest.raises(OracleTrap, match=message):
        run_elf(elf)


@pytest.fixture(scope="module", params=[GCC, CLANG], ids=["gcc", "clang"])
def mem_object(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    if shutil.which(request.param[0]) is None:
        pytest.skip(f"{request.param[0]} is not installed")
    out = tmp_path_factory.mktemp("mem") / "mem.o"
    subprocess.run([*request.param, "-c", "-o", out, RUNTIME / "mem.c"], check=True)
    return out.read_bytes()


REGION = 0x100000


def move(data: bytearray, dst: int, src: int, n: int) -> None:
    data[dst : dst + n] = data[src : src + n]


@pytest.mark.parametrize("seed", range(60))
def test_memcpy_memmove_memset(mem_object: bytes, seed: int) -> None:
    rng = random.Random(seed)
    n, dst, src = rng.randrange(40), rng.randrange(50), rng.randrange(50)
    before = rng.randbytes(100)
    disjoint = abs(dst - src) >= n
    for name in ("memmove", "memcpy") if disjoint else ("memmove",):
        expected = bytearray(before)
        move(expected, dst, src, n)
        run = run_function(mem_object, (REGION + dst, REGION + src, n), {REGION: before}, name)
        assert (run.a0, run.memory[REGION]) == (REGION + dst, expected)
    expected = bytearray(before)
    expected[dst : dst + n] = bytes([src]) * n
    run = run_function(mem_object, (REGION + dst, src + 256, n), {REGION: before}, "memset")
    assert (run.a0, run.memory[REGION]) == (REGION + dst, expected)


@pytest.mark.parametrize("seed", range(40))
def test_memcmp(mem_object: bytes, seed: int) -> None:
    rng = random.Random(seed)
    left = rng.randbytes(rng.randrange(40))
    right = bytearray(left)
    if left and seed % 4:
        right[rng.randrange(len(left))] ^= 1 << rng.randrange(8)
    memory = {REGION + seed % 8: left, REGION + 0x1003: bytes(right)}
    a0 = run_function(mem_object, (*memory, len(left)), memory, "memcmp").a0
    signed = a0 - 2**64 if a0 >> 63 else a0
    assert (signed > 0) - (signed < 0) == (left > right) - (left < right)


# --- The test machine itself: answers from the RISC-V specification, and its own promises -------------------


def r_type(opcode: int, funct3: int, funct7: int) -> int:
    """An instruction with rd = x10, rs1 = x11, rs2 = x12."""
    return funct7 << 25 | 12 << 20 | 11 << 15 | funct3 << 12 | 10 << 7 | opcode


MIN, WMIN = 1 << 63, -(1 << 31) & M


@pytest.mark.parametrize(
    ("word", "a", "b", "expected"),
    [
        (r_type(0x33, 0, 0), M, 2, 1),  # add
        (r_type(0x33, 0, 0x20), 1, 2, M),  # sub
        (r_type(0x33, 5, 0x20), MIN, 64 + 63, M),  # sra takes the count modulo 64
        (r_type(0x3B, 5, 0), 0x1_8000_0000, 32, WMIN),  # srlw by 0 modulo 32 sign-extends
        (r_type(0x33, 3, 0), 1, M, 1),  # sltu
        (r_type(0x33, 2, 0), 1, M, 0),  # slt
        (r_type(0x33, 1, 1), MIN, MIN, 1 << 62),  # mulh
        (r_type(0x33, 2, 1), M, M, M),  # mulhsu: -1 * (2^64 - 1) = -2^64 + 1
        (r_type(0x33, 3, 1), M, M, M - 1),  # mulhu
        (r_type(0x33, 4, 1), 7, 0, M),  # div by zero
        (r_type(0x33, 4, 1), MIN, M, MIN),  # div overflow
        (r_type(0x33, 6, 1), 7, 0, 7),  # rem by zero
        (r_type(0x33, 6, 1), MIN, M, 0),  # rem overflow
        (r_type(0x33, 6, 1), -7 & M, 2, M),  # rem has the sign of the dividend
        (r_type(0x33, 5, 1), 7, 0, M),  # divu by zero
        (r_type(0x3B, 4, 1), WMIN, M, WMIN),  # divw overflow
        (r_type(0x3B, 7, 1), WMIN, 0, WMIN),  # remuw by zero sign-extends
    ],
)
def test_words_known_answers(word: int, a: int, b: int, expected: int) -> None:
    run = run_words([word], {11: a, 12: b})
    assert run.regs == [0] * 10 + [expected, a, b] + [0] * 19
    assert (run.memory, run.pc) == ({}, CODE_BASE + 4)


LD, SD, ECALL = 0x0005B503, 0x00C5B023, 0x73  # ld a0, 0(a1); sd a2, 0(a1)


@pytest.mark.parametrize("address", [0, 0x20003, 0x1FFFD, 2**63 + 5, 2**64 - 8])
def test_words_load_and_store_anywhere(address: int) -> None:
    value = 0x8877665544332211
    stored = run_words([SD], {11: address, 12: value})
    assert stored.memory == {address + i: 0x11 * (i + 1) for i in range(8)}
    assert run_words([LD], {11: address}, {address: value.to_bytes(8, "little")}).regs[10] == value
    assert run_words([SD, LD], {11: address, 12: value}).regs[10] == value


def test_words_start_from_nothing_each_time() -> None:
    dirty = run_words([SD, LD], {r: r for r in range(32)} | {11: 0x20000, 12: M}, {0x20008: b"x" * 8})
    assert dirty.regs[10] == M
    clean = run_words([LD], {11: 0x20000})
    assert clean.regs == [0] * 11 + [0x20000] + [0] * 20
    assert run_words([LD], {11: 0x20008}).regs[10] == 0


def test_words_loop_and_stop_where_control_leaves() -> None:
    countdown = [0xFFF50513, 0x00158593, 0xFE051CE3]  # addi a0,a0,-1; addi a1,a1,1; bne a0,x0,-8
    run = run_words(countdown, {10: 100})
    assert (run.regs[11], run.pc) == (100, CODE_BASE + 12)
    with pytest.raises(OracleTrap, match="more than 1000 instructions"):
        run_words(countdown, {10: 1000})


@pytest.mark.parametrize("target", [0, 0x20000, CODE_BASE + 2, 0x123456789ABCDEF0])
def test_words_jump_out_executes_nothing_there(target: int) -> None:
    jalr, addi = 0x000580E7, 0x00150513  # jalr ra, 0(a1); addi a0, a0, 1
    run = run_words([jalr, addi], {11: target + 1}, {0x20000: struct.pack("<I", addi)})
    assert (run.pc, run.regs[1], run.regs[10]) == (target, CODE_BASE + 4, 0)


def test_words_pc_is_an_argument() -> None:
    auipc = 0xFFFFF517  # auipc a0, -1
    run = run_words([auipc], pc=0xFFFF0000)
    assert (run.regs[10], run.pc) == (0xFFFEF000, 0xFFFF0004)


@pytest.mark.parametrize(
    ("words", "regs", "message"),
    [
        ([0xC0001073], {}, "not an RV64IM"),  # csrrw
        ([0x00000001], {}, "not an RV64IM"),  # compressed
        ([0x02000057], {}, "not an RV64IM"),  # vector
        ([0x00100073], {}, "not an RV64IM"),  # ebreak
        ([0x0000100F], {}, "not an RV64IM"),  # fence.i
        ([r_type(0x33, 0, 0x7F)], {}, "exception 2"),  # no such funct7
        ([LD], {11: 2**64 - 7}, "crosses"),
        ([SD], {11: 2**64 - 1}, "crosses"),
        ([ECALL], {17: 5}, "unknown call 5"),
    ],
)
def test_words_trap(words: list[int], regs: dict[int, int], message: str) -> None:
    with pytest.raises(OracleTrap, match=message):
        run_words(words, regs)


def test_keccak_is_the_one_of_sha3() -> None:
    message = b"abc"
    block = (message + b"\x06").ljust(135, b"\0") + b"\x80"  # one block of SHA3-256, padded
    state = keccak_f1600(struct.unpack("<25Q", block.ljust(200, b"\0")))
    assert struct.pack("<4Q", *state[:4]) == hashlib.sha3_256(message).digest()


def test_instructions_are_counted_one_by_one() -> None:
    image = load_executable(fib())
    machine = UnicornMachine(10**6)
    machine.load(image)
    machine.write(0xFF000000, struct.pack("<IQ", 8, 50))
    machine.set_registers({2: 2**64 - 16})
    seen: list[int] = []
    machine._uc.hook_add(UC_HOOK_CODE, lambda _uc, address, _size, _data: seen.append(address))
    machine.run(image.entry)
    assert machine.instructions == len(seen) == run_elf(fib(), struct.pack("<Q", 50)).instructions


def assemble(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


RET = 0x00008067


def test_function_from_raw_code() -> None:
    code = assemble(RET, 0x00C58533, 0x40C585B3, RET)  # at 4: add a0,a1,a2; sub a1,a1,a2
    run = run_function(code, (0, 5, -7), entry=4)
    assert (run.a0, run.a1, run.instructions) == (-2 & M, 12, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((0x00148493, RET), "x9 must be kept"),  # addi s1, s1, 1
        ((0xFF010113, RET), "x2 must be kept"),  # addi sp, sp, -16
        ((0x00000067,), "jump out of the code to 0x0"),  # jr x0
        ((0x0000006F,), "more than 1000 instructions"),  # j .
    ],
)
def test_function_that_misbehaves(words: tuple[int, ...], message: str) -> None:
    with pytest.raises(OracleTrap, match=message):
        run_function(assemble(*words), max_steps=1000)


IR = """
target triple = "riscv64-unknown-elf"
@counter = global i64 40
@table = constant [2 x ptr] [ptr @counter, ptr @counter]
define i64 @bump(i64 %by) noinline {
  %old = load volatile i64, ptr @counter
  %new = add i64 %old, %by
  store volatile i64 %new, ptr @counter
  ret i64 %new
}
define i64 @twice(i64 %by) {
  %one = call i64 @bump(i64 %by)
  %two = call i64 @bump(i64 %one)
  %slot = getelementptr [2 x ptr], ptr @table, i64 0, i64 1
  %pointer = load volatile ptr, ptr %slot
  %now = load volatile i64, ptr %pointer
  %same = icmp eq i64 %now, %two
  %result = select i1 %same, i64 %two, i64 0
  ret i64 %result
}
"""


@pytest.mark.parametrize("code_model", ["small", "medium"])  # HI20 and LO12, PCREL_HI20 and PCREL_LO12
def test_function_from_an_object(code_model: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("riscv64-unknown-elf")
    machine = target.create_target_machine("generic-rv64", "+m", reloc="static", codemodel=code_model)
    code = machine.emit_object(llvm.parse_assembly(IR))
    assert run_function(code, (2,), entry="twice").a0 == 84
    assert run_function(code, (2,), entry="twice").a0 == 84  # the global is at 40 again
