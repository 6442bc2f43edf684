"""Every run that halts can be proved: random programs, borders of gaps and of tables."""

from __future__ import annotations

import random

import pytest
from assembler import BASE, BRANCHES, ECALL, I_TYPE, M64, R_TYPE, SHIFTS, STORES, asm, call, elf, halt, li

from tailbite.program import Program
from tailbite.proof import verify
from tailbite.vm.executor import ExecutionError
from tailbite.vm.trace import INSTANCE_CELLS, _heights

CYCLES, KECCAK = (-32) & M64, (-2) & M64
LOADS = ["lb", "lbu", "lh", "lhu", "lw", "lwu", "ld"]
SCRATCH = [0, 1, 3, 4, 5, 6, 7, 13, 14, 15, 16, 28, 29, 30, 31]
POINTERS = {  # data, code, the input, the ends of 4 GiB and of memory
    8: 0x400, 9: 0x20000, 18: (1 << 32) - 64, 19: (1 << 64) - 64, 20: 0xFF000000, 21: 1 << 32, 22: BASE,
    23: (1 << 32) - 4096, 24: (7 << 32) - 16, 25: (1 << 63) - 4}
BUFFERS = [0x400, 0x20001, (1 << 32) - 20, (1 << 64) - 20, 0xFF000001, BASE + 3]


def instruction(rng: random.Random) -> list[int]:
    """Any instruction or call, with operands that make it likely to go on."""
    def to() -> int:
        return rng.choice(SCRATCH)

    def of() -> int:
        return rng.choice([*SCRATCH, rng.randrange(32)])

    kind = rng.choices(["register", "immediate", "shift", "memory", "branch", "jump", "call"], [8, 3, 2, 4, 1, 2, 1])[0]
    if kind == "register":
        return [asm(rng.choice(list(R_TYPE)), to(), of(), of())]
    if kind == "immediate":
        name = rng.choice([n for n in I_TYPE if n not in (*LOADS, "jalr")])
        return [asm(name, to(), of(), rng.choice([0, 1, -1, -2048, 2047, rng.randrange(-2048, 2048)]))]
    if kind == "shift":
        name = rng.choice(list(SHIFTS))
        amounts = SHIFTS[name][3]
        return [asm(name, to(), of(), rng.choice([0, 1, 31, amounts - 1, amounts // 2, rng.randrange(amounts)]))]
    if kind == "memory":
        at = (rng.choice(list(POINTERS)), rng.choice([*range(9), rng.randrange(-24, 64)]))
        return [asm(rng.choice(LOADS), to(), *at) if rng.random() < 0.5 else asm(rng.choice(list(STORES)), of(), *at)]
    if kind == "branch":  # also into the middle of a constant or a call
        return [asm(rng.choice(list(BRANCHES)), of(), of(), rng.choice([4, 8, 8, 12]))]
    if kind == "jump":
        return rng.choice([
            [asm("lui", to(), rng.randrange(1 << 20))], [asm("auipc", to(), rng.randrange(1 << 20))],
            [asm("jal", to(), rng.choice([4, 8]))], [asm("auipc", 5, 0), asm("jalr", to(), 5, rng.choice([8, 9, 12]))],
            [0x0FF0000F]])
    number = rng.choice([1, CYCLES, 64, 64, 64, KECCAK])
    if number == 64:
        return call(64, 1, rng.choice(BUFFERS), rng.choice([0, 0, 1, 2, 9, 16]))
    return call(number, rng.choice([0x400, 0x20008, (1 << 32) - 200, (1 << 64) - 200]), rng.choice([0, 5, 100]))


def program(seed: int) -> tuple[bytes, bytes]:
    """An ELF and its private input."""
    rng = random.Random(seed)
    words = [w for r, v in POINTERS.items() for w in li(r, v)]
    for r in rng.sample(SCRATCH[1:], 8):
        words += li(r, rng.choice([0, 1, M64, 1 << 63, 1 << 31, rng.getrandbits(64), rng.getrandbits(32)]))
    if rng.random() < 0.3:  # registers rest for longer than 2^16
        words += [*li(11, rng.choice([8192, 20000])), asm("addi", 11, 11, -1), asm("bne", 11, 0, -4)]
    for _ in range(rng.choice([5, 40, 120])):
        words += instruction(rng)
    words += [*[asm("addi", 0, 0, 0)] * 4, *call(64, 1, 0x400, rng.choice([0, 8, 64])), *halt()]
    data = {0x400: rng.randbytes(rng.choice([1, 8, 100])), 0x20000 - 3: rng.randbytes(77)}
    for address in ((1 << 64) - 64, (7 << 32) - 16):
        if rng.random() < 0.3:
            data[address] = rng.randbytes(40)
    return elf(words, data), rng.randbytes(rng.choice([0, 1, 3, 4, 5, 11, 12, 252, 253, 1000]))


def test_random_programs() -> None:
    """All runs that halt fill tables without fault, and some are proved."""
    halted = 0
    for seed in range(40):
        code, private_input = program(seed)
        p = Program.from_elf(code)
        try:
            _, failures = p.check(private_input, 100_000)
        except ExecutionError:
            continue
        assert not failures, (seed, failures[0])
        halted += 1
        if halted % 8 == 0:
            verify(p.prove(private_input, "fast", allow_insecure=True), p, allow_insecure=True)
    assert halted > 20


@pytest.mark.parametrize("idle", (16383, 16384, 16385))
def test_registers_that_rest(idle: int) -> None:
    """Around 2^16 time units between two accesses in any slots a refresh is needed, or not."""
    accesses = {"w": asm("addi", 9, 0, 5), "a": asm("add", 6, 9, 0), "b": asm("add", 6, 0, 9)}
    for first in accesses.values():
        for second in accesses.values():
            n = (idle - 3) // 2
            loop = [*li(5, n), asm("addi", 5, 5, -1), asm("bne", 5, 0, -4)]
            padding = [asm("addi", 7, 7, 1)] * (idle - 2 * n - len(loop) + 2)
            p = Program.from_elf(elf([first, *loop, *padding, second, *halt()]))
            assert p.check()[1] == []


def test_code_that_reads_and_overwrites_itself() -> None:
    """Loads from code see it; stores change what loads see, and not what runs."""
    words = [asm("auipc", 8, 0), asm("ld", 5, 8, 0), asm("sd", 0, 8, 16), asm("lw", 6, 8, 18), asm("addi", 7, 7, 1),
             asm("sd", 7, 8, 0), asm("sd", 6, 8, 8), *call(64, 1, BASE, 24), *halt()]
    p = Program.from_elf(elf(words))
    run, failures = p.check()
    assert not failures and run.output == (1).to_bytes(8, "little") + bytes(16)


def test_instances_of_the_greatest_height() -> None:
    top = 1 << 26
    for n, heights in ((top, [top]), (top + 1, [top, 32]), (3 * top // 2 + 1, [top, top]), (2 * top, [top, top])):
        assert _heights(n, 32, top, 2, 40) == heights
    assert _heights(2 * top + 1, 32, top, 2, 40) == [] and _heights(2 * top + 1, 32, top, 3, 40) == [top, top, 32]
    assert _heights(3 * top, 32, top, 3, 40) == [top] * 3 and _heights(3 * top + 1, 32, top, 3, 40) == []


@pytest.mark.parametrize("n", [1, 33, 64, 65, 209711, 419422, (1 << 20) + 1])
@pytest.mark.parametrize("width", [1, 40, 2400])
def test_instances_save_cells(n: int, width: int) -> None:
    """Every number of rows fits; heights descend; an instance more is worth it; small tables are whole."""
    heights = _heights(n, 32, 1 << 26, 3, width)
    one = _heights(n, 32, 1 << 26, 1, width)
    assert sum(heights) >= n and heights == sorted(heights, reverse=True) and len(one) == 1
    assert (len(heights) - 1) * INSTANCE_CELLS <= width * (one[0] - sum(heights))
    assert len(heights) == 1 or n * width > INSTANCE_CELLS


def test_commits_of_no_bytes() -> None:
    """Commits of no bytes first, last, and one after another."""
    none = [*li(10, 1), *li(12, 0), *li(17, 64), ECALL]
    words = [*none, *none, *call(64, 1, BASE, 3), *none, *call(CYCLES), *none, *halt()]
    p = Program.from_elf(elf(words))
    run, failures = p.check()
    assert not failures and len(run.output) == 3
