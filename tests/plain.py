"""Plain-Python twins of the arithmetic under test, written from its description and sharing no code with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from Crypto.Hash import keccak

P = 2**64 - 2**32 + 1
WORD = 2**64
LEVELS = ("native", "avx2", "baseline")
Triple = tuple[int, int, int]

# Representatives at which a missing reduction, carry or borrow shows.
EDGES = (
    0, 1, 2, 7, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**32 + 1, 2**33 - 1, 2**52 - 1, 2**52, 2**63 - 1, 2**63,
    2**64 - 2**33, P - 2**32, P - 2, P - 1, P, P + 1, P + 2, 2**64 - 3, 2**64 - 2, 2**64 - 1,
)
CANONICAL = tuple(x for x in EDGES if x < P)


def array(xs: Iterable[int]) -> Any:
    """Integers as a column."""
    return np.array(list(xs), dtype=np.uint64)


def ints(xs: Any) -> list[int]:
    """A column as integers."""
    return [int(x) for x in xs]


def random_elements(seed: int, n: int) -> list[int]:
    """Canonical field elements, every fourth one an edge."""
    rng = random.Random(seed)
    return [rng.choice(CANONICAL) if rng.random() < 0.25 else rng.randrange(P) for _ in range(n)]


def random_words(seed: int, n: int) -> list[int]:
    """Any representatives, every fourth one an edge."""
    rng = random.Random(seed)
    return [rng.choice(EDGES) if rng.random() < 0.25 else rng.randrange(WORD) for _ in range(n)]


# ---------------------------------------------------------------- the extension: polynomials modulo w^3 - 2


def ext_add(a: Sequence[int], b: Sequence[int]) -> Triple:
    return (a[0] + b[0]) % P, (a[1] + b[1]) % P, (a[2] + b[2]) % P


def ext_sub(a: Sequence[int], b: Sequence[int]) -> Triple:
    return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P


def ext_scale(a: Sequence[int], k: int) -> Triple:
    return a[0] * k % P, a[1] * k % P, a[2] * k % P


def ext_mul(a: Sequence[int], b: Sequence[int]) -> Triple:
    """School multiplication, then w^3 = 2."""
    c = [0] * 5
    for i in range(3):
        for j in range(3):
            c[i + j] += a[i] * b[j]
    return (c[0] + 2 * c[3]) % P, (c[1] + 2 * c[4]) % P, c[2] % P


def ext_power(a: Sequence[int], e: int) -> Triple:
    result: Triple = (1, 0, 0)
    for digit in bin(e)[2:]:
        result = ext_mul(result, result)
        if digit == "1":
            result = ext_mul(result, a)
    return result


def ext_inverse(a: Sequence[int]) -> Triple:
    """By Fermat; 0 for 0."""
    return ext_power(a, P**3 - 2)


# ---------------------------------------------------------------- Keccak-256 and the transcript


def keccak256(message: bytes) -> bytes:
    return keccak.new(digest_bits=256, data=message).digest()


def hash_words(words: Iterable[int]) -> list[int]:
    """Digest of little-endian words, as four words."""
    digest = keccak256(b"".join(int(w).to_bytes(8, "little") for w in words))
    return [int.from_bytes(digest[k:k + 8], "little") for k in range(0, 32, 8)]


class PlainTranscript:
    """The hash chain with its output buffer, from its rules, on byte strings."""

    def __init__(self, data: bytes = b"") -> None:
        self.absorbed, self.buffer, self.position = data, b"", 32

    def append_bytes(self, data: bytes) -> None:
        self.absorbed += data
        self.position = 32

    def append_field_element(self, *coordinates: int) -> None:
        for x in coordinates:
            self.append_bytes(x.to_bytes(8, "big"))

    def sample(self) -> bytes:
        self.absorbed = self.state()[::-1]
        return self.absorbed

    def state(self) -> bytes:
        return keccak256(self.absorbed)

    def next_u64(self) -> int:
        if self.position + 8 > 32:
            self.buffer, self.position = self.sample(), 0
        self.position += 8
        return int.from_bytes(self.buffer[self.position - 8:self.position], "big")

    def sample_field_element(self) -> int:
        return next(x for x in self._words() if x < P)

    def sample_extension_element(self) -> Triple:
        return self.sample_field_element(), self.sample_field_element(), self.sample_field_element()

    def sample_u64(self, bound: int) -> int:
        return next(x for x in self._words() if x >= (WORD - bound) % bound) % bound

    def _words(self) -> Iterator[int]:
        while True:
            yield self.next_u64()


# ---------------------------------------------------------------- Merkle trees

NODE_MARK = WORD - 1
Rows = list[list[int]]


def row_digests(columns: Sequence[Any], height: int) -> Rows:
    """One digest a row of the columns' first ``height`` words."""
    return [hash_words(int(c[i]) for c in columns) for i in range(height)]


def join(left: list[int], right: list[int], row: list[int]) -> list[int]:
    """A node from its children and, unless it is empty, the digest of the row that joins."""
    return hash_words([NODE_MARK, *left, *right, *row])


def merkle_root(heights: dict[int, Any]) -> list[int]:
    """Root over ``{height: columns}``: node i of a layer of m is made from nodes i and i + m of the one below."""
    m = max(heights)
    layer = row_digests(heights[m], m)
    while m > 1:
        m //= 2
        joining = row_digests(heights[m], m) if m in heights else [[]] * m
        layer = [join(layer[i], layer[i + m], joining[i]) for i in range(m)]
    return layer[0]


def multiproof_root(indices: Sequence[int], rows: dict[int, Rows], siblings: Rows) -> list[int]:
    """Root that an opening leads to.

    ``rows[h]`` has one row for each distinct i mod h, ascending; ``siblings`` come by layer and ascending index.
    ValueError if there are too few or too many of either.
    """
    m, left = max(rows), list(siblings)
    layer = {}
    for h, opened in rows.items():
        if len(opened) != len({i % h for i in indices}):
            raise ValueError("another number of rows")
    for i, row in zip(sorted({i % m for i in indices}), rows[m], strict=True):
        layer[i] = hash_words(row)
    while m > 1:
        for i in sorted((i + m // 2) % m for i in layer):
            if i not in layer:
                if not left:
                    raise ValueError("a sibling is missing")
                layer[i] = left.pop(0)
        m //= 2
        at = sorted({i % m for i in layer})
        digests: Rows = [hash_words(r) for r in rows[m]] if m in rows else [[]] * len(at)
        layer = {i: join(layer[i], layer[i + m], d) for i, d in zip(at, digests, strict=True)}
    if left:
        raise ValueError("a sibling is left over")
    return layer[0]


# ---------------------------------------------------------------- statistics


def chi_square(counts: Sequence[int]) -> float:
    """Pearson's statistic against equal probabilities."""
    expected = sum(counts) / len(counts)
    return sum((c - expected) ** 2 for c in counts) / expected


def counted(draw: Callable[[], int], cells: int, n: int = 4096) -> list[int]:
    """How often each of the values 0 .. cells - 1 is drawn."""
    counts = [0] * cells
    for _ in range(n):
        counts[draw()] += 1
    return counts
