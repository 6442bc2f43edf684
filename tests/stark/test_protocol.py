"""Honest proofs are accepted by every verifier; a changed proof or statement is refused, and says why."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import pytest
from cases import SHAPES, make, permutation_case, proof, refusal

from tailbite.channel import describe
from tailbite.field import P
from tailbite.stark.params import preset
from tailbite.stark.system import Keyed, ProgramKey
from tailbite.stark.verifier import CATEGORIES, VerificationError, check_words, library, working_words
from tailbite.stark.verifier import refusal as typed

SMALL = ["fibonacci 5", "permutation 5 5 5", "squares 5", "echo 3"]
TYPED = set(CATEGORIES) - {"internal"}
MASK = (1 << 64) - 1
LIKELY = np.array([0, 1, 5, 6, 26, MASK], dtype=np.uint64)


# ---------------------------------------------------------------- honest proofs


@pytest.mark.parametrize("shape", SHAPES)
def test_honest_proof(shape: str) -> None:
    made = proof(shape)
    events = check_words(made.keyed, made.program_id, made.words, record=True)
    assert describe(events) == describe(made.events)


@pytest.mark.parametrize("name", ["standard", "strong", "strong8", "min"])
@pytest.mark.parametrize("shape", SMALL)
def test_presets(shape: str, name: str) -> None:
    assert proof(shape, name).refusal() == ""


@pytest.mark.parametrize("shape", ["fibonacci 5", "echo 3"])
def test_interpreter(shape: str) -> None:
    made = proof(shape)
    events = check_words(made.keyed, made.program_id, made.words, record=True, interpret=True)
    assert describe(events) == describe(made.events)


@pytest.mark.parametrize(("at", "change", "category"), [
    (0, 1, "header"), (3, 1, "program"), (8, 1, "statement"), (12, 1, "shape"), (12, 1 << 63, "shape")])
def test_interpreter_refuses_alike(at: int, change: int, category: str) -> None:
    made = proof("fibonacci 5")
    words = made.words.copy()
    words[at] ^= np.uint64(change)
    for interpret in (False, True):
        with pytest.raises(VerificationError) as e:
            check_words(made.keyed, made.program_id, words, interpret=interpret)
        assert e.value.category == category


@pytest.mark.parametrize("case", [SHAPES["squares 8"], permutation_case(12, [10, 10], 4000)])
def test_same_bytes_on_any_number_of_threads(case) -> None:
    one, two = make(case, threads=1), make(case, threads=2)
    assert one.words.tobytes() == two.words.tobytes()
    assert one.events == two.events
    assert one.refusal() == ""


def test_working_memory_may_hold_anything() -> None:
    made = proof("squares 5")
    k = made.keyed
    identity = np.frombuffer(made.program_id, dtype="<u8").astype(np.uint64)
    memory = np.full(working_words(k, len(made.words)), MASK, dtype=np.uint64)
    library.verify(k.words, k.params_words, k.vm_words, identity, made.words, memory, np.zeros(0, dtype=np.uint64))


# ---------------------------------------------------------------- changed proofs


def changes(words, i: int) -> Iterator[int]:
    """Other values for word ``i``: off by one, high bit, not canonical, zero, its neighbour's."""
    x = int(words[i])
    some = {x + 1 & MASK, x ^ 1 << 63, 0, int(words[(i + 1) % len(words)]), x + P if x + P <= MASK else x}
    yield from sorted(some - {x})


@pytest.mark.parametrize("shape", SHAPES)
def test_every_word_counts(shape: str) -> None:
    made = proof(shape)
    assert made.refusal() == ""
    seen = set()
    for i in range(len(made.words)):
        for value in changes(made.words, i):
            words = made.words.copy()
            words[i] = value
            category = made.refusal(words)
            assert category in TYPED, f"word {i} changed to {value:#x}: {category or 'accepted'}"
            seen.add(category)
    assert {"header", "program", "statement", "shape", "constraints", "work", "opening"} <= seen


@pytest.mark.parametrize("shape", SHAPES)
def test_length(shape: str) -> None:
    made = proof(shape)
    for n in range(len(made.words)):
        assert made.refusal(made.words[:n]) == "truncated", n
    for extra in ([0], [1], [0] * 1000, made.words):
        assert made.refusal(np.concatenate([made.words, np.array(extra, dtype=np.uint64)])) == "extended"


@pytest.mark.parametrize("shape", SMALL)
def test_words_dropped_or_doubled(shape: str) -> None:
    made = proof(shape)
    for i in range(len(made.words)):
        assert made.refusal(np.delete(made.words, i)) in TYPED
        assert made.refusal(np.insert(made.words, i, made.words[i])) in TYPED


def test_noise() -> None:
    rng = np.random.default_rng(5)
    for shape in SMALL:
        made = proof(shape)
        for _ in range(400):
            kept = rng.integers(0, 60)
            noise = rng.integers(0, MASK, rng.integers(0, 2000), dtype=np.uint64, endpoint=True)
            noise[rng.random(len(noise)) < rng.random()] = rng.choice(LIKELY)
            assert made.refusal(np.concatenate([made.words[:kept], noise])) in TYPED


def test_two_proofs_spliced() -> None:
    """Two good proofs of one statement, cut anywhere behind it."""
    a, b = (make(permutation_case(5, [5], n)) for n in (20, 21))
    assert a.refusal() == b.refusal() == ""
    for i in range(14, min(len(a.words), len(b.words)) - 1):
        assert a.refusal(np.concatenate([a.words[:i], b.words[i:]])) in TYPED


# ---------------------------------------------------------------- changed statements


def statement(made) -> tuple[ProgramKey, int]:
    """The program key in a proof, and where the length of the output stands."""
    n = len(made.keyed.system.program_tables)
    key = [int(w) for w in made.words[3:8 + n]]
    return ProgramKey(key[0], tuple(key[1:1 + n]), tuple(key[1 + n:])), 8 + n


@pytest.mark.parametrize("shape", SHAPES)
def test_program_id(shape: str) -> None:
    made = proof(shape)
    for bit in range(0, 256, 7):
        other = bytearray(made.program_id)
        other[bit // 8] ^= 1 << bit % 8
        assert refusal(made.keyed, bytes(other), made.words) == "program"


@pytest.mark.parametrize("shape", SHAPES)
def test_other_machine(shape: str) -> None:
    """The same tables under another identity, with the program's identity to match."""
    made = proof(shape)
    other = copy.copy(made.keyed)
    other.__dict__["vm_words"] = made.keyed.vm_words ^ np.uint64(1)
    assert refusal(other, made.program_id, made.words) == "program"
    assert refusal(other, statement(made)[0].id(other), made.words) in TYPED - {"program"}
    assert made.refusal() == ""


@pytest.mark.parametrize("shape", SMALL)
@pytest.mark.parametrize("name", ["min", "standard", "strong"])
def test_other_preset(shape: str, name: str) -> None:
    """A proof does not count under another preset, even when it names it."""
    made = proof(shape)
    other = made.keyed.system.keyed(preset(name))
    identity = statement(made)[0].id(other)
    assert refusal(other, identity, made.words) == "header"
    words = made.words.copy()
    words[2] = other.params.number
    assert refusal(other, identity, words) in TYPED - {"header", "program"}


def test_output_of_another_length() -> None:
    made = proof("echo 3")
    _, at = statement(made)
    for size, body in [(2, [0x6261]), (4, [0x63636261]), (0, []), (8, [0x636261]), (11, [0x636261, 0]),
                       (1 << 20, []), ((1 << 20) + 1, []), (1 << 63, []), (MASK, [])]:
        words = np.concatenate([made.words[:at], np.array([size, *body], dtype=np.uint64), made.words[at + 2:]])
        assert made.refusal(words) in TYPED


def test_a_public_word_has_one_encoding() -> None:
    made = proof("fibonacci 6")
    _, at = statement(made)
    words = made.words.copy()
    assert int(words[at + 1]) == 1
    words[at + 1] = 1 + P
    assert made.refusal(words) == "encoding"


def test_each_proof_under_each_other_key() -> None:
    keys: dict[bytes, tuple[Keyed, bytes]] = {}
    for shape in SHAPES:
        made = proof(shape)
        keys[made.keyed.vm_id + made.program_id] = made.keyed, made.program_id
    for shape in SHAPES:
        made = proof(shape)
        for k, (keyed, identity) in keys.items():
            same = k == made.keyed.vm_id + made.program_id
            assert refusal(keyed, identity, made.words) in ({""} if same else TYPED)
    assert len(keys) > 6


def test_each_proof_of_another_preset() -> None:
    for name in ("standard", "strong8", "min"):
        for shape in SMALL:
            made = proof(shape, name)
            assert refusal(proof(shape).keyed, proof(shape).program_id, made.words) == "header"


def test_hostile_heights() -> None:
    made = proof("permutation 5 5 5")
    _, at = statement(made)
    for k in range(3):
        for log in (1, 4, 27, 63, 64, 69, 1 << 32, 1 << 63, MASK):
            words = made.words.copy()
            words[at + 1 + k] = log
            assert made.refusal(words) == "shape"
    for logs in ([0, 0, 0], [0, 5, 5], [5, 0, 5], [5, 5, 6], [26, 26, 26], [5, 5, 0], [5, 0, 0], [6, 5, 5]):
        words = made.words.copy()
        words[at + 1:at + 4] = logs
        assert made.refusal(words) in TYPED


# ---------------------------------------------------------------- errors


def test_every_error_has_a_category() -> None:
    assert typed("fri: x").category == "fri"
    assert typed("verify.py:7: index outside the slice").category == "internal"
    assert typed("index 7 is outside a slice of 3 elements").category == "internal"
