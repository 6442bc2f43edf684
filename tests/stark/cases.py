"""Statements with their witnesses for the example AIRs, and proofs of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from airs import fibonacci_system, fibonacci_witness, permutation_system, squares_system

from tailbite.air import Bus, Table, fixed, selector, token
from tailbite.field import P
from tailbite.stark.params import preset
from tailbite.stark.prove import prove
from tailbite.stark.system import Keyed, System, commit_fixed, program_key
from tailbite.stark.verifier import VerificationError, check_words

Events = list[tuple[int, int, int, int]]

START = Bus(1, "START", ("pc", "ts"), state=True)
OUT = Bus(2, "OUT", ("index", "byte"), state=True)
CELL = Bus(3, "CELL", ("index", "byte"), state=True)
AT = Bus(4, "AT", ("index",), state=True)


class Case(NamedTuple):
    """A statement with a witness, right or wrong: public output, main columns by slot, preprocessed ones by table."""

    system: System
    output: bytes
    witness: dict[int, Any]
    fixed: dict[int, Any] = {}
    entry: int = 0


class Made(NamedTuple):
    """A proof with what its verifier is given."""

    keyed: Keyed
    program_id: bytes
    words: Any
    events: Events

    def refusal(self, words: Any = None) -> str:
        """Category of the refusal of these words, or of the proof's own; "" if they are accepted."""
        return refusal(self.keyed, self.program_id, self.words if words is None else words)


def make(case: Case, name: str = "fast", threads: int = 1) -> Made:
    """Prove a case, be it true or not."""
    keyed = case.system.keyed(preset(name))
    tree = commit_fixed(case.fixed, keyed.params.log_blowup)
    key = program_key(keyed, case.entry, tree)
    words, channel = prove(keyed, key, tree, case.output, case.witness, threads)
    return Made(keyed, key.id(keyed), words, channel.events)


def refusal(keyed: Keyed, program_id: bytes, words: Any) -> str:
    """Category of the refusal, "" if there is none."""
    try:
        check_words(keyed, program_id, words)
    except VerificationError as e:
        return e.category
    return ""


def column_words(*columns: Any) -> Any:
    """Columns as an array of words."""
    return np.array(columns, dtype=np.uint64)


def word(x: int) -> bytes:
    """A public word."""
    return (x % P).to_bytes(8, "little")


# ---------------------------------------------------------------- fibonacci


@functools.cache
def fibonacci() -> System:
    return fibonacci_system()


def fibonacci_case(log: int) -> Case:
    """Fibonacci numbers in 2^log rows."""
    main, output = fibonacci_witness(log)
    return Case(fibonacci(), output, {0: main})


# ---------------------------------------------------------------- permutation


@functools.cache
def permutation() -> System:
    return permutation_system()


def permutation_case(source: int, sinks: Sequence[int], count: int) -> Case:
    """``count`` values from a table of 2^source rows to one or two of the given heights."""
    rng = np.random.RandomState(count)  # its stream is frozen: proofs of these cases are pinned
    xs = rng.randint(0, P, count, dtype=np.uint64)
    sent = np.zeros((2, 1 << source), dtype=np.uint64)
    sent[0, :count], sent[1, :count] = 1, xs
    witness, left = {0: sent}, rng.permutation(xs)
    for slot, log in enumerate(sinks, 1):
        taken, left = left[:2 << log], left[2 << log:]
        got = np.zeros((4, 1 << log), dtype=np.uint64)
        for k in range(2):
            part = taken[k::2]
            got[k, :len(part)], got[2 + k, :len(part)] = 1, part
        witness[slot] = got
    assert len(left) == 0
    return Case(permutation(), b"", witness)


# ---------------------------------------------------------------- squares


@functools.cache
def squares() -> System:
    return squares_system()


def squares_case(log: int) -> Case:
    """Numbers in 2^log rows, the last five unused, and the sum of their squares."""
    n = 1 << log
    xs = np.random.RandomState(log).randint(0, 64, n, dtype=np.uint64)
    on = (np.arange(n) < n - 5).astype(np.uint64)
    xs *= on
    requests = np.bincount(xs[on == 1].astype(int), minlength=64).astype(np.uint64)
    total = np.cumsum(xs * xs)
    return Case(squares(), word(int(total[-1])), {0: requests[None, :], 1: column_words(xs * xs, total)},
                {1: column_words(xs, on)})


# ---------------------------------------------------------------- echo


class Memory(Table):
    """The program's bytes; it has no main columns."""

    name = "MEMORY"
    fixed_in = "program"
    required = True
    constraint_count = 0
    index, byte, on = fixed("index"), fixed("byte"), fixed("in use")

    def rules(t) -> None:
        t.send(CELL, (t.index, t.byte), t.on)


class Begin(Table):
    """Starts at the verifier's word, which says how many bytes are echoed."""

    name = "BEGIN"
    required = True
    constraint_count = 1
    on, entry = selector("in use"), token("where the program begins")

    def rules(t) -> None:
        t.receive(START, (t.entry, 4), t.on)
        t.send(AT, (0,), t.on)
        t.receive(AT, (t.entry,), t.on)


class Emit(Table):
    """Puts one byte of the program on the public output."""

    name = "EMIT"
    constraint_count = 1
    on, index, byte = selector("in use"), token("index"), token("byte")

    def rules(t) -> None:
        t.receive(CELL, (t.index, t.byte), t.on)
        t.receive(AT, (t.index,), t.on)
        t.send(OUT, (t.index, t.byte), t.on)
        t.send(AT, (t.index + 1,), t.on)


@functools.cache
def echo() -> System:
    """The verifier's own messages, and a table without main columns."""
    return System("echo", [Memory(), Begin(), Emit()], [START, OUT, CELL, AT], start_bus=START, output_bus=OUT)


def echo_case(data: bytes) -> Case:
    """A program that puts out ``data``."""
    begin = np.zeros((2, 32), dtype=np.uint64)
    begin[:, 0] = 1, len(data)
    if not data:
        return Case(echo(), b"", {1: begin})
    rows = 1 << max(5, (len(data) - 1).bit_length())
    cells = np.zeros((3, rows), dtype=np.uint64)
    cells[:, :len(data)] = range(len(data)), list(data), [1] * len(data)
    return Case(echo(), data, {0: None, 1: begin, 2: cells[[2, 0, 1]]}, {0: cells}, len(data))


SHAPES: dict[str, Case] = {
    "fibonacci 5": fibonacci_case(5),
    "fibonacci 6": fibonacci_case(6),
    "fibonacci 9": fibonacci_case(9),
    "permutation 5 5": permutation_case(5, [5], 20),
    "permutation 5 5 5": permutation_case(5, [5, 5], 32),
    "permutation 6 5": permutation_case(6, [5], 64),
    "permutation 9 7 6": permutation_case(9, [7, 6], 384),
    "permutation 11 5": permutation_case(11, [5], 50),
    "squares 5": squares_case(5),
    "squares 6": squares_case(6),
    "squares 8": squares_case(8),
    "echo nothing": echo_case(b""),
    "echo 3": echo_case(b"abc"),
    "echo 40": echo_case(bytes(range(200, 240))),
}
"""Honest statements of many shapes: least heights, equal and mixed ones, two instances, absent tables."""


@functools.cache
def proof(shape: str, name: str = "fast") -> Made:
    """The proof of one of :data:`SHAPES`, made once."""
    return make(SHAPES[shape], name)
