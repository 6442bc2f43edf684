"""Kinds of mistakes 16-27: memory, time, the order of execution, calls, and how a program is loaded.

Whole runs are tampered with and kept consistent wherever that is possible, as in tests/vm/test_attacks_machine.py.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any

import harness as h
import numpy as np
import pytest
import rv_oracle
from assembler import BASE, ECALL, STORES, asm, call, elf, elf_of_segments, halt, li
from attacks import Sample, Witness
from mutation import result, searched
from test_attacks_machine import CALLS, DATA, INPUT, KECCAK, MEMORY, constant, cut, key, refresh
from test_chips import used

import tailbite
from tailbite import Array, Bytes, u64
from tailbite.air.check import check_buses, tuples
from tailbite.air.table import Interaction
from tailbite.errors import CompileError
from tailbite.field import P
from tailbite.program import Program
from tailbite.vm import executor
from tailbite.vm.buses import EXEC, R16, RAM, REG
from tailbite.vm.chip import Chip
from tailbite.vm.elf import ElfError, load_elf
from tailbite.vm.executor import (
    CycleLimit,
    ExecutionError,
    ExitCode,
    IllegalInstruction,
    LimitExceeded,
    MemoryFault,
    Panic,
    execute,
)
from tailbite.vm.machine import TABLES, machine, program_columns, verifier_terms
from tailbite.vm.ops import LOADS, Op

M32, M64 = 2**32 - 1, 2**64 - 1
CALL_TABLES = ("HALT", "COMMIT", "CBYTE", "PRINT", "CYCLES", "KCALL")


def checked(program: Program, private_input: bytes = b"") -> bytes:
    """The output of a run whose tables fill without failures, and which another implementation agrees with."""
    run, failures = program.check(private_input)
    assert not failures
    assert run.output == rv_oracle.run_elf(program.elf, private_input).output
    return run.output


def left_over(w: Witness, bus: str, entry: int | None = None) -> bool:
    """Does a bus fail to balance?"""
    traces = [t for t in w._traces() if any(i.bus.name == bus for i in t.table.layout.interactions)]
    terms = verifier_terms(w.program.image.entry if entry is None else entry, w.output)
    return any(f.name.startswith(f"bus {bus} ") for f in check_buses(traces, terms))


def said(i: Interaction, start: int) -> list[list[int]]:
    """The entries of a message from one on, as words."""
    return [e.words() for e in i.entries[start:]]


# ---------------------------------------------------------------- 16: initial values, loaded values

PLACES = list(itertools.product(sorted(LOADS), (0x10, 0x13, 0x17)))
TARGETS = [r for r in range(9, 32) if r not in (10, 17)]
LOADING = Sample(li(8, DATA), *((f"{op.name} {at}", asm(op.name.lower(), rd, 8, at))
                                for (op, at), rd in zip(PLACES, TARGETS, strict=True)), halt(),
                 data={DATA: bytes(range(1, 0x40))})


@pytest.mark.parametrize("op", sorted(LOADS), ids=lambda op: op.name)
def test_16_loaded_value(op: Op) -> None:
    """Aligned, within a dword and across two: a value that memory does not hold."""
    for at in (0x10, 0x13, 0x17):
        w = LOADING.honest().copy()
        f = {k: int(v[0]) for k, v in w.logged(f"{op.name} {at}").items()}
        m0 = f["m0"] ^ M64
        w.rewrite(f"{op.name} {at}", m0=m0, r=result(op, f["a"], f["b"], f["i0"] | f["i1"] << 32, m0, f["m1"]))
        w.settle()
        assert w.reasons() == {"RAM"}


@pytest.mark.parametrize("address", [DATA + 0x40, INPUT + 8, 0x30000], ids=["image", "input", "zero"])
@pytest.mark.parametrize("zero", [0, 1])
def test_16_dword_listed_twice(address: int, zero: int) -> None:
    w = MEMORY.honest().copy()
    w.touch(add=[(*key(address), zero)])
    w.settle()
    assert "R16" in w.reasons()


def test_16_input_row_twice() -> None:
    w = MEMORY.honest().copy()
    part = w["INPUT"]
    part.main[:, 4] = part.main[:, 3]
    w.settle()
    assert "INPUT.w+" in w.reasons()


# ---------------------------------------------------------------- 17: time


def register_gaps(table: Chip) -> list[tuple[Any, int]]:
    """Lookups that say now - before - 1 is below 2^16, and the columns of ``before``."""
    times = {k for k, label in enumerate(table.layout.columns)
             if label.split(".")[0] in ("ta", "tb", "td", "t10", "t11", "t12", "t17", "t33")}
    return [(i, c) for i in table.layout.interactions if i.bus == R16 and len(i.entries[0].terms) > 1
            for c, weight in i.entries[0].terms.items() if c in times and weight == P - 1]


def sent_at(table: Chip, before: int) -> int:
    """Where in its step a row gives back the token of which the column ``before`` is the old time."""
    messages = [i for i in table.layout.interactions if i.bus == REG]
    taken = next(k for k, i in enumerate(messages) if i.entries[1].terms == {before: 1})
    return messages[taken + 1].entries[1].constant


def test_17_gaps_of_registers() -> None:
    """2^16 time units are the most, and the least is one, at every access of every table."""
    accesses = 0
    for table in searched():
        for i, c in register_gaps(table):
            accesses += 1
            ts = table.column_index("ts")
            slot = sent_at(table, c)
            for gap, fine in ((0, True), (1, True), (65535, True), (65536, False), (-1, False), (1 << 32, False)):
                main = used(table).copy()
                main[c] = [(int(t) + slot - 1 - gap) % P for t in main[ts]]
                asked, count = tuples(h.as_trace(table, main), i)
                assert (count != 0).all() and ((asked[:, 0] < 1 << 16) == fine).all(), (table.name, gap)
    assert accesses == sum(i.bus == REG and any(v > P // 2 for v in i.multiplicity.terms.values())
                           for t in searched() if t.name != "REFRESH" for i in t.layout.interactions)


def test_17_gaps_of_memory() -> None:
    """At most 2^32, which is longer than any run."""
    table = next(t for t in machine().tables if t.name == "LD")
    ts, tm, dm = (table.column_index(n) for n in ("ts", "tm", "dm"))
    for gap, fine in ((0, True), ((1 << 32) - 1, True), (1 << 32, False), (-1, False), (P - 5, False)):
        main = used(table).copy()
        main[tm] = [(int(t) + 1 - gap) % P for t in main[ts]]
        main[dm] = gap & 0xFFFF
        assert h.refused(h.as_trace(table, main)).all() == (not fine)
        assert fine != h.refused(h.as_trace(table, main)).any()


def test_17_time_cannot_come_round() -> None:
    """Each row moves time on by 4 (a row of REFRESH a register's by 2^32), and the tables of one proof have too few."""
    system = machine()
    rows = sum(p.instances << p.max_log for p in system.programs if p.main_count)
    assert rows * (1 << 32) > P > rows * 4 * 1000
    for t in (t for t in system.tables if any(i.bus == EXEC for i in t.layout.interactions)):
        sends = [i for i in t.layout.interactions if i.bus == EXEC and 1 in i.multiplicity.terms.values()]
        ts = t.column_index("ts")
        assert [(i.entries[1].terms, i.entries[1].constant) for i in sends] == (
            [] if t.name in ("HALT", "COMMIT") else [({ts: 1}, 0 if t.name == "CBYTE" else 4)])


def test_17_run_as_long_as_allowed() -> None:
    image = load_elf(elf([*li(5, 1000), asm("addi", 5, 5, -1), asm("bne", 5, 0, -4), *halt()]))
    cycles = execute(image).cycles
    assert execute(image, max_cycles=cycles).cycles == cycles
    with pytest.raises(CycleLimit):
        execute(image, max_cycles=cycles - 1)


def test_17_refresh_does_not_go_back() -> None:
    for future in (1, 5):
        w = MEMORY.honest().copy()
        refresh(w, 77, w.ts("use"), w.ts("use") - future)
        w.settle()
        assert "R16" in w.reasons()


# ---------------------------------------------------------------- 18: order of execution


@pytest.mark.parametrize("sample", [MEMORY, CALLS, KECCAK], ids=["memory", "calls", "keccak"])
def test_18_start(sample: Sample) -> None:
    """Of all entries only the program's fits; the verifier sends it."""
    w = sample.honest()
    entry = w.program.image.entry
    assert not left_over(w, "EXEC")
    for pc in [*w.program.image.rom.pc.tolist(), entry + 1, entry + 2, entry + (1 << 32), 0]:
        assert left_over(w, "EXEC", pc) == (pc != entry)


def test_18_rows_may_lie_in_any_order_and_instructions_may_not() -> None:
    w = CALLS.honest().copy()
    for part in w.parts():
        if not part.table.layout.fixed_count and part.table.name not in ("FIN", "INPUT"):
            part.main[:] = part.main[:, ::-1].copy()
    assert not w.reasons()
    labels = ["nop", "after", "then", "code"]
    for one, two in itertools.combinations(labels, 2):
        w = CALLS.honest().copy()
        times = w.ts(one), w.ts(two)
        for label, ts in ((one, times[1]), (two, times[0])):
            part, row = w.at(label)
            part.put(row, ts=ts)
        assert left_over(w, "EXEC")


@pytest.mark.parametrize("delta", [4, -4, 8, 1 << 32, 2])
def test_18_every_row_goes_on_at_one_place(delta: int) -> None:
    """Where a row sends its token is a form of its columns: changed, another row is left without one."""
    w = CALLS.honest()
    for part in w.parts():
        if "pc" in part.table.layout.columns and not part.table.fixed_in:
            for row in np.flatnonzero(part["ts"]).tolist():
                other = w.copy()
                other[part.table.name].put(row, pc=int(part["pc"][row]) + delta)
                assert left_over(other, "EXEC") and left_over(other, "ROM")


# ---------------------------------------------------------------- 19: prefixes


def test_19_no_prefix_halts() -> None:
    """Cut before each instruction in turn, the token is left over; the whole run is not cut."""
    program_order = [label for label in CALLS.labels if label != "a7 print"]
    for label in program_order:
        w = CALLS.honest().copy()
        cut(w, label)
        w.settle()
        assert "EXEC" in w.reasons(), label
    assert not left_over(CALLS.honest(), "EXEC")
    assert [t.name for t in TABLES if t.required and "ts" in t().layout.columns] == ["HALT"]


def test_19_run_without_end_is_no_run() -> None:
    with pytest.raises(CycleLimit):
        Program.from_elf(elf([asm("jal", 0, 0)])).prove(params="fast", allow_insecure=True, max_cycles=1000)


# ---------------------------------------------------------------- 20: exit code


@pytest.mark.parametrize("code", [1, 2, 255, 1 << 31, 1 << 32, 1 << 63, P, M64])
def test_20_exit_code(code: int) -> None:
    """No proof is made, and the honest tables of such a run do not balance as those of another one."""
    with pytest.raises(ExitCode):
        Program.from_elf(elf(halt(code))).prove(params="fast", allow_insecure=True)
    if code < 2048:
        w = CALLS.honest().copy()
        constant(w, "code", code)
        w.settle()
        assert w.reasons() == {"REG"}


def test_20_one_halt_ends_one_run() -> None:
    """There are no segments: one table of halts, in which a second row has no token to take."""
    system = machine()
    assert system.programs[system.index("HALT")].instances == 1
    w = CALLS.honest().copy()
    part, row = w.at("halt")
    part.main[:, row + 1] = part.main[:, row]
    w.settle()
    assert "EXEC" in w.reasons()


def test_20_panic_and_trap_make_no_proof() -> None:
    for words, error in ((call(2, 0, 0), Panic), ([0], IllegalInstruction), ([asm("jalr", 0, 0, 0)], ExecutionError)):
        with pytest.raises(error):
            Program.from_elf(elf([*words, *halt()])).prove(params="fast", allow_insecure=True)
    assert Program.from_elf(elf(halt())).prove(params="fast", allow_insecure=True).output == b""


# ---------------------------------------------------------------- 21: after a call

AFTER = Sample(li(10, DATA), *(part for name, number, before in (
    ("print", 1, li(10, 0)), ("cycles", -32 & M64, []), ("keccak", -2 & M64, li(10, DATA)), ("commit", 64, li(10, 1)))
    for part in (before, li(11, DATA), li(12, 3), li(17, number), (name, ECALL), (f"{name} next", asm("addi", 0, 0, 1)),
                 asm("addi", 0, 0, 2))), halt(), data={DATA: bytes(range(200))})


@pytest.mark.parametrize("name", ["print", "cycles", "keccak", "commit"])
def test_21_next_pc_of_a_call(name: str) -> None:
    """The instruction after the call is skipped, and all later times move up."""
    w = AFTER.honest().copy()
    ts = w.ts(f"{name} next")
    w.drop(f"{name} next")
    w.shift(after=ts + 3, by=-4)
    w.settle()
    assert "EXEC" in w.reasons()


def test_21_tables_of_calls_go_on_at_the_next_instruction() -> None:
    for name in ("PRINT", "CYCLES", "KCALL", "COMMIT"):
        table = next(t for t in machine().tables if t.name == name)
        bus = "COM" if name == "COMMIT" else "EXEC"
        (send,) = [i for i in table.layout.interactions if i.bus.name == bus and 1 in i.multiplicity.terms.values()]
        assert (send.entries[0].terms, send.entries[0].constant) == ({table.column_index("pc"): 1}, 4)


# ---------------------------------------------------------------- 22: registers are not memory


def test_22_stores_below_64_kib_touch_no_register() -> None:
    """A dword at every address below the code; then all registers and some of the dwords are output."""
    words = [asm("lui", 2, 0x30)]
    words += [asm("addi", r, 0, 3 * r) for r in range(12, 32)] + [*li(5, 0), asm("lui", 6, 0x10), asm("addi", 7, 0, -1)]
    words += [asm("sd", 7, 5, 0), asm("addi", 5, 5, 8), asm("bne", 5, 6, -8)]
    words += [asm("sd", r, 2, 8 * r) for r in range(32)]
    words += [*call(64, 1, 0x30000, 256), *call(64, 1, 0, 64), *call(64, 1, 0xFFF0, 16), *halt()]
    output = checked(Program.from_elf(elf(words)))
    registers = struct.unpack("<32Q", output[:256])
    assert registers[0] == 0 and list(registers[12:]) == [3 * r for r in range(12, 32)]
    assert output[256:] == b"\xff" * 80


def test_22_registers_and_memory_have_buses_of_their_own() -> None:
    assert REG.id != RAM.id and len(REG.fields) != len(RAM.fields)
    for name in ("SD", "SW", "SBH", "MSTORE", "KCALL"):
        table = next(t for t in machine().tables if t.name == name)
        writes = [i for i in table.layout.interactions if i.bus == REG and 1 in i.multiplicity.terms.values()]
        reads = [i for i in table.layout.interactions if i.bus == REG and 1 not in i.multiplicity.terms.values()]
        assert len(writes) == len(reads)
        for taken, given in zip(reads, writes, strict=True):  # same register, same value, later
            assert said(taken, 0)[:1] == said(given, 0)[:1] and said(taken, 2) == said(given, 2)


# ---------------------------------------------------------------- 23: allocation


@tailbite.guest
def grows(n: u64) -> u64:
    xs = []
    for i in range(n):
        xs.append(i)
    return n


@tailbite.guest
def indexed(n: u64, data: Bytes) -> u64:
    xs = Array[u64, 4]()
    xs[n] = u64(7)
    return xs[n] + u64(data[n])


def test_23_nothing_is_allocated() -> None:
    """A guest's arrays have their sizes in its types, and every index is checked."""
    with pytest.raises(CompileError):
        grows.run(3)
    assert indexed.run(3, b"abcd").result == 7 + ord("d")
    for n, data in ((4, b"abcde"), (3, b"abc"), (1 << 61, b"abcd"), (M64, b"abcd")):
        with pytest.raises(Panic):
            indexed.run(n, data)


def test_23_memory_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that touches as many dwords as FIN has rows, and one more."""
    image = load_elf(elf([*(asm("sd", 0, 0, 8 * k) for k in range(20)), *halt()]))
    touched = len(image.dwords.h) + 20 + 1  # the input's length
    monkeypatch.setattr(executor, "MAX_DWORDS", touched)
    execute(image)
    monkeypatch.setattr(executor, "MAX_DWORDS", touched - 1)
    with pytest.raises(LimitExceeded):
        execute(image)


# ---------------------------------------------------------------- 24: ranges of addresses


def test_24_addresses_around_powers_of_two() -> None:
    """A dword at 2^k - 1, 2^k - 8 and 2^k, for every k, stored and loaded again; other loads wrap around 2^64."""
    words = [asm("lui", 2, 0x700), *li(6, 0x0123456789ABCDEF), *li(9, 0)]
    for k in range(64):
        if 1 << k in (1 << 24, 1 << 32):  # the code is near 2^24, and the private input below 2^32
            continue
        words += [*li(5, 1 << k), asm("addi", 6, 6, 77)]
        for offset in (0,) if k < 3 else (-8, 0) if k < 4 else (-1, -8, 0):
            words += [asm("sd", 6, 5, offset), asm("ld", 7, 5, offset), asm("xor", 9, 9, 7), asm("slli", 9, 9, 1),
                      asm("lhu", 7, 5, offset + 3), asm("add", 9, 9, 7)]
    words += [asm("ld", 7, 0, -8), asm("add", 9, 9, 7), asm("lb", 7, 0, -1), asm("add", 9, 9, 7)]
    words += [asm("sd", 9, 2, 0), *call(64, 1, 0x700000, 8), *halt()]
    program = Program.from_elf(elf(words, base=1 << 24))
    assert checked(program) != bytes(8)


@pytest.mark.parametrize("name", [t.name for t in TABLES if "ea.lo" in dict(t().layout.constraints)])
def test_24_every_address_has_one_key(name: str) -> None:
    """h and w otherwise, so that 2^32 h + 8 w is the address mod 2^64, mod 2^32, or mod p: refused."""
    table = next(t for t in machine().tables if t.name == name)
    rows, (w, hh) = used(table), (table.column_index(n) for n in ("w", "h"))
    for dh, dw in ((1, 0), (0, 1 << 29), (1, -(1 << 29)), (-1, 1 << 29), (0, 1), (1 << 32, 0), (0, pow(8, -1, P))):
        main = rows.copy()
        main[hh] = [(int(x) + dh) % P for x in main[hh]]
        main[w] = [(int(x) + dw) % P for x in main[w]]
        if (dh, dw) == (-1, 1 << 29) or (dh, dw) == (1, -(1 << 29)) or dw == 1 << 29:
            # the carry moves with it: what refuses these keys is FIN, where they do not exist
            assert all(int(x) >= 1 << 29 for x in main[w])
        else:
            assert h.refused(h.as_trace(table, main)).all()


def test_24_loads_at_the_end_of_memory() -> None:
    last = Program.from_elf(elf([asm("ld", 5, 0, -8), asm("lb", 6, 0, -1), *halt()]))
    assert not last.check()[1]
    for offset in (-7, -1):
        with pytest.raises(MemoryFault):
            execute(load_elf(elf([asm("ld", 5, 0, offset), *halt()])))


# ---------------------------------------------------------------- 25: pages


@pytest.mark.parametrize("name", ["FIN", "INPUT"])
@pytest.mark.parametrize("change", ["missing", "twice", "shifted"])
def test_25_dwords_that_are_missing_doubled_or_moved(name: str, change: str) -> None:
    """There are no pages: memory starts in IMAGE, which is preprocessed, INPUT, whose addresses are fixed, and FIN."""
    w = MEMORY.honest().copy()
    part = w[name]
    row = int(np.flatnonzero(part["act" if name == "FIN" else "f"])[2])
    if change == "missing":
        part.put(row, **({"act": 0, "z": 0} if name == "FIN" else {"f": 0, "k": [0] * 8}))
    elif change == "twice":
        part.main[:, row + 1] = part.main[:, row]
    else:
        part["w"][:] = part["w"] + np.uint64(1)
    w.settle()
    assert w.reasons()


def test_25_image_shifted_by_a_dword_is_another_program() -> None:
    one, other = (Program.from_elf(elf(halt(), {DATA + d: b"\1"})) for d in (0, 8))
    assert not (program_columns(one.image)[1] == program_columns(other.image)[1]).all()
    assert one.id("fast") != other.id("fast")
    assert one.id("fast") == Program.from_elf(elf(halt(), {DATA: b"\1"})).id("fast")


# ---------------------------------------------------------------- 26: what a host can do to memory


def test_26_calls_write_no_memory_but_their_own() -> None:
    """What a call sends to RAM is what it received, but for Keccak's state."""
    for t in machine().tables:
        if t.name in CALL_TABLES and t.name != "KCALL":
            messages = [i for i in t.layout.interactions if i.bus == RAM]
            for taken, given in zip(messages[::2], messages[1::2], strict=True):
                assert said(taken, 0)[:2] == said(given, 0)[:2] and said(taken, 3) == said(given, 3)
    writers = {t.name for t in machine().tables for i in t.layout.interactions if i.bus == RAM}
    assert writers == {"IMAGE", "INPUT", "FIN", "CBYTE", "KCALL", "LD", "SD", "LW", "SW", "LBH", "SBH", "MLOAD",
                       "MSTORE"}


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 100])
def test_26_input_of_any_length_stays_in_its_place(size: int) -> None:
    """Beyond its end, below its start and at its start plus 4 GiB, memory is as the program has it."""
    data = bytes(range(1, 101))[:size]
    words = [*li(8, INPUT), *li(9, INPUT - 8), *li(14, 1 << 32), asm("lui", 2, 0x30)]
    words += [asm("ld", 5, 9, 0), asm("sd", 5, 2, 0), asm("ld", 5, 14, 0), asm("sd", 5, 2, 8)]
    for k in range(15):
        words += [asm("ld", 5, 8, 8 * k), asm("sd", 5, 2, 16 + 8 * k)]
    program = Program.from_elf(elf([*words, *call(64, 1, 0x30000, 136), *halt()],
                                   {INPUT - 8: b"\x11" * 8, 1 << 32: b"\x22" * 8}))
    want = b"\x11" * 8 + b"\x22" * 8 + (struct.pack("<I", size) + data).ljust(120, b"\0")
    assert checked(program, data) == want


def test_26_input_that_is_too_long() -> None:
    image = load_elf(elf(halt()))
    execute(image, bytes((1 << 24) - 4), log=False)
    with pytest.raises(LimitExceeded):
        execute(image, bytes((1 << 24) - 3), log=False)
    with pytest.raises(ElfError):
        load_elf(elf(halt(), {INPUT: b"\1"}))


# ---------------------------------------------------------------- 27: ELF files


def test_27_data_in_code() -> None:
    """Words that are no instructions have no row in ROM: a program runs around them, and not into them."""
    table = [0xFFFFFFFF, 0, 0xDEADBEEF, 0x00100073]
    around = [asm("jal", 5, 4 + 4 * len(table)), *table]  # x5 is where the data lie
    words = [*around, asm("addi", 11, 5, 0), *li(10, 1), *li(12, 16), *li(17, 64), ECALL, *halt()]
    assert checked(Program.from_elf(elf(words))) == struct.pack("<4I", *table)
    for word in table:
        program = Program.from_elf(elf([asm("addi", 0, 0, 0), word, *halt()]))
        assert BASE + 4 not in program.image.rom.pc.tolist()
        with pytest.raises(IllegalInstruction):
            program.run()


def test_27_segments_apart_and_over_each_other() -> None:
    """Code in two places with a gap between; the same with one byte in common is refused."""
    far = 0x5555_0000
    first = [*li(5, far), asm("jalr", 0, 5, 0)]
    code, rest = (struct.pack(f"<{len(x)}I", *x) for x in (first, halt()))
    for gap, fine in ((far - BASE, True), (len(code), True), (len(code) - 1, False), (0, False)):
        parts = [(5, BASE, code, len(code)), (5, BASE + gap, rest, len(rest))]
        if not fine:
            with pytest.raises(ElfError, match="overlap"):
                load_elf(elf_of_segments(parts, BASE))
        elif gap == far - BASE:
            assert checked(Program.from_elf(elf_of_segments(parts, BASE))) == b""
        else:
            load_elf(elf_of_segments(parts, BASE))


@pytest.mark.parametrize("name", STORES)
def test_27_stores_do_not_change_code(name: str) -> None:
    """Code is ROM: what is stored over it is seen by loads, and the next instruction is the old one."""
    words = [*li(5, BASE), *li(6, M64), asm(name, 6, 5, 28), asm("ld", 7, 5, 24)]
    words += [asm("addi", 8, 0, 1)] * 12 + [asm("sd", 7, 0, 0x400), *call(64, 1, 0x400, 8), *halt()]
    assert b"\xff" in checked_without_oracle(Program.from_elf(elf(words)))


def checked_without_oracle(program: Program) -> bytes:
    """The emulator would execute what is stored."""
    run, failures = program.check()
    assert not failures
    return run.output
