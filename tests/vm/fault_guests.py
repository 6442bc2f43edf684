"""Random guest programs that execute every operation and call, for fault injection; a program is given by its seed.

A guest loads random operands, runs one snippet for each operation in random order, adds most results up, and commits
the sum, its registers and what it stored, so that most wrong values reach the public output. It halts whatever the
operands are: branches and jumps only go forward, but for loops that count.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from assembler import BASE, BRANCHES, ECALL, I_TYPE, R_TYPE, SHIFTS, asm, elf, li

DATA, SCRATCH, RESULT, INPUT = 0x20000, 0x30000, 0x40000, 0xFF000000
DATA_REG, SCRATCH_REG, RESULT_REG, INPUT_REG, TIMER, SUM = 8, 9, 18, 19, 20, 22
POOL = (5, 6, 7, 13, 14, 15, 16, 28, 29, 30, 31)
LOADS = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8}
WIDTHS = {"sb": 1, "sh": 2, "sw": 4, "sd": 8}
CYCLES, KECCAK = -32, -2
SIZE, STORED = 208, 64  # bytes of data, which a permutation needs too, and of what stores change
NO_RESULT = (0x23, 0x63, 0x73)  # opcodes of stores, branches and ECALL


@dataclass(frozen=True)
class Guest:
    """``kind``: "input" reads private input, and the others take none; "keccak" has a permutation, in "rest" registers
    rest for longer than 2^16; "split" is "plain", for a case with more REFRESH rows than are needed."""

    kind: str
    words: tuple[int, ...]
    data: bytes
    private_input: bytes

    @property
    def elf(self) -> bytes:
        return elf(self.words, {DATA: self.data})

    def with_word(self, index: int, word: int) -> Guest:
        return replace(self, words=(*self.words[:index], word, *self.words[index + 1:]))


class _Writer:
    """Snippets, with operands from a generator."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def of(self) -> int:
        return self.rng.choice([*POOL, 0, 2])

    def to(self) -> int:
        return self.rng.choice([*POOL, *POOL, 0])

    def register(self, name: str) -> list[int]:
        return [asm(name, self.to(), self.of(), self.of())]

    def immediate(self, name: str) -> list[int]:
        return [asm(name, self.to(), self.of(), self.rng.choice([-1, 1, 7, -2048, 2047, self.rng.randrange(-99, 99)]))]

    def shift(self, name: str) -> list[int]:
        amounts = SHIFTS[name][3]
        return [asm(name, self.to(), self.of(), self.rng.choice([1, amounts - 1, self.rng.randrange(amounts)]))]

    def load(self, name: str, aligned: bool, base: int) -> list[int]:
        return [asm(name, self.to(), base, self.offset(LOADS[name], aligned, SIZE))]

    def store(self, name: str, aligned: bool) -> list[int]:
        return [asm(name, self.of(), SCRATCH_REG, self.offset(WIDTHS[name], aligned, STORED))]

    def offset(self, width: int, aligned: bool, size: int) -> int:
        at = self.rng.randrange(0, size - 8, 8)
        if aligned:
            return at + self.rng.randrange(0, 8, width)
        return at + self.rng.choice([x for x in range(8) if x % width])

    def branch(self, name: str) -> list[int]:
        x = self.rng.choice(POOL)
        y = self.rng.choice([x, self.of(), self.of()])
        return [asm(name, x, y, 8), *self.immediate("xori")]

    def call(self, number: int) -> list[int]:
        return [*li(17, number), ECALL]

    def commit(self, address: int, size: int) -> list[int]:
        return [*li(10, 1), *li(11, address), *li(12, size), *self.call(64)]

    def snippets(self, kind: str) -> list[list[int]]:
        out = [self.register(n) for n in R_TYPE] + [self.branch(n) for n in BRANCHES]
        out += [self.immediate(n) for n in I_TYPE if n not in LOADS and n != "jalr"]
        out += [self.shift(n) for n in SHIFTS]
        out += [[asm(n, self.to(), self.of(), k)] for n, k in (("slli", 32), ("srli", 32), ("slli", 45), ("srli", 45),
                                                              ("slli", 9), ("srli", 9), ("addi", 0))]
        for n, width in LOADS.items():
            out += [self.load(n, a, self.rng.choice([DATA_REG, SCRATCH_REG])) for a in ({True, width == 1})]
        for n, width in WIDTHS.items():
            out += [self.store(n, a) for a in ({True, width == 1})]
        small = self.rng.sample(POOL, 3)  # for LOGIC32
        out += [[*li(small[0], 0x1234), *li(small[1], 0x70F1), asm(n, small[2], small[0], small[1])]
                for n in ("and", "or", "xor")]
        out += [[asm("lui", self.to(), self.rng.randrange(1 << 20))],
                [asm("jal", self.to(), 8), *self.immediate("ori")],
                [asm("auipc", 5, 0), asm("jalr", self.to(), 5, 12), *self.immediate("addi")],
                [*li(21, 3), *self.register("add"), asm("addi", 21, 21, -1), asm("bne", 21, 0, -8)]]
        out += [[*li(10, DATA), *li(11, 3), *self.call(1)], [*self.call(CYCLES), asm("add", TIMER, TIMER, 10)],
                self.commit(DATA + self.rng.randrange(99), self.rng.randrange(1, 6)), self.commit(DATA, 0)]
        if kind == "input":
            out += [self.load(n, True, INPUT_REG) for n in ("ld", "lw", "lbu")]
        if kind == "keccak":
            out.append([*li(10, SCRATCH), *self.call(KECCAK)])
        return out


def guest(kind: str, seed: int) -> Guest:
    """The guest of this kind and seed."""
    rng = random.Random(f"{kind} {seed}")
    w = _Writer(rng)
    words = [*li(DATA_REG, DATA), *li(SCRATCH_REG, SCRATCH), *li(RESULT_REG, RESULT), *li(INPUT_REG, INPUT)]
    words += [asm("ld", r, DATA_REG, 8 * k) for k, r in enumerate(POOL)]
    if kind == "rest":
        words += [*li(21, 8200), asm("addi", 21, 21, -1), asm("bne", 21, 0, -4)]
    body = w.snippets(kind)
    body += [w.load(n, False, rng.choice([DATA_REG, SCRATCH_REG])) for n, k in LOADS.items() if k > 1]
    body += [w.store(n, False) for n, k in WIDTHS.items() if k > 1]
    rng.shuffle(body)
    for snippet in body:
        if rng.random() < 0.3:  # random operations alone would soon leave but zeros and ones
            words.append(asm("ld", rng.choice(POOL), DATA_REG, rng.randrange(0, SIZE, 8)))
        words += snippet
        if snippet[-1] & 127 not in NO_RESULT and rng.random() < 0.7:
            words.append(asm("add", SUM, SUM, snippet[-1] >> 7 & 31))
    results = (*POOL, TIMER, SUM)
    words += [asm("sd", r, RESULT_REG, 8 * k) for k, r in enumerate(results)]
    words += [*w.commit(RESULT, 8 * len(results)), *w.commit(SCRATCH, STORED), *li(10, 0), *w.call(93)]
    special = [0, 1, 2**63, 2**64 - 1, 2**31, 2**32 - 1, 0x8000000080000000]
    data = b"".join(rng.choice([rng.randbytes(8), rng.choice(special).to_bytes(8, "little")]) for _ in range(SIZE // 8))
    return Guest(kind, tuple(words), data, rng.randbytes(200) if kind == "input" else b"")


def index_of(pc: int) -> int:
    """Which word of a guest lies at ``pc``."""
    return (pc - BASE) // 4
