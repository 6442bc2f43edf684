"""Attacks on memory, order, calls and the statement, in whole runs; see test_attacks.py."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from assembler import ECALL, asm, halt, li
from attacks import M32, M64, Attacks, Sample, Witness, limbs

from tailbite.field import P
from tailbite.program import Program
from tailbite.vm.executor import execute
from tailbite.vm.tables.krc import POSITIONS
from tailbite.vm.tables.kround import moved
from tailbite.vm.trace import fill

ATTACKS = Attacks()
DATA, ZEROS, FREE, INPUT, HIGH = 0x20000, 0x30000, 0x40000, 0xFF000000, (1 << 32) + 0x100
EIGHTH = pow(8, -1, P)

MEMORY = Sample(
    li(8, DATA), li(9, ZEROS), li(13, HIGH), li(16, INPUT), li(19, FREE), li(28, 5),
    ("old", li(29, 5)), ("new", li(29, 77)), ("use", asm("add", 5, 29, 0)),
    ("ld", asm("ld", 12, 8, 0x40)), ("odd", asm("ld", 6, 8, 0x81)), ("cross", asm("lw", 7, 8, 0xA6)),
    ("lw", asm("lw", 14, 8, 0xC0)), ("sb", asm("sb", 28, 9, 0)), ("sw", asm("sw", 28, 9, 0x44)),
    ("sd", asm("sd", 28, 13, 0)), ("store", asm("sw", 28, 9, 0x86)), ("input", asm("ld", 15, 16, 8)),
    ("free", asm("ld", 18, 19, 0)), ("target", asm("ld", 20, 16, 16)), ("jalr", asm("jalr", 21, 20, 0)),
    ("landing", li(22, 1)), halt(), data={DATA: bytes(range(1, 0xD1))})
MEMORY.private_input = bytes(range(0x10, 0x1C)) + MEMORY.labels["landing"].to_bytes(8, "little") + b"end"

CALLS = Sample(
    li(8, DATA), ("a7 print", li(17, 1)), ("print", ECALL), ("nop", asm("addi", 0, 0, 0)),
    ("a7 cycles", li(17, -32)), ("cycles", ECALL), ("stream", li(10, 1)), li(11, DATA), li(12, 5),
    ("a7 commit", li(17, 64)), ("commit", ECALL), ("after", li(5, 1)), ("then", li(6, 2)),
    ("code", li(10, 0)), ("a7 halt", li(17, 93)), ("halt", ECALL), data={DATA: b"abcdefgh"})

KECCAK = Sample(li(10, DATA), ("a7 keccak", li(17, -2)), ("keccak", ECALL), halt(), data={DATA: bytes(range(200))})


def key(address: int) -> tuple[int, int]:
    """(h, w) of the dword."""
    return address >> 32, (address & M32) >> 3


# ---------------------------------------------------------------- addresses and values


@ATTACKS.on(MEMORY, "SBH.x")
def a10_store_lost(w: Witness) -> None:
    """5 stored over 0, called 5 before."""
    part, row = w.at("sb")
    part.put(row, x__0=5, y=5, n=0)


@ATTACKS.on(MEMORY, "R16")
def a16_fraction_of_a_limb(w: Witness) -> None:
    """w = 0x8000 as 0x6000 + 2^16 / 8."""
    w["FIN"].put(w["FIN"].main.shape[1] - 1 - list(w["FIN"]["w"][::-1]).index(FREE // 8), u1=EIGHTH)


@ATTACKS.on(MEMORY, "R16")
def a16_key_beyond_the_last(w: Witness) -> None:
    """(1, 2^29) is another name of (2, 0)."""
    w.touch(add=[(1, 1 << 29, 1)])


@ATTACKS.on(MEMORY, "RAM")
def a16_value_that_memory_does_not_hold(w: Witness) -> None:
    part, row = w.at("ld")
    part.put(row, v=99)


@ATTACKS.on(MEMORY, "R16")
def a17_odd_address_divided_by_eight(w: Witness) -> None:
    """A key that is no integer, which starts at zero."""
    w_odd = (DATA + 0x81) * EIGHTH % P
    part, row = w.rewrite("odd", table="LD", r=0, m0=0, tm0=0)
    part.put(row, w=w_odd, h=0)
    w.touch(add=[(0, w_odd, 1)])


@ATTACKS.on(MEMORY, "LW.ea.hi")
def a18_other_4_gib(w: Witness) -> None:
    part, row = w.rewrite("lw", r=0, m0=0, tm0=0)
    part.put(row, h=1)
    w.touch(add=[(1, key(DATA + 0xC0)[1], 1)])


@ATTACKS.on(MEMORY, "SD.ea.hi")
def a19_high_bits_of_an_address_ignored(w: Witness) -> None:
    part, row = w.at("sd")
    part.put(row, h=0)
    w.touch(add=[(0, key(HIGH)[1], 1)], remove=[key(HIGH)])


@ATTACKS.on(MEMORY, "SW.hf.bit")
def a19_store_moved_to_another_dword(w: Witness) -> None:
    part, row = w.at("sw")
    hf = (ZEROS + 0x44 - (ZEROS + 0x100)) * pow(4, -1, P)
    part.put(row, w=(ZEROS + 0x100) // 8, hf=hf, n__lo=(1 - hf) * 5, n__hi=hf * 5)
    w.touch(add=[(*key(ZEROS + 0x100), 1)], remove=[key(ZEROS + 0x44)])


def start_at_zero(w: Witness, label: str, address: int, twice: bool) -> None:
    """The dword starts at zero besides what it starts with; FIN lists its key once or ``twice``."""
    w.rewrite(label, r=0, m0=0)
    w.touch(add=[(*key(address), 1)], remove=[key(address)])
    if twice:
        w.touch(add=[(*key(address), 0)])


@ATTACKS.on(MEMORY, "RAM")
def a20_zero_instead_of_the_image(w: Witness) -> None:
    start_at_zero(w, "ld", DATA + 0x40, twice=False)


@ATTACKS.on(MEMORY, "R16")
def a20_zero_besides_the_image(w: Witness) -> None:
    start_at_zero(w, "ld", DATA + 0x40, twice=True)


@ATTACKS.on(MEMORY, "RAM")
def a20_zero_instead_of_the_input(w: Witness) -> None:
    start_at_zero(w, "input", INPUT + 8, twice=False)


@ATTACKS.on(MEMORY, "R16")
def a20_zero_besides_the_input(w: Witness) -> None:
    start_at_zero(w, "input", INPUT + 8, twice=True)


@ATTACKS.on(MEMORY, "MLOAD.cross")
def a37_second_dword_left_out(w: Witness) -> None:
    part, row = w.rewrite("cross", r=(0xA8 << 8 | 0xA7) | 0x4321 << 16, m1=0x4321)
    part.put(row, c2=0)


@ATTACKS.on(MEMORY, "R16")
def a37_second_key_that_does_not_exist(w: Witness) -> None:
    """(h + 1, w + 1 - 2^29), which starts at zero."""
    part, row = w.rewrite("cross", r=0xA8 << 8 | 0xA7, m1=0, tm1=0)
    part.put(row, yy=1)
    w.touch(add=[(1, (key(DATA + 0xA8)[1] - 2**29) % P, 1)])


@ATTACKS.on(MEMORY, "MSTORE.cross")
def a37_second_dword_not_stored(w: Witness) -> None:
    part, row = w.at("store")
    part.put(row, c2=0)
    w.touch(remove=[key(ZEROS + 0x88)])


def idle_access(w: Witness, name: str) -> None:
    """A row of padding accesses a dword, at a time of its own choice, in the name of no instruction."""
    part, at, late = w[name], key(ZEROS), w.ts("landing") + 100
    row, last = part.free_row(), w.ts("sb") + 2
    part.put(row, c2=1, ts=late, w=at[1] - 1, a__lo=8 * (at[1] - 1), v__8=5, tm__1=last, dm__1=late + 1 - last)
    if name == "MSTORE":
        part.put(row, n__2=5)


@ATTACKS.on(MEMORY, "MLOAD.second")
def a07_padding_row_loads(w: Witness) -> None:
    idle_access(w, "MLOAD")


@ATTACKS.on(MEMORY, "MSTORE.second")
def a07_padding_row_stores(w: Witness) -> None:
    idle_access(w, "MSTORE")


# ---------------------------------------------------------------- private input


@ATTACKS.on(MEMORY, "INPUT.w+")
def a29_input_elsewhere(w: Witness) -> None:
    """The last dword of the input lies where the program reads zeros."""
    data = MEMORY.private_input[20:].ljust(8, b"\0")
    w["INPUT"].put(3, w=FREE // 8)
    w.rewrite("free", r=int.from_bytes(data, "little"), m0=int.from_bytes(data, "little"))
    w.touch(add=[(*key(FREE), 0)], remove=[key(FREE), key(INPUT + 24)])


@ATTACKS.on(MEMORY, "INPUT.len.first")
def a30_false_length(w: Witness) -> None:
    w["INPUT"].put(0, v__0=len(MEMORY.private_input) - 1)


@ATTACKS.on(MEMORY, "INPUT.len.last")
def a30_false_length_counted_down(w: Witness) -> None:
    part = w["INPUT"]
    part.put(0, v__0=len(MEMORY.private_input) - 1)
    part["rem"][:] = [(int(x) - 1) % P for x in part["rem"]]


@ATTACKS.on(MEMORY, "INPUT.tail.7")
def a30_garbage_after_the_end(w: Witness) -> None:
    w["INPUT"].put(3, v__7=1)


@ATTACKS.on(MEMORY, "INPUT.full")
def a30_hole_between_rows(w: Witness) -> None:
    """The second dword has four bytes, and the last one four more."""
    part = w["INPUT"]
    part.put(1, k=[1] * 4 + [0] * 4, v__4=0, v__5=0, v__6=0, v__7=0)
    part.put(3, k=[1] * 7 + [0])
    w.rewrite("input", r=int.from_bytes(MEMORY.private_input[4:8], "little"),
              m0=int.from_bytes(MEMORY.private_input[4:8], "little"))
    part["rem"][2:4] = part["rem"][2:4] + np.uint64(4)


@ATTACKS.on(MEMORY, "INPUT.k.4")
def a30_hole_in_a_row(w: Witness) -> None:
    w["INPUT"].put(3, k=[1, 1, 0, 0, 1, 0, 0, 0], v__2=0, v__4=9)


@ATTACKS.on(MEMORY, "INPUT.k.1.bit")
def a30_byte_in_use_twice(w: Witness) -> None:
    w["INPUT"].put(3, k=[1, 2, 0, 0, 0, 0, 0, 0], v=[ord("e")] + [0] * 7)


# ---------------------------------------------------------------- order


@ATTACKS.on(MEMORY, "EXEC")
def a22_time_begins_later(w: Witness) -> None:
    w.shift(after=0, by=4)
    for part in w.parts():
        for end in ("", ".0", ".1"):
            if f"dm{end}" in part.table.layout.columns and "ts" in part.table.layout.columns:
                part[f"dm{end}"][:] = part["ts"] + np.uint64(1) - part[f"tm{end}"] & np.uint64(0xFFFF)


def refresh(w: Witness, value: int, old: int, new: int) -> None:
    """A row of REFRESH for x29, from ``old`` to ``new``."""
    gap = new - old - 1
    w["REFRESH"].put(0, f=1, r=29, lo=value, hi=0, t=old, g=limbs(gap, 2) if gap >= 0 else [gap, 0])


@ATTACKS.on(MEMORY, "R16")
def a23_refresh_into_the_future(w: Witness) -> None:
    future = w.ts("use") + 100
    refresh(w, 77, w.ts("new") + 3, future)
    w.rewrite("use", ta=future)


@ATTACKS.on(MEMORY, "R16")
def a23_refresh_into_the_past(w: Witness) -> None:
    """A stale value is read, and its token sent back to before the write that replaces it."""
    w.rewrite("use", a=5, ta=w.ts("old") + 3, r=5)
    refresh(w, 5, w.ts("use"), w.ts("new") + 2)
    w.rewrite("new", o=5, td=w.ts("new") + 2)


def replace(w: Witness, program: Program) -> None:
    """The tables of another program's run."""
    run = execute(program.image, w.sample.private_input)
    w.columns, w.output = fill(run, program.image, w.sample.private_input).columns, run.output


@ATTACKS.on(CALLS, "EXEC")
def a24_start_at_another_pc(w: Witness) -> None:
    image = w.program.image
    replace(w, Program(dataclasses.replace(image, entry=w.sample.labels["nop"]), b""))


@ATTACKS.on(CALLS, "EXEC")
def a24_row_dropped(w: Witness) -> None:
    w.drop("after")


@ATTACKS.on(CALLS, "EXEC")
def a24_rows_swapped(w: Witness) -> None:
    first, then = w.ts("after"), w.ts("then")
    for label, ts in (("after", then), ("then", first)):
        part, row = w.at(label)
        part.put(row, ts=ts)


@ATTACKS.on(CALLS, "EXEC", "REG")
def a24_row_repeated(w: Witness) -> None:
    part, row = w.at("after")
    part.main[:, 31] = part.main[:, row]


def cut(w: Witness, label: str) -> None:
    """The run without the instruction at ``label`` and all after it."""
    ts = w.ts(label)
    for part in w.parts():
        if "ts" in part.table.layout.columns:
            late = part["ts"] >= ts if "pc" in part.table.layout.columns else part["ts"] > ts
            part.main[:, late] = 0


@ATTACKS.on(CALLS, "EXEC")
def a25_prefix_up_to_the_halt(w: Witness) -> None:
    cut(w, "halt")


@ATTACKS.on(CALLS, "EXEC")
def a25_prefix(w: Witness) -> None:
    cut(w, "after")


def constant(w: Witness, label: str, value: int) -> None:
    """The program loads another constant at ``label``, and so does the run, which was not made for it."""
    part, row = w.at(label)
    w.program = w.sample.program(**{label: asm("addi", int(part["rd"][row]), 0, value)})
    part.put(row, k=value & M64)


@ATTACKS.on(CALLS, "REG")
def a25_exit_code(w: Witness) -> None:
    constant(w, "code", 1)


@ATTACKS.on(CALLS, "REG")
def a25_panic(w: Witness) -> None:
    constant(w, "a7 halt", 2)


@ATTACKS.on(CALLS, "REG")
def a25_other_stream(w: Witness) -> None:
    constant(w, "stream", 2)


def enter_calls(sample: Sample, call: str) -> None:
    """A call that the program does not make: another number in a7, or no ECALL where it would be."""
    @ATTACKS.on(sample, "REG")
    def unknown(w: Witness) -> None:
        constant(w, f"a7 {call}", 94)

    @ATTACKS.on(sample, "ROM")
    def missing(w: Witness) -> None:
        w.program = w.sample.program(**{call: asm("addi", 0, 0, 0)})

    ATTACKS[f"a25_unknown_call_as_{call}"], ATTACKS[f"a31_{call}_without_ecall"] = (
        ATTACKS.pop("unknown"), ATTACKS.pop("missing"))


for name in ("print", "cycles", "commit", "halt"):
    enter_calls(CALLS, name)
enter_calls(KECCAK, "keccak")


@ATTACKS.on(CALLS, "COM")
def a26_return_from_a_commit_elsewhere(w: Witness) -> None:
    """Beyond the instruction after the call."""
    part, ts = w["CBYTE"], w.ts("after")
    part["pcn"][:6] += np.uint64(4)
    w.drop("after")
    w.shift(after=ts + 3, by=-4)


@ATTACKS.on(CALLS, "EXEC")
def a26_return_from_a_print_elsewhere(w: Witness) -> None:
    """Its step goes to pc + 4, so what is left is a row that nobody executes."""
    w.drop("nop")


def jump(w: Witness, target: int, npc: int) -> None:
    """The private input says where to jump to."""
    data = target.to_bytes(8, "little")
    w["INPUT"].put(2, v=list(data))
    w.rewrite("target", r=target, m0=target)
    part, row = w.rewrite("jalr", a=target)
    part.put(row, npc=npc, lsb=0)


@ATTACKS.on(MEMORY, "JALR.hi")
def a27_jump_above_4_gib(w: Witness) -> None:
    jump(w, MEMORY.labels["landing"] + (1 << 32), MEMORY.labels["landing"])


@ATTACKS.on(MEMORY, "JALR.lo", "JALR.hi")
def a27_jump_to_half_an_instruction(w: Witness) -> None:
    jump(w, MEMORY.labels["landing"] + 2, MEMORY.labels["landing"])


@ATTACKS.on(MEMORY, "ROM")
def a27_jump_into_data(w: Witness) -> None:
    jump(w, DATA, DATA)
    part, row = w.at("landing")
    part.put(row, pc=DATA)


@ATTACKS.on(CALLS, "ROM")
def a31_word_that_is_no_instruction(w: Witness) -> None:
    """EBREAK, executed as if it were a NOP."""
    w.program = w.sample.program(nop=0x00100073)


# ---------------------------------------------------------------- public output


@ATTACKS.on(CALLS, "OUT")
def a32_byte_changed(w: Witness) -> None:
    w.output = b"abXde"


@ATTACKS.on(CALLS, "OUT")
def a32_bytes_moved(w: Witness) -> None:
    w.output = b"acbde"


@ATTACKS.on(CALLS, "OUT")
def a32_byte_dropped(w: Witness) -> None:
    w.output = b"abcd"


@ATTACKS.on(CALLS, "OUT")
def a32_byte_added(w: Witness) -> None:
    w.output = b"abcde\0"


@ATTACKS.on(CALLS, "CBYTE.ob")
def a32_byte_that_memory_does_not_hold(w: Witness) -> None:
    w["CBYTE"].put(2, ob=ord("X"))
    w.output = b"abXde"


@ATTACKS.on(CALLS, "CBYTE.ptr")
def a32_byte_from_elsewhere(w: Witness) -> None:
    w["CBYTE"].put(2, e=[1] + [0] * 7, ob=ord("a"))
    w.output = b"abade"


@ATTACKS.on(CALLS, "CBYTE.end")
def a33_commit_that_ends_early(w: Witness) -> None:
    """Three bytes of five; time goes on from there."""
    part = w["CBYTE"]
    end = int(part["ts"][5])
    part.put(5, rem=2, plo=DATA + 3, idx=3)
    part.main[:, 3:5] = 0
    w.shift(after=end - 1, by=-8)
    w.output = b"abc"


# ---------------------------------------------------------------- Keccak


@ATTACKS.on(KECCAK, "KST")
def a11_one_round_less(w: Witness) -> None:
    last = w["KROUND"].row(r=23)
    state = [int(w["KROUND"][f"a.{k}"][last]) for k in range(50)]
    w["KROUND"].main[:, last] = 0
    w["KCALL"].put(0, b=state)


@ATTACKS.on(KECCAK, "KRC", "KST")
def a11_rounds_shifted_by_one(w: Witness) -> None:
    for r in reversed(range(24)):
        w["KROUND"].put(w["KROUND"].row(r=r), r=r + 1)


@ATTACKS.on(KECCAK, "KROUND.theta.2.5")
def a12_theta_of_a_column_flipped(w: Witness) -> None:
    """d, a1 and p of one column in the last round; what chi makes of them goes to memory."""
    part, x, z = w["KROUND"], 2, 5
    row = part.row(r=23)
    for label in (f"d.{64 * x + z}", f"p.{64 * x + z}", *(f"a1.{64 * (x + 5 * y) + z}" for y in range(5))):
        part[label][row] ^= np.uint64(1)
    b = moved([int(part[f"a1.{k}"][row]) for k in range(1600)])
    c = [int(b[0][z]) ^ int(part[f"rc.{k}"][row]) for k, z in enumerate(POSITIONS)]
    first = dict(zip(POSITIONS, c, strict=True))
    out = []
    for lane in range(25):
        x, y = lane % 5, lane // 5 * 5
        one, two, three = b[lane], b[(x + 1) % 5 + y], b[(x + 2) % 5 + y]
        bits = [(first.get(z, one[z]) if lane == 0 else one[z]) ^ (1 - two[z]) * three[z] for z in range(64)]
        out += [sum(bit << k for k, bit in enumerate(half)) for half in (bits[:32], bits[32:])]
    part.put(row, c=c, out=out)
    w["KCALL"].put(0, b=out)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack(name: str) -> None:
    ATTACKS.run(name)
