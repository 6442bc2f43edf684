"""Kinds of mistakes 63-70: hostile sizes, failures and what comes after them, borders."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assembler import BASE, M64, asm, call, elf, elf_of_segments, halt, li
from cases import SHAPES, Case, echo_case, fibonacci_case, make, permutation_case, proof, squares_case, word
from tamper import Recorded
from test_agreement import recording_guest
from test_dishonest import lie
from typer.testing import CliRunner

import tailbite
from tailbite import Array, Bytes, Program, Proof, TailbiteError, VerificationError, i64, u8, u64, verify
from tailbite.channel import Label
from tailbite.cli import app
from tailbite.demo import collatz
from tailbite.files import read_at_most
from tailbite.hash import merkle
from tailbite.program import MAX_ELF_BYTES
from tailbite.stark.params import preset
from tailbite.stark.soundness import soundness
from tailbite.stark.system import PROTOCOL_VERSION
from tailbite.stark.verifier import CATEGORIES
from tailbite.stark.verify import HEADER_WORDS
from tailbite.vm.executor import MAX_INPUT
from tailbite.vm.machine import machine

TYPED = set(CATEGORIES) - {"internal"}
AT_OUTPUT = HEADER_WORDS + 7


@pytest.fixture(scope="module")
def small() -> Proof:
    return collatz.prove(5, params="fast", allow_insecure=True)


def category(data: bytes) -> str:
    """Of the refusal of a file as a proof of collatz; "" if it is accepted. Any other error is raised."""
    try:
        verify(data, collatz, allow_insecure=True)
    except VerificationError as e:
        return e.category
    return ""


def file_of(words: Any) -> bytes:
    return np.asarray(words, dtype=np.uint64).astype("<u8").tobytes()


# ---------------------------------------------------------------- 63: malformed proofs


def test_63_mutated_files_are_refused_with_a_type(small: Proof) -> None:
    """Bytes changed, moved, cut and repeated anywhere; a few of these and of the extremes in every header word."""
    data, rng, seen = small.to_bytes(), random.Random(63), set()
    assert category(data) == ""
    for _ in range(600):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at, size = rng.randrange(len(data)), rng.choice([1, 8, 64, 4096])
            match rng.randrange(5):
                case 0:
                    changed[at:at + 1] = bytes([rng.randrange(256)])
                case 1:
                    del changed[at:at + size]
                case 2:
                    changed[at:at] = changed[at:at + size]
                case 3:
                    changed[at:at + size] = bytes(max(0, min(size, len(changed) - at)))
                case _:
                    changed[at:at + size] = rng.randbytes(size)
        if bytes(changed) != data:
            seen.add(category(bytes(changed)))
    slots = len(machine().slots)
    for at in range(AT_OUTPUT + 3 + slots):
        for value in (0, 1, 63, 64, 1 << 32, 1 << 63, M64):
            words = small.words.copy()
            if int(words[at]) != value:
                words[at] = value
                seen.add(category(file_of(words)))
    assert seen <= TYPED and len(seen) >= 8


def test_63_every_category_of_refusal_occurs(small: Proof) -> None:
    """One input for each way to refuse, so that none of them is an error of another kind."""
    words = small.words
    entries = {(e.label, e.ordinal): e for e in Recorded(words, small.events).entries()}

    def at(label: Label, ordinal: int = 0, change: int = 1) -> bytes:
        out = words.copy()
        out[entries[label, ordinal].start] ^= np.uint64(change)
        return file_of(out)

    found = {category(x) for x in (
        file_of(words[:-1]), file_of([*words, 0]), at(Label.DOMAIN), at(Label.PROGRAM), at(Label.OUTPUT, 0, 1 << 40),
        at(Label.TABLES), at(Label.OUTPUT, 1), at(Label.VALUES), at(Label.NONCE), at(Label.ROWS),
        file_of([*words[:entries[Label.SIGMA, 0].start], M64, *words[entries[Label.SIGMA, 0].start + 1:]]))}
    with pytest.MonkeyPatch.context() as patch:
        false = fibonacci_case(5)._replace(output=word(1) + word(1) + word(7))
        lie(patch, false)
        found.add(make(false).refusal())
    with pytest.raises(VerificationError) as e:
        verify(small, collatz)
    assert found | {e.value.category} == TYPED
    assert category(file_of(words)) == ""


# ---------------------------------------------------------------- 64, 65: hostile numbers


def test_64_claimed_sizes_allocate_nothing(small: Proof) -> None:
    """Heights, lengths and counts of any size in a small file: memory stays in proportion to the file."""
    def peak(data: bytes, expected: set[str]) -> int:
        tracemalloc.start()
        try:
            assert category(data) in expected
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    honest = peak(small.to_bytes(), {""})
    logs = AT_OUTPUT + 3
    for place, values in ((AT_OUTPUT, (1 << 20, (1 << 20) + 1, 1 << 60, M64)), (logs + 2, (26, 27, 60, 1 << 60)),
                          (HEADER_WORDS + 1, (20, 26, 63, 1 << 60)), (HEADER_WORDS + 2, (20, 26, 63, 1 << 60))):
        for value in values:
            words = small.words.copy()
            words[place] = value
            assert peak(file_of(words), TYPED) < honest + (1 << 22)
    words = small.words.copy()
    words[logs:logs + len(machine().slots)] = 26
    assert peak(file_of(words), TYPED) < honest + (1 << 22)


def test_64_a_file_without_end(tmp_path: Path) -> None:
    """Devices claim no size: what is read of any file is bounded."""
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(100)))
    assert read_at_most(path, 99) == read_at_most(path, 100) == bytes(range(100))
    assert read_at_most(path, 9) == bytes(range(10)) and read_at_most(path, 0) == b"\0"
    if Path("/dev/zero").exists():
        assert len(read_at_most(Path("/dev/zero"), MAX_INPUT)) == MAX_INPUT + 1
        with pytest.raises(TailbiteError, match=f"larger than {MAX_ELF_BYTES}"):
            Program.from_elf("/dev/zero")
        with pytest.raises(VerificationError):
            Proof.load("/dev/zero")


GUEST = """
import tailbite
from tailbite import Array, Bytes, i64, u8, u64


@tailbite.guest
def mixed(a: u64, b: i64, c: Array[u8, 3], d: Bytes, e: bool) -> u64:
    return a
"""


@tailbite.guest
def mixed(a: u64, b: i64, c: Array[u8, 3], d: Bytes, e: bool) -> u64:
    return a


GOOD = ("1", "-2", "1,2,3", "x", "true")
BAD = [["9" * 5000, "9" * 60, "-1", "1e9", "", "18446744073709551616", "0x" + "f" * 17, "NaN"],
       ["-9223372036854775809", "9223372036854775808", "9" * 4301],
       ["1,2", "1,2,3,4", "1,2,256", "1,2,-1", "1,2," + "9" * 6000, "1,2,0x" + "f" * 6000, ",,,"],
       ["hex:0", "hex:zz", "@/nonexistent/file"],
       ["2", "yes", ""]]


def test_65_numbers_of_any_size_on_the_command_line(tmp_path: Path) -> None:
    """Each is a value, or a usage error; 3 is for files that cannot be read."""
    source = tmp_path / "mixed.py"
    source.write_text(GUEST)

    def code(*args: str) -> int:
        result = CliRunner().invoke(app, list(args))
        assert result.exception is None or isinstance(result.exception, SystemExit), (args, result.exception)
        return result.exit_code

    assert code("run", str(source), "--", *GOOD) == 0
    for place, values in enumerate(BAD):
        for value in values:
            args = list(GOOD)
            args[place] = value
            assert code("run", str(source), "--", *args) == (3 if value.startswith("@") else 2), value
    insecure = ("--params", "fast", "--allow-insecure", "-q", "-o", str(tmp_path / "p"))
    for number in (str(1 << 64), "9" * 40):
        assert code("run", str(source), "--max-cycles", number, "--", *GOOD) == 0
        assert code("prove", str(source), *insecure, "--max-memory", number, "--threads", number, "--", *GOOD) == 0
    for number in ("0", "-1", "9" * 5000, "x"):
        assert code("run", str(source), "--max-cycles", number, "--", *GOOD) == 2
        assert code("prove", str(source), *insecure, "--threads", number, "--", *GOOD) == 2
    verifying = ("verify", str(tmp_path / "p"), str(source), "--trust-source", "--allow-insecure", "--min-bits")
    assert code(*verifying, "0") == code(*verifying, "-1e400") == 0
    for number in ("nan", "inf", "1e400", "9" * 5000, "100"):
        assert code(*verifying, number) == 1


def test_65_numbers_of_any_size_as_arguments() -> None:
    assert mixed.encode(1, -2, [1, 2, 3], b"x", True)
    good = (1, -2, [1, 2, 3], b"x", True)
    for place, values in enumerate([(1 << 64, -1, 10 ** 5000, 1.0, "1", None), (1 << 63, -(1 << 63) - 1, 10 ** 5000),
                                    ([1, 2], [1, 2, 256], [1, 2, 3, 4], [1, 2, "x"], 5), ("x", 5, None), (2, -1, "x")]):
        for value in values:
            args = [*good[:place], value, *good[place + 1:]]
            with pytest.raises(TailbiteError):
                mixed.encode(*args)


# ---------------------------------------------------------------- 66: failures, and what comes after them


@tailbite.guest
def picky(x: u64) -> u64:
    assert x != 3, "three is not allowed"
    items = Array[u64, 8]()
    return items[x]


@tailbite.guest
def no_such_type(x: object) -> None:
    return


class Stop(Exception):
    """Raised by a caller's own progress function."""


def stopping_at(wanted: str, error: type[BaseException]) -> Callable[[str, float], None]:
    def progress(phase: str, fraction: float) -> None:
        if phase == wanted:
            raise error

    return progress


def run_elf(words: list[int], **options: Any) -> None:
    Program.from_elf(elf(words)).prove(params="fast", allow_insecure=True, **options)


def prove_five(**options: Any) -> Proof:
    return collatz.prove(5, **{"params": "fast", "allow_insecure": True, "threads": 2, **options})


FAILURES: dict[str, tuple[Callable[[], Any], type[BaseException]]] = {
    "failed assertion": (lambda: picky.prove(3, params="fast", allow_insecure=True), tailbite.ExecutionError),
    "index out of bounds": (lambda: picky.prove(9, params="fast", allow_insecure=True), tailbite.ExecutionError),
    "failed assertion, interpreted": (lambda: picky(3), tailbite.Trap),
    "exit code": (lambda: run_elf(halt(3)), tailbite.ExecutionError),
    "illegal instruction": (lambda: run_elf([0, *halt()]), tailbite.ExecutionError),
    "end of code": (lambda: run_elf([asm("addi", 5, 0, 1)]), tailbite.ExecutionError),
    "jump to nowhere": (lambda: run_elf([*li(5, 1 << 40), asm("jalr", 0, 5, 0)]), tailbite.ExecutionError),
    "unknown call": (lambda: run_elf(call(12345)), tailbite.ExecutionError),
    "endless loop": (lambda: run_elf([asm("jal", 0, 0)], max_cycles=1000), tailbite.ExecutionError),
    "input too long": (lambda: run_elf(halt(), private_input=bytes(MAX_INPUT + 1)), tailbite.ExecutionError),
    "memory limit": (lambda: prove_five(max_memory=1 << 20), TailbiteError),
    "no ELF": (lambda: Program.from_elf(b"\x7fELF"), tailbite.ElfError),
    "type that a guest cannot have": (lambda: no_such_type.prove(1), tailbite.CompileError),
    "argument that does not fit": (lambda: collatz.prove(-1), tailbite.ArgumentError),
    "unknown preset": (lambda: prove_five(params="none"), tailbite.ParameterError),
    "preset for tests": (lambda: prove_five(allow_insecure=False), tailbite.ParameterError),
    "bad proof": (lambda: verify(bytes(4096), collatz), VerificationError),
    **{f"{error.__name__} in {phase!r}": (lambda p=phase, e=error: prove_five(progress=stopping_at(p, e)), error)
       for error, phases in ((Stop, ("run", "fill tables", "main columns", "bus commitment", "low degree")),
                             (KeyboardInterrupt, ("main commitment", "openings", "proof of work", "done")))
       for phase in phases},
}


def test_66_after_each_failure_the_next_proof_is_the_same() -> None:
    """In one process: a typed error, no thread left behind, and the same bytes as before."""
    before = prove_five().to_bytes()
    threads = threading.active_count()
    for name, (fail, error) in FAILURES.items():
        with pytest.raises(error):
            fail()
        assert threading.active_count() == threads, name
        assert prove_five().to_bytes() == before, name
    assert category(before) == ""


def test_66_a_failure_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a thread of the pool reaches the caller, and the pool ends."""
    before, threads, rows = prove_five().to_bytes(), threading.active_count(), merkle._row_digests

    def failing(*args: Any) -> Any:
        if threading.current_thread() is not threading.main_thread() or args[2] is not None:
            raise MemoryError("no room")
        return rows(*args)

    monkeypatch.setattr(merkle, "_row_digests", failing)
    with pytest.raises(MemoryError):
        prove_five()
    monkeypatch.undo()
    assert threading.active_count() == threads and prove_five().to_bytes() == before


# ---------------------------------------------------------------- 67: threads


THREADS = """
import threading
from tailbite import verify
from tailbite.demo import collatz
out, start = {}, threading.Barrier(6)
def work(k):
    start.wait()
    proof = collatz.prove(5, params="min", allow_insecure=True, threads=1 + k % 3)
    verify(proof, collatz, allow_insecure=True)
    out[k] = proof.to_bytes()
workers = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(6)]
for w in workers: w.start()
for w in workers: w.join(100)
assert not any(w.is_alive() for w in workers), "a thread hangs"
assert len(out) == 6 and len(set(out.values())) == 1
import os, sys
child = os.fork()
if child == 0:
    os._exit(0 if collatz.prove(5, params="min", allow_insecure=True, threads=2).to_bytes() == out[0] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="forks")
def test_67_first_use_from_many_threads_at_once() -> None:
    """Everything that is built lazily is built by six threads at the same time; then in a forked process."""
    source = str(Path(tailbite.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=300,
                          env={**__import__("os").environ, "PYTHONPATH": source})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0"]


# ---------------------------------------------------------------- 68: borders


@pytest.mark.parametrize("log", range(5, 14))
def test_68_every_height_from_the_least(log: int) -> None:
    """With and without folds, and with a last fold of every size."""
    made = make(fibonacci_case(log))
    assert made.refusal() == ""
    layers = sum(label == Label.FRI_BETA for label, _, _, _ in made.events)
    assert layers == -(-(log - 5) // 3)


@pytest.mark.parametrize("build", [
    lambda: permutation_case(5, [5], 0), lambda: permutation_case(5, [5], 1), lambda: permutation_case(5, [5], 31),
    lambda: permutation_case(5, [5], 32), lambda: permutation_case(6, [5], 33), lambda: permutation_case(6, [5], 64),
    lambda: permutation_case(7, [5, 5], 65), lambda: permutation_case(7, [5, 5], 128),
    lambda: echo_case(b""), lambda: echo_case(bytes(31)), lambda: echo_case(bytes(32)), lambda: echo_case(bytes(33)),
    lambda: squares_case(5), lambda: squares_case(12)], ids=range(14))
def test_68_tables_empty_full_and_one_over(build: Callable[[], Case]) -> None:
    case = build()
    assert make(case).refusal() == ""
    if case.output:
        assert make(case._replace(output=case.output[:-1] + b"\1")).refusal() == "balance" or case.system.public_words


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 31, 32, 33, 255, 256, 257])
def test_68_outputs_of_every_length(size: int) -> None:
    data = bytes(k * 7 % 251 for k in range(size))
    p = Program.from_elf(elf([*call(64, 1, 0x20000, size), *halt()], {0x20000: data + b"!"}))
    made = p.prove(params="min", allow_insecure=True)
    assert verify(made, p, allow_insecure=True).output == data


def test_68_code_at_every_bit_of_the_pc() -> None:
    """A piece of code at each power of two, and just below it; each adds its own pc to a sum."""
    places = [1 << k for k in range(13, 32)] + [(1 << k) - 64 for k in range(13, 33) if k != 32]
    places = sorted({*places, *(BASE + (1 << k) for k in range(9, 16))} - {0xFF000000})
    parts, total = [], 0
    for here, there in zip(places, [*places[1:], None], strict=True):
        total += here + (here + 4) + 0x12345000 + 8
        words = [asm("auipc", 5, 0), asm("auipc", 7, 0x12345), asm("add", 6, 6, 5), asm("add", 6, 6, 7),
                 asm("jal", 5, 4), asm("addi", 0, 0, 0)]
        total -= 8
        words += [*li(8, there), asm("jalr", 9, 8, 0)] if there else [
            asm("sd", 6, 0, 0x400), *call(64, 1, 0x400, 8), *halt()]
        code = b"".join(w.to_bytes(4, "little") for w in words)
        assert len(code) <= 64 + 32
        parts.append((5, here, code, len(code)))
    p = Program.from_elf(elf_of_segments(parts, places[0]))
    run, failures = p.check()
    assert not failures and int.from_bytes(run.output, "little") == total & M64
    assert verify(p.prove(params="min", allow_insecure=True), p, allow_insecure=True).output == run.output
    union = 0
    for here in places:
        union |= here
    assert union | 0x7F >= (1 << 32) - 1


# ---------------------------------------------------------------- 69, 70: what is checked is what is deployed


def test_69_one_set_of_constraints_everywhere() -> None:
    """The key that the native verifier reads, whose hash is the identity, is in the recursion guest word by word, and
    in the page of the tables; a proof under another is of another machine."""
    keyed = machine().keyed(preset("min"))
    words = keyed.words.astype("<u8").tobytes()
    assert words in recording_guest("min").elf
    other = keyed.words.copy()
    other[len(other) // 2] += np.uint64(1)
    assert other.astype("<u8").tobytes() not in recording_guest("min").elf
    page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
    for name in ("standard", "strong"):
        assert machine().keyed(preset(name)).vm_id.hex() in page
    assert int(keyed.words[0]) == PROTOCOL_VERSION
    count = sum(p.constraint_count for p in machine().programs)
    assert count == sum(len(t.layout.constraints) + (len(t.layout.interactions) + 1) // 2 for t in machine().tables)


def test_70_one_prover() -> None:
    """There is no code for other devices; threads and instruction sets change no byte of a proof."""
    names = {p.name for p in Path(tailbite.__file__).parent.rglob("*") if p.is_file()}
    assert not [n for n in names if n.endswith((".cu", ".cl", ".metal", ".ptx", ".so"))]
    one, two = (make(SHAPES["squares 8"], threads=k).words.tobytes() for k in (1, 2))
    assert one == two and soundness(preset("standard"), _shape()).total > 100
    assert proof("squares 8").words.tobytes() == one


def _shape() -> Any:
    from tailbite.proof import shape_of

    keyed = machine().keyed(preset("standard"))
    logs = tuple(machine().programs[k].min_log if i == 0 else 0 for k, i in machine().slots)
    return shape_of(keyed, logs, 100)
