"""Keccak-256: published vectors, an independent implementation at every length, all engines, a guest."""

from __future__ import annotations

import functools
import hashlib
import random
from typing import Any

import numpy as np
import plain
import pytest
from plain import LEVELS, array, ints
from rv_oracle import keccak_f1600, run_elf

from tailbite.guest.commit import commit
from tailbite.hash import keccak
from tailbite.hash.keccak import keccak256, keccak256_bytes, keccak256_words
from tailbite.lang import Array, Ptr, Slice, cpu, function, u8, u32, u64, u64x8, unroll
from tailbite.lang.riscv import link, pointer_at

VECTORS = {
    b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
    b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
    b"hello": "1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8",
    b"testing": "5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02",
    b"The quick brown fox jumps over the lazy dog":
        "4d741b6f1eb29cb2a9b9911c82f56fa8d73b04959d3d9d222895df6c0b28aa15",
    b"The quick brown fox jumps over the lazy dog.":
        "578951e24efd62a3d63a86f7cd19aaa53c898fe287d2552133220370240b572d",
}
# First words of Keccak-f[1600] on the zero state, from the Keccak team's intermediate values.
PERMUTED_ZERO = (0xF1258F7940E1DDE7, 0x84D5CCF933C0478A, 0xD598261EA65AA9EE, 0xBD1547306F80494D, 0x8B284E056253D057)
AROUND_THE_RATE = (0, 1, 7, 8, 9, 134, 135, 136, 137, 143, 144, 271, 272, 273)


def message(n: int) -> bytes:
    """A message of ``n`` bytes."""
    return random.Random(n).randbytes(n)


@pytest.mark.parametrize("text", VECTORS)
def test_published_vector(text: bytes) -> None:
    assert keccak256(text).hex() == VECTORS[text]


@pytest.mark.parametrize("text", VECTORS)
def test_sha3_is_another_function(text: bytes) -> None:
    """The standard library's SHA3-256 differs in its padding byte alone: the vectors tell them apart."""
    assert hashlib.sha3_256(text).hexdigest() != VECTORS[text]
    assert _with_padding(text, 0x06) == hashlib.sha3_256(text).digest()
    assert _with_padding(text, 0x01) == keccak256(text)


def _with_padding(text: bytes, byte: int) -> bytes:
    """One-block sponge over the oracle's permutation, with a padding byte of choice."""
    block = bytearray(text + bytes([byte]) + bytes(135 - len(text)))
    block[135] |= 0x80
    words = [int.from_bytes(block[k:k + 8], "little") for k in range(0, 136, 8)]
    return b"".join(w.to_bytes(8, "little") for w in keccak_f1600([*words, *[0] * 8])[:4])


def test_every_length_over_two_blocks() -> None:
    assert [keccak256(message(n)) for n in range(301)] == [plain.keccak256(message(n)) for n in range(301)]


def test_long_random_messages() -> None:
    for n in (1000, 4096, 12345):
        assert keccak256(message(n)) == plain.keccak256(message(n))


def test_words_are_their_little_endian_bytes() -> None:
    for n in range(54):
        words = array(plain.random_words(n, n))
        digest = array([0] * 4)
        keccak.library.keccak256_words(words, digest)
        assert digest.tobytes() == keccak256(words.tobytes()) == plain.keccak256(words.tobytes())
        assert ints(digest) == plain.hash_words(ints(words))


@pytest.mark.parametrize("n", AROUND_THE_RATE)
def test_interpreter_equals_compiled_code(n: int) -> None:
    digest = array([0] * 4)
    keccak256_bytes(np.frombuffer(message(n), dtype=np.uint8), digest)
    assert digest.tobytes() == keccak256(message(n))
    if n % 8 == 0:
        keccak256_words(np.frombuffer(message(n), dtype=np.uint64), digest)
        assert digest.tobytes() == keccak256(message(n))


# ---------------------------------------------------------------- the permutation


@function
def permute_lanes(states: Ptr[u64]) -> None:
    """Eight permutations at once: word k of state i is at 8 k + i."""
    s = tuple([states.load8(8 * k) for k in range(25)])
    for r in range(24):
        s = keccak.keccak_round(s, u64x8(keccak.ROUND_CONSTANTS[r]))
    for k in unroll(range(25)):
        states.store8(8 * k, s[k])


@functools.cache
def library(level: str) -> Any:
    return cpu.Library("keccak-test", [keccak.permute, permute_lanes, keccak256_bytes], level=level)


def engine(level: str) -> Any:
    """The functions, compiled for a level or interpreted."""
    if level != "interpreter":
        return library(level)
    return type("Interpreted", (), {"permute": keccak.permute, "permute_lanes": permute_lanes})


@pytest.mark.parametrize("level", [*LEVELS, "interpreter"])
def test_permutation(level: str) -> None:
    for seed in range(3):
        state = array(plain.random_words(seed, 25) if seed else [0] * 25)
        want = keccak_f1600(ints(state))
        engine(level).permute(state)
        assert ints(state) == want
        if not seed:
            assert ints(state[:5]) == list(PERMUTED_ZERO)


@pytest.mark.parametrize("level", [*LEVELS, "interpreter"])
def test_permutation_on_lanes(level: str) -> None:
    states = array(plain.random_words(9, 200))
    want = [keccak_f1600(ints(s)) for s in states.reshape(25, 8).T]
    engine(level).permute_lanes(states)
    assert [ints(s) for s in states.reshape(25, 8).T] == want


@pytest.mark.parametrize("level", LEVELS)
def test_bytes_at_every_level(level: str) -> None:
    digest = array([0] * 4)
    for n in AROUND_THE_RATE:
        library(level).keccak256_bytes(np.frombuffer(message(n), dtype=np.uint8), digest)
        assert digest.tobytes() == plain.keccak256(message(n))


def test_constants() -> None:
    assert keccak.ROUND_CONSTANTS.words[:4] == (1, 0x8082, 0x800000000000808A, 0x8000000080008000)
    assert keccak.ROUND_CONSTANTS.words[-1] == 0x8000000080008008
    assert sorted(keccak.ROTATIONS) == sorted([0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21,
                                               8, 18, 2, 61, 56, 14])
    assert keccak.ROTATIONS[:5] == [0, 1, 62, 28, 27]


# ---------------------------------------------------------------- guest


@function
def hash_input() -> None:
    """A program: commit the Keccak-256 of the private input."""
    size = pointer_at(u64(0xFF000000), u32)[0]
    source = pointer_at(u64(0xFF000004), u8)
    message = Array[u8, 512]()
    for i in range(u64(size)):
        message[i] = source[i]
    digest = Array[u64, 4]()
    keccak256_bytes(message[0:u64(size)], digest)
    commit(digest)


@function
def one_permutation(state: Slice[u64]) -> None:
    """What the guest's form of ``permute`` must mean."""
    keccak.permute(state)


@functools.cache
def guest() -> bytes:
    return link(hash_input)


@pytest.mark.parametrize("n", AROUND_THE_RATE)
def test_guest_hashes_by_the_precompile(n: int) -> None:
    run = run_elf(guest(), message(n))
    assert run.output == plain.keccak256(message(n))
    calls = n // 136 + 1
    assert run.instructions < 60 * n + 2000 * calls, "a permutation in software would take over 4000 instructions"


def test_guest_form_is_not_used_on_the_cpu() -> None:
    """The same source, compiled here, permutes in software."""
    assert keccak.permute.guest is not None
    state = array([0] * 25)
    cpu.Library("keccak-twin", [one_permutation]).one_permutation(state)
    assert ints(state[:5]) == list(PERMUTED_ZERO)
