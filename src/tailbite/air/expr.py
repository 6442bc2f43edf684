"""Expressions over the columns of a table: a graph with common parts shared and degrees known."""

from __future__ import annotations

from typing import Any

from ..field import P

CONST, COLUMN, FIRST, LAST, PUBLIC, ADD, SUB, MUL = range(8)


class Graph:
    """Interns nodes, so that equal expressions are one node."""

    def __init__(self) -> None:
        self.nodes: dict[tuple[Any, ...], Expr] = {}

    def node(self, kind: int, *args: Any, degree: int = 0) -> Expr:
        key = (kind, *(a.id if isinstance(a, Expr) else a for a in args))
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = Expr(self, kind, args, degree, len(self.nodes))
        return found

    def binary(self, kind: int, a: Expr, b: Expr, degree: int) -> Expr:
        """As :meth:`node` for an operation; tables with many constraints spend their building time here."""
        key = (kind, a.id, b.id)
        found = self.nodes.get(key)
        if found is None:
            found = self.nodes[key] = Expr(self, kind, (a, b), degree, len(self.nodes))
        return found

    def const(self, x: int) -> Expr:
        return self.node(CONST, x % P)

    def column(self, index: int, following: bool = False) -> Expr:
        """Column ``index`` (preprocessed ones first) in this row, or in the following one."""
        return self.node(COLUMN, index, following, degree=1)


class Expr:
    """A polynomial in the columns. ``degree`` counts columns and row selectors."""

    __slots__ = ("args", "degree", "graph", "id", "kind")

    def __init__(self, graph: Graph, kind: int, args: tuple[Any, ...], degree: int, number: int) -> None:
        self.graph, self.kind, self.args, self.degree, self.id = graph, kind, args, degree, number

    def _other(self, o: Any) -> Expr:
        if isinstance(o, Expr):
            return o
        if isinstance(o, int):
            return self.graph.const(o)
        raise TypeError(f"cannot combine an expression with {type(o).__name__}")

    def __add__(self, o: Any) -> Expr:
        o = self._other(o)
        if self.kind == CONST and o.kind == CONST:
            return self.graph.const(self.args[0] + o.args[0])
        if o.kind == CONST and o.args[0] == 0:
            return self
        if self.kind == CONST and self.args[0] == 0:
            return o
        a, b = (self, o) if self.id <= o.id else (o, self)
        return self.graph.binary(ADD, a, b, max(a.degree, b.degree))

    __radd__ = __add__

    def __sub__(self, o: Any) -> Expr:
        o = self._other(o)
        if self.kind == CONST and o.kind == CONST:
            return self.graph.const(self.args[0] - o.args[0])
        if o is self:
            return self.graph.const(0)
        if o.kind == CONST and o.args[0] == 0:
            return self
        return self.graph.binary(SUB, self, o, max(self.degree, o.degree))

    def __rsub__(self, o: Any) -> Expr:
        return self._other(o) - self

    def __neg__(self) -> Expr:
        return self.graph.const(0) - self

    def __mul__(self, o: Any) -> Expr:
        o = self._other(o)
        if self.kind == CONST and o.kind == CONST:
            return self.graph.const(self.args[0] * o.args[0])
        for x, y in ((self, o), (o, self)):
            if x.kind == CONST and x.args[0] in (0, 1):
                return y if x.args[0] == 1 else x
        a, b = (self, o) if self.id <= o.id else (o, self)
        return self.graph.binary(MUL, a, b, a.degree + b.degree)

    __rmul__ = __mul__

    def affine(self) -> Affine | None:
        """This expression as constant + sum of coefficient * column of the same row; None if it is not that."""
        if self.kind == CONST:
            return Affine(self.args[0], {})
        if self.kind == COLUMN and not self.args[1]:
            return Affine(0, {self.args[0]: 1})
        if self.kind in (ADD, SUB, MUL):
            a, b = self.args[0].affine(), self.args[1].affine()
            if a is None or b is None:
                return None
            if self.kind == MUL:
                if a.terms and b.terms:
                    return None
                return b.times(a.constant) if not a.terms else a.times(b.constant)
            return a.plus(b, 1 if self.kind == ADD else -1)
        return None

    def columns(self) -> set[tuple[int, bool]]:
        """The (column, following) pairs that occur."""
        seen: set[int] = set()
        found: set[tuple[int, bool]] = set()
        stack = [self]
        while stack:
            e = stack.pop()
            if e.id in seen:
                continue
            seen.add(e.id)
            if e.kind == COLUMN:
                found.add((e.args[0], e.args[1]))
            elif e.kind in (ADD, SUB, MUL):
                stack += e.args
        return found


class Affine:
    """constant + sum of coefficient * column; coefficients mod p, none zero."""

    def __init__(self, constant: int, terms: dict[int, int]) -> None:
        self.constant = constant % P
        self.terms = {k: v % P for k, v in sorted(terms.items()) if v % P}

    def times(self, k: int) -> Affine:
        return Affine(self.constant * k, {c: v * k for c, v in self.terms.items()})

    def plus(self, o: Affine, sign: int = 1) -> Affine:
        terms = dict(self.terms)
        for c, v in o.terms.items():
            terms[c] = terms.get(c, 0) + sign * v
        return Affine(self.constant + sign * o.constant, terms)

    def words(self) -> list[int]:
        """Serialised: constant, number of terms, then (column, coefficient) pairs by ascending column."""
        return [self.constant, len(self.terms), *(x for kv in self.terms.items() for x in kv)]
