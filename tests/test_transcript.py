"""The transcript against its rules, on byte strings and an independent Keccak-256; every rule with a mutant."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plain
import pytest
from plain import LEVELS, WORD, P, PlainTranscript, array, ints
from rv_oracle import run_elf

from tailbite import transcript as ts
from tailbite.errors import Trap
from tailbite.field import Ext
from tailbite.guest.commit import commit
from tailbite.lang import Array, Function, Slice, cpu, function, length, u8, u64, unroll
from tailbite.lang.riscv import link
from tailbite.transcript import STATE_WORDS, USED, Transcript, Words4

FUNCTIONS = [ts.start, ts.absorb_words, ts.absorb_bytes, ts.finish, ts.squeeze, ts.next_word, ts.sample_field,
             ts.sample_ext, ts.sample_below]
ENGINES = (*LEVELS, "interpreter")
MESSAGES = (b"", b"a", b"\0", bytes(8), b"seventeen bytes!!", bytes(135), bytes(136), bytes(300))
BOUNDS = (1, 2, 3, 5, 7, 13, 100, 2**32 - 1, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, WORD - 59, WORD - 1)


@functools.cache
def engine(level: str) -> dict[str, Callable[..., Any]]:
    """The typed functions, compiled for a level or interpreted."""
    if level == "interpreter":
        return {f.name: f for f in FUNCTIONS}
    library = cpu.Library("transcript-test", FUNCTIONS, level=level)
    return {f.name: getattr(library, f.name) for f in FUNCTIONS}


class Driver:
    """The typed functions behind the methods of the plain transcript."""

    def __init__(self, level: str, data: bytes = b"") -> None:
        self.f, self.t = engine(level), array([0] * STATE_WORDS)
        self.f["start"](self.t)
        self.append_bytes(data)

    def append_bytes(self, data: bytes) -> None:
        self.f["absorb_bytes"](self.t, np.frombuffer(data, dtype=np.uint8))

    def append_field_element(self, *coordinates: int) -> None:
        for x in coordinates:
            self.append_bytes(x.to_bytes(8, "big"))

    def sample(self) -> bytes:
        return array(map(int, self.f["squeeze"](self.t))).tobytes()

    def state(self) -> bytes:
        return array(map(int, self.f["finish"](self.t.copy()))).tobytes()

    def next_u64(self) -> int:
        return int(self.f["next_word"](self.t))

    def sample_field_element(self) -> int:
        return int(self.f["sample_field"](self.t))

    def sample_extension_element(self) -> plain.Triple:
        c0, c1, c2 = map(int, self.f["sample_ext"](self.t))
        return c0, c1, c2

    def sample_u64(self, bound: int) -> int:
        return int(self.f["sample_below"](self.t, bound))


class Public(Transcript):
    """The public object behind the same methods."""

    def append_field_element(self, *coordinates: int) -> None:  # type: ignore[override]
        super().append_field_element(coordinates if len(coordinates) > 1 else coordinates[0])


def script(subject: Any, seed: int, steps: int) -> list[Any]:
    """Random appends and draws; everything that comes out."""
    rng = random.Random(seed)
    out: list[Any] = []
    for _ in range(steps):
        match rng.randrange(9):
            case 0 | 1:
                subject.append_bytes(rng.randbytes(rng.choice((0, 1, 8, 9, 24, 31, 32, 103, 104, 105, 136, 300))))
            case 2:
                subject.append_field_element(*(rng.choice(plain.CANONICAL) for _ in range(rng.choice((1, 3)))))
            case 3:
                out.append(subject.sample())
            case 4:
                out += [subject.next_u64() for _ in range(rng.randrange(6))]
            case 5:
                out.append(subject.sample_field_element())
            case 6:
                out.append(tuple(map(int, subject.sample_extension_element())))
            case 7:
                out.append(subject.sample_u64(rng.choice(BOUNDS)))
            case _:
                out.append(subject.digest() if isinstance(subject, Transcript) else subject.state())
    return out


# ---------------------------------------------------------------- known answers


def test_the_two_vectors_of_the_original() -> None:
    """They fix padding, reversal, reset and re-absorption."""
    t = Transcript()
    for want in ("0c2bd8cf2d71e00acea3bd5dc79f4f93ed5742d023bd47c904c2679dbcfa7ca7",
                 "816151c57ecb45d5171a3c2e38045dfb3a3d338a22aff86085b9543ff83232bc"):
        t.append_bytes(bytes.fromhex("ffab"))
        t.append_bytes(bytes.fromhex("dd8c9d"))
        assert t.sample().hex() == want


# Drawn from a transcript over b"tailbite", a new one for each line; all words are below p.
KNOWN_WORDS = [
    0x2FE5F71179D7955A, 0x114710DECA23FDCB, 0xD0D023F85F48956D,
    0x5195ED3BAF9B2A04, 0x2DE75D22FCF18976, 0x64BB2BA85E28BA96,
]
KNOWN_BELOW = {
    1: 0,
    7: 4,
    97: 32,
    2**20: 496986,
    1000003: 60724,
    2**63: 3451436343880029530,
    2**63 + 1: 5823193867847505260,
    2**64 - 59: 3451436343880029530,
    2**64 - 1: 3451436343880029530,
}
KNOWN_STATE = "042a9baf3bed95516d95485ff823d0d0cbfd23cade1047115a95d77911f7e52f"


@pytest.mark.parametrize("make", [PlainTranscript, Transcript, *(functools.partial(Driver, e) for e in ENGINES)])
def test_known_answers_of_every_method(make: Callable[[bytes], Any]) -> None:
    t = make(b"tailbite")
    assert [t.next_u64() for _ in range(6)] == KNOWN_WORDS
    t = make(b"tailbite")
    assert [t.sample_field_element() for _ in range(6)] == KNOWN_WORDS
    t = make(b"tailbite")
    assert [int(c) for _ in range(2) for c in t.sample_extension_element()] == KNOWN_WORDS
    for bound, want in KNOWN_BELOW.items():
        assert make(b"tailbite").sample_u64(bound) == want
    t = make(b"tailbite")
    assert (t.digest() if isinstance(t, Transcript) else t.state()).hex() == KNOWN_STATE
    assert t.sample() == bytes.fromhex(KNOWN_STATE)[::-1]


def test_public_constructor_and_results() -> None:
    assert isinstance(Transcript(b"x").sample_extension_element(), Ext)
    assert Transcript(b"x").sample() == plain.keccak256(b"x")[::-1]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 134, 135, 136, 137, 271, 272, 273])
@pytest.mark.parametrize("level", ENGINES)
def test_absorbing_around_the_rate(level: str, n: int) -> None:
    data = random.Random(n).randbytes(n)
    assert Driver(level, data).sample() == plain.keccak256(data)[::-1]


@pytest.mark.parametrize("seed", range(30))
def test_random_scripts(seed: int) -> None:
    want = script(PlainTranscript(b"s"), seed, 40)
    assert script(Public(b"s"), seed, 40) == want
    assert script(Driver("native", b"s"), seed, 40) == want
    assert script(Driver("baseline", b"s"), seed, 40) == want


@pytest.mark.parametrize("seed", range(4))
def test_random_scripts_interpreted(seed: int) -> None:
    assert script(Driver("interpreter"), seed, 15) == script(PlainTranscript(), seed, 15)


# ---------------------------------------------------------------- refilling and discarding


def test_four_draws_a_squeeze() -> None:
    t, sampler = Transcript(b"refill"), Transcript(b"refill")
    first, second = sampler.sample(), sampler.sample()
    words = [int.from_bytes(s[k:k + 8], "big") for s in (first, second) for k in range(0, 32, 8)]
    for used, word in enumerate(words):
        before = t.state.copy()
        assert t.next_u64() == word
        assert np.array_equal(before[:25], t.state[:25]) == (used % 4 != 0), "the sponge moves on a refill only"


def test_an_extension_element_crosses_the_squeeze() -> None:
    words = Transcript(b"cross")
    drawn = [words.next_u64() for _ in range(6)]
    t = Transcript(b"cross")
    assert [*t.sample_extension_element(), *t.sample_extension_element()] == drawn
    assert all(w < P for w in drawn)


def test_219_indices_take_55_squeezes() -> None:
    t, squeezes = Transcript(b"indices"), 0
    for _ in range(219):
        before = t.state[:25].copy()
        t.sample_u64(1 << 20)
        squeezes += not np.array_equal(before, t.state[:25])
    assert squeezes == 55


def discards(absorb: Callable[[Any], None]) -> bool:
    """Is the second draw another one if ``absorb(state)`` happens after the first?"""
    with_absorb, without = Transcript(b"seed"), Transcript(b"seed")
    assert with_absorb.next_u64() == without.next_u64()
    absorb(with_absorb.state)
    return with_absorb.next_u64() != without.next_u64()


@function
def absorb_but_keep(t: Slice[u64], message: Slice[u8]) -> None:
    """``absorb_bytes`` without the invalidation."""
    used = t[USED]
    ts.absorb_bytes(t, message)
    t[USED] = used


@function
def absorb_unless_empty(t: Slice[u64], message: Slice[u8]) -> None:
    """``absorb_bytes`` for which an empty message is no message."""
    if length(message) != 0:
        ts.absorb_bytes(t, message)


def discards_all(absorb: Callable[..., None]) -> list[bool]:
    """``discards`` for every message."""
    return [discards(lambda t, m=m: absorb(t, np.frombuffer(m, dtype=np.uint8))) for m in MESSAGES]


@pytest.mark.parametrize("level", ENGINES)
def test_every_append_discards_what_is_buffered(level: str) -> None:
    f = engine(level)
    assert all(discards_all(f["absorb_bytes"]))
    for words in ([], [0], [1, 2, 3], [0] * 17, [0] * 40):
        assert discards(lambda t, w=words: f["absorb_words"](t, array(w)))


@pytest.mark.parametrize("x", [0, 1, P - 1, (0, 0, 0)])
def test_appending_a_field_element_discards(x: Any) -> None:
    t = Transcript()

    def absorb(state: Any) -> None:
        t.state = state
        t.append_field_element(x)

    assert discards(absorb)


def test_a_single_word_discards_too() -> None:
    assert discards(lambda t: ts.absorb_words(t, array([0])))


def test_keeping_the_buffer_is_seen() -> None:
    """Mutants: no invalidation at all, and none for an empty message."""
    assert not any(discards_all(absorb_but_keep))
    assert discards_all(absorb_unless_empty) == [len(m) > 0 for m in MESSAGES]


def test_an_empty_append_absorbs_nothing() -> None:
    t, twin = Transcript(b"abc"), Transcript(b"abc")
    t.append_bytes(b"")
    t.append_words([])
    assert t.digest() == twin.digest() and t.sample() == twin.sample()


# ---------------------------------------------------------------- clones and state


def forgetful_clone(t: Transcript) -> Transcript:
    """A clone that loses the position in the buffer."""
    copy = t.clone()
    copy.state[USED] = 4
    return copy


def shared_clone(t: Transcript) -> Transcript:
    """A clone that shares its state."""
    copy = t.clone()
    copy.state = t.state
    return copy


def clones_well(clone: Callable[[Transcript], Transcript], draws: int) -> bool:
    """After ``draws`` draws: do both go on alike, and does neither reach the other?"""
    t = Transcript(b"clone")
    for _ in range(draws):
        t.next_u64()
    copy, ahead, fresh = clone(t), clone(t), Transcript(b"clone")
    for _ in range(draws):
        fresh.next_u64()
    ahead.append_bytes(b"other")
    ahead.next_u64()
    want = [fresh.next_u64() for _ in range(9)]
    return [t.next_u64() for _ in range(9)] == want and [copy.next_u64() for _ in range(9)] == want


@pytest.mark.parametrize("draws", range(6))
def test_clone_in_mid_buffer(draws: int) -> None:
    assert clones_well(Transcript.clone, draws)


@pytest.mark.parametrize("draws", [1, 2, 3])
def test_bad_clones_are_seen(draws: int) -> None:
    assert not clones_well(forgetful_clone, draws)
    assert not clones_well(shared_clone, draws)


def test_digest_changes_nothing() -> None:
    t, twin = Transcript(b"digest"), Transcript(b"digest")
    t.next_u64(), twin.next_u64()
    before = t.state.copy()
    digest = t.digest()
    assert digest == t.digest() and np.array_equal(before, t.state)
    assert [t.next_u64() for _ in range(5)] == [twin.next_u64() for _ in range(5)]
    assert Transcript(b"digest").digest() != Transcript(b"digest").sample()
    assert Transcript(b"digest").digest() == Transcript(b"digest").sample()[::-1]


def test_sample_between_draws_keeps_the_buffer() -> None:
    """``sample()`` has no effect on buffer and position."""
    t, twin, rules = Transcript(b"mid"), Transcript(b"mid"), PlainTranscript(b"mid")
    drawn = [t.next_u64(), twin.next_u64(), rules.next_u64()]
    assert t.sample() == rules.sample()
    rest = [t.next_u64() for _ in range(6)]
    assert rest == [rules.next_u64() for _ in range(6)]
    assert rest[:3] == [twin.next_u64() for _ in range(3)] and rest[3] != twin.next_u64() and len(set(drawn)) == 1


@pytest.mark.parametrize("draw", [Transcript.sample, Transcript.next_u64, Transcript.sample_field_element,
                                  Transcript.sample_extension_element, lambda t: t.sample_u64(2**63)])
def test_two_draws_differ(draw: Callable[[Transcript], Any]) -> None:
    t = Transcript(b"twice")
    assert len({draw(t) for _ in range(20)}) == 20


# ---------------------------------------------------------------- rejection


@function
def scripted(t: Slice[u64]) -> Words4:
    """A squeeze that reads the next four words behind the state; one word counts the squeezes."""
    at = STATE_WORDS + 1 + 4 * t[STATE_WORDS]
    t[STATE_WORDS] += 1
    return Words4(t[at], t[at + 1], t[at + 2], t[at + 3])


injected = ts.Sampler(scripted)


@function
def accepts_p(t: Slice[u64]) -> u64:
    """``sample_field`` that draws again above p only."""
    w = injected.next_word(t)
    while w > P:
        w = injected.next_word(t)
    return w


@function
def masks_63_bits(t: Slice[u64]) -> u64:
    """``sample_field`` that takes one bit too few."""
    return ts.next_word(t) & 0x7FFFFFFFFFFFFFFF


@function
def reduces(t: Slice[u64]) -> u64:
    """``sample_field`` by reduction."""
    return injected.next_word(t) % P


@function
def plain_modulo(t: Slice[u64], bound: u64) -> u64:
    """``sample_below`` without a threshold."""
    return injected.next_word(t) % bound


@function
def off_by_one(t: Slice[u64], bound: u64) -> u64:
    """``sample_below`` that draws again at the threshold."""
    threshold = (0 - bound) % bound
    w = injected.next_word(t)
    while w <= threshold:
        w = injected.next_word(t)
    return w % bound


SAMPLERS = [injected.next_word, injected.sample_field, injected.sample_ext, injected.sample_below, accepts_p, reduces,
            plain_modulo, off_by_one]
samplers = cpu.Library("samplers-test", SAMPLERS)


def fed(words: Sequence[int]) -> Any:
    """A state whose draws are ``words``."""
    padded = [*words, *[0] * (-len(words) % 4)]
    swapped = [int.from_bytes(w.to_bytes(8, "big"), "little") for w in padded]
    state = array([0] * (STATE_WORDS + 1) + swapped)
    state[USED] = 4
    return state


def drawn(state: Any) -> int:
    """How many words were drawn from a fed state."""
    return 4 * int(state[STATE_WORDS]) - 4 + int(state[USED])


def run_field(draw: Callable[..., Any], words: Sequence[int]) -> tuple[int, int]:
    """Element drawn, and number of words it took."""
    state = fed(words)
    return int(draw(state)), drawn(state)


def run_below(draw: Callable[..., Any], words: Sequence[int], bound: int) -> tuple[int, int]:
    state = fed(words)
    return int(draw(state, bound)), drawn(state)


@pytest.mark.parametrize("draw", [injected.sample_field, samplers.sample_field])
def test_field_rejects_from_p_on(draw: Callable[..., Any]) -> None:
    assert run_field(draw, [P, P + 1, WORD - 1, P - 1]) == (P - 1, 4)
    assert run_field(draw, [P, P + 1, WORD - 1, P, 0]) == (0, 5)
    assert run_field(draw, [P - 1, 5]) == (P - 1, 1)
    assert run_field(draw, [2**63, 5]) == (2**63, 1)


@pytest.mark.parametrize("draw", [injected.sample_ext, samplers.sample_ext])
def test_extension_rejects_in_every_coordinate(draw: Callable[..., Any]) -> None:
    for place in range(3):
        words = [11, 12, 13]
        words[place:place] = [P, WORD - 1]
        state = fed(words)
        assert tuple(map(int, draw(state))) == (11, 12, 13)
        assert drawn(state) == 5


def test_wrong_rejection_is_seen() -> None:
    assert run_field(samplers.accepts_p, [P, P + 1, WORD - 1, P - 1]) != (P - 1, 4)
    assert run_field(samplers.reduces, [P, P + 1, WORD - 1, P - 1]) != (P - 1, 4)


def below_cases(bound: int) -> list[tuple[list[int], tuple[int, int]]]:
    """Injected words around the threshold, with result and number of words by the rule."""
    threshold = (WORD - bound) % bound
    edges = [x for x in (0, 1, threshold - 1, threshold, threshold + 1, bound - 1, bound, WORD - 1) if 0 <= x < WORD]
    out = []
    for a, b in itertools.product(edges, edges):
        words = [a, b, WORD - 1]
        k = next(k for k, w in enumerate(words) if w >= threshold)
        out.append((words, (words[k] % bound, k + 1)))
    return out


@pytest.mark.parametrize("bound", BOUNDS)
def test_below_rejects_under_the_threshold(bound: int) -> None:
    for words, want in below_cases(bound):
        assert run_below(samplers.sample_below, words, bound) == want
    words, want = below_cases(bound)[0]
    assert run_below(injected.sample_below, words, bound) == want


def test_thresholds() -> None:
    """Powers of two reject nothing; every residue has the same number of accepted words."""
    for bound in BOUNDS:
        threshold = (WORD - bound) % bound
        assert (WORD - threshold) % bound == 0 and threshold < bound
        assert (threshold == 0) == (WORD % bound == 0)


@pytest.mark.parametrize("mutant", [plain_modulo, off_by_one])
def test_a_wrong_threshold_is_seen(mutant: Function) -> None:
    run = getattr(samplers, mutant.name)
    assert any(run_below(run, words, b) != want for b in BOUNDS for words, want in below_cases(b))


def test_bounds_outside_the_range() -> None:
    t = Transcript(b"x")
    for bound in (0, -1, WORD, 2**70):
        with pytest.raises(ValueError, match="bound"):
            t.sample_u64(bound)
    for draw in (ts.library.sample_below, ts.sample_below):
        with pytest.raises(Trap, match="empty range"):
            draw(t.state.copy(), 0)
    assert t.sample_u64(1) == 0


# ---------------------------------------------------------------- what is absorbed


def test_there_is_no_framing_here() -> None:
    """Documented: the channel above fixes every length."""
    joined, parts = Transcript(b"ab"), Transcript(b"a")
    parts.append_bytes(b"b")
    assert joined.sample() == parts.sample()
    assert Transcript(bytes(8)).sample() != Transcript(bytes(9)).sample()


@pytest.mark.parametrize("n", [255, 256, 257, 65535, 65536, 65537])
def test_no_length_wraps(n: int) -> None:
    assert Transcript(bytes(n)).digest() == plain.keccak256(bytes(n))


@pytest.mark.parametrize("n", [*range(20), 33, 34, 35, 51, 100])
def test_words_are_little_endian_bytes(n: int) -> None:
    words = plain.random_words(n, n)
    t = Transcript(b"8 bytes.")
    t.append_words(words)
    assert t.digest() == plain.keccak256(b"8 bytes." + array(words).tobytes())


def test_a_word_after_a_part_of_a_word_is_refused() -> None:
    t = Transcript(b"odd")
    with pytest.raises(Trap, match="part of a word"):
        t.append_words([1])
    t.append_bytes(b"12345")
    t.append_words([1])
    assert t.digest() == plain.keccak256(b"odd12345" + (1).to_bytes(8, "little"))


def test_field_elements_are_big_endian_in_coordinate_order() -> None:
    t = Transcript()
    t.append_field_element(258)
    t.append_field_element((1, 2, P - 1))
    t.append_field_element(Ext(4, 5, 6))  # type: ignore[arg-type]
    want = b"".join(x.to_bytes(8, "big") for x in (258, 1, 2, P - 1, 4, 5, 6))
    assert t.digest() == plain.keccak256(want)


@pytest.mark.parametrize("x", [P, P + 1, WORD - 1, WORD, -1, (0, P, 0)])
def test_only_canonical_elements_are_absorbed(x: Any) -> None:
    t = Transcript(b"x")
    before = t.state.copy()
    with pytest.raises(ValueError, match="not a canonical"):
        t.append_field_element(x)
    if isinstance(x, int):
        assert np.array_equal(before, t.state)
    t.append_field_element(P - 1)


# ---------------------------------------------------------------- uniformity


def is_uniform(draw: Callable[[], int], cells: int) -> bool:
    """Chi-square on 4096 draws; a fair draw fails once in far more than a million seeds."""
    limit = cells - 1 + 6 * (2 * (cells - 1)) ** 0.5 + 12
    return plain.chi_square(plain.counted(draw, cells)) < limit


def test_field_elements_are_uniform() -> None:
    t = Transcript(b"uniform")
    assert is_uniform(lambda: t.sample_field_element() >> 60, 16)
    assert is_uniform(lambda: t.sample_field_element() & 31, 32)
    for c in range(3):
        assert is_uniform(lambda c=c: t.sample_extension_element()[c] >> 61, 8)


@pytest.mark.parametrize("bound", [2, 3, 7, 13, 16, 100])
def test_indices_are_uniform(bound: int) -> None:
    t = Transcript(b"indices")
    assert is_uniform(lambda: t.sample_u64(bound), bound)


def test_a_bias_is_seen() -> None:
    """One bit too few; and a modulo whose range is a few times its bound."""
    t = Transcript(b"bias")
    masked = cpu.Library("masked-test", [masks_63_bits]).masks_63_bits
    assert not is_uniform(lambda: int(masked(t.state)) >> 60, 16)
    assert not is_uniform(lambda: (t.next_u64() >> 60) % 7, 7)


# ---------------------------------------------------------------- guest


@function
def guest_draws() -> None:
    """A program: commit draws of every kind, with an empty append among them."""
    t = Array[u64, STATE_WORDS]()
    ts.start(t)
    message = Array[u8, 150]()
    for i in range(150):
        message[i] = u8(i)
    ts.absorb_bytes(t, message)
    for _i in unroll(range(5)):
        commit(ts.next_word(t))
    ts.absorb_bytes(t, message[0:0])
    commit(ts.next_word(t))
    commit(ts.sample_field(t))
    e = ts.sample_ext(t)
    commit(e.c0)
    commit(e.c1)
    commit(e.c2)
    commit(ts.sample_below(t, u64(2**63 + 1)))
    d = ts.finish(t)
    commit(d.w0)
    commit(d.w3)


def test_guest_draws_the_same() -> None:
    t = PlainTranscript(bytes(range(150)))
    want = [t.next_u64() for _ in range(5)]
    t.append_bytes(b"")
    want += [t.next_u64(), t.sample_field_element(), *t.sample_extension_element(), t.sample_u64(2**63 + 1)]
    state = t.state()
    want += [int.from_bytes(state[:8], "little"), int.from_bytes(state[24:], "little")]
    assert ints(np.frombuffer(run_elf(link(guest_draws)).output, dtype=np.uint64)) == want
