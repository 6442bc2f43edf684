"""Keccak-f[1600] and Keccak-256 with the original padding byte 0x01 (https://keccak.team; not SHA3-256).

One round is written once, for words, lanes and the interpreter. Lane x + 5 y of the state is word x + 5 y.
"""

from __future__ import annotations

from typing import Any

from ..lang import Array, Constants, Slice, cpu, function, length, rotl, u8, u64, unroll, window
from ..lang.riscv import address_of, ecall

RATE_WORDS = 17
_KECCAK_CALL = -2


def _round_constants() -> list[int]:
    """The 24 constants of iota, from the specification's linear feedback shift register."""
    out, lfsr = [], 1
    for _ in range(24):
        c = 0
        for j in range(7):
            if lfsr & 1:
                c |= 1 << ((1 << j) - 1)
            lfsr = (lfsr << 1) ^ (0x171 if lfsr & 0x80 else 0)
        out.append(c)
    return out


def _rotations() -> list[int]:
    """Rotation of lane x + 5 y in rho: (t + 1)(t + 2)/2 along the orbit of pi."""
    out, x, y = [0] * 25, 1, 0
    for t in range(24):
        out[x + 5 * y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return out


ROUND_CONSTANTS = Constants(_round_constants())
ROTATIONS = _rotations()


def keccak_round(s: Any, constant: Any, rotl: Any = rotl) -> tuple[Any, ...]:
    """One round on 25 words, lanes, or arrays of words with a ``rotl`` of their own."""
    c = [s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20] for x in range(5)]
    d = [c[(x + 4) % 5] ^ rotl(c[(x + 1) % 5], 1) for x in range(5)]
    b: list[Any] = [None] * 25
    for x in range(5):
        for y in range(5):
            b[y + 5 * ((2 * x + 3 * y) % 5)] = rotl(s[x + 5 * y] ^ d[x], ROTATIONS[x + 5 * y])
    t = [b[x + 5 * y] ^ (~b[(x + 1) % 5 + 5 * y] & b[(x + 2) % 5 + 5 * y]) for y in range(5) for x in range(5)]
    t[0] = t[0] ^ constant
    return tuple(t)


@function
def permute(state: Slice[u64]) -> None:
    """Keccak-f[1600] on 25 words in place."""
    s = tuple([state[k] for k in range(25)])
    for r in range(24):
        s = keccak_round(s, ROUND_CONSTANTS[r])
    for k in unroll(range(25)):
        state[k] = s[k]


@permute.on_guest
def permute_by_call(state: Any) -> None:
    """The same by the machine's precompile; the state must be 8-byte aligned."""
    ecall(_KECCAK_CALL, address_of(state))


@function
def keccak256_words(words: Slice[u64], digest: Slice[u64]) -> None:
    """Digest (4 words) of a message of whole little-endian words."""
    state = Array[u64, 25]()
    left, at = length(words), u64(0)
    while left >= RATE_WORDS:
        block = window(words, at, RATE_WORDS)
        for k in unroll(range(RATE_WORDS)):
            state[k] ^= block[k]
        permute(state)
        left, at = left - RATE_WORDS, at + RATE_WORDS
    for i in range(left):
        state[i] ^= words[at + i]
    state[left] ^= 1
    state[RATE_WORDS - 1] ^= 1 << 63
    permute(state)
    out = window(digest, u64(0), 4)
    for k in unroll(range(4)):
        out[k] = state[k]


@function
def keccak256_bytes(message: Slice[u8], digest: Slice[u64]) -> None:
    """Digest (4 little-endian words) of any byte string."""
    state = Array[u64, 25]()
    at = u64(0)
    for i in range(length(message)):
        state[at >> 3] ^= u64(message[i]) << ((at & 7) << 3)
        at += 1
        if at == 8 * RATE_WORDS:
            permute(state)
            at = u64(0)
    state[at >> 3] ^= u64(1) << ((at & 7) << 3)
    state[RATE_WORDS - 1] ^= 1 << 63
    permute(state)
    for k in unroll(range(4)):
        digest[k] = state[k]


library = cpu.Library("keccak", [keccak256_words, keccak256_bytes], packaged=True)


def keccak256(message: bytes) -> bytes:
    """Keccak-256 of ``message``, 32 bytes."""
    import numpy as np

    digest = np.zeros(4, dtype=np.uint64)
    library.keccak256_bytes(np.frombuffer(message, dtype=np.uint8), digest)
    return digest.astype("<u8").tobytes()


__all__ = ["RATE_WORDS", "ROTATIONS", "ROUND_CONSTANTS", "keccak256", "keccak256_bytes", "keccak256_words",
           "keccak_round", "permute"]
