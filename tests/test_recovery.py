"""After any failure the next proof is made, the same byte for byte; and what fails or is interrupted leaves no file."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailbite
from tailbite import ParameterError, Program, Proof, TailbiteError
from tailbite.lang import cache
from tailbite.program import MemoryLimit
from tailbite.proof import ProofFileError
from tailbite.vm.elf import INPUT_BASE
from tailbite.vm.executor import CycleLimit, ExitCode, IllegalInstruction, LimitExceeded, MemoryFault, Panic

sys.path.insert(0, str(Path(__file__).parent / "vm"))
from assembler import A0, T0, T1, asm, call, elf, li

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="POSIX signals are needed")

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(Path(tailbite.__file__).parent)
GOOD = bytes(8)


def by_input() -> bytes:
    """A program that does what the first dword of its input says: 0 halts well, all else fails."""
    failures = [call(93, 3), [0], [*li(T1, -1), asm("ld", A0, T1, 0)], call(2, INPUT_BASE, 4), [asm("jal", 0, 0)],
                call(64, 1, INPUT_BASE, (1 << 20) + 1)]
    words = [*li(T0, INPUT_BASE), asm("ld", T0, T0, 4)]
    for failure in failures:
        words += [asm("addi", T0, T0, -1), asm("bne", T0, 0, 4 * len(failure) + 4), *failure]
    words += [*li(T1, 300), asm("addi", T1, T1, -1), asm("bne", T1, 0, -4), *call(64, 1, INPUT_BASE, 12), *call(93, 0)]
    return elf(words)


def prove(program: Program, given: bytes = GOOD, **options: Any) -> Proof:
    return program.prove(given, **{"params": "fast", "allow_insecure": True, "threads": 2, **options})


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.from_elf(by_input())


@pytest.fixture(scope="module")
def expected(program: Program) -> bytes:
    """The proof, which verifies."""
    data = prove(program).to_bytes()
    assert tailbite.verify(data, program, allow_insecure=True).output == bytes([8, *bytes(11)])
    return data


# ---------------------------------------------------------------- in one process


@pytest.mark.parametrize(("error", "given", "options"), [
    (ExitCode, 1, {}), (IllegalInstruction, 2, {}), (MemoryFault, 3, {}), (Panic, 4, {}),
    (CycleLimit, 5, {"max_cycles": 10_000}), (LimitExceeded, 6, {}), (CycleLimit, 0, {"max_cycles": 100}),
    (MemoryLimit, 0, {"max_memory": 1 << 20}), (ParameterError, 0, {"params": "none"}),
    (ParameterError, 0, {"allow_insecure": False})])
def test_the_next_proof_after_a_failure_is_the_same(program: Program, expected: bytes, error: type[TailbiteError],
                                                    given: int, options: dict[str, Any]) -> None:
    with pytest.raises(error):
        prove(program, given.to_bytes(8, "little"), **options)
    assert prove(program).to_bytes() == expected


class Injected(MemoryError):
    """What no other code raises."""


@contextmanager
def raising(error: BaseException | None, at: int, threads: bool = False, inside: str = "") -> Iterator[list[int]]:
    """Raise at the event number ``at``; gives the number of events so far.

    An event is the start of a function of the package, or the return of a compiled one to it: where Python handles
    signals. ``threads`` counts those in other threads, and not in this one. ``inside`` counts from the first call of
    the function of this name on.
    """
    seen = [0]

    def profile(frame: Any, event: str, _: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE):
            if inside and not seen[0] and frame.f_code.co_qualname != inside:
                return
            seen[0] += 1
            if seen[0] == at and error is not None:
                raise error

    install = threading.setprofile if threads else sys.setprofile
    install(profile)
    try:
        yield seen
    finally:
        install(None)


@pytest.mark.parametrize(("error", "threads"), [
    (KeyboardInterrupt(), False), (Injected(), False), (Injected(), True)], ids=["Ctrl-C", "memory", "memory, threads"])
def test_the_next_proof_after_one_cut_off_anywhere_is_the_same(program: Program, expected: bytes,
                                                               error: BaseException, threads: bool) -> None:
    """Moments from the first to the last, in the run, the program's key, the tables, and the proof."""
    with raising(None, 0, threads) as events:
        assert prove(Program.from_elf(program.elf)).to_bytes() == expected
    rng, places = random.Random(3), 4
    for k in range(places):
        fresh = Program.from_elf(program.elf)
        at = 1 + (events[0] * k + rng.randrange(events[0] // 2)) // places  # threads may divide the work otherwise
        with pytest.raises(type(error)), raising(error, at, threads):
            prove(fresh)
        assert prove(fresh).to_bytes() == expected


def test_the_next_proof_after_real_signals_is_the_same(program: Program, expected: bytes) -> None:
    """SIGALRM raises KeyboardInterrupt, as SIGINT does, after times that differ."""
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    began = time.perf_counter()
    prove(program)
    usual, rng, cut = time.perf_counter() - began, random.Random(4), 0
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(6):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.01, 0.9) * usual)
                proof = prove(program).to_bytes()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                cut += 1
                proof = prove(program).to_bytes()
            assert proof == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert cut, "no proof was cut off"


COLD = """
import os, sys
sys.path[:0] = [{tests!r}, {vm!r}]
from pathlib import Path
from test_recovery import Program, by_input, prove, raising
elf, expected = by_input(), Path({expected!r}).read_bytes()

def in_child(work):
    # what a copy of this process, which has not yet loaded anything, prints
    out, into = os.pipe()
    if os.fork() == 0:
        os.write(into, str(work()).encode())
        os._exit(0)
    os.close(into)
    return os.read(out, 100).decode()

def cut_off(name, at):
    program = Program.from_elf(elf)
    try:
        with raising(KeyboardInterrupt(), at, inside=name):
            prove(program)
    except KeyboardInterrupt:
        return prove(program).to_bytes() == expected

for name, at in (("machine", 1000), ("Keyed.__init__", 20), ("Library._bind", 4)):
    print(in_child(lambda: cut_off(name, at)))
"""


def test_ctrl_c_in_the_first_proof_of_a_process(expected: bytes, tmp_path: Path) -> None:
    """Nothing is loaded yet: libraries, tables, the machine's key."""
    (tmp_path / "expected").write_bytes(expected)
    text = COLD.format(tests=str(ROOT / "tests"), vm=str(ROOT / "tests" / "vm"), expected=str(tmp_path / "expected"))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split() == ["True"] * 3, done.stderr


# ---------------------------------------------------------------- files


def save(folder: Path, proof: Proof) -> None:
    proof.save(folder / "x.proof")


def store(folder: Path, proof: Proof) -> None:
    cache.store("x", proof.to_bytes())


@pytest.mark.parametrize("write", [save, store])
def test_ctrl_c_anywhere_in_writing_leaves_the_whole_file_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  write: Callable[[Path, Proof], None]) -> None:
    """At every start of a function and every return of a compiled one, those of the standard library included."""
    monkeypatch.setattr(cache, "directory", lambda: tmp_path)
    old, new = Proof(changed(1)), Proof(changed(2))
    contents, at, cut = list[bytes](), 0, True
    while cut:
        at += 1
        write(tmp_path, old)
        cut = interrupted(lambda: write(tmp_path, new), at)
        file, = tmp_path.iterdir()
        contents.append(file.read_bytes())
    assert len(set(contents)) == 2 and contents[0] != contents[-1] and at > 20


def changed(word: int) -> Any:
    """A proof that can be read; its last word is changed."""
    words = np.fromfile(ROOT / "tests" / "artefacts" / "collatz.min.proof", dtype="<u8").astype(np.uint64)
    words[-1] = word
    return words


def interrupted(work: Callable[[], None], at: int) -> bool:
    """Call, with KeyboardInterrupt at the ``at``-th moment at which Python handles signals; whether it came to that.

    It must come out again.
    """
    seen, came = 0, False

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal seen
        seen += event in ("call", "c_return")
        if seen == at + 1:  # the first is that of ``work`` itself
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        sys.setprofile(profile)
        work()
    except KeyboardInterrupt:
        came = True
    finally:
        sys.setprofile(None)
    assert came == (seen > at), f"an interruption at {at} was lost"
    return came


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    """A limit of the size of files stands for a full disk."""
    proof, (soft, hard) = Proof(changed(1)), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(proof) - 1, hard))
    try:
        with pytest.raises(ProofFileError, match=os.strerror(errno.EFBIG)):
            proof.save(tmp_path / "x.proof")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())
    proof.save(tmp_path / "x.proof")
    assert Proof.load(tmp_path / "x.proof").to_bytes() == proof.to_bytes()


def test_where_nothing_can_be_written_is_a_typed_error(tmp_path: Path) -> None:
    proof = Proof(changed(1))
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "folder").mkdir()
    for path in ("missing/x", "file/x", "folder", "x" * 300):
        with pytest.raises(ProofFileError, match="cannot write"):
            proof.save(tmp_path / path)
    with pytest.raises(ProofFileError, match="cannot write"):
        proof.save("/proc/self/x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_bytes() == b"kept" and not list((tmp_path / "folder").iterdir())


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.Popen[str]]:
    """Start ``tailbite prove`` in a folder, with an empty folder for temporary files."""
    temporary = tmp_path_factory.mktemp("temporary")
    program = ROOT / "benchmarks" / "guests" / "fib_loop_16.elf"

    def start(folder: Path, *options: str) -> subprocess.Popen[str]:
        env = {**os.environ, "TMPDIR": str(temporary)}
        assert not list(temporary.iterdir())
        return subprocess.Popen([sys.executable, "-m", "tailbite", "prove", str(program), "-o", "x.proof", *options],
                                cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.mark.parametrize("phase", ["run", "constraints", "proof of work"])
def test_sigint_in_each_phase(command: Any, tmp_path: Path, phase: str) -> None:
    """Exit code 130, the old proof stays, and nothing else is left; in the last phase it may be done before."""
    (tmp_path / "x.proof").write_bytes(b"old")
    rng = random.Random(phase)
    with command(tmp_path) as process:
        while phase not in (line := process.stderr.readline()):
            assert line, "the phase does not come"
        time.sleep(rng.uniform(0, 0.01))
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    assert [p.name for p in tmp_path.iterdir()] == ["x.proof"]
    if phase == "proof of work" and process.returncode == 0:
        assert Proof.load(tmp_path / "x.proof").output
        return
    assert process.returncode == 130 and "interrupted" in messages and "Traceback" not in messages
    assert (tmp_path / "x.proof").read_bytes() == b"old"


def test_sigint_while_it_starts(command: Any, tmp_path: Path) -> None:
    """Before the command has begun the interpreter may end it by the signal itself."""
    rng = random.Random(1)
    for _ in range(3):
        with command(tmp_path, "-q") as process:
            time.sleep(rng.uniform(0, 0.3))
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        assert process.returncode in (130, 1, -signal.SIGINT) and not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written_exits_with_three(command: Any, tmp_path: Path) -> None:
    (tmp_path / "x.proof").mkdir()
    with command(tmp_path, "--params", "fast", "--allow-insecure") as process:
        _, messages = process.communicate(timeout=60)
    assert process.returncode == 3 and "cannot write x.proof" in messages and "Traceback" not in messages
    assert [p.name for p in tmp_path.iterdir()] == ["x.proof"] and not list((tmp_path / "x.proof").iterdir())
