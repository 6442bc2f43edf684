"""The Fiat-Shamir transcript: a hash chain over Keccak-256 with a 32-byte output buffer.

State, in one slice of ``STATE_WORDS`` words: the sponge (25 words), the number of bytes absorbed into its current
block, four buffered output words and how many of them are used up. A copy of the slice is a snapshot.

    sample     digest of all that was absorbed since the last squeeze, bytes reversed, absorbed again
    next_word  eight bytes of a sample at a time, big-endian: the words of the digest, last first
    field      the first word below p
    below      uniform below a bound, by rejection

Whatever is absorbed, even nothing, discards what is buffered. Messages have no framing here; the channel above
fixes every length. The rules and test vectors are those of lambda_vm's DefaultTranscript; see docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .field import Ext, P
from .hash.keccak import RATE_WORDS, permute
from .lang import Function, Slice, bswap, cpu, function, length, u8, u64, unroll, window

FILL, BUFFER, USED = 25, 26, 30
STATE_WORDS = 31


class Words4(NamedTuple):
    """Four words: a digest or a sample."""

    w0: u64
    w1: u64
    w2: u64
    w3: u64


@function
def start(t: Slice[u64]) -> None:
    """Empty transcript."""
    for k in unroll(range(STATE_WORDS)):
        t[k] = u64(0)
    t[USED] = u64(4)


@function
def absorb_words(t: Slice[u64], words: Slice[u64]) -> None:
    """Absorb whole words, little-endian; none at all still discards the buffer.

    If there are any, all that was absorbed before must be whole words.
    """
    t[USED] = u64(4)
    if length(words) == 0:
        return
    assert t[FILL] & 7 == 0, "transcript: a word after a part of a word"
    at, done, left = t[FILL] >> 3, u64(0), length(words)
    while left >= RATE_WORDS - at:
        if at == 0:
            state, block = window(t, u64(0), RATE_WORDS), window(words, done, RATE_WORDS)
            for k in unroll(range(RATE_WORDS)):
                state[k] ^= block[k]
        else:
            for i in range(RATE_WORDS - at):
                t[at + i] ^= words[done + i]
        permute(t[0:25])
        done, left, at = done + (RATE_WORDS - at), left - (RATE_WORDS - at), u64(0)
    for i in range(left):
        t[at + i] ^= words[done + i]
    t[FILL] = (at + left) << 3


@function
def absorb_bytes(t: Slice[u64], message: Slice[u8]) -> None:
    """Absorb any bytes (``append_bytes``)."""
    t[USED] = u64(4)
    for i in range(length(message)):
        at = t[FILL]
        t[at >> 3] ^= u64(message[i]) << ((at & 7) << 3)
        if at == 8 * RATE_WORDS - 1:
            permute(t[0:25])
            t[FILL] = u64(0)
        else:
            t[FILL] = at + 1


@function
def finish(t: Slice[u64]) -> Words4:
    """Pad and permute: the digest of what was absorbed. Leaves the sponge spent."""
    at = t[FILL]
    t[at >> 3] ^= u64(1) << ((at & 7) << 3)
    t[RATE_WORDS - 1] ^= 1 << 63
    permute(t[0:25])
    return Words4(t[0], t[1], t[2], t[3])


@function
def squeeze(t: Slice[u64]) -> Words4:
    """``sample()``: the digest in reversed byte order, as four little-endian words; buffer and position stay."""
    d = finish(t)
    s = Words4(bswap(d.w3), bswap(d.w2), bswap(d.w1), bswap(d.w0))
    for k in unroll(range(25)):
        t[k] = u64(0)
    t[0], t[1], t[2], t[3] = s.w0, s.w1, s.w2, s.w3
    t[FILL] = u64(32)
    return s


class Sampler:
    """The sampling methods over a given squeeze. Tests force rare branches with a squeeze of their own."""

    def __init__(self, squeeze: Function) -> None:
        @function
        def next_word(t: Slice[u64]) -> u64:
            """Eight bytes of the output, refilling the buffer when it is used up."""
            if t[USED] == 4:
                s = squeeze(t)
                t[BUFFER], t[BUFFER + 1], t[BUFFER + 2], t[BUFFER + 3] = s.w0, s.w1, s.w2, s.w3
                t[USED] = u64(0)
            w = bswap(t[BUFFER + t[USED]])
            t[USED] += 1
            return w

        @function
        def sample_field(t: Slice[u64]) -> u64:
            """Uniform element of the base field."""
            w = next_word(t)
            while w >= P:
                w = next_word(t)
            return w

        @function
        def sample_ext(t: Slice[u64]) -> Ext:
            """Uniform element of the extension: three base elements in coordinate order."""
            c0 = sample_field(t)
            c1 = sample_field(t)
            c2 = sample_field(t)
            return Ext(c0, c1, c2)

        @function
        def sample_below(t: Slice[u64], bound: u64) -> u64:
            """Uniform integer in [0, bound)."""
            assert bound != 0, "transcript: empty range"
            threshold = (0 - bound) % bound
            w = next_word(t)
            while w < threshold:
                w = next_word(t)
            return w % bound

        self.next_word, self.sample_field = next_word, sample_field
        self.sample_ext, self.sample_below = sample_ext, sample_below


keccak_sampler = Sampler(squeeze)
next_word, sample_field = keccak_sampler.next_word, keccak_sampler.sample_field
sample_ext, sample_below = keccak_sampler.sample_ext, keccak_sampler.sample_below

library = cpu.Library("transcript", [start, absorb_words, absorb_bytes, finish, squeeze, next_word, sample_field,
                                     sample_ext, sample_below], packaged=True)


class Transcript:
    """The compiled transcript as an object, for the prover and for users.

    ``append_field_element`` keeps the big-endian form of the original system; the proof protocol absorbs words.
    """

    def __init__(self, data: bytes = b"") -> None:
        self.state = np.zeros(STATE_WORDS, dtype=np.uint64)
        library.start(self.state)
        self.append_bytes(data)

    def clone(self) -> Transcript:
        """An independent copy that continues in the same way."""
        copy = object.__new__(Transcript)
        copy.state = self.state.copy()
        return copy

    def append_bytes(self, data: bytes) -> None:
        """Absorb bytes."""
        library.absorb_bytes(self.state, np.frombuffer(data, dtype=np.uint8))

    def append_words(self, words: Any) -> None:
        """Absorb u64 words, little-endian."""
        library.absorb_words(self.state, np.ascontiguousarray(words, dtype=np.uint64))

    def append_field_element(self, x: int | Iterable[int]) -> None:
        """Absorb a canonical base element, or the coordinates of an extension element, big-endian."""
        for c in [x] if isinstance(x, int) else x:
            if not 0 <= c < P:
                raise ValueError(f"{c} is not a canonical field element")
            self.append_bytes(int(c).to_bytes(8, "big"))

    def sample(self) -> bytes:
        """32 bytes that depend on everything absorbed so far."""
        return _bytes(library.squeeze(self.state))

    def next_u64(self) -> int:
        """The next word of output."""
        return int(library.next_word(self.state))

    def sample_field_element(self) -> int:
        """Uniform below p."""
        return int(library.sample_field(self.state))

    def sample_extension_element(self) -> Ext:
        """Uniform element of the cubic extension."""
        return library.sample_ext(self.state)

    def sample_u64(self, bound: int) -> int:
        """Uniform in [0, bound); ValueError unless 0 < bound < 2^64."""
        if not 0 < bound < 1 << 64:
            raise ValueError("the bound must be in 1 .. 2^64 - 1")
        return int(library.sample_below(self.state, bound))

    def digest(self) -> bytes:
        """Digest of what was absorbed since the last squeeze, bytes not reversed (``state()``); changes nothing."""
        return _bytes(library.finish(self.state.copy()))


def _bytes(words: Any) -> bytes:
    return b"".join(int(w).to_bytes(8, "little") for w in words)
