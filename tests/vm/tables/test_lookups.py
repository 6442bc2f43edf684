"""LUT and POW: the rows on offer are exactly those of the definitions."""

from __future__ import annotations

import numpy as np
import pytest

from tailbite.air import lint
from tailbite.air.check import Trace, check, tuples
from tailbite.field import P
from tailbite.vm.buses import AND, B2, BUSES, MSB, POW, R16
from tailbite.vm.chip import Chip
from tailbite.vm.tables.lut import Lut
from tailbite.vm.tables.pow import Pow

LUT, POWERS = Lut(), Pow()


def trace_of(table: Chip) -> Trace:
    fixed = table.fixed_columns()
    return Trace(table, fixed, np.zeros((table.layout.main_count, fixed.shape[1]), np.uint64))


def test_shape() -> None:
    lint([LUT, POWERS], BUSES)
    for table, fixed, main in ((LUT, 4, 4), (POWERS, 3, 1)):
        lay = table.layout
        assert (lay.fixed_count, lay.main_count, len(lay.interactions)) == (fixed, main, main)
        assert table.fixed_in == "universal"
        height = table.fixed_columns().shape[1]
        assert table.min_log == table.max_log == height.bit_length() - 1


@pytest.mark.parametrize("table", [LUT, POWERS])
def test_rows(table: Chip) -> None:
    """Each bus is offered each tuple of its definition, in the row that ``row_of`` names."""
    pairs = [(x, y) for y in range(256) for x in range(256)]
    defined = {
        AND: [(x, y, x & y) for x, y in pairs], B2: pairs, R16: [(v,) for v in range(2**16)],
        MSB: [(v, int(v >= 2**15)) for v in range(2**16)], POW: [(k, 2 ** (k % 32), k // 32) for k in range(64)],
    }
    trace = trace_of(table)
    for i in table.layout.interactions:
        entries, _ = tuples(trace, i)
        assert entries.tolist() == [list(e) for e in defined[i.bus]]
        assert np.array_equal(table.row_of(i.bus, list(entries.T)), np.arange(len(entries)))


def test_nothing_else() -> None:
    """Tuples that are not on offer have no row."""
    outside = {
        AND: [(256, 0, 0), (0, 256, 0), (3, 5, 2), (P - 1, 1, 1), (1, P - 1, 1)], B2: [(256, 0), (0, 256), (P - 1, 0)],
        R16: [(2**16,), (P - 1,), (2**32,)], MSB: [(2**15, 0), (1, 1), (2**16, 0), (P - 1, 1), (2**15, 2)],
        POW: [(64, 1, 2), (1, 1, 0), (0, 0, 0), (32, 1, 0), (P - 1, 1, 0)],
    }
    for bus, wrong in outside.items():
        table = POWERS if bus == POW else LUT
        assert table.row_of(bus, list(np.array(wrong, dtype=np.uint64).T)).tolist() == [-1] * len(wrong)


def test_free_counts_balance_requests_only() -> None:
    """Counts that meet the requests balance the bus; no count helps a tuple that is not there."""
    trace = trace_of(POWERS)
    trace.main[0, 5] = 3
    assert not check([trace], terms=[(POW.id, (5, 32, 0), -3)])
    assert check([trace], terms=[(POW.id, (5, 32, 0), -2)])
    assert check([trace], terms=[(POW.id, (5, 32, 0), -3), (POW.id, (5, 33, 0), -1)])
