"""Halving Merkle trees over columns, eight rows at a time.

A layer of m nodes halves: node i of the next is made from nodes i and i + m/2, so that lanes and memory stay
contiguous. Matrices of several heights share one tree: the rows of one with h rows join at the layer with h nodes.

    row digest = Keccak-256(words of the row)
    node       = Keccak-256(ff * 8 || left || right [|| joining row digest])

ff * 8 is not a canonical field element, so no row can pass for a node (docs/protocol.md, "Trees").
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..lang import Array, Ptr, cpu, function, u64, u64x8, umin, unroll
from .keccak import RATE_WORDS, ROUND_CONSTANTS, keccak_round, permute

NODE_MARK = (1 << 64) - 1
BEGIN, END = 1, 2
TILE = 128  # rows whose states stay in the cache while the columns stream by
Words = np.ndarray[Any, np.dtype[np.uint64]]


@function
def hash_rows(columns: Ptr[Ptr[u64]], width: u64, out: Ptr[u64], rows: u64, states: Ptr[u64], stage: u64, lo: u64,
              hi: u64) -> None:
    """Digests of rows lo to hi - 1, both multiples of 8. ``out`` has shape (4, rows).

    Columns are read 17 at a time, the rate of the sponge, for a tile of rows. ``stage`` is BEGIN + END if these are all
    columns; ``states`` then holds 25 * TILE words. Rows that come in pieces, all but the last a multiple of 17 columns
    wide, BEGIN with the first and END with the last; ``states`` holds 25 words a row in between.
    """
    for first in range(lo, hi, TILE):
        n = u64(TILE)
        if hi - first < n:
            n = hi - first
        scratch = states
        if stage != BEGIN + END:
            scratch = states.offset(25 * first)
        if stage & BEGIN != 0:
            for k in range(0, 25 * n, 8):
                scratch.store8(k, u64x8(0))
        done = u64(0)
        while done + RATE_WORDS <= width:
            coming = umin(done + RATE_WORDS, width - RATE_WORDS)
            for i in range(0, n, 8):
                for k in unroll(range(RATE_WORDS)):
                    columns[coming + k].prefetch(first + i)
                state = scratch.offset(25 * i)
                s = tuple([state.load8(8 * k) ^ columns[done + k].load8(first + i) if k < RATE_WORDS
                           else state.load8(8 * k) for k in range(25)])
                for r in range(24):
                    s = keccak_round(s, u64x8(ROUND_CONSTANTS[r]))
                for k in unroll(range(25)):
                    state.store8(8 * k, s[k])
            done += RATE_WORDS
        if stage & END != 0:
            for i in range(0, n, 8):
                state = scratch.offset(25 * i)
                for k in range(width - done):
                    state.store8(8 * k, state.load8(8 * k) ^ columns[done + k].load8(first + i))
                end = 8 * (width - done)
                state.store8(end, state.load8(end) ^ 1)
                s = tuple([state.load8(8 * k) ^ (1 << 63) if k == RATE_WORDS - 1 else state.load8(8 * k)
                           for k in range(25)])
                for r in range(24):
                    s = keccak_round(s, u64x8(ROUND_CONSTANTS[r]))
                for k in unroll(range(4)):
                    out.store8(rows * k + first + i, s[k])


@function
def hash_nodes(below: Ptr[u64], joining: Ptr[u64], joins: u64, out: Ptr[u64], m: u64, lo: u64, hi: u64) -> None:
    """Nodes lo to hi - 1 (multiples of 8) of a layer of m, from ``below`` (4, 2 m) and row digests (4, m)."""
    zero = u64x8(0)
    for i in range(lo, hi, 8):
        end = u64x8(1)
        row = (zero, zero, zero, zero)
        if joins != 0:
            row = (joining.load8(i), joining.load8(m + i), joining.load8(2 * m + i), joining.load8(3 * m + i))
            end = u64x8(0)
        left = tuple([below.load8(2 * m * k + i) for k in range(4)])
        right = tuple([below.load8(2 * m * k + m + i) for k in range(4)])
        # 9 words, or 13 with a row digest; then the padding
        pad = u64x8(1) ^ end
        s = (u64x8(NODE_MARK), *left, *right, row[0] | end, row[1], row[2], row[3], pad, zero, zero,
             u64x8(1 << 63), *([zero] * 8))
        for r in range(24):
            s = keccak_round(s, u64x8(ROUND_CONSTANTS[r]))
        for k in unroll(range(4)):
            out.store8(m * k + i, s[k])


@function
def hash_top(below: Ptr[u64], out: Ptr[u64], m: u64) -> None:
    """As :func:`hash_nodes` for a layer of fewer than 8 nodes, where nothing joins."""
    for i in range(m):
        state = Array[u64, 25]()
        state[0] = u64(NODE_MARK)
        for k in unroll(range(4)):
            state[1 + k] = below[2 * m * k + i]
            state[5 + k] = below[2 * m * k + m + i]
        state[9] = u64(1)
        state[RATE_WORDS - 1] = u64(1 << 63)
        permute(state)
        for k in unroll(range(4)):
            out[m * k + i] = state[k]


library = cpu.Library("merkle", [hash_rows, hash_nodes, hash_top], packaged=True)


class Streamed(Protocol):
    """A matrix that is not kept in memory: its columns are made whenever they are read."""

    width: int

    def pieces(self) -> Iterator[list[Words]]:
        """All columns in order, in pieces of a multiple of RATE_WORDS columns, but for the last.

        A piece may be overwritten by the next.
        """

    def rows(self, which: Words) -> Words:
        """Chosen rows, shape (rows, width)."""


Matrix = list[Words] | Streamed


class Tree:
    """A committed tree. ``layers[k]`` has shape (4, m): word-major digests, the largest layer first."""

    def __init__(self, layers: list[Words], heights: dict[int, Matrix]) -> None:
        self.layers, self.heights = layers, heights

    @property
    def root(self) -> list[int]:
        """The root as 4 words."""
        return [int(x) for x in self.layers[-1][:, 0]]

    @property
    def size(self) -> int:
        """Leaves of the largest layer."""
        return int(self.layers[0].shape[1])

    def rows(self, indices: Sequence[int]) -> list[Words]:
        """Opened rows by descending height: one for each distinct i mod h, ascending; shape (rows, width)."""
        out = []
        for h in sorted(self.heights, reverse=True):
            matrix, which = self.heights[h], np.unique(np.asarray(indices) % h)
            out.append(np.stack([c[which] for c in matrix], axis=1) if isinstance(matrix, list) else matrix.rows(which))
        return out

    def siblings(self, indices: Sequence[int]) -> list[Words]:
        """Digests that a pruned multi-proof lacks, layer by layer, by ascending index; shape (nodes, 4)."""
        known = np.unique(np.asarray(indices) % self.size)
        out = []
        for layer in self.layers[:-1]:
            m = layer.shape[1] // 2
            out.append(np.ascontiguousarray(layer[:, np.setdiff1d(known ^ m, known)].T))
            known = np.unique(known % m)
        return out


def commit(heights: Mapping[int, Matrix], pool: Any = None) -> Tree:
    """Tree over ``{height: columns}``, heights powers of two >= 8 and columns at least that long; else ValueError."""
    for h, columns in heights.items():
        if h < 8 or h & (h - 1) or columns == []:
            raise ValueError(f"no matrix can join at {h} rows: heights are powers of two from 8 on, with columns")
        kept = columns if isinstance(columns, list) else []
        if any(len(c) < h or c.dtype != np.uint64 or not c.flags.c_contiguous for c in kept):
            raise ValueError(f"a column of height {h} must be a contiguous array of at least so many words")
    largest = max(heights)
    layers = [_row_digests(heights[largest], largest, pool)]
    m = largest // 2
    while m >= 1:
        layer = np.empty((4, m), dtype=np.uint64)
        below = layers[-1]
        if m >= 8:
            joining = _row_digests(heights[m], m, pool) if m in heights else below
            joins = int(m in heights)
            _parallel(pool, m, lambda lo, hi, b=below, j=joining, k=joins, o=layer, n=m:
                      library.hash_nodes(b, j, k, o, n, lo, hi))
        else:
            library.hash_top(below, layer, m)
        layers.append(layer)
        m //= 2
    return Tree(layers, dict(heights))


def _row_digests(matrix: Matrix, rows: int, pool: Any) -> Words:
    out = np.empty((4, rows), dtype=np.uint64)
    pieces, width = (iter([matrix]), len(matrix)) if isinstance(matrix, list) else (matrix.pieces(), matrix.width)
    states, done = np.empty(0, dtype=np.uint64), 0
    for piece in pieces:
        stage = BEGIN * (done == 0) + END * (done + len(piece) == width)
        if stage == BEGIN:
            states = np.empty(25 * rows, dtype=np.uint64)
        _hash_piece(piece, out, states, stage, pool)
        done += len(piece)
    return out


def _hash_piece(columns: list[Words], out: Words, states: Words, stage: int, pool: Any) -> None:
    """Rows of ``columns`` into ``states``, or from there into ``out``; a whole row has its state in the cache."""
    rows, local = out.shape[1], threading.local()
    addresses = np.array([c.ctypes.data for c in columns], dtype=np.uint64)

    def work(lo: int, hi: int) -> None:
        if not hasattr(local, "states"):
            local.states = np.empty(25 * TILE, dtype=np.uint64) if stage == BEGIN + END else states
        library.hash_rows(addresses, len(columns), out, rows, local.states, stage, lo, hi)

    _parallel(pool, rows, work)


def _parallel(pool: Any, n: int, work: Any) -> None:
    """Run ``work(lo, hi)`` over pieces of at most 2^16 rows that are multiples of the tile."""
    step = min(max(TILE, n // 8 // TILE * TILE), 1 << 16)
    if n <= step:
        work(0, n)
        return
    pieces = [(lo, min(lo + step, n)) for lo in range(0, n, step)]
    if pool is None:
        for lo, hi in pieces:
            work(lo, hi)
    else:
        list(pool.map(lambda p: work(*p), pieces))
