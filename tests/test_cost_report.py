"""The cost report: exact counts, call stacks that add up, phases of the verifier, and the formats of profiles."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import re
import subprocess
import sys
from collections import Counter
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "vm"))
from assembler import A0, RA, SP, T0, T1, ZERO, asm, call, elf, halt, li

from tailbite import CompileError, Program
from tailbite.cost import (
    QUOTIENT,
    cost_lines,
    costs,
    folded,
    phase_lines,
    report,
    speedscope,
    table_costs,
    table_lines,
    write_profile,
)
from tailbite.demo import collatz
from tailbite.errors import ParameterError
from tailbite.lang import Array, cpu, function, riscv, u64
from tailbite.lang.riscv import ecall, mark
from tailbite.recursion import recursion_program, verifier_input
from tailbite.stark.phases import Phase
from tailbite.vm import calltree
from tailbite.vm.calltree import MARK, MAX_DEPTH, REST
from tailbite.vm.elf import Image, Symbol, load_elf
from tailbite.vm.executor import Execution, LimitExceeded, execute
from tailbite.vm.ops import OPS_OF_TABLE, Call

ROOT = Path(__file__).resolve().parent.parent
FIB16 = ROOT / "benchmarks" / "guests" / "fib_loop_16.elf"
DATA = 0x40000000
CYCLES, KECCAK, PRINT, COMMIT = -32, -2, 1, 64
NOP = asm("addi", ZERO, ZERO, 0)
RET = asm("jalr", ZERO, RA, 0)
Item = int | tuple[int, str]  # a word, or a jal by its link register and the function that it leads to


def image_of(**functions: list[Item]) -> Image:
    """An image of these functions, one after another, with their symbols; it starts with the first."""
    starts = dict(zip(functions, itertools.accumulate([0, *map(len, functions.values())]), strict=False))
    items = [item for body in functions.values() for item in body]
    words = [x if isinstance(x, int) else asm("jal", x[0], 4 * (starts[x[1]] - k)) for k, x in enumerate(items)]
    image = load_elf(elf(words))
    return dataclasses.replace(image, symbols=tuple(Symbol(image.entry + 4 * k, 0, n) for n, k in starts.items()))


def profiled(image: Image, private_input: bytes = b"") -> Execution:
    """A profiled run; whatever the program does, its cycles add up, and each is in the function of its pc."""
    e = execute(image, private_input, log=False, profile=True)
    plain = execute(image, private_input, log=False)
    assert costs(e) == costs(plain) and e.output == plain.output and (e.hits == plain.hits).all()
    assert e.tree is not None
    stacks = list(e.tree.stacks())
    assert sum(s.cycles for s in stacks) == e.cycles == sum(n for n, _ in e.tree.by_phase().values())
    assert sum(s.permutations for s in stacks) == e.calls[Call.KECCAK]
    innermost, flat = Counter[str](), Counter[str]()
    for s in stacks:
        innermost[s.functions[-1]] += s.cycles
    for pc, n in zip(image.rom.pc.tolist(), e.hits.tolist(), strict=True):
        flat[image.symbol_at(pc).partition("+")[0] or "?"] += n
    difference = innermost - +flat
    assert not flat - innermost and difference.total() == len(e.output)  # a committed byte is no instruction
    return e


def paths(e: Execution) -> dict[str, int]:
    """Cycles by folded stack."""
    assert e.tree is not None
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in folded(e.tree)}


# ---------------------------------------------------------------- counts


def test_counts_of_a_known_run() -> None:
    words = [*call(CYCLES), *call(CYCLES), *call(PRINT, DATA, 0), *call(KECCAK, DATA), *call(KECCAK, DATA),
             *call(KECCAK, DATA), *call(COMMIT, 1, DATA, 5), *call(COMMIT, 1, DATA, 0), *halt()]
    assert costs(execute(load_elf(elf(words)), log=False)) == {
        "cycles": len(words) + 5, "instructions": len(words), "calls.commit": 2, "calls.cycles": 2, "calls.halt": 1,
        "calls.keccak": 3, "calls.print": 1, "committed_bytes": 5, "unaligned": 0, "unaligned.crossing": 0}
    fewer = costs(execute(load_elf(elf([*call(CYCLES), *halt()])), log=False))
    assert {name: n for name, n in fewer.items() if n and name.startswith("calls")} == {"calls.cycles": 1,
                                                                                        "calls.halt": 1}


WIDTHS = {"lb": 1, "lbu": 1, "lh": 2, "lhu": 2, "lw": 4, "lwu": 4, "ld": 8, "sb": 1, "sh": 2, "sw": 4, "sd": 8}


@pytest.mark.parametrize("name", WIDTHS)
def test_unaligned_accesses_of_every_width(name: str) -> None:
    """At every offset in a dword, and over the ends of 3000 new pages: memory grows, and accesses are tried again."""
    width, pages = WIDTHS[name], 3000
    words = [*li(T1, DATA), *(asm(name, T0, T1, k) for k in range(9))]
    words += [*li(T1, DATA + 505), *li(SP, pages), asm(name, T0, T1, 0), asm("addi", T1, T1, 512),
              asm("addi", SP, SP, -1), asm("bne", SP, ZERO, -12), *halt()]
    addresses = [*range(9), *(505 + 512 * k for k in range(pages))]
    unaligned = [a for a in addresses if a % width]
    e = execute(load_elf(elf(words)))
    assert e.unaligned == len(unaligned)
    assert e.crossing == sum(a // 8 != (a + width - 1) // 8 for a in unaligned)
    assert (e.unaligned == 0) == (width == 1)


def test_counts_agree_with_the_tables() -> None:
    """What the executor counts is what the tables prove, row by row."""
    words = [*li(T1, DATA), *(asm("lw", T0, T1, k) for k in range(8)), *(asm("sd", T0, T1, k) for k in range(5)),
             asm("lh", T0, T1, 1), *call(KECCAK, DATA), *call(COMMIT, 1, DATA, 5), *call(CYCLES), *halt()]
    program = Program.from_elf(elf(words))
    counts, tables = costs(program.run().execution), table_costs(program)
    assert tables["MLOAD"].rows + tables["MSTORE"].rows == counts["unaligned"] == 6 + 4 + 1
    assert counts["unaligned.crossing"] == 3 + 4
    for table, kind in (("KCALL", "keccak"), ("COMMIT", "commit"), ("CYCLES", "cycles"), ("HALT", "halt")):
        assert tables[table].rows == counts[f"calls.{kind}"] == 1
    assert tables["CBYTE"].rows == counts["committed_bytes"] + counts["calls.commit"]
    assert "PRINT" not in tables and counts["calls.print"] == 0
    assert sum(t.rows for name, t in tables.items() if name in set(OPS_OF_TABLE)) == counts["instructions"]


def test_tables_are_those_of_the_proof() -> None:
    program = Program.from_elf(FIB16)
    tables = table_costs(program)
    proof = program.prove(params="min", allow_insecure=True)
    heights = Counter[str]()
    for name, log in proof.tables:
        heights[name] += 1 << log
    assert {name: t.height for name, t in tables.items() if name != QUOTIENT} == dict(heights)
    assert tables[QUOTIENT].cells == 6 * sum({1 << log for _, log in proof.tables})
    assert all(0 < t.rows <= t.height and t.cells % t.height == 0 for t in tables.values())


def test_lines_are_stable() -> None:
    program = Program.from_elf(FIB16)
    lines = list(cost_lines(costs(program.run().execution)))
    assert lines == list(cost_lines(costs(execute(program.image, log=True))))
    assert [line.split()[0] for line in lines] == [
        "cycles", "instructions", "calls.commit", "calls.cycles", "calls.halt", "calls.keccak", "calls.print",
        "committed_bytes", "unaligned", "unaligned.crossing"]
    assert lines[0].split() == ["cycles", "65536"]
    tables = table_costs(program)
    shown = {line.split()[0]: line.split()[1] for line in table_lines(tables, 65536)}
    assert shown["rows.BEQ"] == "13103" and int(shown["cells"]) == sum(t.cells for t in tables.values())
    assert shown["cells_per_cycle"] == f"{int(shown['cells']) / 65536:.2f}"


# ---------------------------------------------------------------- call stacks


def test_calls_and_returns() -> None:
    """Two calls of f, which calls g: by jal, and by auipc and jalr through x1 alone."""
    image = image_of(start=[(RA, "f"), asm("auipc", RA, 0), asm("jalr", RA, RA, 20), *halt()],
                     f=[asm("addi", SP, RA, 0), (RA, "g"), asm("addi", RA, SP, 0), RET], g=[NOP, RET])
    assert image.symbols[1].address == image.entry + 4 * 6  # where auipc at word 1 and 20 lead
    assert paths(profiled(image)) == {"start": 6, "start;f": 8, "start;f;g": 4}


def test_alternate_link_register() -> None:
    """x5 links as x1 does; a jump through x1 that links x5 returns and calls at once."""
    image = image_of(start=[(T0, "f"), *halt()], f=[asm("addi", T1, T0, 0), asm("addi", T0, T1, 0),
                                                    asm("jalr", ZERO, T0, 0)])
    assert paths(profiled(image)) == {"start": 4, "start;f": 3}
    swap = image_of(start=[(RA, "f"), *halt()], f=[asm("jalr", T0, RA, 0)])
    assert paths(profiled(swap)) == {"start": 1, "start;f": 1, "start;start": 3}


def test_tail_calls_and_falling_through() -> None:
    """f jumps to g, whose code runs on into h, which returns to the caller of f."""
    image = image_of(start=[(RA, "f"), *halt()], f=[(ZERO, "g"), NOP], g=[NOP], h=[NOP, RET])
    assert paths(profiled(image)) == {"start": 4, "start;f": 1, "start;g": 1, "start;h": 2}


def test_returns_that_match_no_call_or_an_outer_one() -> None:
    """The first is a jump; the second leaves the frames between."""
    image = image_of(start=[(RA, "f"), *halt()], f=[asm("addi", SP, RA, 0), (RA, "g")],
                     g=[asm("auipc", RA, 0), asm("addi", RA, RA, 16), RET, NOP, asm("addi", RA, SP, 0), RET])
    assert paths(profiled(image)) == {"start": 4, "start;f": 2, "start;f;g": 5}


def countdown(depth: int) -> Image:
    """f calls itself ``depth`` times."""
    return image_of(start=[*li(A0, depth), (RA, "f"), *halt()], f=[
        asm("beq", A0, ZERO, 28), asm("addi", A0, A0, -1), asm("addi", SP, SP, -8), asm("sd", RA, SP, 0), (RA, "f"),
        asm("ld", RA, SP, 0), asm("addi", SP, SP, 8), RET])


@pytest.mark.parametrize("depth", [1, 50, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 3 * MAX_DEPTH])
def test_recursion_is_cut_at_the_depth_limit(depth: int) -> None:
    found = paths(profiled(countdown(depth)))
    assert max(path.count(";") for path in found) == min(depth + 1, MAX_DEPTH)
    assert found["start"] == len(li(A0, depth)) + 4 and found["start;f"] == 8  # all returns lead back


def test_many_stacks_make_the_tree_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """f and g call both, to a depth of 17: 2^18 stacks. Too many are an error; just as many as allowed are not."""
    def body(first: str, second: str) -> list[Item]:
        return [asm("beq", A0, ZERO, 40), asm("addi", A0, A0, -1), asm("addi", SP, SP, -16), asm("sd", RA, SP, 0),
                (RA, first), (RA, second), asm("ld", RA, SP, 0), asm("addi", SP, SP, 16), asm("addi", A0, A0, 1), RET,
                RET]

    image = image_of(start=[*li(A0, 17), (RA, "f"), *halt()], f=body("f", "g"), g=body("f", "g"))
    e = profiled(image)
    assert e.tree is not None
    nodes = len(e.tree.keys)
    assert nodes == 2 + (1 << 18) - 1 > 2 * calltree.SPARE_NODES
    monkeypatch.setattr(calltree, "MAX_NODES", nodes - 1)
    with pytest.raises(LimitExceeded, match="call stacks"):
        execute(image, log=False, profile=True)
    monkeypatch.setattr(calltree, "MAX_NODES", nodes)
    assert execute(image, log=False, profile=True).cycles == e.cycles


def test_code_without_symbols() -> None:
    image = dataclasses.replace(countdown(2), symbols=())
    assert set(paths(profiled(image))) == {"?", "?;?", "?;?;?", "?;?;?;?"}


def test_random_jumps_add_up() -> None:
    """Calls and returns wherever they lead, until 400 of them are done."""
    rng, counter, names = random.Random(5), 9, [f"f{k}" for k in range(8)]

    def jump() -> list[Item]:
        link: Item = (rng.choice((ZERO, RA, T0)), rng.choice(names))
        back = asm("jalr", rng.choice((ZERO, RA, T0)), rng.choice((RA, T0)), 0)
        return [asm("addi", counter, counter, -1), asm("bne", counter, ZERO, 8), (ZERO, "end"),
                link if rng.random() < 0.6 else back]

    def body() -> list[Item]:
        return [x for _ in range(rng.randrange(1, 5)) for x in jump()] + [(ZERO, "f0")]

    start: list[Item] = [*li(counter, 400), asm("auipc", T0, 0), (RA, "f0"), (T0, "f1"), (ZERO, "f2")]
    for _ in range(30):
        e = profiled(image_of(start=start, **{name: body() for name in names}, end=halt()))
        assert e.instructions > 3 * 400


def test_committed_bytes_and_permutations_have_their_place() -> None:
    image = image_of(start=[(RA, "f"), (RA, "k"), (RA, "k"), *halt()], f=[*call(COMMIT, 1, DATA, 100), RET],
                     k=[*call(KECCAK, DATA), RET])
    e = profiled(image)
    assert paths(e)["start;f"] == len(call(COMMIT, 1, DATA, 100)) + 1 + 100
    assert e.tree is not None
    assert {s.functions: s.permutations for s in e.tree.stacks()} == {
        ("start",): 0, ("start", "f"): 0, ("start", "k"): 2}


# ---------------------------------------------------------------- files


@pytest.fixture(scope="module")
def fixture_tree() -> calltree.CallTree:
    tree = execute(collatz.program.image, collatz.encode(27), log=False, profile=True).tree
    assert tree is not None
    return tree


def test_folded_stacks(fixture_tree: calltree.CallTree) -> None:
    lines = folded(fixture_tree)
    assert all(re.fullmatch(r"[^; ]+(;[^; ]+)* [1-9][0-9]*", line) for line in lines) and lines == sorted(lines)
    assert sum(int(line.split()[1]) for line in lines) == int(fixture_tree.cycles.sum())


def test_names_cannot_break_folded_lines() -> None:
    image = image_of(**{"a b;c": halt()})  # type: ignore[arg-type]
    assert paths(profiled(image)) == {"a_b:c": 3}


def speedscope_faults(file: dict[str, Any]) -> list[str]:
    """What is wrong with a sampled profile by speedscope's file-format-spec.ts."""
    faults = []
    if file.get("$schema") != "https://www.speedscope.app/file-format-schema.json":
        faults.append("schema")
    if set(file) - {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}:
        faults.append("fields")
    frames = file["shared"]["frames"]
    if not all(isinstance(f["name"], str) and not set(f) - {"name", "file", "line", "col"} for f in frames):
        faults.append("frames")
    for p in file["profiles"]:
        if set(p) != {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}:
            faults.append("profile")
        if p["type"] != "sampled" or not isinstance(p["name"], str):
            faults.append("type")
        if p["unit"] not in ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"):
            faults.append("unit")
        if len(p["samples"]) != len(p["weights"]) or p["endValue"] - p["startValue"] != sum(p["weights"]):
            faults.append("weights")
        if not all(0 <= k < len(frames) for sample in p["samples"] for k in sample):
            faults.append("index")
    return faults


def test_speedscope_file(fixture_tree: calltree.CallTree) -> None:
    file = json.loads(json.dumps(speedscope(fixture_tree, "collatz")))
    assert speedscope_faults(file) == []
    [profile] = file["profiles"]
    assert profile["endValue"] == int(fixture_tree.cycles.sum())
    names = [f["name"] for f in file["shared"]["frames"]]
    again = {";".join(names[k] for k in s): w for s, w in zip(profile["samples"], profile["weights"], strict=True)}
    assert sorted(f"{path} {n}" for path, n in again.items()) == folded(fixture_tree)
    file["profiles"][0]["weights"][0] += 1
    file["profiles"][0]["samples"][0] = [len(names)]
    assert speedscope_faults(file) == ["weights", "index"]


def test_suffix_chooses_the_format(fixture_tree: calltree.CallTree, tmp_path: Path) -> None:
    write_profile(fixture_tree, str(tmp_path / "a.folded"), "a")
    write_profile(fixture_tree, str(tmp_path / "a.speedscope.json"), "a")
    assert (tmp_path / "a.folded").read_text().splitlines() == folded(fixture_tree)
    assert speedscope_faults(json.loads((tmp_path / "a.speedscope.json").read_text())) == []
    for wrong in ("a.json", "a.svg", "folded"):
        with pytest.raises(ParameterError, match="speedscope"):
            write_profile(fixture_tree, str(tmp_path / wrong), "a")
        assert not (tmp_path / wrong).exists()


# ---------------------------------------------------------------- marks


class Part(IntEnum):
    """Phases of the guests below; the greatest number that a mark can have."""

    ONE = 1
    TWO = 2
    LAST = 2047


def marked(x: Any) -> Any:
    """A helper: its code is copied to each place that uses it."""
    mark(Part.TWO, x)
    return x * 3 + 1


@function
def work(n: u64) -> u64:
    mark(Part.ONE)
    total = u64(0)
    for k in range(n):
        if k & 1 == 0:
            total += marked(k)
        else:
            total ^= marked(k)
        mark(Part.ONE)
    mark(Part.LAST)
    return total


@function
def marking() -> None:
    out = Array[u64, 1]()
    out[0] = work(u64(10))
    ecall(64, 1, riscv.address_of(out), 8)


def test_marks_survive_being_copied_and_change_nothing() -> None:
    """Each copy of the helper fires; natively and in the interpreter there is nothing."""
    program = Program.from_elf(riscv.link(marking))
    e = profiled(program.image)
    assert e.tree is not None
    phases = e.tree.by_phase()
    assert list(phases) == ["one", "two", "last", REST] and all(n for n, _ in phases.values())
    calls = Counter(s.functions[-1] for s in e.tree.stacks() if s.functions[-1].startswith(MARK))
    assert set(calls) == {f"{MARK}one", f"{MARK}two", f"{MARK}last"}
    by_mark = Counter[str]()
    for s in e.tree.stacks():
        by_mark[s.functions[-1]] += s.cycles
    assert [by_mark[f"{MARK}{name}"] for name in ("one", "two", "last")] == [2 * 11, 2 * 10, 2 * 1]
    assert len(mark_calls(program.image)) == 5  # two of them in the copies of the helper
    value = int.from_bytes(e.output, "little")
    assert work(u64(10)) == value == cpu.Library("marked", [work]).work(10)


def test_marks_are_proved_like_any_instruction() -> None:
    program = Program.from_elf(riscv.link(marking))
    run, failures = program.check()
    assert not failures and run.output == program.run().output


def test_numbers_of_marks() -> None:
    for bad in (0, 2048, -1):
        phase = IntEnum("Bad", {"BAD": bad}).BAD  # type: ignore[attr-defined]
        with pytest.raises(CompileError, match="2047"):
            mark(phase)
    mark(Part.LAST)


@pytest.mark.parametrize("word", [asm("slti", ZERO, ZERO, 5), asm("slti", ZERO, ZERO, 0), asm("slti", ZERO, ZERO, -1),
                                  asm("slti", ZERO, RA, 5), asm("slti", T0, ZERO, 5), asm("addi", ZERO, ZERO, 5)])
def test_which_words_are_marks(word: int) -> None:
    """Only slti x0, x0, n with n from 1 to 2047; without a symbol it goes by its number."""
    e = profiled(load_elf(elf([NOP, word, *halt()])))
    assert e.tree is not None
    is_mark = word == asm("slti", ZERO, ZERO, 5)
    assert e.tree.by_phase() == ({"phase 5": (3, 0), REST: (2, 0)} if is_mark else {REST: (5, 0)})


# ---------------------------------------------------------------- the verifier


@pytest.fixture(scope="module")
def guest() -> Image:
    return recursion_program("min").image


def inner_inputs() -> list[bytes]:
    """Inputs of the guest for proofs of programs that differ in tables, heights and output."""
    programs = [elf(halt()), elf([*call(COMMIT, 1, DATA, 3), *halt()]),
                elf([*li(T1, DATA), asm("sd", T0, T1, 3), *call(KECCAK, DATA), *call(PRINT, DATA, 0), *halt()]),
                FIB16.read_bytes()]
    return [verifier_input(Program.from_elf(p).prove(params="min", allow_insecure=True)) for p in programs]


def test_phases_of_the_verifier(guest: Image) -> None:
    """Every phase has cycles in every accepted proof, every mark in the code fires, and they cost under 1 %."""
    fired = np.zeros(len(guest.rom), np.bool_)
    for data in inner_inputs():
        e = profiled(guest, data)
        assert e.tree is not None
        phases = e.tree.by_phase()
        assert list(phases) == [p.name.lower() for p in Phase]
        assert all(cycles > 0 for cycles, _ in phases.values())
        hashing = {name for name, (_, permutations) in phases.items() if permutations}
        assert hashing == {"statement", "transcript", "openings"}
        cost = sum(s.cycles for s in e.tree.stacks() if s.functions[-1].startswith(MARK))
        assert 0 < 2 * cost < e.cycles / 100  # two cycles in the mark, and two for the call
        fired |= e.hits > 0
        shares = [float(line.split()[2]) for line in phase_lines(phases)]
        assert abs(sum(shares) - 100) < 0.01 * len(shares)
    assert fired[mark_calls(guest)].all()


def mark_calls(image: Image) -> Any:
    """Rows of the instructions that call a mark: jalr x1 after auipc x1."""
    stubs = {s.address for s in image.symbols if s.name.startswith(MARK)}
    rom = image.rom
    target = np.roll(rom.immediate, 1) + rom.immediate  # of auipc, a constant, and of jalr
    sites = np.flatnonzero((rom.op == 11) & (rom.rd == RA) & np.isin(target, list(stubs)))
    assert len(sites) >= len(stubs) > 0
    return sites


def test_phases_begin_in_protocol_order(guest: Image) -> None:
    e = profiled(guest, inner_inputs()[0])
    assert e.tree is not None
    order = list(dict.fromkeys(s.phase for s in e.tree.stacks()))
    assert order == [REST, "statement", "transcript", "constraints", "batching", "openings", "folds", "final"]


def test_counts_of_the_verifier_are_exact(guest: Image) -> None:
    """Twice the same, and no access of the verifier is unaligned."""
    [data, *_] = inner_inputs()
    one, two = (execute(guest, data, log=False) for _ in range(2))
    assert costs(one) == costs(two) and one.unaligned == 0 and one.calls[Call.COMMIT] == 3


# ---------------------------------------------------------------- the command


def tailbite(*args: object, cwd: Path) -> Any:
    return subprocess.run([sys.executable, "-m", "tailbite", *map(str, args)], capture_output=True, text=True,
                          cwd=cwd, check=False, timeout=300)


def test_command_prints_the_report(tmp_path: Path) -> None:
    done = tailbite("run", FIB16, "--cycles", "--rows", "--phases", "--profile", "--profile-output", "p.folded",
                    cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    program = Program.from_elf(FIB16)
    _, lines = report(program.run(profile=True).execution, True, True, table_costs(program))
    assert done.stdout.splitlines()[-len(lines):] == lines
    assert "loop" in done.stdout and (tmp_path / "p.folded").read_text().splitlines()[1] == "loop 65532"


def test_command_as_json(tmp_path: Path) -> None:
    done = tailbite("run", FIB16, "--cycles", "--rows", "--phases", "--profile-output", "p.speedscope.json", "--json",
                    cwd=tmp_path)
    said = json.loads(done.stdout)
    program = Program.from_elf(FIB16)
    tables = table_costs(program)
    assert said["cost"] == costs(program.run().execution) and said["phases"] == {REST: {"cycles": 65536, "keccak": 0}}
    assert said["tables"] == {name: t._asdict() for name, t in tables.items()}
    assert said["cells"] == sum(t.cells for t in tables.values()) and said["cells_per_cycle"] > 40
    assert speedscope_faults(json.loads((tmp_path / "p.speedscope.json").read_text())) == []
    plain = json.loads(tailbite("run", FIB16, "--json", cwd=tmp_path).stdout)
    assert not {"cost", "tables", "phases", "cells"} & set(plain)


def test_command_refuses_other_formats(tmp_path: Path) -> None:
    done = tailbite("run", FIB16, "--profile-output", "p.svg", cwd=tmp_path)
    assert done.returncode == 2 and ".speedscope.json" in done.stderr and not done.stdout
    assert not list(tmp_path.iterdir())
