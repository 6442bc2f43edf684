"""Proofs by z3 that each row of the machine's arithmetic tables says what RISC-V says; and their own mutation.

    python tests/vm/tables/smt_proofs.py            # all operations and amounts: result, guard and time of each
    python tests/vm/tables/smt_proofs.py mutate     # without each rule in turn: a false row, or a proof that needs none
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import z3

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[k]) for k in (0, 1, 2)]

import harness as h
from smt import Row, constant, vanishes
from smt_meaning import REGISTER_SHIFTS, SHIFTS, Meaning, meaning

from tailbite.air.table import Table
from tailbite.vm.buses import RANGE_BUSES, ROM
from tailbite.vm.machine import TABLES
from tailbite.vm.ops import LOADS, OPS_OF_TABLE, STORES, Op
from tailbite.vm.ops import Table as Name

CALLS = {Name.HALT, Name.COMMIT, Name.PRINT, Name.CYCLES, Name.KCALL}
ARITHMETIC = tuple(t for t in TABLES if t.name in OPS_OF_TABLE and t.name not in CALLS)
PRODUCTS = range(Op.MUL, Op.REMW + 1)
LIMIT = 120_000  # milliseconds for one query


@cache
def table_named(name: str) -> Any:
    return next(t for t in TABLES if t.name == name)()


class Case(NamedTuple):
    """An operation of a table; of a shift by a known amount, the amount."""

    table: Any
    op: Op
    amount: int | None = None

    def __str__(self) -> str:
        return f"{self.table.name} {self.op.name}" + (f" {self.amount}" if self.amount is not None else "")

    def given(self) -> dict[str, int]:
        """Columns with one possible value: the flags, the multiplier or amount."""
        known = {} if self.amount is None else {"k": self.amount}
        if self.op in SHIFTS:
            known = {"m": SHIFTS[self.op][0](self.amount)}
        return flags(self.table, self.op) | known

    def row(self, without: Collection[str] = (), exact: bool = False, **more: int) -> tuple[Row, Meaning]:
        row = Row(self.table, self.given() | more, without, exact)
        return row, meaning(row, self.op, self.amount)


def flags(table: Table, op: Op) -> dict[str, int]:
    """The one setting of selectors and flags that fetches ``op``; the rules that say so are constraints of bits."""
    lay = table.layout
    form = next(i for i in lay.interactions if i.bus == ROM).entries[1]
    selectors = {k for k, kind in enumerate(lay.kinds) if kind == "selector"}
    used = sorted(set(form.terms) | selectors)
    settings = [dict(zip(used, v, strict=True)) for v in itertools.product((0, 1), repeat=len(used))]
    found = [s for s in settings if sum(s[c] for c in selectors) == 1
             and form.constant + sum(k * s[c] for c, k in form.terms.items()) == op]
    assert len(found) == 1, f"{table.name}: {len(found)} settings of the flags fetch {op.name}"
    return {lay.columns[c]: v for c, v in found[0].items()}


def cases(table: Any, amounts: Collection[int] | None = None) -> Iterator[Case]:
    """All, or those with these amounts."""
    for op in OPS_OF_TABLE[table.name]:
        every: Collection[int | None] = [None]
        if op in SHIFTS:
            every = SHIFTS[op][2]
        elif op in REGISTER_SHIFTS:
            every = range(32 if op in (Op.SLLW, Op.SRLW, Op.SRAW) else 64)
        yield from (Case(table, op, k) for k in every if amounts is None or k is None or k in amounts)


# ---------------------------------------------------------------- queries


def solver(*formulas: Any, limit: int = LIMIT) -> Any:
    s = z3.SolverFor("QF_BV")
    s.set("timeout", limit)
    s.add(*formulas)
    return s


class Unproved(Exception):
    """A goal that does not follow (then with a model), or that the solver gave up."""

    def __init__(self, goal: str, model: Any) -> None:
        super().__init__(goal if model is not None else f"{goal}: the solver gave up")
        self.model = model


def follows(known: list[Any], goal: Any, name: str, limit: int) -> None:
    s = solver(*known, z3.Not(goal), limit=limit)
    answer = s.check()
    if answer != z3.unsat:
        raise Unproved(name, s.model() if answer == z3.sat else None)


# Ways to split all rows, as (rules left out, columns fixed, values that columns do not have). bz of DIVREM may be any
# field element, and the solver would have to multiply by it in ``lt``, which rows with another bz than 0 need not keep.
SPLITS: dict[str, list[tuple[set[str], dict[str, int], dict[str, tuple[int, ...]]]]] = {
    "DIVREM": [*((set(), {"bz": 0, **signs}, {}) for signs in ({"sa": 0}, {"sa": 1, "ca": 0}, {"sa": 1, "ca": 1})),
               ({"lt"}, {"bz": 1}, {}), ({"lt"}, {}, {"bz": (0, 1)})],
}


def prove(case: Case, without: Collection[str] = (), limit: int = LIMIT) -> None:
    """Every row that takes what it may take gives what RISC-V says; raises :class:`Unproved`."""
    for unused, fixed, excluded in SPLITS.get(case.table.name, [(set(), {}, {})]):
        row, m = case.row({*without, *unused}, **fixed)
        known = row.everything + m.assumed
        for name, values in excluded.items():
            known += [z3.Not(vanishes(row[name] - constant(v))) for v in values]
        for name, stone in m.stones:
            follows(known, stone, f"{case}: {name}", limit)
            known.append(stone)
        follows(known, z3.And([g for _, g in m.goals]), f"{case}: {', '.join(n for n, _ in m.goals)}", limit)


def inputs(case: Case, rng: random.Random) -> tuple[int, int]:
    """Values of rs1 and rs2 that the table has a row for."""
    a, b = rng.getrandbits(64), rng.getrandbits(rng.choice((8, 33, 64)))
    if case.table.name == "LOGIC32":
        a, b = h.word32(a), h.word32(b)
    if case.op in (*LOADS, *STORES):
        a &= ~7
    if case.op == Op.JALR:
        a &= 2**31 - 1
    if case.op in REGISTER_SHIFTS:
        b = b & ~63 | case.amount
    return a, b


def witness(case: Case, a: int, b: int) -> dict[str, int]:
    """Columns of a row on these operands, which the table itself accepts; raises AssertionError if there is none."""
    row, m = case.row(exact=True)
    at = [x == v for x, v in ((m.taken.a, a), (m.taken.b, b)) if not z3.is_bv_value(x)]  # what it does not read is 0
    s = solver(*row.everything, *m.assumed, *at)
    assert s.check() == z3.sat, f"{case}: no row for {a:#x}, {b:#x}, so a proof about rows says nothing"
    values = row.concrete(s.model())
    assert refusals(case.table, values) == set(), f"{case}: the table refuses what the formula allows"
    return values


def refusals(table: Any, values: dict[str, int]) -> set[str]:
    """What the table's own evaluation says against a row."""
    main = np.zeros((table.layout.main_count, 32), np.uint64)
    for name, v in values.items():
        main[table.column_index(name), 0] = v
    return h.refusals(h.as_trace(table, main), 0)


def silent(table: Any, without: Collection[str] = ()) -> None:
    """A row without a selector takes part in nothing; raises :class:`Unproved`."""
    off = {c.name: 0 for c in table.declared if c.kind == "selector"}
    row = Row(table, off, without)
    for m in row.messages:
        if not (m.bus in RANGE_BUSES and m.certain):  # a lookup by all rows asks for a range, and says nothing
            follows(row.everything, row.form(m.multiplicity).equals(0), f"{table.name}: padding on {m.name}", LIMIT)


# ---------------------------------------------------------------- mutation


def rules(table: Any) -> list[str]:
    """Constraints and range lookups, but for those of times and of what :func:`flags` takes for granted."""
    lay = table.layout
    form = next(i for i in lay.interactions if i.bus == ROM).entries[1]
    flagged = {k for k, kind in enumerate(lay.kinds) if kind == "selector"} | form.terms.keys()
    chosen = {f"{lay.columns[k]}.bit" for k in flagged} | {"flag.sum"}
    times = {k for k, n in enumerate(lay.columns) if n == "ts"}
    return [n for n, _ in lay.constraints if n not in chosen] + [
        f"{i.bus.name} {k}" for k, i in enumerate(lay.interactions)
        if i.bus.name in RANGE_BUSES and not any(times & e.terms.keys() for e in i.entries)]


def false_row(case: Case, without: Collection[str], limit: int = 3_000) -> dict[str, int] | None:
    """Columns of a row that breaks none but these rules and says something wrong, if the solver finds one."""
    row, m = case.row(without, exact=True)
    wrong = z3.Not(z3.And([g for _, g in m.goals]))
    tries: list[tuple[int, int] | None] = [(7, 0), (5, 5), (33, 2**64 - 1), (2**63, 2**63), (2**40 + 3, 9)]
    tries = tries + [(a, b) for a in h.EDGE[5::8] for b in h.EDGE[3::7]] if case.op in PRODUCTS else [None, *tries]
    for pair in tries:
        at = [] if pair is None else [m.taken.a == pair[0], m.taken.b == pair[1]]
        s = solver(*row.everything, *m.assumed, wrong, *at, limit=limit)
        if s.check() == z3.sat:
            return row.concrete(s.model())
    return None


def main(arguments: list[str]) -> None:
    chosen = [t for t in ARITHMETIC if not arguments[1:] or t.name in arguments[1:]]
    for t in chosen:
        table = table_named(t.name)
        if arguments[:1] == ["mutate"]:
            for rule in rules(table):
                begin, found = time.perf_counter(), None
                for case in cases(table, (5, 21, 37)):
                    values = false_row(case, {rule})
                    if values is not None:
                        assert refusals(table, values) <= {rule}, f"{case} without {rule}: {refusals(table, values)}"
                        found = case
                        break
                verdict = f"needed, by {found}" if found else "no false row found"
                if not found:
                    try:
                        for case in cases(table, (5, 21, 37)):
                            prove(case, {rule}, 20_000)
                        verdict = "NOT needed"
                    except Unproved as e:
                        verdict += f"; nor a proof: {e}"
                print(f"{t.name:8} {rule:14} {verdict}  {time.perf_counter() - begin:.2f} s", flush=True)
            continue
        for op, group in itertools.groupby(cases(table), lambda c: c.op):
            begin, some = time.perf_counter(), list(group)
            for case in some:
                prove(case)
            middle = time.perf_counter()
            for case in some[:: max(1, len(some) // 4)]:
                witness(case, *inputs(case, random.Random(1)))
            end = time.perf_counter()
            times = f"proved in {middle - begin:6.2f} s, guard {end - middle:5.2f} s"
            print(f"{t.name:8} {op.name:8} {len(some):3} cases {times}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
