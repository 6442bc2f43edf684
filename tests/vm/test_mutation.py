"""Each rule of each table is needed: some witness would be accepted without it."""

from __future__ import annotations

import numpy as np
import pytest
from mutation import ELSEWHERE, honest, searched, selectors, survivors

from tailbite.air.check import tuples
from tailbite.vm.chip import Chip
from tailbite.vm.machine import TABLES


@pytest.mark.parametrize("table", searched(), ids=lambda t: t.name)
def test_every_rule_is_noticed(table: Chip) -> None:
    assert survivors(table) == set()


def test_rules_shown_elsewhere_exist() -> None:
    for t in searched():
        lay = t.layout
        names = {n for n, _ in lay.constraints} | {f"{i.bus.name} {k}" for k, i in enumerate(lay.interactions)}
        assert ELSEWHERE.get(t.name, set()) <= names
        assert selectors(t) - {"flag.sum"} <= names


def test_every_message_is_sent_by_an_honest_row() -> None:
    """So without it the runs do not balance."""
    said: dict[str, set[int]] = {t.name: set() for t in TABLES}
    for trace, _ in honest():
        messages = enumerate(trace.table.layout.interactions)
        said[trace.table.name] |= {k for k, i in messages if np.any(tuples(trace, i)[1])}
    for t in TABLES:
        assert said[t.name] == set(range(len(t().layout.interactions))), t.name
