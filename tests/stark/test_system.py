"""Systems that leave the verifier room: some it must refuse proofs of, some must not be built at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from airs import SQUARE, Squares, squares_columns
from cases import AT, CELL, OUT, START, Begin, Case, Emit, column_words, make

from tailbite.air import Table, fixed, selector, token
from tailbite.air.table import AirError
from tailbite.channel import Label
from tailbite.stark.system import System


class Idle(Table):
    """Talks to nobody."""

    name = "IDLE"
    constraint_count = 1
    x = token("anything, and all rows alike")

    def rules(t) -> None:
        t.zero("same", t.next(t.x) - t.x)


def test_no_tables() -> None:
    made = make(Case(System("idle", [Idle()], []), b"", {0: np.full((1, 32), 5, dtype=np.uint64)}))
    assert made.refusal() == "" and made.words[9] == 5
    words = made.words.copy()
    words[9] = 0
    assert made.refusal(words) == "shape"


class Maybe(Begin):
    """BEGIN, if it is wanted."""

    required = False


def test_messages_of_the_verifier_need_a_table_that_talks() -> None:
    """Without one no challenges are drawn: with zeros, 1 / -1 - 1 / -2 - 1 / -2 = 0 would balance any two bytes."""
    system = System("hole", [Idle(), Maybe(), Emit()], [START, OUT, AT, CELL], start_bus=START, output_bus=OUT)
    idle = {0: np.full((1, 32), 5, dtype=np.uint64)}
    for output in (b"", b"x", b"ab"):
        assert make(Case(system, output, idle)).refusal() == "balance"
    begin = np.zeros((2, 32), dtype=np.uint64)
    begin[0, 0] = 1
    assert make(Case(system, b"", {**idle, 1: begin})).refusal() == ""


class Constant(Table):
    """Preprocessed columns alone."""

    name = "CONSTANT"
    fixed_in = "program"
    required = True
    constraint_count = 1
    x, y = fixed("x"), fixed("x^2")

    def rules(t) -> None:
        t.zero("square", t.x * t.x - t.y)


def test_no_main_columns_no_main_root() -> None:
    """Nothing is sent that nothing checks."""
    x = np.arange(64, dtype=np.uint64)
    system = System("constant", [Constant()], [])
    made = make(Case(system, b"", {0: None}, {0: column_words(x, x * x)}))
    assert made.refusal() == ""
    assert Label.MAIN_ROOT not in [e[0] for e in made.events]
    for i in range(len(made.words)):
        words = made.words.copy()
        words[i] ^= np.uint64(2)
        assert made.refusal(words) not in ("", "internal"), i
    assert make(Case(system, b"", {0: None}, {0: column_words(x, x * x + 1)})).refusal() == "constraints"


class Optional(Squares):
    """SQUARES, if it is wanted."""

    required = False


class Short(Constant):
    """CONSTANT of any height, under another name."""

    name = "SHORT"


def test_absent_universal_table() -> None:
    """Its rows are opened but say nothing; it must not be higher than all tables of the proof."""
    system = System("optional", [Optional(), Short()], [SQUARE], universal={"SQUARES": squares_columns()})
    for log, expected in ((6, ""), (7, ""), (5, "shape")):
        x = np.arange(1 << log, dtype=np.uint64)
        made = make(Case(system, b"", {1: None}, {1: column_words(x, x * x)}))
        assert made.refusal() == expected, log
    for i in range(len(made.words)):
        words = made.words.copy()
        words[i] ^= np.uint64(1 << 40)
        assert made.refusal(words) not in ("", "internal"), i


def table(**attributes: Any) -> Table:
    """IDLE with other attributes."""
    return type("Other", (Idle,), attributes)()


def fixed_table(rules: Any = None, **attributes: Any) -> Table:
    """CONSTANT with other attributes."""
    return type("Other", (Constant,), {**({"rules": rules} if rules else {}), **attributes})()


class Reader(Table):
    """Reads the public output's words."""

    name = "READER"
    constraint_count = 2
    on, x = selector("in use"), token("value")

    def rules(t) -> None:
        t.zero("public", t.first * (t.x - t.public(0)))
        t.receive(START, (t.x, 4), t.on)


UNSOUND: dict[str, Callable[[], System]] = {
    "too low": lambda: System("s", [table(min_log=4)], []),
    "too high": lambda: System("s", [table(max_log=27)], []),
    "no height": lambda: System("s", [table(min_log=9, max_log=8)], []),
    "no instance": lambda: System("s", [table(instances=0)], []),
    "four instances": lambda: System("s", [table(instances=4)], []),
    "two instances of preprocessed rows": lambda: System("s", [fixed_table(instances=2)], []),
    "preprocessed rows in no tree": lambda: System("s", [fixed_table(fixed_in="")], []),
    "a tree without columns": lambda: System("s", [table(fixed_in="program")], []),
    "preprocessed following row": lambda: System(
        "s", [fixed_table(lambda t: t.zero("square", t.next(t.x) - t.y))], []),
    "universal columns missing": lambda: System("s", [fixed_table(fixed_in="universal", min_log=6, max_log=6)], []),
    "universal columns of another height": lambda: System(
        "s", [fixed_table(fixed_in="universal", min_log=5, max_log=5)], [], {"CONSTANT": squares_columns()}),
    "universal columns of two heights": lambda: System(
        "s", [fixed_table(fixed_in="universal", max_log=6)], [], {"CONSTANT": squares_columns()}),
    "universal columns of a program's table": lambda: System(
        "s", [fixed_table(max_log=6)], [], {"CONSTANT": squares_columns()}),
    "start bus not registered": lambda: System("s", [Idle()], [], start_bus=START),
    "output bus of one entry": lambda: System("s", [Idle()], [AT], output_bus=AT),
    "output both words and bytes": lambda: System("s", [Reader()], [START, OUT], output_bus=OUT),
}


@pytest.mark.parametrize("name", UNSOUND)
def test_system_is_refused(name: str) -> None:
    with pytest.raises(AirError):
        UNSOUND[name]()


def test_systems_next_to_those_are_built() -> None:
    System("s", [table(min_log=5, max_log=26, instances=2)], [])
    System("s", [fixed_table()], [])
    System("s", [fixed_table(fixed_in="universal", min_log=6, max_log=6)], [], {"CONSTANT": squares_columns()})
    System("s", [Idle()], [START, OUT], start_bus=START, output_bus=OUT)
    System("s", [Reader()], [START])
