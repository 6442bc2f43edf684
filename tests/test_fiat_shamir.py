"""The gate for Fiat-Shamir: what is absorbed and drawn is as pinned, all of it counts, and each challenge is needed.

* Inventory: tests/data/transcript.txt has every step of the protocol as recorded from proofs. The source has these
  steps and no others, and nobody but the channel talks to the transcript.
* Dependence: one changed word of the statement or of a message changes every challenge after it, and none before. The
  verifier itself says so, interpreted without its assertions, so that it goes on to the last challenge.
* Frozen challenges: who knows a challenge too early proves a false claim to a verifier that replays it (frozen.py).
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import inventory
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "stark"))
from cases import SHAPES, Made, make, proof
from frozen import ATTACKS, Attack, attempt, lax
from test_dishonest import failures

from tailbite import channel
from tailbite.channel import ABSORB, CHALLENGE, HINT, MESSAGE, RECORD_WORDS, Label, events_of
from tailbite.errors import Trap
from tailbite.lang import function as function_decorator
from tailbite.stark.system import System
from tailbite.stark.verifier import working_words
from tailbite.stark.verify import verify

Events = list[tuple[int, int, int, int]]
interpreter = sys.modules[type(function_decorator(lambda: None)).__module__]

# ---------------------------------------------------------------- inventory


@pytest.fixture(scope="module")
def proofs() -> list[inventory.Recorded]:
    return inventory.all_recorded()


def test_inventory_is_as_pinned(proofs: list[inventory.Recorded]) -> None:
    now = inventory.inventory(proofs)
    assert "?" not in now, "no formula gives a size"
    assert now == inventory.PINNED.read_text(), "to write a deliberate change: python tests/inventory.py"


@pytest.mark.parametrize("label", [Label.MAIN_ROOT, Label.SIGMA, Label.ZETA, Label.NONCE])
def test_a_step_less_or_another_size_is_noticed(label: Label, proofs: list[inventory.Recorded]) -> None:
    def without(p: inventory.Recorded) -> inventory.Recorded:
        return p._replace(events=[e for e in p.events if e[0] != label])

    def longer(p: inventory.Recorded) -> inventory.Recorded:
        return p._replace(events=[(a, k, n + (a == label), v) for a, k, n, v in p.events])

    for change in (without, longer):
        assert inventory.inventory([*proofs[:-1], change(proofs[-1])]) != inventory.PINNED.read_text()


def test_messages_and_openings_are_the_whole_proof(proofs: list[inventory.Recorded]) -> None:
    for p in proofs:
        assert sum(n for _, kind, n, _ in p.events if kind in (MESSAGE, HINT)) == p.words


def test_the_source_has_the_recorded_steps(proofs: list[inventory.Recorded]) -> None:
    seen = {(Label(label), kind) for p in proofs for label, kind, _, _ in p.events}
    assert inventory.read_sites() == inventory.written_sites() == seen
    assert {label for label, _ in seen} == set(Label)


def test_the_transcript_is_the_channels_alone() -> None:
    """Who imports what; the exceptions are the start, and the squeeze that seeds the proof of work."""
    exceptions = {("stark/verify.py", "start"), ("stark/verify.py", "STATE_WORDS"),
                  ("stark/verify_queries.py", "squeeze")}
    assert {(file, name) for file, name in inventory.imports("transcript") if file != "channel.py"} == exceptions
    assert not any(name in ("take", "channel") for _, name in inventory.imports("channel"))
    assert {file for file, name in inventory.imports("channel") if name == "hint"} == {"stark/verify_trees.py"}
    assert inventory.channel_parts() == {
        ("stark/verify.py", "verify", "t"),  # start
        ("stark/verify.py", "verify", "at"),  # nothing may be left over
        ("stark/verify_queries.py", "check_work", "t"),  # squeeze
        ("stark/verify_queries.py", "open_layer", "at"),  # rows that were hinted just before, together
        ("stark/verify_queries.py", "open_layer", "proof"),
    }


@pytest.mark.parametrize("code", [
    "from ..transcript import sample_ext\n",
    "from .. import transcript\n",
    "from ..channel import take\n",
    "from ..channel import hint\n",
    "def peek(ch):\n    return ch.proof[0]\n",
    "def more(ch):\n    return challenge(ch, u64(int(Label.DOMAIN)))\n",
    "def nameless(ch):\n    return challenge(ch, u64(1))\n",
])
def test_another_step_in_the_source_is_noticed(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                               proofs: list[inventory.Recorded]) -> None:
    copied = shutil.copytree(inventory.SOURCE, tmp_path / "tailbite", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(inventory, "SOURCE", copied)
    test_the_source_has_the_recorded_steps(proofs)
    test_the_transcript_is_the_channels_alone()
    with (copied / "stark" / "verify_queries.py").open("a") as f:
        f.write(code)
    with pytest.raises(AssertionError):
        test_the_source_has_the_recorded_steps(proofs)
        test_the_transcript_is_the_channels_alone()


# ---------------------------------------------------------------- dependence


class Statement(NamedTuple):
    """What the verifier is called with; ``words`` end before the openings."""

    made: Made
    vm_words: Any
    program_id: Any
    words: Any

    def changed(self, name: str, at: int) -> Statement:
        """One bit of one word changed: bit 0, which keeps field elements canonical."""
        words = getattr(self, name).copy()
        words[at] ^= np.uint64(1)
        return self._replace(**{name: words})


def statement_of(made: Made) -> Statement:
    sent = sum(size for _, kind, size, _ in made.events if kind == MESSAGE)
    identity = np.frombuffer(made.program_id, dtype="<u8").astype(np.uint64)
    return Statement(made, made.keyed.vm_words, identity, made.words[:sent].copy())


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted assertions pass."""
    monkeypatch.setattr(interpreter._typed_assert, "__code__", (lambda ok, where: None).__code__)


def events(s: Statement) -> Events:
    """The interpreted verifier's record, up to the last challenge: the openings are cut off."""
    keyed = s.made.keyed
    log = np.zeros(1 + RECORD_WORDS * 1000, dtype=np.uint64)
    with pytest.raises(Trap, match="is outside a slice"):
        verify(keyed.words, keyed.params_words, s.vm_words, s.program_id, s.words,
               np.zeros(working_words(keyed, len(s.made.words)), dtype=np.uint64), log)
    return events_of(log)


def challenges(record: Events) -> dict[tuple[Label, int], Any]:
    """Challenges by label and number; all indices are one, as a single one has few values."""
    out: dict[tuple[Label, int], Any] = {}
    seen = Counter[int]()
    for label, kind, _, value in record:
        if kind == CHALLENGE:
            if label == Label.INDEX:
                out[Label.INDEX, 0] = (*out.get((Label.INDEX, 0), ()), value)
            else:
                out[Label(label), seen[label]] = value
                seen[label] += 1
    return out


class Place(NamedTuple):
    """A word that is absorbed: of which argument, and the number of the event that absorbs it."""

    name: str
    at: int
    event: int


def places(s: Statement) -> Iterator[Place]:
    """Every word of the statement, and the first and last of every later message."""
    at = 0
    for k, (label, kind, size, _) in enumerate(s.made.events):
        if kind == MESSAGE:
            inner = range(size) if label <= Label.TABLES else {0, size - 1}
            yield from (Place("words", at + i, k) for i in inner)
            at += size
        elif kind == ABSORB:
            yield from (Place("vm_words" if label == Label.DOMAIN else "program_id", i, k) for i in range(size))


def unbound(s: Statement, honest: Events, place: Place) -> set[tuple[Label, int]]:
    """Later challenges that a changed word leaves as they are; what comes before must not move."""
    record = events(s.changed(place.name, place.at))
    assert record[:place.event] == honest[:place.event]
    before, after = challenges(honest[:place.event]), challenges(record)
    return {key for key, value in challenges(honest).items() if key not in before and after.get(key) == value}


DEPENDENT = ["echo 3", "permutation 6 5", "fibonacci 5"]


@pytest.mark.parametrize("shape", DEPENDENT)
def test_every_word_changes_every_later_challenge(shape: str, unchecked: None) -> None:
    s = statement_of(proof(shape))
    honest = events(s)
    assert honest == [e for e in s.made.events if e[1] != HINT]
    found = list(places(s))
    assert {p.event for p in found} == {k for k, e in enumerate(honest) if e[1] in (MESSAGE, ABSORB) and e[2]}
    for place in found:
        assert unbound(s, honest, place) == set(), place


def test_the_statement_has_all_its_fields() -> None:
    """Magic, version, preset; machine; entry, heights and root of the program; its id; output; table list."""
    s = statement_of(proof("echo 3"))
    sizes = [(Label(a), k, n) for a, k, n, _ in s.made.events if a <= Label.TABLES]
    assert sizes == [(Label.DOMAIN, MESSAGE, 3), (Label.DOMAIN, ABSORB, 4), (Label.PROGRAM, MESSAGE, 6),
                     (Label.PROGRAM_ID, ABSORB, 4), (Label.OUTPUT, MESSAGE, 1), (Label.OUTPUT, MESSAGE, 1),
                     (Label.TABLES, MESSAGE, 3)]
    assert bytes(s.words[:1].astype("<u8")) == b"tailbite" and len(list(places(s))) > sum(n for *_, n in sizes)


@pytest.mark.parametrize("label", [label for label in Label if (label, MESSAGE) in inventory.read_sites()])
def test_a_message_that_is_not_absorbed_is_noticed(label: Label, unchecked: None,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant of the channel that forgets the messages of one label."""
    message = channel.message.interpreted

    def forgetful(ch: Any, name: Any, count: Any) -> Any:
        if int(name) != label:
            return message(ch, name, count)
        words = channel.take(ch, count)
        channel.record_absorbed(ch, name, MESSAGE, count)
        return words

    s = statement_of(proof("echo 3" if label == Label.OUTPUT else "permutation 6 5"))
    *_, word = (p for p in places(s) if s.made.events[p.event][:2] == (label, MESSAGE))
    assert unbound(s, events(s), word) == set()
    monkeypatch.setitem(channel.message.__dict__, "interpreted", forgetful)
    assert unbound(s, events(s), word)


def altered(system: System, **change: Any) -> System:
    """The same tables, but for a value of the first one."""
    other = dataclasses.replace(system)
    other.__dict__["programs"] = [dataclasses.replace(system.programs[0], **change), *system.programs[1:]]
    return other


def test_constraints_and_parameters_are_in_the_statement() -> None:
    """Another preset, table or system of the same shape: the first challenge is another, with the same columns."""
    case = SHAPES["fibonacci 5"]

    def first(system: System = case.system, preset: str = "fast") -> Any:
        return challenges(make(case._replace(system=system), preset).events)[Label.CONSTRAINT, 0]

    table = case.system.programs[0]
    (kind, a, b), *rest = table.ops
    others = [first(preset="min"), first(dataclasses.replace(case.system, name="another")),
              first(altered(case.system, ops=(((kind + 1) % 3, a, b), *rest))),
              first(altered(case.system, constants=(*(c + 1 for c in table.constants),))),
              first(altered(case.system, constraint_names=(*reversed(table.constraint_names),)))]
    assert first() == challenges(proof("fibonacci 5").events)[Label.CONSTRAINT, 0]
    assert len({first(), *others}) == 1 + len(others)


# ---------------------------------------------------------------- frozen challenges


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_frozen_challenge(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lax verifier is led to accept what is false; ours refuses, and so does the lax one with a live challenge."""
    o = attempt(attack, monkeypatch)
    assert failures(attack.honest) == set()
    assert o.honest.refusal() == lax(o.honest, {}) == lax(o.honest, o.frozen) == "", "the honest twin"
    assert failures(o.case) and make(o.case).refusal() != "", "the claim is false"
    assert lax(o.forged, o.frozen) == "", "known too early, the challenge lets it pass"
    assert o.channel.given[attack.label] == o.frozen[attack.label]
    assert o.channel.drawn[attack.label] != o.frozen[attack.label], "a changed message changes the challenge"
    assert o.forged.refusal() == attack.category
    assert lax(o.forged, {}) != ""
    again = attempt(attack, monkeypatch, live=[attack.label])
    assert lax(again.forged, again.frozen) != "", "this challenge is what the attack needs"
    assert again.forged.refusal() not in ("", "internal")


def test_every_challenge_has_an_attack() -> None:
    drawn = {label for label, kind in inventory.read_sites() if kind == CHALLENGE}
    assert {attack.label for attack in ATTACKS.values()} == drawn | {Label.OUTPUT}
