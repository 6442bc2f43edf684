"""Check a trace without proving: every constraint on every row, every bus for balance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import columns as col
from ..field import P
from .expr import ADD, COLUMN, CONST, FIRST, LAST, MUL, PUBLIC, Expr
from .table import Interaction, Table

MAX_REPORTED = 10


@dataclass(frozen=True)
class Trace:
    """One table instance: preprocessed and main columns, arrays of shape (columns, height) of canonical words."""

    table: Table
    fixed: Any
    main: Any

    @property
    def height(self) -> int:
        return int((self.main if len(self.main) else self.fixed).shape[1])

    def column(self, i: int) -> Any:
        k = self.table.layout.fixed_count
        return self.fixed[i] if i < k else self.main[i - k]


@dataclass(frozen=True)
class Failure:
    """A constraint that does not vanish in a row, or a tuple whose sends and receives differ."""

    table: str
    name: str
    row: int
    values: dict[str, int]

    def __str__(self) -> str:
        shown = ", ".join(f"{k}={v:#x}" if v > 9 else f"{k}={v}" for k, v in self.values.items())
        return f"{self.table}.{self.name} fails in row {self.row}: {shown}"


def check(traces: Sequence[Trace], publics: Sequence[int] = (),
          terms: Sequence[tuple[int, tuple[int, ...], int]] = ()) -> list[Failure]:
    """Failures of all constraints and buses; an empty list if the trace is good.

    ``publics`` are the words of the public output, ``terms`` what the verifier itself puts on buses:
    (bus id, tuple, multiplicity).
    """
    failures = [f for t in traces for f in check_constraints(t, publics)]
    return failures + check_buses(traces, terms)


def check_constraints(trace: Trace, publics: Sequence[int] = ()) -> list[Failure]:
    """Rows in which a constraint of the table does not vanish, up to ten for each constraint."""
    out: list[Failure] = []
    values: dict[int, Any] = {}
    lay = trace.table.layout
    for name, e in lay.constraints:
        bad = np.nonzero(np.broadcast_to(_evaluate(trace, e, publics, values), (trace.height,)))[0]
        for row in bad[:MAX_REPORTED]:
            shown = {lay.columns[c] + ("'" if following else ""):
                     int(trace.column(c)[(row + following) % trace.height])
                     for c, following in sorted(e.columns())}
            out.append(Failure(trace.table.name, name, int(row), shown))
    return out


def _evaluate(trace: Trace, e: Expr, publics: Sequence[int], done: dict[int, Any]) -> Any:
    """Value of ``e`` on all rows."""
    stack = [e]
    n = trace.height
    while stack:
        x = stack[-1]
        if x.id in done:
            stack.pop()
            continue
        missing = [a for a in x.args if isinstance(a, Expr) and a.id not in done]
        if missing:
            stack += missing
            continue
        stack.pop()
        if x.kind == CONST:
            v: Any = np.uint64(x.args[0])
        elif x.kind == COLUMN:
            v = trace.column(x.args[0])
            v = np.roll(v, -1) if x.args[1] else v
        elif x.kind in (FIRST, LAST):
            v = np.zeros(n, np.uint64)
            v[0 if x.kind == FIRST else n - 1] = 1
        elif x.kind == PUBLIC:
            v = np.uint64(publics[x.args[0]])
        else:
            a, b = done[x.args[0].id], done[x.args[1].id]
            v = (col.add_ if x.kind == ADD else col.mul_ if x.kind == MUL else col.sub_)(a, b)
        done[x.id] = v
    return done[e.id]


def tuples(trace: Trace, i: Interaction) -> tuple[Any, Any]:
    """Entries, shape (rows, arity), and multiplicities of one interaction on every row."""
    n = trace.height

    def form(f: Any) -> Any:
        return col.affine(f.constant, [(trace.column(c), w) for c, w in f.terms.items()], n)

    return np.stack([form(f) for f in i.entries], axis=1), form(i.multiplicity)


def check_buses(traces: Sequence[Trace], terms: Sequence[tuple[int, tuple[int, ...], int]] = ()) -> list[Failure]:
    """Tuples that do not balance, with the rows that sent or received them."""
    buses = {i.bus.id: i.bus for t in traces for i in t.table.layout.interactions}
    out = [Failure("verifier", f"bus {b}, which no table uses", 0, {str(k): v for k, v in enumerate(values)})
           for b, values, m in terms if b not in buses and m % P]
    for bus in buses.values():
        entries, counts, origin, rows = [], [], [], []
        for k, t in enumerate(traces):
            for i in t.table.layout.interactions:
                if i.bus.id == bus.id:
                    e, m = tuples(t, i)
                    used = np.nonzero(m)[0]
                    entries.append(e[used])
                    counts.append(m[used])
                    origin.append(np.full(len(used), k))
                    rows.append(used)
        for b, values, m in terms:
            if b == bus.id:
                entries.append(np.array([values], dtype=np.uint64))
                counts.append(np.array([m % P], dtype=np.uint64))
                origin.append(np.array([-1]))
                rows.append(np.array([0]))
        if entries:
            out += _unbalanced(bus, traces, np.concatenate(entries), np.concatenate(counts),
                               np.concatenate(origin), np.concatenate(rows))
    return out


def _totals(which: Any, counts: Any, n: int) -> list[int]:
    """Sums mod p of the counts that belong to each of ``n`` tuples: 16 bits at a time, so that floats are exact."""
    parts = [np.bincount(which, weights=((counts >> np.uint64(16 * k)) & np.uint64(0xFFFF)).astype(float), minlength=n)
             for k in range(4)]
    return [sum(int(x) << 16 * k for k, x in enumerate(p)) % P for p in zip(*parts, strict=True)]


def _unbalanced(bus: Any, traces: Sequence[Trace], entries: Any, counts: Any, origin: Any, rows: Any) -> list[Failure]:
    distinct, which = np.unique(entries, axis=0, return_inverse=True)
    which = which.reshape(-1)
    out = []
    for k in [k for k, t in enumerate(_totals(which, counts, len(distinct))) if t][:MAX_REPORTED]:
        sources = np.nonzero(which == k)[0][:4]
        places = ", ".join(
            "the verifier" if origin[s] < 0 else
            f"{traces[origin[s]].table.name} row {rows[s]}{' receives' if counts[s] > P // 2 else ' sends'}"
            for s in sources)
        named = dict(zip(bus.fields, map(int, distinct[k]), strict=True))
        where = traces[origin[sources[0]]].table.name if origin[sources[0]] >= 0 else "verifier"
        out.append(Failure(where, f"bus {bus.name} ({places})", int(rows[sources[0]]), named))
    return out
