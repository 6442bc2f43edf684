"""Kinds of mistakes 71-84: sampling and proof of work. What tests/test_transcript.py covers exactly is not here."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import SHAPES, echo_case, fibonacci_case, make, proof, squares_case
from plain import array
from test_kernels import ground, zero_bits
from test_merkle import matrices, opened
from test_merkle import refusal as opening_refusal

from tailbite.channel import CHALLENGE, HINT, Label, Reader, Writer
from tailbite.demo import collatz
from tailbite.errors import ParameterError, Trap
from tailbite.hash import merkle
from tailbite.lang import Slice, cpu, function, u64
from tailbite.stark import prove_fri, verify_queries
from tailbite.stark.params import PRESETS, preset
from tailbite.stark.soundness import query_error
from tailbite.stark.verifier import check_words
from tailbite.transcript import STATE_WORDS, Transcript, absorb_words, start

MASK = (1 << 64) - 1


# ---------------------------------------------------------------- 72, 73: bit counts


@function
def check_nonce(nonce: u64, bits: u64, proof: Slice[u64], at: Slice[u64], t: Slice[u64]) -> None:
    """The verifier's own check of a nonce, as a compiled function."""
    proof[0] = nonce
    verify_queries.check_work(Reader(proof, at, t, proof[0:0]), bits)


library = cpu.Library("work-test", [check_nonce])


def refuses(run: Callable[..., None], nonce: int, bits: int) -> bool:
    """Whether the check fails for a nonce at a difficulty; all traps count."""
    state = array([0] * STATE_WORDS)
    start(state)
    absorb_words(state, array([1, 2, 3]))
    try:
        run(nonce, bits, array([0]), array([0]), state)
    except Trap:
        return True
    return False


@pytest.mark.parametrize("bits", range(24, 65))
def test_73_no_difficulty_is_trivial(bits: int) -> None:
    """Random nonces fail at every difficulty that parameters can have."""
    rng = random.Random(bits)
    for k in range(6):
        nonce = rng.getrandbits(64)
        assert refuses(library.check_nonce, nonce, bits)
        if k == 0:
            assert refuses(check_nonce, nonce, bits)


def test_73_the_right_nonce_passes() -> None:
    """The honest twin: at small difficulties, the exact threshold by the hash's own count of zero bits."""
    w = Writer()
    w.message(Label.FINAL, [1, 2, 3])
    seed = w.pow_seed()
    for bits in range(1, 13):
        nonce = ground(bits, 1, seed)
        zeros = zero_bits([verify_queries.POW_TAG, *seed, bits], nonce)
        assert zeros >= bits and not refuses(library.check_nonce, nonce, bits)
        for other in range(nonce):
            assert refuses(library.check_nonce, other, bits), "no smaller one passes"
    assert not refuses(library.check_nonce, 12345, 0), "no bits: nothing is read"


@pytest.mark.parametrize("bits", [-1, 65, 66, 96, 127, 128, 129, 1 << 32, 1 << 63, 1 << 64, (1 << 64) + 20])
def test_73_no_parameters_with_a_difficulty_that_wraps(bits: int) -> None:
    """A shift by 64 - 65 would look at one bit, for 65 that the bound counts. All presets, and 64, are in range."""
    for params in PRESETS:
        assert dataclasses.replace(params, grinding_bits=64).grinding_bits == 64
        with pytest.raises(ParameterError, match="proof of work"):
            dataclasses.replace(params, grinding_bits=bits)


@function
def shifts(x: u64, k: u64, out: Slice[u64]) -> None:
    """Mask, size and shift for a number of bits."""
    out[0] = (u64(1) << k) - 1
    out[1] = x >> k
    out[2] = x << k


def test_72_shifts_by_every_count() -> None:
    """Compiled and interpreted alike, also where a shift is as wide as the word or wider."""
    compiled = cpu.Library("shifts-test", [shifts])
    for k in [*range(70), 127, 128, 1 << 32, 1 << 63, MASK]:
        fast, slow = array([0] * 3), array([0] * 3)
        compiled.shifts(0x8123456789ABCDEF, k, fast)
        shifts(0x8123456789ABCDEF, k, slow)
        assert fast.tolist() == slow.tolist()
        if k < 64:
            assert fast.tolist() == [(1 << k) - 1, 0x8123456789ABCDEF >> k, 0x8123456789ABCDEF << k & MASK]


# ---------------------------------------------------------------- 75, 79: lengths


def test_75_outputs_whose_lengths_a_narrow_tag_confuses() -> None:
    """Zeros of lengths that agree mod 2^8 or 2^16, and around these: all statements differ in all challenges."""
    lengths = [0, 1, 8, 255, 256, 257, 264, 512, 65535, 65536, 65537, 65536 + 256]
    alphas = []
    for n in lengths:
        ch = Writer()
        ch.message(Label.OUTPUT, [n])
        ch.message(Label.OUTPUT, np.zeros((n + 7) // 8, dtype=np.uint64))
        alphas.append(ch.challenge(Label.ALPHA))
    assert len({a[0] for a in alphas}) == len(lengths)
    for n in (255, 256, 257):
        assert make(echo_case(bytes(n))).refusal() == ""


def test_79_an_empty_message_is_absorbed_on_both_sides() -> None:
    """An empty output is a message: prover and verifiers have it in their record, and discard what is buffered."""
    made = proof("echo nothing")
    for interpret in (False, True):
        assert check_words(made.keyed, made.program_id, made.words, True, interpret) == made.events
    assert [size for label, _, size, _ in made.events if label == Label.OUTPUT] == [1, 0]
    one, two = Writer(), Writer()
    assert one.challenge_below(Label.INDEX, 1 << 60) == two.challenge_below(Label.INDEX, 1 << 60)
    one.message(Label.OUTPUT, [])
    assert one.challenge_below(Label.INDEX, 1 << 60) != two.challenge_below(Label.INDEX, 1 << 60)


# ---------------------------------------------------------------- 76: how many queries count


@pytest.mark.parametrize("name", ["fast", "standard", "strong", "strong8"])
def test_76_every_query_is_drawn_and_none_replaced(name: str) -> None:
    """On a domain so small that many coincide: as many are drawn as the preset says, and each distinct one opened.

    The bound is for draws with replacement: what coincides counts once for the verifier's work, not for the bound.
    """
    case = squares_case(6)
    made, params = make(case, name), preset(name)
    assert made.refusal() == ""
    events = check_words(made.keyed, made.program_id, made.words, record=True)
    drawn = [v for label, kind, _, v in events if label == Label.INDEX and kind == CHALLENGE]
    assert len(drawn) == params.num_queries
    if name != "fast":
        assert len(set(drawn)) < len(drawn)
    size = 64 << params.log_blowup
    trees = 5  # universal, program, main, LogUp, quotient: one height each, and one layer or none
    rows = sum(label == Label.ROWS and kind == HINT for label, kind, _, _ in events)
    layers = sum(label == Label.FRI_BETA for label, _, _, _ in events)
    assert layers == 1
    assert rows == trees * len({q % size for q in drawn}) + len({q % (size // 2) for q in drawn})
    assert query_error(params) == query_error(preset(params.number))


def test_76_forced_collisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that lets two draws coincide is not followed by the verifier."""
    below, seen = Writer.challenge_below, []

    def repeated(self: Any, label: Label, bound: int) -> int:
        seen.append(below(self, label, bound))
        return seen[0]

    monkeypatch.setattr(Writer, "challenge_below", repeated)
    made = make(SHAPES["squares 8"])
    assert len(set(seen)) > 1 and made.refusal() in {"opening", "truncated", "encoding"}
    monkeypatch.undo()
    assert make(SHAPES["squares 8"]).refusal() == ""


# ---------------------------------------------------------------- 77: heights of a tree


def test_77_every_set_of_heights() -> None:
    """Every subset of the heights 8 to 64: built, opened and accepted; one level more or less is refused."""
    heights = (8, 16, 32, 64)
    for n in range(1, 5):
        for some in itertools.combinations(heights, n):
            tree = merkle.commit(matrices(dict.fromkeys(some, 2)))
            assert tree.size == max(some) and len(tree.layers) == tree.size.bit_length()
            indices, rows, siblings = opened(tree, [1, tree.size - 2])
            assert opening_refusal(tree.root, indices, rows, siblings) == ""
            top = max(some)
            for high in (2 * top, top // 2):
                if high not in rows:
                    moved = {high if h == top else h: r for h, r in rows.items()}
                    assert opening_refusal(tree.root, indices, moved, siblings) != ""
            assert opening_refusal(tree.root, indices, rows, [*siblings[:1], *siblings]) != ""
            assert opening_refusal(tree.root, indices, rows, siblings[1:]) != ""
    for height in (0, 1, 2, 4, 7, 9, 24, 48, 65):
        with pytest.raises(ValueError):
            merkle.commit(matrices({64: 1, height: 1}))


# ---------------------------------------------------------------- 78, 81: buffers


def test_78_a_message_between_two_draws_of_one_buffer() -> None:
    """At the channel: after one, two or three words were drawn, any message changes the next draw."""
    for before in range(1, 5):
        for words in ([], [0], [0, 0]):
            plain, broken = Writer(), Writer()
            for ch in (plain, broken):
                ch.message(Label.FINAL, [7])
                for _ in range(before):
                    ch.challenge_below(Label.INDEX, 1 << 62)
            broken.message(Label.NONCE, words)
            same = plain.challenge_below(Label.INDEX, 1 << 62) == broken.challenge_below(Label.INDEX, 1 << 62)
            assert same == (before == 4 and words == [])  # a used-up buffer, and nothing absorbed


# ---------------------------------------------------------------- 83, 84: nonces


def other_nonces(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Let the prover take the first nonce, then the next good one, and so on."""
    grind = prove_fri.grind
    for k in range(3):
        def later(job: Any, seed: Any, bits: int, k: int = k) -> int:
            nonce = grind(job, seed, bits)
            for _ in range(k):
                nonce = next(x for x in itertools.count(nonce + 1)
                             if zero_bits([verify_queries.POW_TAG, *seed, bits], x) >= bits)
            return nonce

        monkeypatch.setattr(prove_fri, "grind", later)
        yield k


def test_84_the_nonce_comes_before_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole proofs with different good nonces: all accepted, with other queries each; nothing before changes."""
    indices, before = [], []
    for _ in other_nonces(monkeypatch):
        made = make(fibonacci_case(9))
        assert made.refusal() == ""
        labels = [label for label, _, _, _ in made.events]
        first = labels.index(Label.INDEX)
        assert labels[first - 2:first] == [Label.POW_SEED, Label.NONCE]
        assert not {Label.POW_SEED, Label.NONCE} & set(labels[first:])
        indices.append([v for label, _, _, v in made.events if label == Label.INDEX])
        before.append(made.events[:first - 1])
    assert before[0] == before[1] == before[2]
    for a, b in itertools.combinations(indices, 2):
        assert sum(x == y for x, y in zip(a, b, strict=True)) <= 1  # of eight among 1024 each


def test_83_a_proof_is_one_string_of_bytes() -> None:
    """With the grinding of a real preset, on one and more threads, in any order."""
    one = collatz.prove(5, params="standard", threads=2).to_bytes()
    assert collatz.prove(5, params="standard", threads=3).to_bytes() == one


def test_80_81_one_stream_for_all_implementations() -> None:
    """A stream of mixed draws from a copy in mid-buffer, by object, by compiled function and through the channel."""
    for used in range(5):
        ch = Writer()
        ch.message(Label.FINAL, [3, 1, 4])
        t = Transcript()
        t.append_words([3, 1, 4])
        for _ in range(used):
            assert ch.challenge_below(Label.INDEX, 1 << 63) == t.sample_u64(1 << 63)
        copy = t.clone()
        for _ in range(3):
            a = ch.challenge(Label.BETA)
            assert a == tuple(map(int, t.sample_extension_element()))
            assert a == tuple(map(int, copy.sample_extension_element()))
            assert ch.challenge_below(Label.INDEX, 97) == t.sample_u64(97) == copy.sample_u64(97)
