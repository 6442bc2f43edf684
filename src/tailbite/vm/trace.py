"""From a run to filled tables: rows are dealt out to tables and instances, columns filled, lookups counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..air.check import Trace
from ..air.table import Interaction
from ..errors import TailbiteError
from ..field import canon, lazy_add, lazy_mul
from ..lang import Ptr, cpu, function, lane, u64, u64x8, unroll
from .buses import AND, B2, KRC, MSB, POW, R16
from .chip import Rows
from .elf import Image
from .executor import Execution, Log
from .machine import machine, program_columns
from .ops import OPS_OF_TABLE, Op
from .ops import Table as Name
from .tables.cbyte import Cbyte
from .tables.commit import Commit
from .tables.cycles import Cycles
from .tables.fin import Fin
from .tables.halt import Halt
from .tables.input import Input
from .tables.kcall import Kcall
from .tables.kround import Kround
from .tables.logic32 import Logic32
from .tables.print import Print
from .tables.refresh import Refresh
from .tables.reg import Reg
from .tables.rom import Rom

_ALIGNED = {Name.LD: 8, Name.SD: 8, Name.LW: 4, Name.SW: 4}
#: weights that turn the entries of a lookup into the row of the table that offers it
_INDEX = {AND: (1, 256, 0), B2: (1, 256), R16: (1,), MSB: (1, 0), POW: (1, 0, 0), KRC: (1,) + (0,) * 7}
_COUNTED_IN = {AND: ("LUT", "m_and"), B2: ("LUT", "m_b2"), R16: ("LUT", "m_r16"), MSB: ("LUT", "m_msb"),
               POW: ("POW", "m"), KRC: ("KRC", "m")}
INSTANCE_CELLS = 1 << 19  # an instance less is worth so many cells, about 60 KB of openings
_SIZES = {"LUT": 1 << 16, "POW": 1 << 6, "KRC": 1 << 5}


class NotProvable(TailbiteError):
    """The run needs more rows than the tables of one proof can hold."""


class LogRows(Rows):
    """Chosen rows of an instruction log; a field is gathered when a table first asks for it."""

    def __init__(self, log: Log, rom: Any, index: Any) -> None:
        self.__dict__.update(_log=log, _rom=rom, _index=index, _length=len(index))

    def __getattr__(self, name: str) -> Any:
        if name in ("pc", "op", "rd", "s1", "s2", "i0", "i1"):
            value = getattr(self._rom, name)[self._log.ix[self._index]]
        elif hasattr(self._log, name):
            value = getattr(self._log, name)[self._index]
        else:
            raise AttributeError(f"the log has no field {name}")
        value = value.astype(np.uint64, copy=False)
        self.__dict__[name] = value
        return value

    def select(self, which: Any) -> LogRows:
        return LogRows(self._log, self._rom, self._index[which])


@dataclass
class Filled:
    """Main columns by slot of the machine's table list, with the rows in use of each table."""

    columns: dict[int, Any]
    rows: dict[str, int]

    def traces(self, image: Image) -> list[Trace]:
        """The same as traces for ``air.check``."""
        system, fixed = machine(), dict(program_columns(image))
        fixed |= {system.index(n): c for n, c in system.universal.items()}
        out = []
        for slot, main in self.columns.items():
            k, _ = system.slots[slot]
            empty = np.zeros((0, main.shape[1]), dtype=np.uint64)
            out.append(Trace(system.tables[k], fixed.get(k, empty), main))
        return out


def fill(execution: Execution, image: Image, private_input: bytes, pool: ThreadPoolExecutor | None = None) -> Filled:
    """Fill all tables from a logged run. Raises :class:`NotProvable`."""
    log = execution.log
    if log is None:
        raise NotProvable("the run was made without a log")
    every: Callable[..., Any] = map if pool is None else pool.map
    jobs = [job for name, rows in _dealt(execution, log, private_input) for job in _instances(name, rows)]
    columns = dict(every(lambda j: (j[0], j[1].witness(j[2], j[3])), jobs))
    _program_tables(columns, image)
    _count_lookups(columns, every)
    rows: dict[str, int] = {}
    for slot, table, part, _ in jobs:
        rows[table.name] = rows.get(table.name, 0) + len(part)
        assert slot in columns
    return Filled(dict(sorted(columns.items())), rows)


def _dealt(execution: Execution, log: Log, private_input: bytes) -> list[tuple[str, Any]]:
    """Rows for each table, absent ones left out."""
    out: list[tuple[str, Any]] = [
        ("ROM", Rom.rows(execution.hits)), ("REG", Reg.rows(log)), ("FIN", Fin.rows(log)),
        ("INPUT", Input.rows(private_input)), ("REFRESH", Refresh.rows(log)), ("HALT", Halt.rows(log)),
        ("COMMIT", Commit.rows(log)), ("CBYTE", Cbyte.rows(log)), ("PRINT", Print.rows(log)),
        ("CYCLES", Cycles.rows(log)), ("KCALL", Kcall.rows(log)), ("KROUND", Kround.rows(log)),
    ]
    op = execution.rom.op[log.ix].astype(np.uint8)
    table = np.zeros(len(op), dtype=np.uint8)
    names = list(OPS_OF_TABLE)
    of_op = np.zeros(len(Op) + 1, dtype=np.uint8)
    for k, name in enumerate(names):
        for o in OPS_OF_TABLE[name]:
            if o != Op.ECALL and not of_op[o]:
                of_op[o] = k + 1
    table = of_op[op]
    for k, name in enumerate(names):
        index = np.nonzero(table == k + 1)[0]
        if not len(index):
            continue
        rows = LogRows(log, execution.rom, index)
        for target, part in _choices(name, rows):
            if len(part):
                out.append((target, part))
    return _merged([(n, r) for n, r in out if len(r)], log, execution.rom)


def _choices(name: Name, rows: LogRows) -> list[tuple[str, LogRows]]:
    """Cheap tables for what fits, general ones for the rest."""
    if name == Name.LOGIC:
        small = Logic32.fits(rows)
        return [("LOGIC32", rows.select(small)), ("LOGIC", rows.select(~small))]
    if name in _ALIGNED:
        aligned = rows.address % _ALIGNED[name] == 0
    elif name in (Name.LBH, Name.SBH):
        half = (rows.op == Op.LH) | (rows.op == Op.LHU) | (rows.op == Op.SH)
        aligned = ~half | (rows.address % 2 == 0)
    else:
        return [(name, rows)]
    general = "MLOAD" if name in (Name.LD, Name.LW, Name.LBH) else "MSTORE"
    return [(name, rows.select(aligned)), (general, rows.select(~aligned))]


def _merged(parts: list[tuple[str, Any]], log: Log, rom: Any) -> list[tuple[str, Any]]:
    """Join what several operations gave to the same table, in order of time."""
    out: dict[str, Any] = {}
    for name, rows in parts:
        if name in out:
            index = np.sort(np.concatenate([out[name]._index, rows._index]))
            out[name] = LogRows(log, rom, index)
        else:
            out[name] = rows
    return list(out.items())


def _instances(name: str, rows: Any) -> list[tuple[int, Any, Any, int]]:
    """(slot, table, rows, height) of a table's instances."""
    system = machine()
    k = system.index(name)
    table, program, n = system.tables[k], system.programs[k], len(rows)
    most = 1 << program.max_log
    heights = _heights(n, 1 << program.min_log, most, program.instances, program.main_count + 3 * program.pairs)
    if not heights:
        raise NotProvable(f"table {name} needs {n} rows; at most {program.instances * most} fit in one proof")
    slot, first, out = system.slots.index((k, 0)), 0, []
    for i, height in enumerate(heights):
        out.append((slot + i, table, rows if len(heights) == 1 else rows.select(slice(first, first + height)), height))
        first += height
    return out


def _heights(n: int, least: int, most: int, instances: int, width: int) -> list[int]:
    """Heights of the instances for ``n`` rows, by descending height: those that cost least; none if nothing fits.

    Each instance but the last is the largest power of two that it can fill.
    """
    best: list[int] = []
    for count in range(1, instances + 1):
        heights, left = [], n
        for last in [False] * (count - 1) + [True]:
            height = 1 << (left - 1).bit_length() if last else 1 << left.bit_length() - 1
            heights.append(min(max(height, least), most))
            left -= heights[-1]
            if left <= 0:
                break
        if left <= 0 and (not best or _cost(heights, width) < _cost(best, width)):
            best = heights
    return best


def _cost(heights: list[int], width: int) -> int:
    """Cells that an instance commits, and what it adds to the openings in cells that take as long."""
    return width * sum(heights) + INSTANCE_CELLS * len(heights)


def _program_tables(columns: dict[int, Any], image: Image) -> None:
    """Tables without main columns of their own take part too; lookup tables begin with zero counts."""
    system = machine()
    if len(image.dwords.h):
        k = system.index("IMAGE")
        columns[system.slots.index((k, 0))] = np.zeros((0, program_columns(image)[k].shape[1]), dtype=np.uint64)
    k = system.index("LUT")
    columns[system.slots.index((k, 0))] = np.zeros((4, 1 << 16), dtype=np.uint64)


# ---------------------------------------------------------------- lookups


@function
def count_requests(columns: Ptr[Ptr[u64]], when: Ptr[u64], when_terms: u64, index: Ptr[u64], index_terms: u64,
                   counts: Ptr[u64], size: u64, n: u64) -> None:
    """For each row in which the form ``when`` is not zero, count the row ``index`` of a lookup table.

    A form is its constant, then (column, coefficient) pairs. Indices beyond ``size`` are left out: such a request
    is not in the table and makes the proof fail.
    """
    for i in range(0, n, 8):
        w, x = u64x8(when[0]), u64x8(index[0])
        for k in range(when_terms):
            w = lazy_add(w, lazy_mul(columns[when[1 + 2 * k]].load8(i), u64x8(when[2 + 2 * k])))
        for k in range(index_terms):
            x = lazy_add(x, lazy_mul(columns[index[1 + 2 * k]].load8(i), u64x8(index[2 + 2 * k])))
        w, x = canon(w), canon(x)
        for j in unroll(range(8)):
            at = lane(x, j)
            if (lane(w, j) != 0) & (at < size):
                counts[at] += 1


library = cpu.Library("trace", [count_requests], packaged=True)


def _count_lookups(columns: dict[int, Any], every: Callable[..., Any]) -> None:
    """Fill the multiplicities of LUT and POW with the number of requests."""
    system = machine()
    fixed = system.universal

    def requests(slot: int) -> dict[Any, Any]:
        k, _ = system.slots[slot]
        main = columns[slot]
        table = [*fixed[system.programs[k].name], *main] if system.programs[k].fixed_in == 1 else list(main)
        found: dict[Any, Any] = {}
        for i in system.programs[k].interactions:
            if i.bus in _INDEX and not i.lookup_table:
                counts = found.setdefault(i.bus, np.zeros(_SIZES[_COUNTED_IN[i.bus][0]], dtype=np.uint64))
                _count(i, table, counts, main.shape[1])
        return found

    slots = [s for s in sorted(columns) if system.programs[system.slots[s][0]].fixed_in != 2]
    totals: dict[Any, Any] = {}
    for found in every(requests, slots):
        for bus, counts in found.items():
            totals[bus] = totals[bus] + counts if bus in totals else counts
    for bus in (POW, KRC):
        if bus in totals and totals[bus].any():
            name = _COUNTED_IN[bus][0]
            columns[system.slots.index((system.index(name), 0))] = np.zeros((1, _SIZES[name]), dtype=np.uint64)
    for bus, counts in totals.items():
        name, column = _COUNTED_IN[bus]
        k = system.index(name)
        slot = system.slots.index((k, 0))
        if slot in columns:
            table = system.tables[k]
            columns[slot][table.column_index(column) - table.layout.fixed_count] = counts


def _count(i: Interaction, columns: Sequence[Any], counts: Any, height: int) -> None:
    index = i.entries[0].times(0)
    for e, w in zip(i.entries, _INDEX[i.bus], strict=True):
        index = index.plus(e.times(w))
    addresses = np.array([c.ctypes.data for c in columns], dtype=np.uint64)
    when = i.multiplicity.words()
    form = index.words()
    library.count_requests(
        addresses, np.array([when[0], *when[2:], 0], dtype=np.uint64), when[1],
        np.array([form[0], *form[2:], 0], dtype=np.uint64), form[1], counts, len(counts), height)
