"""Kinds of mistakes 53-62: which tables and keys a proof is about, and whether all verifiers agree."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_verifier as ref
from cases import echo_case, fibonacci_case, make, permutation_case, proof, squares_case
from test_agreement import Outcome, guest, honest, interpreted, natively, silent
from test_recursion import liar
from test_substitution import TABLES_AT, judged, real
from test_substitution import Made as Posted

import tailbite
from tailbite import Proof, VerificationError, u64, verify
from tailbite.channel import Label
from tailbite.demo import collatz
from tailbite.recursion import check_attestation
from tailbite.stark.params import preset
from tailbite.stark.prove import prove
from tailbite.stark.system import ProgramKey
from tailbite.stark.verifier import CATEGORIES
from tailbite.stark.verify import HEADER_WORDS
from tailbite.vm.executor import execute
from tailbite.vm.machine import machine
from tailbite.vm.trace import fill

TYPED = set(CATEGORIES) - {"internal"}
PROGRAM = slice(HEADER_WORDS, HEADER_WORDS + 7)


# ---------------------------------------------------------------- 53, 54: the set of tables


def test_53_instances_of_one_table() -> None:
    """Two instances may change places, as both obey the same rules; neither may stand twice or be missing."""
    case = permutation_case(7, [5, 5], 100)
    first, second = case.witness[1], case.witness[2]
    for sinks, expected in (({1: first, 2: second}, ""), ({1: second, 2: first}, ""), ({1: first, 2: first}, "balance"),
                            ({1: first}, "balance"), ({2: first}, "shape")):
        assert make(case._replace(witness={0: case.witness[0], **sinks})).refusal() == expected


def test_53_a_table_that_is_not_in_the_list() -> None:
    """A table list with one entry more, less, or in another order, in a proof that is made so throughout."""
    case = squares_case(6)
    made = make(case)
    assert made.refusal() == ""
    at = HEADER_WORDS + 6 + 1 + 1  # behind one program height, the output's length and its word
    assert made.words[at:at + 2].tolist() == [6, 6]
    for logs in ([6], [6, 6, 6], [6, 0], [0, 6], [7, 6], [6, 7], []):
        words = np.concatenate([made.words[:at], np.array(logs, dtype=np.uint64), made.words[at + 2:]])
        assert made.refusal(words) in TYPED


def reidentified(words: Any, params: str = "min") -> Posted:
    """The proof with the id of the program that it claims, whatever that is."""
    key = [int(x) for x in words[PROGRAM]]
    return Posted(ProgramKey(key[0], (key[1], key[2]), (key[3], key[4], key[5], key[6])).id(real(params)), words)


def test_54_no_tables_at_all() -> None:
    """A proof of a program without code, without tables, without anything."""
    words = honest("collatz", "min").words.copy()
    assert judged(reidentified(words)) == ""
    words[TABLES_AT:TABLES_AT + len(machine().slots)] = 0
    assert judged(reidentified(words)) == "shape"
    words[HEADER_WORDS + 1:HEADER_WORDS + 3] = 0
    assert judged(reidentified(words)) == "shape"
    for count in (*range(12), TABLES_AT + len(machine().slots)):
        assert judged(reidentified(words)._replace(words=words[:count])) in {"truncated", "shape"}
        with pytest.raises(VerificationError):
            verify(words[:count].astype("<u8").tobytes(), collatz, allow_insecure=True)


# ---------------------------------------------------------------- 55: whose key


@tailbite.guest
def other_constant(start: u64) -> u64:
    """A program that differs from the next in one constant."""
    return start * 3 + 1


@tailbite.guest
def constant(start: u64) -> u64:
    return start * 3 + 2


def test_55_every_proof_under_every_key() -> None:
    """A proof counts for the program that the caller names, by object or id, and for its own preset; for no other."""
    made = {(g.name, p): (g, p, g.prove(*args, params=p, allow_insecure=True))
            for g, args in ((collatz, (5,)), (constant, (5,)), (other_constant, (5,)), (silent, ()))
            for p in ("min", "fast")}
    for of, (_, _, p) in made.items():
        for name, (g, params, _) in made.items():
            same = of == name
            targets = [g.program.id(params)] + ([g, g.program] if of[1] == params else [])
            for target in targets:
                if same:
                    assert verify(p, target, allow_insecure=True).program_id == p.program_id
                else:
                    with pytest.raises(VerificationError) as e:
                        verify(p, target, allow_insecure=True)
                    assert e.value.category == "program"
    assert len({p.program_id for _, _, p in made.values()}) == len(made)


# ---------------------------------------------------------------- 56: verdicts agree


def test_56_heights_in_two_places() -> None:
    """The program's heights and the table list, changed apart and together, with the id to match."""
    words = honest("collatz", "min").words
    rom, image = int(words[HEADER_WORDS + 1]), int(words[HEADER_WORDS + 2])
    slots = {name: TABLES_AT + machine().slots.index((machine().index(name), 0)) for name in ("ROM", "IMAGE", "ADDI")}
    assert int(words[slots["ROM"]]) == rom and int(words[slots["IMAGE"]]) == image
    assert judged(reidentified(words.copy())) == ""
    seen = set()
    for claimed in ((rom + 1, image), (rom, image + 1), (rom - 1, image), (rom, 0), (20, 20), (64 + rom, image)):
        for listed in ((rom, image), claimed, (claimed[0], image), (rom, claimed[1])):
            changed = words.copy()
            changed[HEADER_WORDS + 1:HEADER_WORDS + 3] = claimed
            changed[slots["ROM"]], changed[slots["IMAGE"]] = listed
            verdict = judged(reidentified(changed))
            assert verdict in (TYPED if listed == claimed else {"shape"}), (claimed, listed)
            seen.add(verdict)
    assert len(seen) > 1, "heights that agree get further"


def several_changes(words: Any, rng: random.Random, statement: int) -> Any:
    """Two to five words changed at once, often in the statement."""
    out = words.copy()
    for _ in range(rng.randrange(2, 6)):
        at = rng.randrange(2, statement) if rng.random() < 0.5 else rng.randrange(len(words))
        other = int(words[rng.randrange(len(words))])
        out[at] = rng.choice([int(out[at]) ^ 1 << rng.randrange(64), 0, rng.randrange(30), other, (1 << 64) - 1])
    return out


def test_56_native_and_guest_verifier_on_many_changes_at_once() -> None:
    """The same reason and the same record; the trusted id follows what the proof claims, so that more is reached."""
    p, rng = honest("collatz", "min"), random.Random(56)
    native, in_machine = natively(real()), guest("min")
    assert in_machine(p.program_id, p.words) == native(p.program_id, p.words) == Outcome("", p.events)
    seen = set()
    for _ in range(60):
        words = several_changes(p.words, rng, TABLES_AT + len(machine().slots))
        words[2] = p.words[2]
        post = reidentified(words)
        outcome = native(post.program_id, words)
        assert in_machine(post.program_id, words) == outcome
        assert outcome.category in TYPED
        seen.add(outcome.category)
    assert len(seen) >= 3


@pytest.mark.parametrize("shape", ["echo 3", "squares 5"])
def test_56_interpreter_and_reference_on_many_changes_at_once(shape: str) -> None:
    """Compiled, interpreted, and the independent verifier: one verdict."""
    made, rng = proof(shape), random.Random(shape)
    native, slow = natively(made.keyed), interpreted(made.keyed)

    def reference(words: Any) -> bool:
        try:
            ref.verify(made.keyed, made.program_id, words)
        except ref.Refused:
            return False
        return True

    assert reference(made.words) and made.refusal() == ""
    for k in range(40):
        words = several_changes(made.words, rng, 16)
        outcome = native(made.program_id, words)
        assert outcome.category in TYPED and not reference(words)
        if k < 6:
            assert slow(made.program_id, words) == outcome


# ---------------------------------------------------------------- 57: first and last


def test_57_rows_rotated() -> None:
    """A good table from the wrong row on: all its steps hold but one, and only first and last row can tell."""
    case = fibonacci_case(5)
    for k in range(32):
        rotated = case._replace(witness={0: np.roll(case.witness[0], k, axis=1)})
        assert make(rotated).refusal() == ("constraints" if k else "")


def test_57_each_cell_of_each_row() -> None:
    case = fibonacci_case(5)
    assert make(case).refusal() == ""
    for row in range(32):
        for column in range(2):
            main = case.witness[0].copy()
            main[column, row] += np.uint64(1)
            assert make(case._replace(witness={0: main})).refusal() == "constraints", (row, column)


# ---------------------------------------------------------------- 58, 59: splices and lengths


@functools.cache
def filled(start: int) -> tuple[Any, dict[int, Any]]:
    """Execution and tables of a run of collatz."""
    image, data = collatz.program.image, collatz.encode(start)
    execution = execute(image, data)
    return execution, fill(execution, image, data).columns


def proved(output: bytes, columns: dict[int, Any]) -> str:
    """Category of the refusal of a proof with these tables for this output; "" if it is accepted."""
    keyed, fixed, key = collatz.program.keyed(preset("min"))
    words, _ = prove(keyed, key, fixed, output, dict(columns), 2)
    return natively(keyed)(collatz.program.id("min"), words).category


def test_58_tables_of_two_runs() -> None:
    """A run has one proof, so there are no segments to splice; but tables of two runs do not fit together either."""
    (a, first), (b, second) = filled(5), filled(6)
    assert proved(a.output, first) == proved(b.output, second) == ""
    differing = [k for k in first if k in second and not np.array_equal(first[k], second[k])]
    assert len(differing) > 8
    for k in differing[::2]:
        assert proved(a.output, {**first, k: second[k]}) == "balance", machine().programs[machine().slots[k][0]].name
    assert proved(b.output, first) == proved(a.output, second) == "balance"


def test_59_the_length_of_the_output_is_pinned() -> None:
    """Zeros that pad the last word are no part of an output, and bytes of an output are no padding."""
    execution, columns = filled(5)
    out = execution.output
    for claimed in (out, out + bytes(1), out + bytes(8), out[:-1], out[:8], b""):
        assert proved(claimed, columns) == ("" if claimed == out else "balance"), len(claimed)
    made = make(echo_case(b"ab\0"))
    assert made.refusal() == ""
    at = HEADER_WORDS + 6
    assert made.words[at] == 3
    for size in (2, 4, 8):
        words = made.words.copy()
        words[at] = size
        assert made.refusal(words) == "balance"


def test_59_an_attestation_has_all_its_parts() -> None:
    """Preset, id and inner output, in a layout of fixed lengths; what is shorter is no attestation."""
    head = preset("min").number.to_bytes(8, "little") + collatz.program.id("min")
    for said, category in ((head, ""), (head + b"\0", ""), (head[:-1], "statement"), (b"", "statement"),
                           (bytes(8) + head[8:], "statement"), (b"\xff" * 40, "statement"),
                           (head[:8] + bytes(32), "program")):
        fake = liar.prove(said, params="min", allow_insecure=True)
        try:
            a = check_attestation(fake, liar.program.id("min"), collatz.program.id("min"), allow_insecure=True)
            assert category == "" and a.output == said[40:]
        except VerificationError as e:
            assert e.category == category


# ---------------------------------------------------------------- 60: what is told is what was verified


def test_60_the_statement_is_of_the_words_that_were_verified() -> None:
    """A proof keeps its own words: an array that is changed behind its back changes neither verdict nor statement."""
    five, six = (collatz.prove(x, params="fast", allow_insecure=True) for x in (5, 6))
    length = max(len(five.words), len(six.words))
    shared = np.zeros(length, dtype=np.uint64)
    shared[:len(five.words)] = five.words
    held = Proof(shared[:len(five.words)])
    shared[:] = 0
    shared[:len(six.words)] = six.words
    statement = verify(held, collatz, allow_insecure=True)
    assert statement.output == five.output and held.to_bytes() == five.to_bytes()
    assert not held.words.flags.writeable
    with pytest.raises(ValueError):
        held.words.setflags(write=True)
    bytes_of = bytearray(five.to_bytes())
    held = Proof.from_bytes(bytes_of)
    bytes_of[:] = bytes(len(bytes_of))
    assert verify(held, collatz, allow_insecure=True).output == five.output


def test_60_each_field_of_the_statement() -> None:
    """What verify returns about a proof, against the run and the caller's own knowledge."""
    p = collatz.prove(7, params="fast", allow_insecure=True)
    run = collatz.run(7)
    s = verify(p.to_bytes(), collatz, allow_insecure=True)
    assert (s.output, s.args, s.result, s.committed) == (run.output, (7,), run.result, b"")
    assert (s.program_id, s.params.name) == (collatz.program.id("fast"), "fast")
    with pytest.raises(VerificationError):  # a guest with the same types is another program
        verify(p, constant, allow_insecure=True)


# ---------------------------------------------------------------- 62: the environment


HOSTILE = {
    "RISC0_DEV_MODE": "1", "SP1_PROVER": "mock", "TAILBITE_DEV_MODE": "1", "TAILBITE_ALLOW_INSECURE": "1",
    "TAILBITE_SKIP_VERIFY": "1", "TAILBITE_MIN_BITS": "0", "DEV_MODE": "1", "DEBUG": "1", "CI": "true",
    "PYTHONOPTIMIZE": "2", "PYTHONHASHSEED": "1", "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb",
    "COLUMNS": "1", "FORCE_COLOR": "1", "_TYPER_STANDARD_TRACEBACK": "1"}

SPY = """
import json, os, sys
read = set()
class Spy(type(os.environ)):
    def __getitem__(self, name):
        frame = sys._getframe(1)
        while frame:
            if "tailbite" in frame.f_globals.get("__name__", "").split("."):
                read.add(name)
                break
            frame = frame.f_back
        return super().__getitem__(name)
os.environ.__class__ = Spy
import tailbite
from tailbite.demo import collatz
said = []
for path in sys.argv[1:]:
    for options in ({}, {"allow_insecure": True}):
        try:
            tailbite.verify(tailbite.Proof.load(path), collatz.program, **options)
            said.append("accepted")
        except tailbite.VerificationError as e:
            said.append(e.category)
print(json.dumps([said, sorted(read)]))
"""


def test_62_no_variable_of_the_environment_changes_a_verdict(tmp_path: Path) -> None:
    """The verdicts under a hostile environment, and with asserts switched off; and the variables that are read."""
    good = collatz.prove(5, params="fast", allow_insecure=True)
    bad = good.words.copy()
    bad[-1] ^= np.uint64(1)
    words = good.words.copy()
    words[TABLES_AT - 1] ^= np.uint64(1)  # the result
    paths = [tmp_path / name for name in ("good", "bad", "false")]
    for path, content in zip(paths, (good.words, bad, words), strict=True):
        path.write_bytes(content.astype("<u8").tobytes())
    expected = ["soundness", "accepted", "soundness", "opening", "soundness", "balance"]
    source = str(Path(tailbite.__file__).parent.parent)
    for extra in ({}, HOSTILE):
        done = subprocess.run([sys.executable, "-c", SPY, *map(str, paths)], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": source, **extra})
        said, read = json.loads(done.stdout)
        assert said == expected
        assert {"HOME", "XDG_CACHE_HOME"} & set(read), "the spy sees where objects are cached"
        assert not [n for n in read if any(x in n for x in ("TAILBITE", "DEV", "DEBUG", "INSECURE", "SKIP", "MOCK"))]


def test_61_a_layer_takes_nothing_on_trust() -> None:
    """There is no wrapping circuit. The recursion guest has one input, and refuses each word of it that is changed."""
    p = honest("silent", "min")
    at = {Label.PROGRAM: HEADER_WORDS, Label.ROWS: len(p.words) // 2, Label.SIBLINGS: len(p.words) - 1}
    assert judged(Posted(p.program_id, p.words)) == ""
    for place in at.values():
        words = p.words.copy()
        words[place] ^= np.uint64(1)
        assert judged(Posted(p.program_id, words)) in {"program", "opening"}


