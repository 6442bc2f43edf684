"""The sampler that the seed system used before it squeezed challenges directly: a ChaCha20 generator for each element.

Only for the comparison in ``compare.py``; nothing of the package knows it. Reproduced from lambda_vm
(``crypto/crypto/src/fiat_shamir/default_transcript.rs`` at b04c8080, and the field's sampling in ``crypto/math``):

    element   a generator is seeded with the 32 bytes of a fresh ``sample()``: key = these bytes, nonce and counter 0.
              Eight bytes of its key stream at a time are read big-endian, until a word is below p. An extension
              element takes its three coordinates, in order, from one generator.
    index     a fresh ``sample()`` for each candidate, its first eight bytes read big-endian, until one is at least
              (2^64 - bound) mod bound; then modulo the bound. No ChaCha20.

That system's generator (rand_chacha) computes four blocks when it needs one, which is most of what it costs.
``SEED`` does all this. ``LEAN`` is the idea alone, as its least cost: one block at a time, and a generator for each
index as well.

ChaCha20: RFC 8439, section 2.3. The transcript itself, absorbing and ``sample()``, is the package's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tailbite import transcript as ts
from tailbite.field import Ext, P
from tailbite.lang import Array, Function, Slice, bswap, function, rotl, u32, u64, unroll

CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k", little-endian
BLOCK_WORDS = 16
USED, COUNTER = 0, 1


def quarter_round(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """Section 2.1."""
    for first, second in ((16, 12), (8, 7)):
        a = a + b
        d = rotl(d ^ a, first)
        c = c + d
        b = rotl(b ^ c, second)
    return a, b, c, d


def double_round(s: Any) -> tuple[Any, ...]:
    """A column round and a diagonal round, on 16 words; section 2.3."""
    x = [s[k] for k in range(16)]
    for shift in (0, 1):
        for k in range(4):
            at = [k + 0, 4 + (k + shift) % 4, 8 + (k + 2 * shift) % 4, 12 + (k + 3 * shift) % 4]
            for i, word in zip(at, quarter_round(*[x[i] for i in at]), strict=True):
                x[i] = word
    return tuple(x)


@function
def block(key: Slice[u32], counter: u32, nonce: Slice[u32], out: Slice[u32]) -> None:
    """One block, 16 words, of the key stream of an 8-word key and a 3-word nonce."""
    s = tuple([u32(c) for c in CONSTANTS] + [key[k] for k in range(8)] + [counter] + [nonce[k] for k in range(3)])
    x = s
    for _r in range(10):
        x = double_round(x)
    for k in unroll(range(16)):
        out[k] = x[k] + s[k]


class Generator(NamedTuple):
    """Key, buffered key stream, and a pair: how many 64-bit words of it are used up, and the next block's number."""

    key: Slice[u32]
    stream: Slice[u32]
    at: Slice[u64]


class Sampler:
    """The sampling methods of the older transcript.

    ``blocks``: how many blocks are computed when one is needed. ``generate_indices``: whether indices come from a
    generator too. Tests force rare branches with a squeeze or a block function of their own.
    """

    def __init__(self, blocks: int, generate_indices: bool, squeeze: Function = ts.squeeze,
                 block: Function = block) -> None:
        words = blocks * BLOCK_WORDS // 2

        @function
        def seed(t: Slice[u64], g: Generator) -> None:
            """Key the generator with a fresh sample; its buffer is empty."""
            s = squeeze(t)
            for k in unroll(range(4)):
                g.key[2 * k] = u32(s[k])
                g.key[2 * k + 1] = u32(s[k] >> 32)
            g.at[USED], g.at[COUNTER] = u64(words), u64(0)

        @function
        def generate_word(g: Generator) -> u64:
            """Eight bytes of the key stream, big-endian."""
            if g.at[USED] == words:
                nonce = Array[u32, 3]()
                for b in unroll(range(blocks)):
                    block(g.key, u32(g.at[COUNTER]) + b, nonce, g.stream[BLOCK_WORDS * b:BLOCK_WORDS * (b + 1)])
                g.at[COUNTER] += blocks
                g.at[USED] = u64(0)
            at = 2 * g.at[USED]
            g.at[USED] += 1
            return bswap(u64(g.stream[at]) | u64(g.stream[at + 1]) << 32)

        @function
        def generate_field(g: Generator) -> u64:
            """The first word below p."""
            w = generate_word(g)
            while w >= P:
                w = generate_word(g)
            return w

        @function
        def sample_field(t: Slice[u64]) -> u64:
            """Uniform element of the base field, from a generator of its own."""
            g = Generator(Array[u32, 8](), Array[u32, 2 * words](), Array[u64, 2]())
            seed(t, g)
            return generate_field(g)

        @function
        def sample_ext(t: Slice[u64]) -> Ext:
            """Uniform element of the extension, from a generator of its own."""
            g = Generator(Array[u32, 8](), Array[u32, 2 * words](), Array[u64, 2]())
            seed(t, g)
            c0 = generate_field(g)
            c1 = generate_field(g)
            c2 = generate_field(g)
            return Ext(c0, c1, c2)

        @function
        def squeeze_below(t: Slice[u64], bound: u64) -> u64:
            """Uniform integer in [0, bound); a squeeze for each candidate."""
            assert bound != 0, "transcript: empty range"
            threshold = (0 - bound) % bound
            w = bswap(squeeze(t).w0)
            while w < threshold:
                w = bswap(squeeze(t).w0)
            return w % bound

        @function
        def generate_below(t: Slice[u64], bound: u64) -> u64:
            """Uniform integer in [0, bound), from a generator of its own."""
            assert bound != 0, "transcript: empty range"
            threshold = (0 - bound) % bound
            g = Generator(Array[u32, 8](), Array[u32, 2 * words](), Array[u64, 2]())
            seed(t, g)
            w = generate_word(g)
            while w < threshold:
                w = generate_word(g)
            return w % bound

        self.sample_field, self.sample_ext = sample_field, sample_ext
        self.sample_below = generate_below if generate_indices else squeeze_below
        self.functions = [block, seed, generate_word, generate_field, sample_ext, self.sample_below]
        self.replace: dict[Function, Function] = {ts.sample_ext: sample_ext, ts.sample_below: self.sample_below}


SEED = Sampler(blocks=4, generate_indices=False)
LEAN = Sampler(blocks=1, generate_indices=True)
