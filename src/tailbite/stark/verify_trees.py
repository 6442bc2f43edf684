"""Openings of committed trees: index sets, row digests and pruned multi-proofs. Typed Python."""

from __future__ import annotations

from typing import NamedTuple

from ..channel import Label, Reader, check_canonical, hint
from ..hash.keccak import RATE_WORDS, keccak256_words, permute
from ..hash.merkle import NODE_MARK
from ..lang import Array, Slice, function, length, u64, unroll, window
from ..lang.riscv import mark
from .phases import Phase
from .view import Scratch, reserve

MAX_LOG_SIZE = 32


class Sets(NamedTuple):
    """For each k, the distinct query indices mod 2^k, ascending: ``sizes[k]`` words of ``memory`` from ``at[k]``."""

    memory: Slice[u64]
    at: Slice[u64]
    sizes: Slice[u64]


@function
def index_sets(queries: Slice[u64], top: u64, s: Scratch) -> Sets:
    """Sets for k = ``top`` down to 0. ``queries`` are below 2^top; they are sorted in place."""
    n = length(queries)
    sets = Sets(reserve(s, n * (top + 1)), reserve(s, u64(MAX_LOG_SIZE + 1)), reserve(s, u64(MAX_LOG_SIZE + 1)))
    sort(queries)
    distinct = u64(0)
    for i in range(n):
        if distinct == 0 or sets.memory[distinct - 1] != queries[i]:
            sets.memory[distinct] = queries[i]
            distinct += 1
    sets.at[top] = u64(0)
    sets.sizes[top] = distinct
    used = distinct
    k = top
    while k != 0:
        k -= 1
        sets.at[k] = used
        sets.sizes[k] = halve(members(sets, k + 1), u64(1) << k, sets.memory[used:length(sets.memory)])
        used += sets.sizes[k]
    return sets


@function
def members(sets: Sets, k: u64) -> Slice[u64]:
    """The set of indices mod 2^k."""
    return sets.memory[sets.at[k]:sets.at[k] + sets.sizes[k]]


@function
def sort(words: Slice[u64]) -> None:
    """Ascending, in place (insertion sort: a few hundred words)."""
    for i in range(length(words)):
        x = words[i]
        j = i
        while j != 0 and words[j - 1] > x:
            words[j] = words[j - 1]
            j -= 1
        words[j] = x


@function
def halve(source: Slice[u64], half: u64, out: Slice[u64]) -> u64:
    """Merge the members below ``half`` with those above it, less ``half``; returns how many are distinct."""
    split = u64(0)
    while split < length(source) and source[split] < half:
        split += 1
    i, j, n = u64(0), split, u64(0)
    while i < split or j < length(source):
        x = u64(0)
        if j == length(source):
            x = source[i]
        elif i == split:
            x = source[j] - half
        elif source[i] <= source[j] - half:
            x = source[i]
        else:
            x = source[j] - half
        if i < split and source[i] == x:
            i += 1
        if j < length(source) and source[j] - half == x:
            j += 1
        out[n] = x
        n += 1
    return n


@function
def find(words: Slice[u64], x: u64) -> u64:
    """Position of ``x`` in an ascending slice, or the slice's length."""
    lo, hi = u64(0), length(words)
    while lo < hi:
        mid = (lo + hi) >> 1
        if words[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    if lo < length(words) and words[lo] == x:
        return lo
    return length(words)


class Digests(NamedTuple):
    """Row digests by log size: four words for each member of the set, from ``at[k]`` - 1 on; 0: no rows there."""

    memory: Slice[u64]
    at: Slice[u64]
    used: Slice[u64]


@function
def new_digests(sets: Sets, top: u64, s: Scratch) -> Digests:
    """Room for the digests of rows at every height up to 2^top."""
    total = u64(0)
    for k in range(top + 1):
        total += 4 * sets.sizes[k]
    return Digests(reserve(s, total), reserve(s, u64(MAX_LOG_SIZE + 1)), reserve(s, u64(1)))


@function
def clear_digests(d: Digests) -> None:
    """Forget all rows, for the next tree."""
    for k in range(length(d.at)):
        d.at[k] = u64(0)
    d.used[0] = u64(0)


@function
def read_row(ch: Reader, width: u64, d: Digests) -> Slice[u64]:
    """The next opened row, canonical, with its digest noted."""
    mark(Phase.OPENINGS)
    row = hint(ch, u64(int(Label.ROWS)), width)
    check_canonical(row)
    at = d.used[0]
    keccak256_words(row, d.memory[at:at + 4])
    d.used[0] = at + 4
    return row


@function
def begin_rows(d: Digests, k: u64) -> None:
    """The rows that follow belong to height 2^k."""
    d.at[k] = d.used[0] + 1


@function
def hash_node(sponge: Slice[u64], left: Slice[u64], i: u64, right: Slice[u64], j: u64, rows: Slice[u64],
              out: Slice[u64], p: u64) -> None:
    """Node ``p`` of a layer from the digests at ``left[i]`` and ``right[j]``, and its row's if there are ``rows``."""
    state = window(sponge, u64(0), 25)
    a, b, node = window(left, i, 4), window(right, j, 4), window(out, 4 * p, 4)
    state[0] = u64(NODE_MARK)
    for k in unroll(range(4)):
        state[1 + k] = a[k]
        state[5 + k] = b[k]
    for k in unroll(range(14, 25)):
        state[k] = u64(1 << 63 if k == RATE_WORDS - 1 else 0)
    if length(rows) == 0:
        state[9] = u64(1)
        for k in unroll(range(10, 14)):
            state[k] = u64(0)
    else:
        row = window(rows, 4 * p, 4)
        for k in unroll(range(4)):
            state[9 + k] = row[k]
        state[13] = u64(1)
    permute(state)
    for k in unroll(range(4)):
        node[k] = state[k]


@function
def check_tree(ch: Reader, sets: Sets, top: u64, d: Digests, root: Slice[u64], s: Scratch) -> None:
    """Read the missing siblings, climb from the rows at 2^top to the root, and compare."""
    mark(Phase.OPENINGS)
    used = s.used[0]
    below = d.memory[d.at[top] - 1:d.at[top] - 1 + 4 * sets.sizes[top]]
    sponge = Array[u64, 25]()
    k = top
    while k != 0:
        k -= 1
        below = climb(ch, members(sets, k + 1), members(sets, k), u64(1) << k, below, rows_at(d, sets, k), sponge, s)
    for j in unroll(range(4)):
        assert below[j] == root[j], "opening: rows and siblings do not lead to the committed root"
    s.used[0] = used


@function
def rows_at(d: Digests, sets: Sets, k: u64) -> Slice[u64]:
    """Digests of the rows that join at height 2^k; empty if none do."""
    if d.at[k] == 0:
        return d.memory[0:0]
    return d.memory[d.at[k] - 1:d.at[k] - 1 + 4 * sets.sizes[k]]


@function
def climb(ch: Reader, children: Slice[u64], parents: Slice[u64], half: u64, below: Slice[u64], rows: Slice[u64],
          sponge: Slice[u64], s: Scratch) -> Slice[u64]:
    """Digests of the parents: node i from nodes i and i + half; unknown children come from the proof, ascending."""
    n = length(parents)
    low = u64(0)
    while low < length(children) and children[low] < half:
        low += 1
    siblings = hint(ch, u64(int(Label.SIBLINGS)), 4 * (2 * n - length(children)))
    out = reserve(s, 4 * n)
    left, right = u64(0), low
    next_left, next_right = u64(0), 4 * (n - low)
    for p in range(n):
        parent = parents[p]
        a, i = siblings, next_left
        if left < low and children[left] == parent:
            a, i = below, 4 * left
            left += 1
        else:
            next_left += 4
        b, j = siblings, next_right
        if right < length(children) and children[right] == parent + half:
            b, j = below, 4 * right
            right += 1
        else:
            next_right += 4
        hash_node(sponge, a, i, b, j, rows, out, p)
    return out
