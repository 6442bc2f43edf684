"""Where the cycles of a run go: a tree of call stacks, counted by the profiling build of the executor.

A node is a function within its callers, in one phase, and counts cycles and Keccak permutations. Calls and returns are
told by the link registers x1 and x5, as the manual's hints for return address stacks have it (The RISC-V Instruction
Set Manual, volume I, "Unconditional Jumps"). Arriving in another function in any other way, by a tail call or by
falling through, replaces the innermost frame. So the innermost frame is always the function that the pc lies in, and
the cycles of all nodes add up to those of the run, whatever the program does with its return addresses.

A phase begins at a *mark*, ``slti x0, x0, n`` with n from 1 to 2047: an instruction that the manual leaves to custom
hints and that changes nothing. A mark is named by its symbol, ``phase.NAME``. What comes before the first belongs to
phase 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..lang import Slice, function, u32, u64
from .elf import Image
from .ops import Op

MAX_DEPTH = 1024  # frames of a stack; deeper calls count as frames of that depth
MAX_NODES = 1 << 22
SPARE_NODES = 1 << 17  # room for a slice of the run: two for each cycle
PROFILE_SLICE = 1 << 18  # time of one compiled call: 2^16 cycles
REST = "rest"  # the phase before the first mark
MARK = "phase."  # what the symbol of a mark begins with
ROOT_KEY = (1 << 64) - 1
MASK32 = (1 << 32) - 1
MARK_MASK, MARK_WORD = 0x800FFFFF, 0x00002013  # slti x0, x0, n >= 0
JAL = 0x6F

# words of the state
NODE = 0  # of the last instruction
NODES = 1  # so far; node 0 is the root, above the function that starts
PHASE = 2
DEPTH = 3  # frames on the stack,
BEYOND = 4  # and calls for which it had no room
PERMUTATIONS = 5  # counted so far
STATE_WORDS = 6

# what a row does, beside the number of its function in the low half of its step
CALLS, RETURNS, SYSTEM = (1 << k for k in (32, 33, 34))
MARK_AT = 35  # from this bit on: the phase that begins


class Tree(NamedTuple):
    """What the profiling build writes; see the module. Links are node numbers, 0 for none."""

    steps: Slice[u64]  # of each row of the code
    state: Slice[u64]
    frames: Slice[u64]  # return pc and calling node
    keys: Slice[u64]  # of each node: its function, and 2^32 times its phase
    parents: Slice[u32]
    children: Slice[u32]  # first child
    siblings: Slice[u32]  # next child of the same parent
    cycles: Slice[u64]
    permutations: Slice[u64]


# ---------------------------------------------------------------- compiled


@function
def follow(t: Tree, row: u64, after: u64, pc: u64, target: u64, permutations: u64) -> None:
    """Count the instruction of ``row`` at ``pc``; ``after`` is the row and ``target`` the pc that it continues with.

    ``permutations``: made so far, by this instruction too.
    """
    step, node = t.steps[row], t.state[NODE]
    key = t.state[PHASE] << 32 | step & MASK32
    if t.keys[node] != key:
        node = child(t, u64(t.parents[node]), key)
    t.cycles[node] += 1
    if step >> 32 != 0:
        if step & SYSTEM != 0:
            t.permutations[node] += permutations - t.state[PERMUTATIONS]
            t.state[PERMUTATIONS] = permutations
        if step & RETURNS != 0:
            node = returned(t, node, target)
        if step & CALLS != 0:
            node = called(t, node, pc + 4, t.state[PHASE] << 32 | t.steps[after] & MASK32)
        if step >> MARK_AT != 0:
            t.state[PHASE] = step >> MARK_AT
    t.state[NODE] = node


@function
def child(t: Tree, parent: u64, key: u64) -> u64:
    """The node below ``parent`` with this key; a new one if need be."""
    at = u64(t.children[parent])
    while at != 0:
        if t.keys[at] == key:
            return at
        at = u64(t.siblings[at])
    new = t.state[NODES]
    t.state[NODES] += 1
    t.keys[new] = key
    t.parents[new] = u32(parent)
    t.siblings[new] = t.children[parent]
    t.children[parent] = u32(new)
    return new


@function
def called(t: Tree, node: u64, return_pc: u64, key: u64) -> u64:
    """The node of the function that ``node`` calls."""
    depth = t.state[DEPTH]
    if depth == MAX_DEPTH:
        t.state[BEYOND] += 1
        return node
    t.frames[2 * depth], t.frames[2 * depth + 1] = return_pc, node
    t.state[DEPTH] = depth + 1
    return child(t, node, key)


@function
def returned(t: Tree, node: u64, target: u64) -> u64:
    """The node that a return to ``target`` leads back to: the innermost caller that waits there, else ``node``."""
    if t.state[BEYOND] != 0:
        t.state[BEYOND] -= 1
        return node
    depth = t.state[DEPTH]
    while depth != 0:
        depth -= 1
        if t.frames[2 * depth] == target:
            t.state[DEPTH] = depth
            return t.frames[2 * depth + 1]
    return node


# ---------------------------------------------------------------- host


def empty_tree(rows: int = 0, frames: int = 0, nodes: int = 0) -> Tree:
    """Zeros, with room for so much."""
    sizes = (rows, STATE_WORDS, 2 * frames, nodes, nodes, nodes, nodes, nodes, nodes)
    links = ("parents", "children", "siblings")
    return Tree(*(np.zeros(n, np.uint32 if name in links else np.uint64)
                  for n, name in zip(sizes, Tree._fields, strict=True)))


def new_tree(image: Image, rows: int) -> Tree:
    """The tree of a run that has not begun; the code has ``rows`` rows, the first of which are those of the ROM."""
    tree = empty_tree(rows, MAX_DEPTH, 2 * SPARE_NODES)
    tree.steps[:len(image.rom)] = _steps(image)
    tree.keys[0] = ROOT_KEY
    tree.state[NODES] = 1
    return tree


def with_room(tree: Tree) -> Tree:
    """The same tree with room for the nodes of another slice."""
    size = len(tree.keys)
    if size - int(tree.state[NODES]) >= SPARE_NODES:
        return tree
    nodes: list[Any] = list(tree[3:])
    return Tree(*tree[:3], *(np.concatenate([x, np.zeros(size, x.dtype)]) for x in nodes))


def functions_of(image: Image) -> tuple[tuple[str, ...], NDArray[np.uint64]]:
    """Names of functions, ascending by address, and the number of the one that each row of the ROM lies in.

    Number 0 is "?", for code without a symbol.
    """
    numbers = {"?": 0}
    names = (image.symbol_at(pc).partition("+")[0] or "?" for pc in image.rom.pc.tolist())
    rows = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.uint64)
    return tuple(numbers), rows


def _steps(image: Image) -> NDArray[np.uint64]:
    rom = image.rom
    jal, jalr = _words(image) & np.uint64(0x7F) == JAL, rom.op == Op.JALR
    links = (rom.rd == 1) | (rom.rd == 5)
    back = jalr & ((rom.s1 == 1) | (rom.s1 == 5)) & ~(links & (rom.rd == rom.s1))
    flags = (np.where(links & (jal | jalr), np.uint64(CALLS), np.uint64(0))
             | np.where(back, np.uint64(RETURNS), np.uint64(0))
             | np.where(rom.op == Op.ECALL, np.uint64(SYSTEM), np.uint64(0)))
    return functions_of(image)[1] | flags | _marks(image) << np.uint64(MARK_AT)


def _words(image: Image) -> NDArray[np.uint64]:
    """The word of each row of the ROM."""
    return image.code.word[np.searchsorted(image.code.pc, image.rom.pc)].astype(np.uint64)


def _marks(image: Image) -> NDArray[np.uint64]:
    """The phase that begins at each row of the ROM, 0 for none."""
    words = _words(image)
    return np.where(words & np.uint64(MARK_MASK) == MARK_WORD, words >> np.uint64(20), np.uint64(0))


def phase_names(image: Image) -> dict[int, str]:
    """Names of the phases that the program has marks for; 0 is REST."""
    marks = _marks(image)
    names = {0: REST}
    for row in np.flatnonzero(marks).tolist():
        symbol = image.symbol_at(int(image.rom.pc[row]))
        number = int(marks[row])
        names[number] = symbol.removeprefix(MARK) if symbol.startswith(MARK) else f"phase {number}"
    return names


class Stack(NamedTuple):
    """A call stack that cycles were spent in: functions, outermost first."""

    functions: tuple[str, ...]
    phase: str
    cycles: int
    permutations: int


@dataclass(frozen=True)
class CallTree:
    """Cycles and permutations of a run by call stack and phase; both add up to those of the run."""

    functions: tuple[str, ...]
    phases: dict[int, str]
    keys: NDArray[np.uint64]
    parents: NDArray[np.uint32]
    cycles: NDArray[np.uint64]
    permutations: NDArray[np.uint64]

    @classmethod
    def of(cls, tree: Tree, image: Image) -> CallTree:
        n = int(tree.state[NODES])
        arrays = (np.asarray(x)[:n] for x in (tree.keys, tree.parents, tree.cycles, tree.permutations))
        return cls(functions_of(image)[0], phase_names(image), *arrays)

    def stacks(self) -> Iterator[Stack]:
        """Every stack in which a cycle was spent, in the order in which the run came to them.

        A frame keeps the phase in which it was called; a stack has the phase of its innermost frame.
        """
        paths: list[tuple[str, ...]] = [()]
        rows = zip(self.keys.tolist(), self.parents.tolist(), self.cycles.tolist(), self.permutations.tolist(),
                   strict=True)
        next(rows)
        for key, parent, cycles, permutations in rows:
            paths.append((*paths[parent], self.functions[key & MASK32]))
            if cycles:
                yield Stack(paths[-1], self.phases[key >> 32], cycles, permutations)

    def by_phase(self) -> dict[str, tuple[int, int]]:
        """Cycles and permutations of each phase that the program has marks for, by number; REST comes last."""
        totals = {self.phases[k]: (0, 0) for k in sorted(self.phases) if self.phases[k] != REST} | {REST: (0, 0)}
        for _, phase, cycles, permutations in self.stacks():
            a, b = totals[phase]
            totals[phase] = a + cycles, b + permutations
        return totals
