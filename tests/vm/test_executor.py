"""The executor against QEMU's processor core, its faults, its limits, and its log."""

from __future__ import annotations

import dataclasses
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from assembler import (
    A0,
    A1,
    A2,
    A7,
    BASE,
    BRANCHES,
    ECALL,
    I_TYPE,
    M64,
    R_TYPE,
    SHIFTS,
    STORES,
    T0,
    T1,
    T2,
    ZERO,
    asm,
    call,
    elf,
    elf_of_segments,
    halt,
    li,
)
from log_checker import check_log
from rv_oracle import keccak_f1600, run_elf, run_words

from tailbite.vm import executor
from tailbite.vm.core import Forge, Status
from tailbite.vm.elf import load_elf
from tailbite.vm.executor import (
    CycleLimit,
    Execution,
    ExecutionError,
    ExitCode,
    IllegalInstruction,
    LimitExceeded,
    MemoryFault,
    Panic,
    UnsupportedCall,
    execute,
)
from tailbite.vm.isa import compute
from tailbite.vm.ops import LOADS, WIDTH, Op

ROOT = Path(__file__).parents[2]
DATA = 0x20000
EDGES = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 255, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF,
         1 << 32, (1 << 32) + 1, 0x7FFFFFFF_FFFFFFFF, 1 << 63, (1 << 63) + 1, 0xFFFFFFFF_80000000,
         0xFFFFFFFF_7FFFFFFF, M64 - 1, M64, 0xAAAAAAAA_55555555, 0x12345678_9ABCDEF0, 0xFFFFFFFF_00000001]


def value(rng: random.Random) -> int:
    kind = rng.randrange(4)
    return rng.choice(EDGES) if kind < 2 else rng.getrandbits(64) if kind == 2 else rng.getrandbits(rng.randint(1, 64))


# ---------------------------------------------------------------- raw instructions


def machine_after(words: list[int], registers: dict[int, int], memory: dict[int, bytes]) -> executor._Run:
    """The machine after ``words``, which started with these registers, x2 too, and left the code at its end."""
    run = executor._Run(load_elf(elf(words, memory)), b"", None)
    run.registers.x[2] = 0
    for r, v in registers.items():
        run.registers.x[r] = v
    status = Status.RUNNING
    while status in (Status.RUNNING, Status.GROW):
        run.attend(status)
        status = Status(run.library.run(run.state, run.code, run.registers, run.memory, run.records,
                                        run.output_buffer, 1 << 20))
    assert status is Status.NO_INSTRUCTION
    return run


def agree(words: list[int], registers: dict[int, int], memory: dict[int, bytes] | None = None) -> None:
    """Same registers and same memory as the oracle."""
    memory = memory or {}
    want, got = run_words(words, registers, memory), machine_after(words, registers, memory)
    assert [int(v) for v in got.registers.x[:32]] == want.regs, [hex(w) for w in words]
    for address, byte in want.memory.items():
        out = np.zeros(1, np.uint8)
        got.library.copy_bytes(got.memory, address, out)
        assert out[0] == byte, hex(address)


def operands(rng: random.Random) -> dict[int, int]:
    return {r: value(rng) for r in range(1, 16)}


@pytest.mark.parametrize("name", R_TYPE)
def test_register_instructions(name):
    rng = random.Random(name)
    for _ in range(30):
        registers = operands(rng)
        words = [asm(name, rng.choice((0, *range(16, 32))), rng.randrange(16), rng.randrange(16)) for _ in range(30)]
        agree(words, registers)


@pytest.mark.parametrize("name", [*SHIFTS, *(n for n, (opcode, _) in I_TYPE.items() if opcode in (0x13, 0x1B))])
def test_immediate_instructions(name):
    rng = random.Random(name)
    amounts = range(SHIFTS[name][3]) if name in SHIFTS else (0, 1, -1, 2047, -2048, 31, *rng.sample(range(2048), 9))
    for k in amounts:
        agree([asm(name, rng.choice((0, *range(16, 32))), rng.randrange(16), k) for _ in range(20)], operands(rng))


def test_lui_and_auipc():
    for imm in (0, 1, 0x7FFFF, 0x80000, 0xFFFFF, 0x12345):
        agree([asm("lui", 5, imm), asm("auipc", 6, imm), asm("lui", 0, imm), asm("auipc", 0, imm)], {})


@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name):
    """Each decides whether an addition is skipped; the last ones jump backwards."""
    rng = random.Random(name)
    for _ in range(40):
        words = []
        for r in range(16, 31):
            words += [asm(name, rng.randrange(16), rng.randrange(16), 8), asm("addi", r, r, 1)]
        agree(words, operands(rng))
    back = [asm("jal", 0, 12), asm("addi", 16, 16, 1), asm("jal", 0, 12), asm(name, 1, 2, -8), asm("addi", 17, 17, 1)]
    for _ in range(20):
        agree(back, operands(rng))


def test_jumps():
    agree([asm("jal", 1, 8), asm("addi", 5, 5, 1), asm("addi", 6, 6, 1)], {})
    for lsb in (0, 1):  # the lowest bit of a target is dropped
        agree([asm("auipc", 1, 0), asm("jalr", 5, 1, 12 + lsb), asm("addi", 6, 6, 1), asm("addi", 7, 7, 1)], {})
    agree([asm("auipc", 1, 0), asm("jalr", 1, 1, 12), asm("addi", 6, 6, 1), asm("addi", 7, 7, 1)], {})  # rd = rs1
    wrap = {1: (1 << 64) - 2048 + 4 * 2}  # base + imm = BASE + 8 mod 2^64
    agree([asm("jalr", 5, 1, 2047), *[asm("addi", 6, 6, 1)] * 3], {1: BASE + 8 - 2047 & M64} | {2: wrap[1]})


@pytest.mark.parametrize("name", [*(n for n, (opcode, _) in I_TYPE.items() if opcode == 0x03), *STORES])
def test_loads_and_stores(name):
    """All alignments, across dwords and pages of 512 and 4096 bytes, signed edges, negative offsets."""
    rng = random.Random(name)
    for middle in (DATA + 64, DATA + 512, DATA + 4096, 2 << 32, (1 << 63) + 512):
        memory = {middle - 32: rng.choice((rng.randbytes(64), b"\x7f\x80" * 32, b"\xff" * 64))}
        for at in range(-17, 10):
            offset = rng.choice((0, 1, -1, 8, -2048, 2047))
            words = [asm(name, 5, 6, offset), asm("ld", 7, 8, 0), asm("ld", 9, 8, 8)]
            agree(words, {5: value(rng), 6: middle + at - offset & M64, 8: middle + (at & -8) & M64}, memory)


def test_memory_reads_as_zero_and_addresses_wrap():
    agree([asm("ld", 5, 6, 8), asm("sd", 7, 6, 16), asm("ld", 8, 6, 16), asm("lw", 9, 0, 4)],
          {5: 1, 6: M64 - 7, 7: value(random.Random(1)), 8: 1, 9: 1})
    agree([asm("ld", 5, 0, -8), asm("sb", 7, 0, -1), asm("lbu", 8, 0, -1)], {7: 0xAB})


def sequence(rng: random.Random, length: int) -> list[int]:
    """Straight code and short forward branches over x5 to x15, with memory around x8 and x9."""
    words = []
    for _ in range(length):
        rd, rs1, rs2 = rng.choice((0, 5, 6, 7, 10, 11, 12, 13, 14, 15)), rng.randrange(5, 16), rng.randrange(5, 16)
        kind = rng.randrange(8)
        if kind < 3:
            words.append(asm(rng.choice(list(R_TYPE)), rd, rs1, rs2))
        elif kind == 3:
            name = rng.choice(list(SHIFTS))
            words.append(asm(name, rd, rs1, rng.randrange(SHIFTS[name][3])))
        elif kind == 4:
            name = rng.choice([n for n, (opcode, _) in I_TYPE.items() if opcode in (0x13, 0x1B)])
            words.append(asm(name, rd, rs1, rng.randrange(-2048, 2048)))
        elif kind == 5:
            name = rng.choice([n for n, (opcode, _) in I_TYPE.items() if opcode == 0x03])
            words.append(asm(name, rd, rng.choice((8, 9)), rng.randrange(-64, 64)))
        elif kind == 6:
            words.append(asm(rng.choice(list(STORES)), rs2, rng.choice((8, 9)), rng.randrange(-64, 64)))
        else:
            words += [asm(rng.choice(list(BRANCHES)), rs1, rs2, 8), asm("xori", rd, rs1, 5)]
    return words


def test_random_sequences():
    rng = random.Random(11)
    for _ in range(150):
        registers = {r: value(rng) for r in range(5, 16)} | {8: DATA + 512, 9: (1 << 32) + rng.randrange(16)}
        agree(sequence(rng, 60), registers, {DATA + 448: rng.randbytes(128)})


def test_interpreted_semantics_are_the_compiled_ones():
    """isa.compute defines the results; straight code runs it compiled."""
    rng = random.Random(12)
    words = [asm(n, 10, 5, 6) for n in R_TYPE] + [asm(n, 10, 5, k) for n in SHIFTS for k in (0, 1, 31)]
    for word in words:
        registers = {5: value(rng), 6: value(rng)}
        run = machine_after([word], registers, {})
        rom = run.image.rom
        b = registers[6] if int(rom.s2[0]) == 6 else 0
        assert int(compute(int(rom.op[0]), registers[5], b, int(rom.immediate[0]))) == int(run.registers.x[10])


# ---------------------------------------------------------------- whole programs


def run_both(data: bytes, private_input: bytes = b"") -> Execution:
    """Runs like the oracle's, and the log is consistent."""
    image, want = load_elf(data), run_elf(data, private_input)
    run = execute(image, private_input)
    assert (run.output, run.cycles, run.instructions) == (want.output, want.cycles, want.instructions)
    check_log(image, run, private_input)
    plain = execute(image, private_input, log=False)
    assert plain.log is None
    assert (plain.output, plain.cycles, plain.counts) == (run.output, run.cycles, run.counts)
    return run


def dump_registers() -> list[int]:
    """Store x1 to x31 below address 0 and commit them."""
    return [*(asm("sd", r, ZERO, -256 + 8 * r) for r in range(1, 32)), *call(64, 1, -248, 248)]


def test_random_programs():
    rng = random.Random(13)
    for _ in range(12):
        body = sequence(rng, 120)
        setup = [w for r in (5, 6, 7, 8, 9, 10, 11) for w in li(r, value(rng))]
        setup += [*li(8, DATA + 512), *li(9, (1 << 63) + rng.randrange(600))]
        run_both(elf([*setup, *body, *dump_registers(), *halt()], {DATA + 450: rng.randbytes(120)}))


@pytest.mark.parametrize("name", ["sha256.gcc", "sha256.clang", "sha256.zig", "fib.gcc"])
def test_guests_in_c(name):
    data = (ROOT / f"examples/c/elf/{name}.elf").read_bytes()
    for private_input in ([struct.pack("<Q", n) for n in (0, 1, 100)] if name == "fib.gcc" else
                          [b"", b"abc", bytes(range(200))]):
        run_both(data, private_input)


def test_benchmark_guest():
    run = run_both((ROOT / "benchmarks/guests/fib_loop_16.elf").read_bytes())
    assert run.cycles == 1 << 16 and len(run.log.refreshes.r) > 0


def test_counts_and_hits():
    loop = [*li(T0, 5), asm("addi", T0, T0, -1), asm("bne", T0, ZERO, -4), *halt()]
    run = run_both(elf(loop))
    assert run.counts == {Op.CONST: 3, Op.ADDI: 5, Op.BNE: 5, Op.ECALL: 1}
    assert run.hits.tolist() == [1, 5, 5, 1, 1, 1]


def test_initial_registers():
    run = run_both(elf([*dump_registers(), *halt()]))
    x = [0, *struct.unpack("<31Q", run.output)]
    assert x[2] == 0xFFFFFFFF_FFFFFFF0 and sum(v != 0 for v in x[3:10] + x[13:]) == 0


# ---------------------------------------------------------------- calls


def test_commit_returns_its_length():
    words = [*call(64, 1, DATA, 5), asm("addi", T0, A0, 0), *call(64, 1, DATA + 7, 0), asm("addi", T1, A0, 0),
             asm("sb", T0, ZERO, 0), asm("sb", T1, ZERO, 1), *call(64, 1, 0, 2), *halt()]
    run = run_both(elf(words, {DATA: b"hello, world"}))
    assert run.output == b"hello\5\0" and run.cycles == len(words) + 7
    assert run.log.commits.length.tolist() == [5, 0, 2] and run.log.commits.idx.tolist() == [0, 5, 5]


def test_commit_of_input_and_of_untouched_memory():
    run = run_both(elf([*call(64, 1, 0xFF000000, 12), *call(64, 1, 0x777, 9), *halt()]), b"private!")
    assert run.output == struct.pack("<I", 8) + b"private!" + bytes(9)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 11, 12, 13, 1000])
def test_input_region(n):
    data = random.Random(n).randbytes(n)
    run = run_both(elf([*li(T0, 0xFF000000), asm("lwu", T1, T0, 0), asm("ld", T2, T0, 8), *halt()]), data)
    inputs = run.log.memory.h == 0
    inputs &= (run.log.memory.w >= 0x1FE00000) & ~run.log.memory.zero
    assert inputs.sum() == (n + 4 + 7) // 8


def test_print_reaches_the_host_and_nothing_else():
    image = load_elf(elf([*call(1, DATA, 5), *call(1, DATA + 5, 1 << 62), *call(1, DATA, 0), *halt()],
                         {DATA: "héllo".encode()}))
    run = execute(image)
    check_log(image, run)
    assert run.printed[0] == "héll" and run.printed[1].startswith("o\0") and run.printed[2] == ""
    assert len(run.log.prints.ts) == 3 and not run.log.memory.t.any()


def test_cycles_counts_instructions_and_bytes_before():
    words = [*call(-32), asm("addi", T0, A0, 0), *call(64, 1, DATA, 3), *call(-32), asm("addi", T1, A0, 0)]
    run = run_both(elf([*words, asm("sd", T0, ZERO, 0), asm("sd", T1, ZERO, 8), *call(64, 1, 0, 16), *halt()]))
    assert struct.unpack("<2Q", run.output[3:]) == (1, len(words) - 2 + 3)


@pytest.mark.parametrize("address", [DATA, DATA + 504, DATA + 320, DATA + 312, (1 << 32) - 200, 1 << 50])
def test_keccak_permute(address):
    words, state = li(T0, address), random.Random(2).randbytes(200)
    words += [*li(A0, address), *li(A7, -2), ECALL, ECALL]
    run = run_both(elf([*words, *call(64, 1, address, 200), *halt()], {address: state} if address < 0xFF000000 else {}))
    want = struct.unpack("<25Q", state if address < 0xFF000000 else bytes(200))
    assert struct.unpack("<25Q", run.output) == tuple(keccak_f1600(keccak_f1600(want)))
    assert run.log.keccaks.state.shape == (2, 25)


# ---------------------------------------------------------------- faults


def fails(kind: type[ExecutionError], words: list[int], message: str, at: int | None = None,
          **options) -> ExecutionError:
    """The run ends with this error, at word ``at``, with and without a log."""
    for log in (False, True):
        with pytest.raises(kind, match=message) as caught:
            execute(load_elf(elf(words, **options)), log=log)
        assert type(caught.value) is kind
        if at is not None:
            assert caught.value.pc == BASE + 4 * at and f"{BASE + 4 * at:#x}" in str(caught.value)
    return caught.value


def test_illegal_instructions():
    ends = fails(IllegalInstruction, [asm("addi", 1, 1, 1)], "after 1 cycles", 1)
    assert "no code" in str(ends) and ends.cycles == 1
    fails(IllegalInstruction, [asm("addi", 1, 1, 1), 0, *halt()], "0x00000000 .not an instruction", 1)
    fails(IllegalInstruction, [0x00100073], "0x00100073", 0)
    fails(IllegalInstruction, [asm("addi", 1, 0, 5), asm("jal", 0, 6), *halt()], "no code", None)
    fails(IllegalInstruction, [*li(5, 1 << 32), asm("jalr", 1, 5, 16)], "pc 0x100000010")
    fails(IllegalInstruction, [asm("jalr", 1, 0, 0)], "pc 0x0, no code")
    fails(IllegalInstruction, [asm("jalr", 1, 0, -4)], "pc 0xfffffffffffffffc")
    fails(IllegalInstruction, [*li(5, BASE), asm("jalr", 1, 5, 2)], "pc 0x10002")
    fails(IllegalInstruction, halt(), "pc 0x20000", entry=DATA)
    with pytest.raises(IllegalInstruction, match="pc 0x10000, no code, after 0 cycles"):
        execute(load_elf(elf_of_segments([], BASE)))


def test_stretches_of_code_far_apart():
    """Jumps find code in any of several segments, and nothing between them."""
    def at(address: int, words: list[int]) -> tuple[int, int, bytes, int]:
        return 5, address, struct.pack(f"<{len(words)}I", *words), 4 * len(words)

    places = (0x100, 0x1000, 0x1040, 0x1084, 0x80000000, 0xFEFFFF00)
    hop = [[*li(5, b), asm("jalr", 1, 5, 0)] for b in places[1:]]
    chain = elf_of_segments([at(a, words) for a, words in zip(places, [*hop, halt()], strict=True)], places[0])
    assert run_both(chain).counts[Op.JALR] == 5
    for wrong in (0x0, 0x9C, 0x1080, 0x1100, 0x7FFFFFFC, 0xFEFFFF0C, 0xFFFFFFFC):
        jump = elf_of_segments([at(places[0], [*li(5, wrong), asm("jalr", 1, 5, 0)]), at(0x1040, halt())], places[0])
        with pytest.raises(IllegalInstruction, match=f"pc {wrong:#x}"):
            execute(load_elf(jump))


def test_illegal_words_matter_only_if_executed():
    run_both(elf([asm("jal", 0, 8), 0xFFFFFFFF, *halt()]))


def test_a_branch_out_of_the_first_4_gib_is_a_fault_even_if_not_taken():
    word = struct.pack("<I", asm("bne", 0, 0, -4096))
    with pytest.raises(IllegalInstruction):
        execute(load_elf(elf_of_segments([(5, 0, word, 4)], 0)))


def test_compressed_code_is_named():
    assert "rv64im" in str(fails(IllegalInstruction, [0x4501], "compressed", 0, flags=1))


def test_accesses_across_the_end_of_memory():
    for name, offset in (("ld", -7), ("lw", -3), ("lhu", -1), ("sd", -1), ("sh", -1), ("sw", -2)):
        fails(MemoryFault, [asm(name, 5, ZERO, offset)], "crosses the end of memory", 0)
    last = (("ld", -8), ("lw", -4), ("sb", -1), ("sh", -2), ("lhu", -2), ("sd", -8))
    run_both(elf([*(asm(name, 5, ZERO, offset) for name, offset in last), *halt()]))
    run_both(elf([*li(5, (1 << 32) - 3), asm("sd", 5, 5, 0), asm("lw", 6, 5, 1), *halt()]))  # 2^32 is no border


def test_exit_codes():
    for code in (1, -1, 42, 1 << 32):
        fails(ExitCode, halt(code), f"exit code {code}:", len(halt(code)) - 1)


def test_panic_says_what_the_program_said():
    data = {DATA: b"index 7 is out of range"}
    fails(Panic, call(2, DATA, 23), "panicked: index 7 is out of range:", data=data)
    fails(Panic, call(2, DATA, 1 << 40), "panicked: index 7", data=data)
    fails(Panic, call(2, -1, 100), "panicked: ")


@pytest.mark.parametrize("number", [0, 3, 63, 65, 94, -1, -3, -31, 93 + (1 << 32), 1 << 63])
def test_unknown_calls(number):
    signed = number - (1 << 64) if number >> 63 == 1 else number
    fails(UnsupportedCall, call(number, 0, 0, 0), f"there is no call {signed}:")


@pytest.mark.parametrize(("a0", "a1", "a2", "kind"), [
    (1, (1 << 32) - 4, 4, None), (1, (1 << 32) - 4, 5, MemoryFault), (0, 0, 4, UnsupportedCall),
    (2, 0, 4, UnsupportedCall), ((1 << 32) + 1, 0, 4, UnsupportedCall), (1, 0, 1 << 32, MemoryFault),
    (1, 0, M64, MemoryFault), (1, 1, (1 << 32) - 1, LimitExceeded), (1, 0, 1 << 20, None),
    (1, 0, (1 << 20) + 1, LimitExceeded), (1, (5 << 32) - 8, 8, None), (1, (5 << 32) - 8, 9, MemoryFault),
    (1, M64, 1, None), (1, M64, 2, MemoryFault),
])
def test_conditions_of_commit(a0, a1, a2, kind):
    words = [*call(64, a0, a1, a2), *halt()]
    if kind:
        fails(kind, words, "commit", len(call(64, a0, a1, a2)) - 1)
    else:
        assert len(execute(load_elf(elf(words))).output) == a2


def test_output_of_several_commits_is_limited():
    run = execute(load_elf(elf([*call(64, 1, 0, 1 << 19), *call(64, 1, 0, 1 << 19), *halt()])))
    assert len(run.output) == 1 << 20
    fails(LimitExceeded, [*call(64, 1, 0, 1 << 19), *call(64, 1, 0, (1 << 19) + 1), *halt()], "after 524288")


@pytest.mark.parametrize(("address", "fine"), [(DATA, True), (DATA + 4, False), ((1 << 32) - 200, True),
                                               ((1 << 32) - 192, False), (M64 - 199, True), (M64 - 191, False)])
def test_conditions_of_keccak(address, fine):
    words = [*call(-2, address), *halt()]
    if fine:
        execute(load_elf(elf(words)))
    else:
        fails(MemoryFault, words, "keccak_permute")


def test_limits_of_cycles_and_input():
    image = load_elf(elf([asm("jal", 0, 0)]))
    with pytest.raises(CycleLimit, match="within 1000 cycles"):
        execute(image, max_cycles=1000)
    for limit in range(4):
        with pytest.raises(CycleLimit):
            execute(load_elf(elf(halt())), max_cycles=min(limit, 2))
        execute(load_elf(elf(halt())), max_cycles=3)
    committing = load_elf(elf([*call(64, 1, 0, 10), *halt()]))
    execute(committing, max_cycles=5 + 10 + 3)
    with pytest.raises(CycleLimit):
        execute(committing, max_cycles=5 + 10 + 2)
    with pytest.raises(LimitExceeded, match="private input"):
        execute(load_elf(elf(halt())), bytes((1 << 24) - 3))
    execute(load_elf(elf(halt())), bytes((1 << 24) - 4), log=False)


def test_limit_of_memory(monkeypatch):
    monkeypatch.setattr(executor, "MAX_DWORDS", 100)

    def touching(n: int) -> list[int]:
        return [*li(T0, n), asm("sd", T0, T1, 0), asm("addi", T1, T1, 8), asm("addi", T0, T0, -1),
                asm("bne", T0, ZERO, -12), *halt()]

    used = len(load_elf(elf(touching(9))).dwords.h) + 1  # with the input's only dword
    execute(load_elf(elf(touching(100 - used))))
    fails(LimitExceeded, touching(101 - used), "dwords of memory")


def test_errors_name_the_symbol():
    data = bytearray((ROOT / "examples/c/elf/fib.gcc.elf").read_bytes())
    with pytest.raises(Panic, match=r"fib: the input must be one u64 .* in main\+0x"):
        execute(load_elf(bytes(data)), b"123")


# ---------------------------------------------------------------- slices, growth, long gaps


BODY = [*call(64, 1, DATA, 7), *(asm(name, 9, 8, 509) for name in ("sd", "ld", "sd")), *call(-2, DATA),
        *call(1, DATA, 4), *call(-32), asm("addi", 8, 8, 1021), asm("addi", T2, T2, -1)]
MIXED = elf([*li(T2, 3), *li(9, 0x123456789ABCDEF0), *BODY, asm("bne", T2, ZERO, -4 * len(BODY)), *halt()],
            {DATA: b"committed"})


def fields_of(log) -> list[np.ndarray]:
    parts = [getattr(log, f.name) for f in dataclasses.fields(log)]
    return [a for p in parts for a in (p if isinstance(p, tuple) else [p])]


@pytest.mark.parametrize("cycles", [1, 2, 7])
def test_slices_do_not_matter(monkeypatch, cycles):
    """A run that stops after each cycle, within commits too, is the same."""
    image = load_elf(MIXED)
    whole = run_both(MIXED)
    monkeypatch.setattr(executor, "SLICE", 4 * cycles)
    seen = []
    sliced = execute(image, progress=lambda n, total: seen.append((n, total)))
    assert all(np.array_equal(a, b) for a, b in zip(fields_of(whole.log), fields_of(sliced.log), strict=True))
    assert sliced.printed == whole.printed
    assert seen[-1] == (whole.cycles, whole.cycles) and (whole.cycles, None) in seen
    assert len(seen) >= 2 * whole.cycles // cycles


def test_memory_grows(monkeypatch):
    """From room for the program alone, page by page, at each kind of access."""
    whole = run_both(MIXED)
    monkeypatch.setattr(executor, "FREE_PAGES", 0)
    grown = execute(load_elf(MIXED))
    assert all(np.array_equal(a, b) for a, b in zip(fields_of(whole.log), fields_of(grown.log), strict=True))


def test_many_scattered_pages():
    """5,000 stores 2^40 + 8 bytes apart, then the same loads: the sum shows that none was lost."""
    n = 5000
    stride = li(T2, (1 << 40) + 8)
    store = [*li(T0, n), *li(T1, 0), asm("sd", T0, T1, 0), asm("add", T1, T1, T2), asm("addi", T0, T0, -1),
             asm("bne", T0, ZERO, -12)]
    load = [*li(T0, n), *li(T1, 0), asm("ld", A2, T1, 0), asm("add", A1, A1, A2), asm("add", T1, T1, T2),
            asm("addi", T0, T0, -1), asm("bne", T0, ZERO, -16)]
    words = [*stride, *store, *load, asm("sd", A1, ZERO, -8), *call(64, 1, -8, 8), *halt()]
    image = load_elf(elf(words))
    run = execute(image)
    assert int.from_bytes(run.output, "little") == n * (n + 1) // 2
    check_log(image, run)


@pytest.mark.parametrize("extra", range(-3, 4))
def test_gaps_around_2_16(extra):
    """x10 rests while a loop of two instructions runs; 2^16 time units are 2^14 cycles."""
    loops = 8192 + extra
    words = [asm("addi", A0, A0, 7), *li(T0, loops), asm("addi", T0, T0, -1), asm("bne", T0, ZERO, -4),
             asm("addi", A0, A0, 1), *halt()]
    run = run_both(elf(words))
    assert (10 in run.log.refreshes.r.tolist()) == (4 * (2 * loops + len(li(T0, loops))) + 1 > 1 << 16)


def test_long_rest_of_every_register():
    """Registers that calls use, the sink and the counter rest for 2^15 cycles."""
    words = [*call(64, 1, DATA, 1), *li(T0, 1 << 14), asm("addi", T0, T0, -1), asm("bne", T0, ZERO, -4)]
    spare = {A7: call(64), A0: li(A0, 1)}  # commit again without touching a1 and a2 first
    run = run_both(elf([*words, *spare[A0], *spare[A7][:-1], ECALL, asm("jal", 0, 4), *halt()]))
    assert {10, 11, 12, 17, 32, 33} <= set(run.log.refreshes.r.tolist())


# ---------------------------------------------------------------- a log that lies is found


@pytest.mark.parametrize("field", ["ix", "ts", "a", "b", "r", "o", "ta", "tb", "td", "m0", "m1", "tm0", "tm1"])
def test_the_checker_notices_changes(field):
    """The passing twin is every other use of the checker."""
    image = load_elf(MIXED)
    run = execute(image)
    column = getattr(run.log, field)
    noticed = 0
    for k in np.flatnonzero(column)[:5]:
        column[k] += 1
        with pytest.raises((AssertionError, IndexError)):
            check_log(image, run)
        column[k] -= 1
        noticed += 1
    assert noticed
    check_log(image, run)


# ---------------------------------------------------------------- the wrong machine


def forging_program(name: str) -> list[int]:
    """Runs the instruction once, with its result or what it stores in memory at 0, or a taken branch in x6."""
    if name in BRANCHES:
        return [asm(name, 10, 11, 8), asm("ori", 6, 0, 1), asm("sd", 6, ZERO, 0)]
    if name in STORES:
        return [asm(name, 10, ZERO, 0)]
    word = asm(name, 5, 8, 3) if name in I_TYPE or name in SHIFTS else asm(name, 5, 10, 11)
    return [word, asm("sd", 5, ZERO, 0)]


@pytest.mark.parametrize("name", [*R_TYPE, *SHIFTS, *(n for n in I_TYPE if n != "jalr"), *STORES, *BRANCHES])
def test_forged_operations(name):
    """The forged machine differs in one bit, and its log is consistent all the same."""
    body = forging_program(name)
    image = load_elf(elf([*body, asm("ld", 7, ZERO, 0), *halt()]))
    op = Op(int(image.rom.op[0]))
    honest, forged = execute(image), execute(image, forge=Forge(op))
    stored = [int(run.log.memory.value[run.log.memory.w == 0][0]) for run in (honest, forged)]
    assert stored[0] ^ stored[1] == 1
    check_log_of_forged(image, forged, op)
    other = Op.MULHU if op is not Op.MULHU else Op.MUL
    assert all(np.array_equal(a, b) for a, b in zip(fields_of(honest.log),
                                                    fields_of(execute(image, forge=Forge(other)).log), strict=True))


def check_log_of_forged(image, run: Execution, op: Op) -> None:
    """The checker knows what loads and stores do, so those must fail; all others pass."""
    if op in WIDTH and op in LOADS:
        with pytest.raises(AssertionError):
            check_log(image, run)
    elif op not in WIDTH:
        check_log(image, run)


@pytest.mark.parametrize("op", [Op.JALR, Op.CONST])
def test_forged_jumps(op):
    nop = asm("addi", 9, 9, 1)
    jump = asm("jalr", 1, 5, 12) if op is Op.JALR else asm("jal", 1, 8)
    image = load_elf(elf([*([asm("auipc", 5, 0)] if op is Op.JALR else [nop]), jump, nop, nop, nop,
                          asm("ori", A0, 0, 0), asm("ori", A7, 0, 93), ECALL]))
    assert execute(image).counts[Op.ADDI] == execute(image, forge=Forge(op, jump=True)).counts[Op.ADDI] + 1
