"""How the verifier reads the key: tables, their parts and the shape of one proof. Typed Python."""

from __future__ import annotations

from typing import NamedTuple

from ..lang import Slice, function, length, u64

KEY_START_BUS, KEY_OUTPUT_BUS, KEY_PUBLIC_WORDS, KEY_UNIVERSAL_ROOT, KEY_TABLES = 3, 4, 5, 6, 10
UNIVERSAL, PROGRAM = 1, 2


class Scratch(NamedTuple):
    """Working memory: handed out once, front to back."""

    memory: Slice[u64]
    used: Slice[u64]


@function
def reserve(s: Scratch, count: u64) -> Slice[u64]:
    """``count`` words of working memory."""
    at = s.used[0]
    assert count <= length(s.memory) - at, "internal: working memory is too small"
    s.used[0] = at + count
    return s.memory[at:at + count]


class TableView(NamedTuple):
    """One table of the key (see air/program.py, ``words``)."""

    fixed_in: u64
    required: u64
    instances: u64
    min_log: u64
    max_log: u64
    fixed: u64
    main: u64
    following: Slice[u64]
    publics: Slice[u64]
    constants: Slice[u64]
    ops: Slice[u64]
    zeros: Slice[u64]
    interactions: u64
    messages: Slice[u64]


@function
def counted(key: Slice[u64], at: u64, each: u64) -> Slice[u64]:
    """The items after their number at ``at``, ``each`` words apiece."""
    return key[at + 1:at + 1 + key[at] * each]


@function
def table_at(key: Slice[u64], at: u64) -> TableView:
    """The table whose length word is at ``at``."""
    body = key[at + 1:at + 1 + key[at]]
    following = counted(body, u64(9), u64(1))
    i = 10 + length(following)
    publics = counted(body, i, u64(1))
    i += 1 + length(publics)
    constants = counted(body, i, u64(1))
    i += 1 + length(constants)
    ops = counted(body, i, u64(3))
    i += 1 + length(ops)
    zeros = counted(body, i, u64(1))
    i += 1 + length(zeros)
    return TableView(body[2], body[3], body[4], body[5], body[6], body[7], body[8], following, publics, constants,
                     ops, zeros, body[i], body[i + 1:length(body)])


class Shape(NamedTuple):
    """The tables of one proof. A slot is a table instance; arrays have one word a slot, but for the last five.

    ``table``: where the slot's table begins in the key. ``log``: log height, 0 if absent. ``fixed_in``,
    ``fixed_log``, ``fixed``: tree, log height and width of the preprocessed columns, committed even for an absent
    table; zero for a second instance. ``main``, ``pairs``: main and LogUp columns. ``following_at``, ``following``:
    place in the key and number of the columns read in the following row. ``*_term``: number of the first opened
    value in each tree. By log height: ``quotient_term``, ``present``. Lists of slots, their number first: ``here``, of
    present tables, and ``with_fixed``, of tables with preprocessed columns; ``chosen`` is room for one more.
    """

    slots: u64
    blowup: u64
    top: u64
    table: Slice[u64]
    log: Slice[u64]
    fixed_in: Slice[u64]
    fixed_log: Slice[u64]
    fixed: Slice[u64]
    main: Slice[u64]
    pairs: Slice[u64]
    following_at: Slice[u64]
    following: Slice[u64]
    fixed_term: Slice[u64]
    main_term: Slice[u64]
    logup_term: Slice[u64]
    sigma: Slice[u64]
    quotient_term: Slice[u64]
    present: Slice[u64]
    here: Slice[u64]
    with_fixed: Slice[u64]
    chosen: Slice[u64]


@function
def new_shape(slots: u64, logs: Slice[u64], blowup: u64, top: u64, s: Scratch) -> Shape:
    """Room for a shape."""
    return Shape(slots, blowup, top, reserve(s, slots), logs, reserve(s, slots), reserve(s, slots), reserve(s, slots),
                 reserve(s, slots), reserve(s, slots), reserve(s, slots), reserve(s, slots), reserve(s, slots),
                 reserve(s, slots), reserve(s, slots), reserve(s, slots), reserve(s, u64(64)), reserve(s, u64(64)),
                 reserve(s, slots + 1), reserve(s, slots + 1), reserve(s, slots))


@function
def highest(logs: Slice[u64]) -> u64:
    """The largest word."""
    top = u64(0)
    for i in range(length(logs)):
        if logs[i] > top:
            top = logs[i]
    return top


@function
def read_shape(key: Slice[u64], logs: Slice[u64], program_logs: Slice[u64], blowup: u64, s: Scratch) -> Shape:
    """Check the table list of a proof against the key.

    Each rule is an assertion: heights within the table's limits, no instance without the one before or higher than
    it, required tables present, preprocessed tables of exactly the height that key and program fix, and so few bus
    messages that no multiplicity can wrap.
    """
    shape = new_shape(key[2], logs, blowup, highest(logs), s)
    for k in range(length(shape.present)):
        shape.present[k] = u64(0)
    shape.here[0] = u64(0)
    shape.with_fixed[0] = u64(0)
    at = u64(KEY_TABLES)
    slot, programs, messages = u64(0), u64(0), u64(0)
    for _t in range(key[1]):
        table = table_at(key, at)
        for k in range(table.instances):
            log = logs[slot]
            describe_slot(shape, slot, at, table)
            if log != 0:
                assert log >= table.min_log, "shape: a table is lower than its smallest height"
                assert log <= table.max_log, "shape: a table is higher than its limit"
                shape.present[log] = u64(1)
                append(shape.here, slot)
                messages += table.interactions << log
            if k == 0:
                if table.fixed_in != 0:
                    append(shape.with_fixed, slot)
                assert table.required == 0 or table.fixed_in == PROGRAM or log != 0, "shape: a required table is absent"
                if table.fixed_in == UNIVERSAL:
                    shape.fixed_log[slot] = table.min_log
                if table.fixed_in == PROGRAM:
                    assert log == program_logs[programs], "shape: a program table has another height than the program"
                    shape.fixed_log[slot] = log
                    programs += 1
            else:
                assert log <= logs[slot - 1], "shape: an instance is higher than the one before"
            slot += 1
        at += 1 + key[at]
    assert shape.top != 0, "shape: the proof has no tables"
    assert messages < 1 << 60, "shape: too many bus messages"
    return shape


@function
def append(slots: Slice[u64], slot: u64) -> None:
    """Put a slot on a list, whose first word is its length."""
    slots[0] += 1
    slots[slots[0]] = slot


@function
def describe_slot(shape: Shape, slot: u64, at: u64, table: TableView) -> None:
    """Note what later steps need of the table, so that the key is read once."""
    shape.table[slot] = at
    shape.fixed_in[slot] = table.fixed_in
    shape.fixed_log[slot] = u64(0)
    shape.fixed[slot] = table.fixed
    shape.main[slot] = table.main
    shape.pairs[slot] = (table.interactions + 1) >> 1
    shape.following_at[slot] = at + 11  # after the length word, nine words, and their own number
    shape.following[slot] = length(table.following)


@function
def number_terms(shape: Shape) -> u64:
    """Give each opened value its number, in proof order; returns how many there are."""
    term = u64(0)
    for tree in range(UNIVERSAL, PROGRAM + 1):
        for k in range(shape.with_fixed[0]):
            i = shape.with_fixed[1 + k]
            if shape.log[i] != 0 and shape.fixed_in[i] == tree:
                shape.fixed_term[i] = term
                term += shape.fixed[i]
    for k in range(shape.here[0]):
        i = shape.here[1 + k]
        shape.main_term[i] = term
        term += shape.main[i] + shape.following[i]
    sigmas = u64(0)
    for k in range(shape.here[0]):
        i = shape.here[1 + k]
        if shape.pairs[i] != 0:
            shape.logup_term[i] = term
            shape.sigma[i] = sigmas
            sigmas += 1
            term += shape.pairs[i] + 1
    log = shape.top
    while log != 0:
        if shape.present[log] != 0:
            shape.quotient_term[log] = term
            term += 2
        log -= 1
    return term


@function
def total_of_present(shape: Shape, numbers: Slice[u64]) -> u64:
    """Sum of a slot's number over the present tables."""
    n = u64(0)
    for k in range(shape.here[0]):
        n += numbers[shape.here[1 + k]]
    return n


@function
def count_logup(shape: Shape) -> u64:
    """Number of present tables with bus messages."""
    n = u64(0)
    for k in range(shape.here[0]):
        if shape.pairs[shape.here[1 + k]] != 0:
            n += 1
    return n


@function
def choose(shape: Shape, log: u64) -> Slice[u64]:
    """The slots of the tables of height 2^log."""
    n = u64(0)
    for k in range(shape.here[0]):
        i = shape.here[1 + k]
        if shape.log[i] == log:
            shape.chosen[n] = i
            n += 1
    return shape.chosen[0:n]


@function
def choose_fixed(shape: Shape, tree: u64, log: u64) -> Slice[u64]:
    """The slots whose preprocessed columns are in a tree at height 2^log."""
    n = u64(0)
    for k in range(shape.with_fixed[0]):
        i = shape.with_fixed[1 + k]
        if shape.fixed_in[i] == tree and shape.fixed_log[i] == log:
            shape.chosen[n] = i
            n += 1
    return shape.chosen[0:n]


@function
def total(numbers: Slice[u64], slots: Slice[u64]) -> u64:
    """Sum of the numbers of some slots."""
    n = u64(0)
    for k in range(length(slots)):
        n += numbers[slots[k]]
    return n
