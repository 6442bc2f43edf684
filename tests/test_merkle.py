"""Merkle trees: roots and openings against a plain-Python reader of their description."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import plain
import pytest
from plain import LEVELS, array, ints

from tailbite.channel import Reader
from tailbite.errors import Trap
from tailbite.hash import merkle
from tailbite.lang import Array, Slice, cpu, function, length, u64
from tailbite.stark import verify_trees
from tailbite.stark.verify_trees import begin_rows, check_tree, clear_digests, index_sets, new_digests
from tailbite.stark.view import Scratch
from tailbite.transcript import STATE_WORDS

WIDTHS = (1, 2, 15, 16, 17, 18, 33, 34, 35, 40)
Heights = dict[int, list[Any]]
Opening = tuple[list[int], dict[int, plain.Rows], plain.Rows]


def matrices(shape: dict[int, int], seed: int = 0) -> Heights:
    """Random columns: ``shape`` maps heights to widths."""
    rng = np.random.default_rng(seed)
    return {h: [rng.integers(0, plain.P, h, dtype=np.uint64) for _ in range(w)] for h, w in shape.items()}


def opened(tree: merkle.Tree, indices: list[int]) -> Opening:
    """An opening in plain integers."""
    heights = sorted(tree.heights, reverse=True)
    rows = {h: [ints(r) for r in block] for h, block in zip(heights, tree.rows(indices), strict=True)}
    return indices, rows, [ints(s) for layer in tree.siblings(indices) for s in layer]


# ---------------------------------------------------------------- roots


@pytest.mark.parametrize("width", range(1, 41))
def test_root_of_one_matrix_at_every_width(width: int) -> None:
    heights = matrices({8: width}, width)
    assert merkle.commit(heights).root == plain.merkle_root(heights)


@pytest.mark.parametrize("height", [8, 16, 64, 128, 256, 1024])
def test_root_at_every_height(height: int) -> None:
    heights = matrices({height: 3}, height)
    assert merkle.commit(heights).root == plain.merkle_root(heights)


@pytest.mark.parametrize("others", [c for n in range(4) for c in itertools.combinations((8, 16, 32), n)])
def test_root_of_every_mixture(others: tuple[int, ...]) -> None:
    shape = {64: 5} | {h: WIDTHS[(h + len(others)) % len(WIDTHS)] for h in others}
    heights = matrices(shape)
    assert merkle.commit(heights).root == plain.merkle_root(heights)
    assert merkle.commit(dict(reversed(heights.items()))).root == plain.merkle_root(heights)


def test_random_mixtures() -> None:
    rng = random.Random(3)
    for seed in range(20):
        shape = {h: rng.choice(WIDTHS) for h in rng.sample((8, 16, 32, 64, 128), rng.randint(1, 5))}
        heights = matrices(shape, seed)
        assert merkle.commit(heights).root == plain.merkle_root(heights), shape


def test_only_the_first_words_of_a_column_count() -> None:
    heights = matrices({32: 4})
    cut = {16: heights[32]}
    assert merkle.commit(cut).root == plain.merkle_root(cut) != merkle.commit(heights).root


def test_every_word_is_bound() -> None:
    """One word anywhere, a matrix left out, or columns in another order: the root changes."""
    shape = {32: 18, 8: 2}
    root = merkle.commit(matrices(shape)).root
    for h, c, i in ((32, 0, 0), (32, 17, 31), (32, 16, 7), (8, 0, 0), (8, 1, 7)):
        heights = matrices(shape)
        heights[h][c][i] ^= np.uint64(1)
        assert merkle.commit(heights).root != root
    heights = matrices(shape)
    assert merkle.commit(heights).root == root
    assert merkle.commit({32: heights[32]}).root != root
    assert merkle.commit({32: heights[32][::-1], 8: heights[8]}).root != root


def test_a_matrix_without_columns_is_refused() -> None:
    heights = matrices({32: 3})
    with pytest.raises(ValueError, match="with columns"):
        merkle.commit({**heights, 8: []})
    assert merkle.commit(heights).root == plain.merkle_root(heights)


@pytest.mark.parametrize("shape", [{4096: 19, 1024: 2, 8: 17}, {512: 1}, {256: 40, 128: 40}])
def test_threads_make_the_same_tree(shape: dict[int, int]) -> None:
    heights = matrices(shape)
    alone = merkle.commit(heights)
    with ThreadPoolExecutor(2) as pool:
        together = merkle.commit(heights, pool)
    assert len(alone.layers) == len(together.layers)
    assert all(np.array_equal(a, b) for a, b in zip(alone.layers, together.layers, strict=True))
    if max(shape) <= 512:
        assert alone.root == plain.merkle_root(heights)


class Pieces:
    """Columns that come 17 at a time, each time in the same memory."""

    def __init__(self, columns: list[Any]) -> None:
        self.columns, self.width = columns, len(columns)

    def pieces(self) -> Iterator[list[Any]]:
        room = np.empty((17, len(self.columns[0])), dtype=np.uint64)
        for at in range(0, self.width, 17):
            part = self.columns[at:at + 17]
            room[:len(part)] = part
            yield list(room[:len(part)])

    def rows(self, which: Any) -> Any:
        return np.stack(self.columns, axis=1)[which]


@pytest.mark.parametrize("width", [1, 16, 17, 18, 34, 40])
def test_a_matrix_in_pieces_makes_the_same_tree(width: int) -> None:
    heights = matrices({4096: width, 256: width})
    kept = merkle.commit(heights)
    with ThreadPoolExecutor(2) as pool:
        streamed = merkle.commit({h: Pieces(c) for h, c in heights.items()}, pool)
    assert streamed.root == kept.root
    for a, b in zip(kept.rows([3, 999]), streamed.rows([3, 999]), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("level", LEVELS)
def test_root_at_every_level(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [merkle.hash_rows, merkle.hash_nodes, merkle.hash_top]
    monkeypatch.setattr(merkle, "library", cpu.Library("merkle-test", functions, level=level))
    heights = matrices({32: 35, 16: 17, 8: 1})
    assert merkle.commit(heights).root == plain.merkle_root(heights)


def test_interpreter_equals_compiled_code() -> None:
    columns = matrices({8: 18})[8]
    compiled = merkle.commit({8: columns})
    rows, node = array([0] * 32), array([0] * 4)
    merkle.hash_rows(columns, len(columns), rows, 8, array([0] * 25 * merkle.TILE), merkle.BEGIN + merkle.END, 0, 8)
    assert np.array_equal(rows.reshape(4, 8), compiled.layers[0])
    merkle.hash_top(array(ints(compiled.layers[-2].reshape(-1))), node, 1)
    assert ints(node) == compiled.root
    below, joining, out = (array(plain.random_words(k, 32 * k)) for k in (2, 1, 1))
    for joins in (0, 1):
        merkle.hash_nodes(below, joining, joins, out, 8, 0, 8)
        want = array([0] * 32)
        merkle.library.hash_nodes(below, joining, joins, want, 8, 0, 8)
        assert np.array_equal(out, want)


@pytest.mark.parametrize("height", [0, 1, 4, 12, 24])
def test_heights_without_a_layer_are_refused(height: int) -> None:
    """A small matrix would otherwise be left out of the root in silence."""
    columns = matrices({32: 1})[32]
    with pytest.raises(ValueError, match="no matrix can join"):
        merkle.commit({32: columns, height: columns})
    merkle.commit({32: columns, 8: columns})


def test_columns_that_loops_cannot_read_are_refused() -> None:
    long = np.arange(64, dtype=np.uint64)
    for bad in (long[:31], long[::2], long[:32].astype(np.int64), long[:32].astype(np.uint32)):
        with pytest.raises(ValueError, match="contiguous"):
            merkle.commit({32: [long, bad]})
    merkle.commit({32: [long, long[:32]]})


# ---------------------------------------------------------------- openings

SHAPES = ({64: 3}, {64: 2, 16: 17, 8: 1}, {8: 1}, {128: 1, 8: 5})


def sets_of_indices(size: int) -> list[list[int]]:
    """Single, repeated, adjacent, opposite, all, random."""
    rng = random.Random(size)
    return [[0], [size - 1], [3, 3, 3], [1, 2], [1, 1 + size // 2], list(range(size)),
            [rng.randrange(size) for _ in range(9)], [5 * size + 1, 1, 2]]


@pytest.mark.parametrize("shape", SHAPES)
def test_openings_lead_to_the_root(shape: dict[int, int]) -> None:
    heights = matrices(shape)
    tree = merkle.commit(heights)
    for indices in sets_of_indices(tree.size):
        _, rows, siblings = opened(tree, indices)
        assert plain.multiproof_root(indices, rows, siblings) == tree.root
        for h, block in rows.items():
            places = sorted({i % h for i in indices})
            assert block == [[int(c[i]) for c in heights[h]] for i in places]


def test_opening_all_leaves_needs_no_sibling() -> None:
    tree = merkle.commit(matrices({64: 1}))
    assert opened(tree, list(range(64)))[2] == []
    assert len(opened(tree, [7])[2]) == 6


def test_a_changed_opening_leads_elsewhere() -> None:
    """Every word of every row and sibling; an untouched copy leads to the root."""
    tree = merkle.commit(matrices({32: 2, 8: 3}))
    indices = [3, 9, 25]
    assert plain.multiproof_root(*opened(tree, indices)) == tree.root
    _, rows, siblings = opened(tree, indices)
    cells = [r for block in rows.values() for r in block] + siblings
    for cell in cells:
        for k in range(len(cell)):
            cell[k] ^= 1
            assert plain.multiproof_root(indices, rows, siblings) != tree.root
            cell[k] ^= 1
    assert plain.multiproof_root(indices, rows, siblings) == tree.root


def test_swapped_siblings_and_rows_are_refused() -> None:
    tree = merkle.commit(matrices({32: 2}))
    indices, rows, siblings = opened(tree, [3, 9])
    assert len(siblings) > 2
    for i, j in itertools.combinations(range(len(siblings)), 2):
        swapped = list(siblings)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        assert plain.multiproof_root(indices, rows, swapped) != tree.root
    assert plain.multiproof_root(indices, {32: rows[32][::-1]}, siblings) != tree.root


def test_left_is_not_right() -> None:
    """The opened node and its sibling change places at the other index."""
    tree = merkle.commit(matrices({32: 2}))
    _, rows, siblings = opened(tree, [3])
    assert plain.multiproof_root([3], rows, siblings) == tree.root
    assert plain.multiproof_root([3 + 16], rows, siblings) != tree.root
    assert plain.multiproof_root([4], rows, siblings) != tree.root


def test_an_opening_of_another_length_is_refused() -> None:
    tree = merkle.commit(matrices({32: 2}))
    indices, rows, siblings = opened(tree, [3, 9])
    for wrong in (siblings[:-1], [*siblings, siblings[0]]):
        with pytest.raises(ValueError, match="sibling"):
            plain.multiproof_root(indices, rows, wrong)
    with pytest.raises(ValueError, match="rows"):
        plain.multiproof_root(indices, {32: rows[32][:1]}, siblings)


# ---------------------------------------------------------------- rows and nodes


def read_row(words: list[int]) -> list[int]:
    """The verifier's reader of one opened row; its digest."""
    reader = Reader(array(words), array([0]), array([0] * STATE_WORDS), array([]))
    digests = verify_trees.Digests(array([0] * 4), array([0] * 33), array([0]))
    verify_trees.read_row(reader, len(words), digests)
    return ints(digests.memory)


def test_no_row_passes_for_a_node() -> None:
    """A row with a node's words hashes like that node; the mark makes it a row that no reader accepts."""
    left, right = [1, 2, 3, 4], [5, 6, 7, 8]
    node = plain.join(left, right, [])
    twin = [merkle.NODE_MARK, *left, *right]
    assert merkle.commit({8: [array([w] * 8) for w in twin]}).layers[0][:, 0].tolist() == node
    with pytest.raises(Trap, match="not canonical"):
        read_row(twin)
    canonical = [merkle.NODE_MARK - plain.P, *left, *right]
    assert read_row(canonical) == plain.hash_words(canonical) != node
    assert read_row([*left, *right]) != node
    assert merkle.NODE_MARK >= plain.P


def test_without_the_mark_a_row_would_pass_for_a_node() -> None:
    """The attack that the mark prevents: under unmarked nodes, eight canonical words are a node."""
    left, right = [1, 2, 3, 4], [5, 6, 7, 8]
    assert read_row([*left, *right]) == plain.hash_words([*left, *right])
    assert read_row([*left, *right]) != plain.join(left, right, [])


def test_a_joining_row_is_not_part_of_a_child() -> None:
    left, right, row = [1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]
    nodes = [plain.join(left, right, row), plain.join(left, right, []), plain.join(left, row, right),
             plain.join(left, right, [0, 0, 0, 0])]
    assert len({tuple(n) for n in nodes}) == 4


# ---------------------------------------------------------------- the package's own verifier of openings


@function
def check_opening(proof: Slice[u64], queries: Slice[u64], top: u64, widths: Slice[u64], root: Slice[u64],
                  memory: Slice[u64]) -> None:
    """Trap unless ``proof`` opens ``root`` at the queries; ``widths[k]``: columns at height 2^k."""
    ch = Reader(proof, Array[u64, 1](), Array[u64, STATE_WORDS](), memory[0:0])
    s = Scratch(memory, Array[u64, 1]())
    sets = index_sets(queries, top, s)
    d = new_digests(sets, top, s)
    clear_digests(d)
    for back in range(top + 1):
        k = top - back
        if widths[k] != 0:
            begin_rows(d, k)
            for _i in range(sets.sizes[k]):
                verify_trees.read_row(ch, widths[k], d)
    check_tree(ch, sets, top, d, root, s)
    assert ch.at[0] == length(proof), "extended: words are left"


opening = cpu.Library("opening-test", [check_opening])


def refusal(root: list[int], indices: list[int], rows: dict[int, plain.Rows], siblings: plain.Rows) -> str:
    """Why the verifier refuses an opening; "" if it accepts."""
    proof = [w for block in rows.values() for r in block for w in r] + [w for s in siblings for w in s]
    widths = array([0] * 33)
    for h, block in rows.items():
        widths[h.bit_length() - 1] = len(block[0])
    try:
        opening.check_opening(array(proof), array(indices), max(rows).bit_length() - 1, widths, array(root),
                              array([0] * 20000))
    except Trap as e:
        return str(e)
    return ""


@pytest.mark.parametrize("shape", SHAPES)
def test_verifier_accepts_honest_openings(shape: dict[int, int]) -> None:
    tree = merkle.commit(matrices(shape))
    for indices in sets_of_indices(tree.size)[:-1]:
        assert refusal(tree.root, *opened(tree, indices)) == ""


def test_verifier_refuses_what_the_plain_reader_refuses() -> None:
    tree = merkle.commit(matrices({64: 2, 8: 3}))
    indices, rows, siblings = opened(tree, [3, 9, 41])
    assert refusal(tree.root, indices, rows, siblings) == ""
    for i, j in itertools.combinations(range(len(siblings)), 2):
        swapped = list(siblings)
        swapped[i], swapped[j] = swapped[j], swapped[i]
        assert "do not lead to the committed root" in refusal(tree.root, indices, rows, swapped)
    assert "committed root" in refusal(tree.root, indices, {**rows, 8: rows[8][::-1]}, siblings)
    assert "committed root" in refusal(tree.root, [7, 9, 41], rows, siblings)
    assert "committed root" in refusal([*tree.root[:3], tree.root[3] ^ 1], indices, rows, siblings)
    assert "truncated" in refusal(tree.root, indices, rows, siblings[:-1])
    assert "extended" in refusal(tree.root, indices, rows, [*siblings, siblings[0]])


def test_verifier_refuses_every_changed_word() -> None:
    tree = merkle.commit(matrices({32: 2, 8: 3}))
    indices, rows, siblings = opened(tree, [3, 9, 25])
    for cell in [r for block in rows.values() for r in block] + siblings:
        for k in range(len(cell)):
            cell[k] ^= 1
            assert "committed root" in refusal(tree.root, indices, rows, siblings)
            cell[k] ^= 1
    assert refusal(tree.root, indices, rows, siblings) == ""


def test_verifier_refuses_a_row_that_is_not_canonical() -> None:
    """x + p in place of x, where it fits a word."""
    columns = [array([5] * 8)]
    tree = merkle.commit({8: columns})
    indices, rows, siblings = opened(tree, [3])
    assert refusal(tree.root, indices, rows, siblings) == ""
    assert "not canonical" in refusal(tree.root, indices, {8: [[5 + plain.P]]}, siblings)
