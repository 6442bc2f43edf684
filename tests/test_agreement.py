"""Native, interpreted and guest verifier: the same verdict, reason and record, on honest and on tampered proofs.

The guest here is the published one with room for a record, which is read from the machine's memory even where the
run ends in a panic. It sees the whole manifest but two thirds of the siblings' cases; the published guest a tenth of
that. The interpreter, thousands of times slower, sees an honest proof of the machine and few tampered ones; of the
example AIRs it sees a case for every label and every strategy.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tamper
from tamper import STRATEGIES, Events, Recorded, Tampered, expected, manifest, thinned

import tailbite
from tailbite import Program, Proof, u64
from tailbite.channel import HINT, MESSAGE, RECORD_WORDS, Label, events_of
from tailbite.demo import collatz
from tailbite.errors import Trap
from tailbite.hash.keccak import permute
from tailbite.lang import Array
from tailbite.recursion import recursion_program, verifier_input
from tailbite.recursion.guest import LOG, build
from tailbite.stark.params import preset
from tailbite.stark.system import Keyed
from tailbite.stark.verifier import library, working_words
from tailbite.stark.verify import verify
from tailbite.vm import core
from tailbite.vm.executor import ExecutionError, Panic, _Run
from tailbite.vm.machine import machine

sys.path.insert(0, str(Path(__file__).parent / "stark"))
from cases import SHAPES, make

EVENTS = 1 << 13
LOG_WORDS = 1 + RECORD_WORDS * EVENTS
PANICKED = "assertion failed: "


class Outcome(NamedTuple):
    """What a verifier said: its reason to refuse, or "" if it accepted, and its record."""

    reason: str
    events: Events

    @property
    def category(self) -> str:
        return self.reason.partition(":")[0]


Verifier = Callable[[bytes, Any], Outcome]


def host(keyed: Keyed, run: Callable[..., None]) -> Verifier:
    """The verifier in this process: compiled, or interpreted."""

    def judge(program_id: bytes, words: Any) -> Outcome:
        memory = np.zeros(working_words(keyed, len(words)), dtype=np.uint64)
        log = np.zeros(LOG_WORDS, dtype=np.uint64)
        identity = np.frombuffer(program_id, dtype="<u8").astype(np.uint64)
        reason = ""
        try:
            run(keyed.words, keyed.params_words, keyed.vm_words, identity, words, memory, log)
        except Trap as e:
            reason = str(e).rpartition(PANICKED)[2]
        return Outcome(reason, events_of(log))

    return judge


@functools.cache
def recording_guest(params: str) -> Program:
    """The recursion guest with room for a record."""
    return Program.from_elf(build(machine().keyed(preset(params)), LOG_WORDS))


def guest(params: str) -> Verifier:
    """The verifier in the machine."""
    image = recording_guest(params).image

    def judge(program_id: bytes, words: Any) -> Outcome:
        run = _Run(image, bytes(4) + program_id + words.astype("<u8").tobytes(), None)
        reason = ""
        try:
            run.finish(1 << 29, None, None)
        except Panic:
            reason = run.text().rpartition(PANICKED)[2]
        log = np.zeros(8 * LOG_WORDS, dtype=np.uint8)
        run.library.copy_bytes(run.memory, LOG, log)
        return Outcome(reason, events_of(log.view("<u8").astype(np.uint64)))

    return judge


def natively(keyed: Keyed) -> Verifier:
    return host(keyed, library.verify)


def interpreted(keyed: Keyed) -> Verifier:
    return host(keyed, verify)


# ---------------------------------------------------------------- honest proofs


@tailbite.guest
def silent() -> None:
    """Commits nothing."""
    return


@tailbite.guest
def hashing(x: u64) -> u64:
    """A word of the permutation of a state, twice."""
    state = Array[u64, 25]()
    state[0] = x
    permute(state)
    permute(state)
    return state[24]


@functools.cache
def honest(name: str, params: str) -> Proof:
    """Proofs by name, made once."""
    programs = {"silent": (silent, ()), "hashing": (hashing, (3,)), "collatz": (collatz, (27,)),
                "another": (collatz, (41,))}
    program, args = programs[name]
    return program.prove(*args, params=params, allow_insecure=True)


def recorded(proof: Proof) -> Recorded:
    return Recorded(proof.words, proof.events)


@pytest.mark.parametrize(("name", "params"), [("silent", "min"), ("hashing", "min"), ("collatz", "min"),
                                              ("another", "min"), ("collatz", "fast"), ("collatz", "strong8")])
def test_honest_proofs_of_the_machine(name: str, params: str) -> None:
    proof = honest(name, params)
    expected = Outcome("", proof.events)
    assert natively(proof.keyed)(proof.program_id, proof.words) == expected
    assert guest(params)(proof.program_id, proof.words) == expected
    published = recursion_program(params).run(verifier_input(proof))
    assert published.output == proof.params.number.to_bytes(8, "little") + proof.program_id + proof.output


def test_interpreter_on_a_proof_of_the_machine() -> None:
    proof = honest("collatz", "min")
    assert interpreted(proof.keyed)(proof.program_id, proof.words) == Outcome("", proof.events)


# ---------------------------------------------------------------- the manifest


@functools.cache
def tampered() -> list[Tampered]:
    """The manifest of a `min` proof of the machine."""
    others = [honest("another", "min"), honest("hashing", "fast")]
    return list(manifest(recorded(honest("collatz", "min")), [recorded(p) for p in others]))


def test_every_entry_has_strategies() -> None:
    """Every entry of the stream is changed in several ways, and every strategy finds entries."""
    proof = recorded(honest("collatz", "min"))
    ways = {e: [c.strategy for c in tampered() if c.entry == e] for e in proof.entries()}
    assert len(ways) == sum(kind in (MESSAGE, HINT) for _, kind, _, _ in proof.events) > 150
    assert all(len(found) >= 6 for found in ways.values())
    assert {s for found in ways.values() for s in found} == {s.__name__ for s in tamper.WHOLE}


@pytest.mark.parametrize("label", [Label.ALPHA, *STRATEGIES])
def test_an_entry_without_strategy_is_noticed(label: Label, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new message, or one whose strategies are forgotten, fails the manifest; the stream as it is does not."""
    words = np.arange(1, 4, dtype=np.uint64)
    stream = Recorded(words, [(Label.DOMAIN, MESSAGE, 1, 0), (label, HINT, 2, 0)])
    if label in STRATEGIES:
        assert list(manifest(stream, []))
        monkeypatch.delitem(STRATEGIES, label)
    with pytest.raises(KeyError):
        list(manifest(stream, []))


def test_the_record_must_be_of_the_words() -> None:
    proof = recorded(honest("collatz", "min"))
    assert proof.entries()
    with pytest.raises(AssertionError, match="not that of these words"):
        Recorded(proof.words[:-1], proof.events).entries()


def refused(outcome: Outcome, case: Tampered, honest_events: Events) -> None:
    """A refusal with the expected category, whose record is the honest one until the change."""
    assert outcome.category in expected(case), f"{case.name}: {outcome.reason or 'accepted'}"
    before = 0
    for k, (_, kind, size, _) in enumerate(honest_events):
        before += size * (kind in (MESSAGE, HINT))
        if before > case.entry.start:
            assert outcome.events[:k] == honest_events[:k], case.name
            return


@pytest.fixture
def predecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of one program share its decoded form, which is most of what a run begins with."""
    known: dict[int, Any] = {}

    def once(rom: Any, entry: int) -> Any:
        if id(rom) not in known:
            known[id(rom)] = rom, predecode(rom, entry)
        code, row = known[id(rom)][1]
        return code._replace(hits=np.zeros_like(code.hits)), row

    predecode = core.predecode
    monkeypatch.setattr(core, "predecode", once)


def test_tampered_proofs_of_the_machine(predecoded: None) -> None:
    """Native verifier on the whole manifest, both guests on parts of it."""
    proof = honest("collatz", "min")
    native, in_machine = natively(proof.keyed), guest("min")
    for case in tampered():
        refused(native(proof.program_id, case.words), case, proof.events)
    cases, published = thinned(tampered()), recursion_program("min")
    assert {c.entry for c in cases} == set(recorded(proof).entries())
    with ThreadPoolExecutor(2) as pool:
        told = pool.map(lambda c: in_machine(proof.program_id, c.words), cases)
        for case, by_guest in zip(cases, told, strict=True):
            assert by_guest == native(proof.program_id, case.words), case.name
    for case in cases[::10]:
        with pytest.raises(ExecutionError, match=PANICKED + native(proof.program_id, case.words).reason):
            published.run(bytes(4) + proof.program_id + case.words.astype("<u8").tobytes())


def test_tampered_nonce(predecoded: None) -> None:
    """The proof of work, which `min` does without."""
    proof = honest("collatz", "fast")
    native, in_machine = natively(proof.keyed), guest("fast")
    cases = [c for c in manifest(recorded(proof), [recorded(honest("hashing", "fast"))])
             if c.entry.label == Label.NONCE]
    assert len(cases) >= 6
    for case in cases:
        assert in_machine(proof.program_id, case.words) == native(proof.program_id, case.words), case.name


@pytest.mark.parametrize("label", [Label.DOMAIN, Label.PROGRAM, Label.TABLES, Label.SIGMA, Label.FINAL])
def test_interpreter_on_tampered_proofs_of_the_machine(label: Label) -> None:
    proof = honest("collatz", "min")
    case = next(c for c in tampered() if c.entry.label == label and c.strategy == "add_one")
    outcome = interpreted(proof.keyed)(proof.program_id, case.words)
    assert outcome == natively(proof.keyed)(proof.program_id, case.words)
    refused(outcome, case, proof.events)


AIRS = ("squares 5", "echo 3")


@pytest.mark.parametrize("shape", AIRS)
def test_tampered_proofs_of_example_airs(shape: str) -> None:
    """Native on the whole manifest, the interpreter on a case for each label and for each strategy."""
    made, other = make(SHAPES[shape]), make(SHAPES["permutation 5 5 5"])
    native, slow = natively(made.keyed), interpreted(made.keyed)
    assert slow(made.program_id, made.words) == native(made.program_id, made.words) == Outcome("", made.events)
    seen: set[Label | str] = set()
    for case in manifest(Recorded(made.words, made.events), [Recorded(other.words, other.events)]):
        outcome = native(made.program_id, case.words)
        refused(outcome, case, made.events)
        if not {case.entry.label, case.strategy} <= seen:
            seen |= {case.entry.label, case.strategy}
            assert slow(made.program_id, case.words) == outcome, case.name
    strategies = {s.__name__ for s in tamper.WHOLE}
    assert seen == strategies | set(STRATEGIES) - ({Label.FRI_ROOT} if shape == "echo 3" else set())
