"""All witnesses of a row, in a small field of the same shape.

p = B^2 - B + 1 with B = 2^32; so is 241 with B = 16. The rules of a table are read with its constants scaled (2^16
becomes 4, 2^32 becomes 16, ...): a limb then has 2 bits, a word 4, a register 8. Given the operands, every assignment
of the other columns that the constraints and range lookups admit is found by exhaustive search. Where they all claim
the same result, the table determines it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tailbite.air.expr import ADD, COLUMN, CONST, MUL, Affine, Expr
from tailbite.air.table import Table
from tailbite.field import P
from tailbite.vm.buses import RANGE_BUSES, REG
from tailbite.vm.chip import INV_B16, INV_B32

Q, B = 241, 16
LIMB, BYTE = 4, 3  # a limb is below 4; a carry's high byte below 3, so that 16 + 16 (3 + 4 * 2) < 241
_POSITIVE = {**{n: n for n in range(16)}, 2**16 - 1: 3, 2**16: 4, 2**31: 8, 2**32 - 1: 15, 2**32: 16,
             INV_B16: pow(4, -1, Q), INV_B32: pow(16, -1, Q)}
SCALE = _POSITIVE | {(P - n) % P: (Q - v) % Q for n, v in _POSITIVE.items()}
INVERSE = np.array([pow(x, -1, Q) if x else 0 for x in range(Q)])
EVERYTHING = np.arange(Q)


def evaluate(e: Expr, values: Mapping[int, Any]) -> Any:
    """``e`` in the small field; ``values`` gives the columns."""
    done: dict[int, Any] = {}

    def visit(x: Expr) -> Any:
        if x.id not in done:
            if x.kind == CONST:
                done[x.id] = SCALE[x.args[0]]
            elif x.kind == COLUMN:
                done[x.id] = values[x.args[0]]
            else:
                a, b = visit(x.args[0]), visit(x.args[1])
                done[x.id] = (a + b if x.kind == ADD else a * b if x.kind == MUL else a - b) % Q
        return done[x.id]

    return visit(e)


def affine(form: Affine, values: Mapping[int, Any]) -> Any:
    return (SCALE[form.constant] + sum(SCALE[w] * values[c] for c, w in form.terms.items())) % Q


class Search:
    """Partial assignments of one table's columns, all at once: ``values`` holds one array for each known column.

    ``origin`` says to which of the given cases an assignment belongs.
    """

    def __init__(self, table: Table, given: Mapping[str, Any], skip: Collection[str] = (),
                 drop: Collection[str] = (), order: Sequence[str] = ()) -> None:
        """``skip`` lists columns that are left out, with the rules that use them; ``drop`` rules that are ignored;
        ``order`` columns that are best tried early."""
        self.lay = table.layout
        self.index = {name: k for k, name in enumerate(self.lay.columns)}
        self.order = [self.index[name] for name in order]
        n = max(np.size(v) for v in given.values())
        self.values = {self.index[k]: np.broadcast_to(np.asarray(v, dtype=np.int64) % Q, (n,))
                       for k, v in given.items()}
        self.origin = np.arange(n)
        left_out = {self.index[k] for k in skip}
        rules = {name: (e, {c for c, _ in e.columns()}) for name, e in self.lay.constraints}
        self.rules = [(e, cs) for name, (e, cs) in rules.items() if name not in drop and not cs & left_out]
        writes = [i for i in self.lay.interactions if i.bus == REG and next(iter(i.multiplicity.terms.values())) == 1]
        self.result = writes[-1].entries[2:]
        self.wanted = {c for form in self.result for c in form.terms}
        self.unknown = set().union(self.wanted, *(cs for _, cs in rules.values())) - left_out - set(self.values)
        self.domain = {c: EVERYTHING for c in self.unknown}
        #: the rules and lookups that say something about columns that are not given
        self.used = [name for name, (_, cs) in rules.items() if cs & self.unknown and not cs & left_out]
        self.top: dict[int, int] = {}  # limb -> column of its top bit
        for k, i in enumerate(self.lay.interactions):
            name = f"{i.bus.name} {k}"
            if i.bus.name in RANGE_BUSES and name not in drop:
                self._lookup(name, i.entries, affine(i.multiplicity, self.values | {c: 0 for c in left_out}))

    def _lookup(self, name: str, entries: tuple[Affine, ...], count: Any) -> None:
        """Narrow the domains of the columns that a range lookup asks for; gaps of time are not modelled."""
        bus = name.split()[0]
        if not np.any(count) or bus in ("AND", "POW"):
            return
        if any(c in self.unknown for e in entries for c in e.terms):
            self.used.append(name)
        columns = [next(iter(e.terms)) if list(e.terms.values()) == [1] and not e.constant else None for e in entries]
        if bus == "MSB":
            limb, sign = columns
            self._narrow(limb, range(LIMB if entries[1].terms else LIMB // 2))
            if sign is not None and limb in self.values:
                self.values[sign] = self.values[limb] * 2 // LIMB
                self.unknown.discard(sign)
            elif sign is not None:
                self.top[limb] = sign
                self._narrow(sign, range(2))
        else:
            for c in columns:
                self._narrow(c, range(LIMB if bus == "R16" else BYTE))

    def _narrow(self, column: int | None, allowed: range) -> None:
        if column in self.unknown:
            self.domain[column] = np.intersect1d(self.domain[column], allowed)

    # ------------------------------------------------------------ search

    def run(self) -> list[set[tuple[int, int]]]:
        """For each given case the results (lo, hi) that some witness claims."""
        for e, cs in self.rules:
            if len(cs) == 1 and cs <= self.unknown:
                (c,) = cs
                self.domain[c] = self.domain[c][evaluate(e, {c: self.domain[c]}) == 0]
        self.rules = [r for r in self.rules if len(r[1]) > 1 or not r[1] <= self.unknown]
        cases = len(self.origin)
        self._settle()
        while self.unknown and len(self.origin):
            self._extend()
            self._settle()
        results: list[set[tuple[int, int]]] = [set() for _ in range(cases)]
        if len(self.origin):
            lo, hi = (np.broadcast_to(affine(form, self.values), self.origin.shape) for form in self.result)
            for case, x, y in zip(self.origin.tolist(), lo.tolist(), hi.tolist(), strict=True):
                results[case].add((x, y))
        return results

    def _settle(self) -> None:
        """Apply the rules whose columns are known, and forget columns that nothing needs any more."""
        for e, _ in [r for r in self.rules if not r[1] & self.unknown]:
            self._keep(evaluate(e, self.values) == 0)
        self.rules = [r for r in self.rules if r[1] & self.unknown]
        needed = self.wanted.union(*(cs for _, cs in self.rules))
        needed |= {s for v, s in self.top.items() if v in self.unknown} | {v for v, s in self.top.items()
                                                                          if s in self.unknown}
        self.unknown &= needed
        kept = {c: v for c, v in self.values.items() if c in needed}
        if len(kept) < len(self.values):
            self.values = kept
            weights = np.random.default_rng(1).integers(1, 2**63, len(kept) + 1, dtype=np.uint64)
            key = self.origin.astype(np.uint64) * weights[-1]
            for v, w in zip(kept.values(), weights, strict=False):
                key = key + v.astype(np.uint64) * w
            self._keep(np.unique(key, return_index=True)[1])

    def _keep(self, which: Any) -> None:
        which = np.broadcast_to(which, self.origin.shape) if np.asarray(which).dtype == bool else which
        self.values = {c: v[which] for c, v in self.values.items()}
        self.origin = self.origin[which]

    def _extend(self) -> None:
        """Make one more column known.

        First those that rules give one value; then as ``order`` says; then a column of the rule that is settled with
        the fewest assignments.
        """
        sample = {c: v[:: max(1, len(v) // 64)] for c, v in self.values.items()}
        single: dict[int, list[Expr]] = {}
        for e, cs in self.rules:
            if len(cs & self.unknown) == 1:
                single.setdefault(*(cs & self.unknown), []).append(e)
        plans = []
        for c, rules in single.items():
            given = self._solve(rules, c, sample, len(next(iter(sample.values()))))[0]
            plans.append((len(self.domain[c]) * float((~given).mean()), c))
        for _, cs in self.rules:
            open_ = sorted((len(self.domain[c]), c) for c in cs & self.unknown)
            if len(open_) > 1:
                most = float(np.prod([float(size) for size, _ in open_[:-1]]))
                plans.append((most * most * len(self.domain[open_[-1][1]]) / Q, open_[0][1]))
        least, column = min(plans, default=(0, min(self.unknown)))
        if least > 0:
            column = next((c for c in self.order if c in self.unknown), column)
        self._assign(column, single.get(column, []))

    def _solve(self, rules: list[Expr], c: int, values: Mapping[int, Any], size: int) -> tuple[Any, Any]:
        """Where the rules give column ``c`` one value, and that value."""
        given, value = np.zeros(size, bool), np.zeros(size, np.int64)
        for e in rules:
            at = [np.broadcast_to(evaluate(e, {**values, c: x}), (size,)) for x in range(4)]
            steps = [(y - x) % Q for x, y in pairwise(at)]
            if np.array_equal(steps[0], steps[1]) and np.array_equal(*steps[1:]):  # of degree 3 at most, hence linear
                now = ~given & (steps[0] != 0)
                value = np.where(now, -at[0] * INVERSE[steps[0]] % Q, value)
                given |= now
        return given, value

    def _assign(self, c: int, rules: list[Expr]) -> None:
        """Column ``c`` takes the value that ``rules`` give it, or all of its domain."""
        domain = self.domain[c]
        given, value = self._solve(rules, c, self.values, len(self.origin))
        one, free = np.nonzero(given)[0], np.nonzero(~given)[0]
        self._keep(np.concatenate([one, np.repeat(free, len(domain))]))
        column = np.concatenate([value[one], np.tile(domain, len(free))])
        self.values[c] = column
        self.unknown.discard(c)
        self._keep(np.isin(column, domain))
        for v, s in self.top.items():
            if v == c and s in self.unknown:
                self.values[s] = self.values[v] * 2 // LIMB
                self.unknown.discard(s)
            elif c in (v, s) and v not in self.unknown and s not in self.unknown:
                self._keep(self.values[v] * 2 // LIMB == self.values[s])


def results(table: Table, given: Mapping[str, Any], skip: Collection[str] = (), drop: Collection[str] = (),
            order: Sequence[str] = ()) -> list[set[tuple[int, int]]]:
    """What the witnesses of each given case claim as result, all values in the small field."""
    return Search(table, given, skip, drop, order).run()
