"""The proof stream: what the prover writes is what the verifier reads and what the transcript absorbs.

``message`` appends to the proof and absorbs; ``challenge`` samples; ``hint`` appends without absorbing and is used
by nothing but the opening of a committed root, which checks what it reads against that root. The verifier's side is
typed Python and knows every length beforehand; the stream must be used up at the end.

A recorder sees one event a step: (label, kind, words, fingerprint), the same for prover, verifier and guest.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from . import transcript as ts
from .field import Ext, P
from .hash.keccak import RATE_WORDS
from .lang import Slice, function, length, rotl, u64, unroll
from .transcript import FILL, absorb_words, sample_below, sample_ext

RECORD_WORDS = 4
MESSAGE, CHALLENGE, HINT, ABSORB = 1, 2, 3, 4
KINDS = {MESSAGE: "message", CHALLENGE: "challenge", HINT: "hint", ABSORB: "absorb"}


class Label(IntEnum):
    """Steps of the protocol, in the order in which they first occur."""

    DOMAIN = 1
    PROGRAM = 2
    PROGRAM_ID = 3
    OUTPUT = 4
    TABLES = 5
    MAIN_ROOT = 6
    ALPHA = 7
    BETA = 8
    LOGUP_ROOT = 9
    SIGMA = 10
    CONSTRAINT = 11
    QUOTIENT_ROOT = 12
    ZETA = 13
    VALUES = 14
    BATCHING = 15
    FRI_ROOT = 16
    FRI_BETA = 17
    FRI_LAMBDA = 18
    FINAL = 19
    POW_SEED = 20
    NONCE = 21
    INDEX = 22
    ROWS = 23
    SIBLINGS = 24


class Reader(NamedTuple):
    """The verifier's end: proof words, position (one word), transcript state, and a log or an empty slice."""

    proof: Slice[u64]
    at: Slice[u64]
    t: Slice[u64]
    log: Slice[u64]


@function
def record(ch: Reader, label: u64, kind: u64, size: u64, value: u64) -> None:
    """Append one event to the log, if there is one; its first word counts the events."""
    if length(ch.log) != 0:
        at = 1 + RECORD_WORDS * ch.log[0]
        if at + RECORD_WORDS <= length(ch.log):
            ch.log[at] = label
            ch.log[at + 1] = kind
            ch.log[at + 2] = size
            ch.log[at + 3] = value
        ch.log[0] += 1


@function
def record_absorbed(ch: Reader, label: u64, kind: u64, size: u64) -> None:
    """Record what was absorbed, with a fingerprint of the transcript."""
    if length(ch.log) != 0:
        record(ch, label, kind, size, fingerprint(ch.t))


@function
def fingerprint(t: Slice[u64]) -> u64:
    """A cheap word that tells transcript states apart, for the log only: any changed word changes it."""
    x = t[FILL]
    for k in unroll(range(RATE_WORDS)):
        x ^= rotl(t[k], k)
    return x


@function
def take(ch: Reader, count: u64) -> Slice[u64]:
    """The next words of the proof. Only messages and openings of roots may call this."""
    at = ch.at[0]
    assert count <= length(ch.proof) - at, "truncated: the proof ends too early"
    ch.at[0] = at + count
    return ch.proof[at:at + count]


@function
def absorb(ch: Reader, label: u64, words: Slice[u64]) -> None:
    """Absorb what both sides know."""
    absorb_words(ch.t, words)
    record_absorbed(ch, label, u64(ABSORB), length(words))


@function
def message(ch: Reader, label: u64, count: u64) -> Slice[u64]:
    """The prover's next message of ``count`` words, absorbed."""
    words = take(ch, count)
    absorb_words(ch.t, words)
    record_absorbed(ch, label, u64(MESSAGE), count)
    return words


@function
def field_message(ch: Reader, label: u64, count: u64) -> Slice[u64]:
    """As :func:`message`, for words that must be canonical field elements."""
    words = message(ch, label, count)
    check_canonical(words)
    return words


@function
def check_canonical(words: Slice[u64]) -> None:
    """Trap unless every word is below p."""
    for i in range(length(words)):
        assert words[i] < P, "encoding: a field element is not canonical"


@function
def challenge(ch: Reader, label: u64) -> Ext:
    """A uniform extension element."""
    x = sample_ext(ch.t)
    record(ch, label, u64(CHALLENGE), u64(3), x.c0)
    return x


@function
def challenge_below(ch: Reader, label: u64, bound: u64) -> u64:
    """A uniform index below ``bound``."""
    x = sample_below(ch.t, bound)
    record(ch, label, u64(CHALLENGE), u64(1), x)
    return x


@function
def hint(ch: Reader, label: u64, count: u64) -> Slice[u64]:
    """Words for the opening of a root, which the caller checks against it."""
    words = take(ch, count)
    record(ch, label, u64(HINT), count, u64(0))
    return words


class Writer:
    """The prover's end: collects proof words and keeps the same transcript.

    ``sampler`` has compiled ``sample_ext`` and ``sample_below`` to use in place of the transcript's own, which is for
    comparisons: no verifier of this package accepts what comes of it.
    """

    def __init__(self, sampler: Any = None) -> None:
        self.sampler = ts.library if sampler is None else sampler
        self.parts: list[Any] = []
        self.t = np.zeros(ts.STATE_WORDS, dtype=np.uint64)
        ts.library.start(self.t)
        self.events: list[tuple[int, int, int, int]] = []

    def _print(self) -> int:
        """:func:`fingerprint` of the transcript."""
        x = int(self.t[FILL])
        for k, w in enumerate(self.t[:RATE_WORDS].tolist()):
            x ^= w << k & (1 << 64) - 1 | w >> 64 - k
        return x

    def absorb(self, label: Label, words: Any) -> None:
        """Absorb what the verifier knows without being told."""
        w = np.ascontiguousarray(words, dtype=np.uint64).reshape(-1)
        ts.library.absorb_words(self.t, w)
        self.events.append((label, ABSORB, len(w), self._print()))

    def message(self, label: Label, words: Any) -> None:
        """Send and absorb."""
        w = np.ascontiguousarray(words, dtype=np.uint64).reshape(-1)
        self.parts.append(w)
        ts.library.absorb_words(self.t, w)
        self.events.append((label, MESSAGE, len(w), self._print()))

    def hint(self, label: Label, words: Any) -> None:
        """Send an opening of a root."""
        w = np.ascontiguousarray(words, dtype=np.uint64).reshape(-1)
        self.parts.append(w)
        self.events.append((label, HINT, len(w), 0))

    def challenge(self, label: Label) -> tuple[int, int, int]:
        """A uniform extension element."""
        x = tuple(int(c) for c in self.sampler.sample_ext(self.t))
        self.events.append((label, CHALLENGE, 3, x[0]))
        return x[0], x[1], x[2]

    def challenge_below(self, label: Label, bound: int) -> int:
        """A uniform index below ``bound``."""
        x = int(self.sampler.sample_below(self.t, bound))
        self.events.append((label, CHALLENGE, 1, x))
        return x

    def pow_seed(self) -> list[int]:
        """A squeeze that seeds the proof of work."""
        s = [int(w) for w in ts.library.squeeze(self.t)]
        self.events.append((Label.POW_SEED, CHALLENGE, 4, s[0]))
        return s

    def words(self) -> Any:
        """The proof so far."""
        return np.concatenate([np.empty(0, dtype=np.uint64), *self.parts])


def describe(events: list[tuple[int, int, int, int]]) -> list[str]:
    """One line an event, for comparison by ``diff``."""
    return [f"{Label(a).name.lower():14} {KINDS[k]:9} {n:8} {v:016x}" for a, k, n, v in events]


def events_of(log: Any) -> list[tuple[int, int, int, int]]:
    """Events in a log that a verifier filled; the first ones, if it had room for no more."""
    n = min(int(log[0]), (len(log) - 1) // RECORD_WORDS)
    body = log[1:1 + RECORD_WORDS * n].reshape(n, RECORD_WORDS)
    return [(int(a), int(k), int(s), int(v)) for a, k, s, v in body]


__all__ = [
    "Label", "Reader", "Writer", "absorb", "challenge", "challenge_below", "check_canonical",
    "describe", "events_of", "field_message", "hint", "message", "record", "take",
]
