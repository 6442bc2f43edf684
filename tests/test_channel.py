"""The proof stream: what a writer sends is what a reader reads and what both absorb, step by step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import plain
import pytest
from plain import WORD, P, PlainTranscript, array, ints

from tailbite import channel
from tailbite.channel import Label, Reader, Writer, describe, events_of
from tailbite.errors import Trap
from tailbite.field import Ext
from tailbite.lang import Array, Slice, cpu, function, length, u64
from tailbite.transcript import STATE_WORDS, start

MESSAGE, FIELD, HINT, ABSORB, CHALLENGE, INDEX, UNABSORBED = range(7)
SENT = (MESSAGE, FIELD, HINT)


class Step(NamedTuple):
    """One step of a protocol: kind, label, and its words or bound."""

    kind: int
    label: Label
    words: tuple[int, ...] = ()
    bound: int = 0


@function
def follow(steps: Slice[u64], proof: Slice[u64], known: Slice[u64], log: Slice[u64], out: Slice[u64]) -> u64:
    """The verifier of a protocol: (kind, label, count or bound) each step. Returns how many words it put in ``out``."""
    ch = Reader(proof, Array[u64, 1](), Array[u64, STATE_WORDS](), log)
    start(ch.t)
    n, given = u64(0), u64(0)
    for k in range(0, length(steps), 3):
        label, count = steps[k + 1], steps[k + 2]
        words = proof[0:0]
        match steps[k]:
            case 0:
                words = channel.message(ch, label, count)
            case 1:
                words = channel.field_message(ch, label, count)
            case 2:
                words = channel.hint(ch, label, count)
            case 3:
                channel.absorb(ch, label, known[given:given + count])
                given += count
            case 4:
                x = channel.challenge(ch, label)
                out[n], out[n + 1], out[n + 2] = x.c0, x.c1, x.c2
                n += 3
            case 5:
                out[n] = channel.challenge_below(ch, label, count)
                n += 1
            case _:
                words = channel.take(ch, count)
        for i in range(length(words)):
            out[n + i] = words[i]
        n += length(words)
    assert ch.at[0] == length(proof), "extended: the proof has words that nothing reads"
    return n


library = cpu.Library("channel-test", [follow])


def play(steps: Sequence[Step]) -> tuple[Writer, list[int]]:
    """The prover of the protocol, and every value in it."""
    w, values = Writer(), []
    for s in steps:
        if s.kind in (MESSAGE, FIELD):
            w.message(s.label, s.words)
        elif s.kind == HINT:
            w.hint(s.label, s.words)
        elif s.kind == ABSORB:
            w.absorb(s.label, s.words)
        values += s.words if s.kind in SENT else []
        if s.kind == CHALLENGE:
            values += w.challenge(s.label)
        elif s.kind == INDEX:
            values.append(w.challenge_below(s.label, s.bound))
    return w, values


def read(steps: Sequence[Step], proof: Sequence[int], run: Any = None, room: int = 200) -> tuple[list[int], Any]:
    """Values and log of the verifier on proof words."""
    coded = [x for s in steps for x in (s.kind, int(s.label), s.bound if s.kind == INDEX else len(s.words))]
    known = [w for s in steps if s.kind == ABSORB for w in s.words]
    log, out = array([0] * room), array([0] * 2000)
    n = (run or library.follow)(array(coded), array(proof), array(known), log, out)
    return ints(out[:int(n)]), log


def refusal(steps: Sequence[Step], proof: Sequence[int]) -> str:
    """Why the verifier refuses; "" if it accepts."""
    try:
        read(steps, proof)
    except Trap as e:
        return str(e)
    return ""


def random_protocol(seed: int, n: int = 12) -> list[Step]:
    """Steps of all kinds."""
    rng = random.Random(seed)
    steps = []
    for _ in range(n):
        kind, label = rng.choice((MESSAGE, FIELD, HINT, ABSORB, CHALLENGE, INDEX)), rng.choice(list(Label))
        size = rng.choice((0, 1, 3, 4, 16, 17, 18, 40))
        words = plain.random_elements(rng.random(), size) if kind == FIELD else plain.random_words(rng.random(), size)
        bound = rng.choice((1, 2, 1 << 20, 1000003, 2**63 + 1, WORD - 1))
        steps.append(Step(kind, label, tuple(words) if kind in (*SENT, ABSORB) else (), bound))
    return steps


PROTOCOL = [
    Step(ABSORB, Label.DOMAIN, (1, 2, 3)), Step(MESSAGE, Label.MAIN_ROOT, (WORD - 1, 5, 6, 7)),
    Step(CHALLENGE, Label.ALPHA), Step(CHALLENGE, Label.BETA), Step(FIELD, Label.VALUES, (8, 9, P - 2)),
    Step(CHALLENGE, Label.ZETA), Step(HINT, Label.ROWS, (10, 11)), Step(INDEX, Label.INDEX, bound=1 << 30),
    Step(MESSAGE, Label.NONCE, (12,)), Step(INDEX, Label.INDEX, bound=2**63 + 1),
]


# ---------------------------------------------------------------- agreement


@pytest.mark.parametrize("seed", range(25))
def test_reader_and_writer_agree(seed: int) -> None:
    steps = random_protocol(seed)
    w, values = play(steps)
    got, log = read(steps, w.words())
    assert got == values
    assert events_of(log) == [tuple(map(int, e)) for e in w.events]
    assert describe(events_of(log)) == describe(w.events)


@pytest.mark.parametrize("seed", range(3))
def test_the_interpreter_agrees(seed: int) -> None:
    steps = random_protocol(100 + seed, 8)
    w, values = play(steps)
    got, log = read(steps, w.words(), follow)
    assert (got, events_of(log)) == (values, [tuple(map(int, e)) for e in w.events])


def test_the_bytes_of_a_message_are_the_bytes_absorbed() -> None:
    w, values = play(PROTOCOL)
    t, sent = PlainTranscript(), b""
    want: list[int] = []
    for s in PROTOCOL:
        data = array(s.words).tobytes()
        sent += data if s.kind in SENT else b""
        if s.kind in (MESSAGE, FIELD, ABSORB):
            t.append_bytes(data)
        want += s.words if s.kind in SENT else []
        want += t.sample_extension_element() if s.kind == CHALLENGE else []
        want += [t.sample_u64(s.bound)] if s.kind == INDEX else []
    assert values == want
    assert w.words().tobytes() == sent


def test_labels_and_kinds_are_named_in_the_log() -> None:
    w, _ = play(PROTOCOL)
    lines = describe(w.events)
    assert [line.split()[:3] for line in lines[:3]] == [["domain", "absorb", "3"], ["main_root", "message", "4"],
                                                        ["alpha", "challenge", "3"]]
    assert len(set(lines)) == len(lines)


def test_pow_seed_is_a_squeeze() -> None:
    w = Writer()
    w.message(Label.FINAL, [1, 2])
    want = plain.keccak256(array([1, 2]).tobytes())[::-1]
    assert array(w.pow_seed()).tobytes() == want
    assert w.events[-1] == (Label.POW_SEED, channel.CHALLENGE, 4, int.from_bytes(want[:8], "little"))


def test_an_empty_proof_has_no_words() -> None:
    assert len(Writer().words()) == 0
    assert refusal([Step(CHALLENGE, Label.ALPHA)], []) == ""


# ---------------------------------------------------------------- dependence


def challenges(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """(step, value) of every challenge."""
    out, w = [], Writer()
    for k, s in enumerate(steps):
        before = len(w.events)
        _replay(w, s)
        out += [(k, e[3]) for e in w.events[before:] if e[1] == channel.CHALLENGE]
    return out


def _replay(w: Writer, s: Step) -> None:
    if s.kind in (MESSAGE, FIELD):
        w.message(s.label, s.words)
    elif s.kind == ABSORB:
        w.absorb(s.label, s.words)
    elif s.kind == HINT:
        w.hint(s.label, s.words)
    elif s.kind == CHALLENGE:
        w.challenge(s.label)
    elif s.kind == INDEX:
        w.challenge_below(s.label, s.bound)


def changed_word(s: Step, i: int) -> Step:
    """The step with one word changed."""
    return s._replace(words=(*s.words[:i], s.words[i] ^ 1, *s.words[i + 1:]))


def unbound_words(steps: Sequence[Step]) -> list[int]:
    """Steps with a word that can change without changing every later challenge."""
    honest, out = challenges(steps), []
    for k, s in enumerate(steps):
        for i in range(len(s.words)):
            other = challenges([*steps[:k], changed_word(s, i), *steps[k + 1:]])
            pairs = list(zip(honest, other, strict=True))
            assert all(a == b for a, b in pairs if a[0] < k)
            if any(a == b for a, b in pairs if a[0] > k):
                out.append(k)
    return sorted(set(out))


def test_every_later_challenge_depends_on_every_message() -> None:
    """Hints alone are free: whoever reads them checks them against a root."""
    assert unbound_words(PROTOCOL) == [k for k, s in enumerate(PROTOCOL) if s.kind == HINT]


def test_a_message_that_is_not_absorbed_is_seen() -> None:
    """The mutant sends each message as a hint."""
    mutant = [s._replace(kind=HINT) if s.kind in (MESSAGE, FIELD) else s for s in PROTOCOL]
    assert unbound_words(mutant) == [k for k, s in enumerate(mutant) if s.kind == HINT and k < len(mutant) - 1]
    steps = [Step(UNABSORBED, s.label, s.words) if s.kind == MESSAGE else s for s in PROTOCOL]
    w, values = play(PROTOCOL)
    assert read(steps, w.words())[0] != values == read(PROTOCOL, w.words())[0]


def test_the_log_names_the_first_divergence() -> None:
    """A changed word of a message is seen in that message's line, not in a later challenge only."""
    w, _ = play(PROTOCOL)
    lines = describe(w.events)
    owners = [k for k, s in enumerate(PROTOCOL) if s.kind in SENT for _ in s.words]
    for at, owner in enumerate(owners):
        proof = ints(w.words())
        proof[at] ^= 1
        theirs = describe(events_of(read(PROTOCOL, proof)[1]))
        differ = [k for k, (a, b) in enumerate(zip(lines, theirs, strict=True)) if a != b]
        assert differ[:1] == ([] if PROTOCOL[owner].kind == HINT else [owner])


def test_lengths_are_not_framed_but_bound() -> None:
    """A longer message gives other challenges; a message split in two gives the same: lengths are the verifier's."""
    def after(*messages: tuple[int, ...]) -> Any:
        return challenges([*(Step(MESSAGE, Label.OUTPUT, m) for m in messages), Step(CHALLENGE, Label.ALPHA)])[-1][1]

    assert after((5, 7)) != after((5, 7, 0, 0))
    assert after((5,), (7,)) == after((5, 7))
    assert len({after((0,) * n) for n in (0, 1, 255, 256, 257)}) == 5
    assert after((2, 5, 7)) != after((4, 5, 7, 0, 0)), "with its length in front, as the statement has it"


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize("seed", range(4))
def test_every_truncation_is_refused(seed: int) -> None:
    steps = random_protocol(seed)
    proof = ints(play(steps)[0].words())
    assert refusal(steps, proof) == ""
    for n in range(len(proof)):
        assert "truncated: the proof ends too early" in refusal(steps, proof[:n])


@pytest.mark.parametrize("seed", range(4))
def test_an_extension_is_refused(seed: int) -> None:
    steps = random_protocol(seed)
    proof = ints(play(steps)[0].words())
    assert refusal(steps, proof) == ""
    for extra in ([0], [WORD - 1], [1, 2, 3]):
        assert "extended" in refusal(steps, proof + extra)


@pytest.mark.parametrize("bad", [P, P + 1, P + 8, WORD - 1])
def test_a_field_element_must_be_canonical(bad: int) -> None:
    proof = ints(play(PROTOCOL)[0].words())
    for at in range(4, 7):
        for good in (0, P - 1):
            assert refusal(PROTOCOL, [*proof[:at], good, *proof[at + 1:]]) == ""
        assert "encoding: a field element is not canonical" in refusal(PROTOCOL, [*proof[:at], bad, *proof[at + 1:]])
    assert refusal(PROTOCOL, [bad, *proof[1:]]) == "", "a root is any four words"


def test_a_length_near_the_word_size_does_not_wrap() -> None:
    """``at + count`` must not overflow."""
    at, proof = array([3]), array([1, 2, 3, 4])
    reader = Reader(proof, at, array([0] * STATE_WORDS), array([]))
    for count in (2, WORD - 1, WORD - 3, 2**63):
        with pytest.raises(Trap, match="truncated"):
            channel.take(reader, count)
        assert ints(at) == [3]
    assert ints(channel.take(reader, 1)) == [4]


# ---------------------------------------------------------------- log


def test_a_small_log_keeps_the_first_events() -> None:
    w, values = play(PROTOCOL)
    got, log = read(PROTOCOL, w.words(), room=1 + 4 * 3 + 2)
    assert got == values and int(log[0]) == len(PROTOCOL)
    assert events_of(log) == [tuple(map(int, e)) for e in w.events[:3]]


def test_without_a_log_nothing_changes() -> None:
    w, values = play(PROTOCOL)
    assert read(PROTOCOL, w.words(), room=0)[0] == values


def test_challenges_come_from_the_transcript_alone() -> None:
    assert isinstance(channel.challenge(Reader(array([]), array([0]), array([0] * STATE_WORDS), array([])), 1), Ext)
    assert [int(label) for label in Label] == list(range(1, len(Label) + 1)), "labels are numbered as they occur"
