"""Mutants of ELF files: fields of the headers, segments, symbols and code. What loads is run; some of it is proved."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import assembler
from assembler import A0, A1, BASE, ECALL, SP, T0, T1, asm, call, elf, elf_of_segments, halt, li
from fuzz_watch import SKIPPED, Violation

from tailbite import Program, TailbiteError, verify
from tailbite.vm.elf import INPUT_BASE
from tailbite.vm.executor import ExecutionError

ROOT = Path(__file__).resolve().parents[2]
MAX_CYCLES = 20_000
PROVED = 0.004  # of the cases; those that do not halt well end before the proof
INPUT = bytes(range(8, 48))


class Record(NamedTuple):
    """A kind of header: size, and its fields as (offset, size)."""

    size: int
    fields: tuple[tuple[int, int], ...]


def _record(*sizes: int) -> Record:
    at, fields = 0, []
    for size in sizes:
        fields.append((at, size))
        at += size
    return Record(at, tuple(fields))


HEADER = _record(*(1,) * 16, 2, 2, 4, 8, 8, 8, 4, 2, 2, 2, 2, 2, 2)
PROGRAM_HEADER = _record(4, 4, 8, 8, 8, 8, 8, 8)
SECTION_HEADER = _record(4, 4, 8, 8, 8, 8, 4, 4, 8, 8)
SYMBOL = _record(4, 1, 1, 2, 8, 8)
PHOFF, SHOFF, PHNUM, SHNUM = (32, 8), (40, 8), (56, 2), (60, 2)


def get(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at:at + size], "little")


def put(data: bytearray, at: int, size: int, value: int) -> None:
    """Write a field that lies in the file."""
    if at + size <= len(data):
        data[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def tables(data: bytes) -> list[tuple[Record, int, int]]:
    """Kind, place and number of the records in the file that its header tells of, and that lie in it."""
    found = [(PROGRAM_HEADER, get(data, *PHOFF), get(data, *PHNUM)),
             (SECTION_HEADER, get(data, *SHOFF), get(data, *SHNUM))]
    kind, at, count = found[1]
    for s in range(at, min(at + kind.size * count, len(data)), kind.size):
        if get(data, s + 4, 4) == 2:
            found.append((SYMBOL, get(data, s + 24, 8), get(data, s + 32, 8) // SYMBOL.size))
    return [(k, at, min(n, (len(data) - at) // k.size)) for k, at, n in found if n and at + k.size <= len(data)]


# ---------------------------------------------------------------- changes of a file


Change = Callable[[random.Random, bytearray], None]


def value(rng: random.Random, data: bytes, own: int, size: int) -> int:
    """A boundary value, or one near what the field holds or near the end of the file or of a region."""
    top = 1 << 8 * size
    near = rng.choice((own, own, own, len(data), INPUT_BASE, 1 << 32, 1 << 20, BASE, 1 << rng.randrange(64), 0, top))
    if rng.random() < 0.15:
        return rng.getrandbits(8 * size)
    return near + rng.choice((0, 0, 1, -1, 2, 3, 4, -4, 8, -8, 56, 4096, -4096, -own))


def header_field(rng: random.Random, data: bytearray) -> None:
    at, size = rng.choice(HEADER.fields[4:])
    put(data, at, size, value(rng, data, get(data, at, size), size))


def record_field(rng: random.Random, data: bytearray) -> None:
    """A field of a program header, section header or symbol."""
    found = tables(data)
    if found:
        kind, at, count = found[0] if rng.random() < 0.6 else rng.choice(found)
        offset, size = rng.choice(kind.fields)
        at += kind.size * rng.randrange(count) + offset
        put(data, at, size, value(rng, data, get(data, at, size), size))


def segment_near(rng: random.Random, data: bytearray) -> None:
    """A segment that begins or ends where another, or the private input, or memory does."""
    at, count = get(data, *PHOFF), get(data, *PHNUM)
    if 0 < count < 100 and at + PROGRAM_HEADER.size * count <= len(data):
        one, two = (at + PROGRAM_HEADER.size * rng.randrange(count) for _ in range(2))
        start, length = get(data, two + 16, 8), get(data, two + 40, 8)
        edge = rng.choice((start, start + length, INPUT_BASE, 1 << 32, 1 << 64))
        back = rng.choice((0, get(data, one + 40, 8)))
        put(data, one + 16, 8, edge - back + rng.choice((0, 0, 1, -1, 4, -4, 8, -8)))


def swap_headers(rng: random.Random, data: bytearray) -> None:
    for kind, at, count in tables(data)[:1]:
        i, j = (at + kind.size * rng.randrange(count) for _ in range(2))
        data[i:i + kind.size], data[j:j + kind.size] = data[j:j + kind.size], data[i:i + kind.size]


def move_headers(rng: random.Random, data: bytearray) -> None:
    """The program headers go to the end of the file, one or more of them repeated."""
    for kind, at, count in tables(data)[:1]:
        headers = bytes(data[at:at + kind.size * count]) * rng.choice((1, 1, 2, 8))
        put(data, *PHOFF, len(data))
        put(data, *PHNUM, len(headers) // kind.size)
        data += headers


def cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data) + 1):]


def extend(rng: random.Random, data: bytearray) -> None:
    data += rng.randbytes(rng.choice((1, 7, 64, 4096)))


def delete(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at:at + rng.choice((1, 4, 8, 56))]


def any_bytes(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 4, 16)) if data else 0):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def instruction(rng: random.Random) -> int:
    """A word of code: mostly an instruction, some of them calls, with registers that often hold something."""
    r = [rng.choice((0, 1, SP, T0, T1, A0, A1, 17, rng.randrange(32))) for _ in range(3)]
    small = rng.choice((0, 1, 4, 8, -4, -8, 2047, -2048, rng.randrange(-2048, 2048)))
    match rng.randrange(9):
        case 0 | 1:
            return asm(rng.choice(list(assembler.R_TYPE)), *r)
        case 2 | 3:
            return asm(rng.choice(list(assembler.I_TYPE)), r[0], r[1], small)
        case 4:
            return asm(rng.choice(list(assembler.STORES)), r[0], r[1], small)
        case 5:
            return asm(rng.choice(list(assembler.BRANCHES)), r[0], r[1], small & -2)
        case 6:
            return rng.choice((ECALL, asm("jal", r[0], small & -2), asm("lui", r[0], rng.getrandbits(20))))
        case 7:
            return asm("addi", 17, 0, rng.choice((1, 2, 64, 93, -2, -32, 0, 5)))
        case _:
            return rng.getrandbits(32)


def code(rng: random.Random, data: bytearray) -> None:
    """Words of an executable segment."""
    at, count = get(data, *PHOFF), get(data, *PHNUM)
    headers = range(at, min(at + 56 * count, len(data) - 55), 56)
    segments = [h for h in headers if get(data, h + 4, 4) & 1]
    if segments:
        h = rng.choice(segments)
        start, size = get(data, h + 8, 8), get(data, h + 32, 8)
        for _ in range(rng.choice((1, 1, 2, 6))):
            place = start + 4 * rng.randrange(size // 4 + 1)
            word = get(data, place, 4) ^ 1 << rng.randrange(32) if rng.random() < 0.4 else instruction(rng)
            put(data, place, 4, word)


CHANGES: tuple[Change, ...] = (
    header_field, record_field, record_field, record_field, segment_near, swap_headers, move_headers, cut, extend,
    delete, any_bytes, code, code, code, code)


# ---------------------------------------------------------------- target


def written() -> dict[str, bytes]:
    """Small programs for what compiled ones do not have: several segments, a gap, all calls."""
    data = BASE + 0x1000
    everything = [
        *li(T0, data), asm("ld", T1, T0, 0), asm("addi", T1, T1, 1), asm("sd", T1, T0, 8), asm("sh", T1, T0, 7),
        asm("divu", A0, T1, T0), asm("mulhsu", A0, T1, T0), asm("sraw", A0, T1, T0),
        *call(1, data, 8), *call((1 << 64) - 32), *call((1 << 64) - 2, data), *call(64, 1, data, 16), *halt()]
    loop = [*li(T0, 200), asm("addi", T0, T0, -1), asm("bne", T0, 0, -4), *call(64, 1, BASE, 4), *halt()]
    code_only = struct.pack("<3I", *halt()[:3])
    return {
        "everything": elf(everything, {data: b"tailbite" * 25}),
        "loop": elf(loop),
        "segments": elf_of_segments([(5, BASE, code_only, len(code_only)), (6, BASE + 0x800, b"x" * 9, 64),
                                     (4, 1 << 32, b"far", 8), (6, INPUT_BASE - 64, b"last", 64),
                                     (5, 0x8000_0000, code_only, 4096), (6, (1 << 64) - 8, b"top", 8)], BASE),
    }


def elf_seeds() -> dict[str, bytes]:
    """Good files by name."""
    from tailbite.demo import collatz

    files = sorted([*ROOT.glob("examples/c/elf/*.elf"), *ROOT.glob("benchmarks/guests/fib_loop_16.elf")])
    return {"collatz": collatz.elf(), **{f.name: f.read_bytes() for f in files}, **written()}


class Elfs:
    """Loader, executor, and for some cases prover and verifier: load and run, or say why not."""

    load: Callable[[bytes], Program] = staticmethod(Program.from_elf)

    def __init__(self) -> None:
        self.seeds = list(elf_seeds().values())

    def case(self, rng: random.Random) -> str:
        original = rng.choice(self.seeds)
        data = bytearray(original)
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
            rng.choice(CHANGES)(rng, data)
        if data == original:
            return SKIPPED
        given, proved = INPUT[:rng.choice((0, 7, 8, 40))], rng.random() < PROVED
        try:
            program = self.load(bytes(data))
            run = program.run(given, MAX_CYCLES)
        except TailbiteError as e:
            return _named(e)
        run.profile()
        if not proved:
            return "ran"
        proof = program.prove(given, "fast", allow_insecure=True, threads=1)
        statement = verify(proof, program.id("fast"), allow_insecure=True)
        if statement.output != run.output:
            raise Violation("the proof has another output than the run")
        return "ran, was proved and verified"


def _named(e: TailbiteError) -> str:
    """The error without what depends on the program."""
    text = str(e).partition(": pc ")[0]
    if isinstance(e, ExecutionError):
        text = text.partition("panicked:")[0]
    return f"{type(e).__name__}: {text}"
