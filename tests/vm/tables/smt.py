"""Rows of the machine's tables as formulas for an SMT solver (z3), made from the tables themselves.

A formula is over bit-vectors, but exact: each value is an integer with known bounds (:class:`Int`), in as many bits as
these need. ``e = 0 mod p`` says that e is one of the multiples of p within its bounds, mostly 0 alone. Nothing is
written down again here: constraints come from the expression graph, ranges and relations from the lookups.

What a row may take for granted is what other tables see to, see :data:`PROMISES`.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import z3

from tailbite.air.expr import ADD, COLUMN, CONST, MUL, SUB, Affine, Expr
from tailbite.air.table import Interaction, Table
from tailbite.field import P
from tailbite.vm.buses import RANGE_BUSES
from tailbite.vm.chip import M32
from tailbite.vm.tables.krc import Krc

M16 = (1 << 16) - 1
FEW = 16  # multiples of p that are listed one by one; of more, a quotient is a variable
# Bits of the entries that a row receives (-1) or sends (+1); None for any field element.
#   EXEC, ROM: pcs and next pcs stand in the ROM, as multiples of 4; a time is 4 (1 + steps), lemma E
#   REG, RAM, KST: only range-checked values are ever sent, invariant V; the keys of RAM are canonical, lemma M2
PROMISES: dict[tuple[str, int], tuple[int | None, ...]] = {
    ("EXEC", -1): (32, 36), ("EXEC", 1): (32, None), ("ROM", -1): (32, 7, 6, 32, 6, 32, 32),
    ("REG", -1): (None, None, 32, 32), ("RAM", -1): (32, 29, None, 32, 32), ("COM", -1): (32, 36, None, 32, None, None),
    ("KST", -1): (36, 5, *[32] * 50),
}
LOOKUPS: dict[str, tuple[int | None, ...]] = {
    "R16": (16,), "MSB": (16, None), "B2": (8, 8), "AND": (8, 8, None), "POW": (6, None, None), "KRC": (5, *[1] * 7)}


def centred(n: int) -> int:
    """The representative of n mod p that is least in absolute value."""
    n %= P
    return n - P if n > P // 2 else n


# ---------------------------------------------------------------- integers


class Int:
    """An integer from ``lo`` to ``hi``: a signed bit-vector of the least width for these."""

    def __init__(self, term: Any, lo: int, hi: int) -> None:
        self.lo, self.hi = lo, hi
        self.term = fit(term, width(lo, hi))

    @property
    def constant(self) -> int | None:
        return self.lo if self.lo == self.hi else None

    @property
    def is_bit(self) -> bool:
        return self.lo >= 0 and self.hi <= 1

    def __add__(self, o: Int) -> Int:
        w = width(self.lo + o.lo, self.hi + o.hi)
        return Int(fit(self.term, w) + fit(o.term, w), self.lo + o.lo, self.hi + o.hi)

    def times(self, k: int) -> Int:
        if self.constant is not None:
            return constant(k * self.constant)
        lo, hi = sorted((k * self.lo, k * self.hi))
        w = width(lo, hi)
        if self.is_bit:
            return Int(z3.If(self.bit, z3.BitVecVal(k, w), z3.BitVecVal(0, w)), lo, hi)
        total = z3.BitVecVal(0, w)
        for shift, digit in signed_digits(k):  # few digits for the constants here, and so few additions
            total = total + digit * (fit(self.term, w) << shift)
        return Int(total, lo, hi)

    def __sub__(self, o: Int) -> Int:
        return self + o.times(-1)

    @property
    def bit(self) -> Any:
        return z3.Extract(0, 0, self.term) == 1

    def gated(self, o: Int) -> Int:
        """self * o, self being a bit."""
        lo, hi = min(0, o.lo), max(0, o.hi)
        w = width(lo, hi)
        return Int(z3.If(self.bit, fit(o.term, w), z3.BitVecVal(0, w)), lo, hi)

    def equals_bits(self, bits: Any) -> Any:
        """self = an unsigned bit-vector."""
        return (self - unsigned(bits)).equals(0)

    def equals(self, n: int) -> Any:
        if not self.lo <= n <= self.hi:
            return z3.BoolVal(False)
        return z3.BoolVal(True) if self.constant is not None else self.term == n


def width(lo: int, hi: int) -> int:
    return 1 + max((n if n >= 0 else ~n).bit_length() for n in (lo, hi))


def fit(term: Any, w: int) -> Any:
    """The same number in another width."""
    more = w - term.size()
    return z3.SignExt(more, term) if more > 0 else z3.Extract(w - 1, 0, term) if more < 0 else term


def signed_digits(k: int) -> Iterable[tuple[int, int]]:
    """(shift, 1 or -1) pairs that make k, no two shifts neighbours."""
    shift = 0
    while k:
        if k & 1:
            digit = 2 - (k & 3)
            yield shift, digit
            k -= digit
        k, shift = k >> 1, shift + 1


def constant(n: int) -> Int:
    return Int(z3.BitVecVal(n, width(n, n)), n, n)


def unsigned(term: Any) -> Int:
    """A bit-vector read as a number from 0 up."""
    return Int(z3.ZeroExt(1, term), 0, (1 << term.size()) - 1)


def total(terms: list[Int]) -> Int:
    """Their sum."""
    terms = [x for x in terms if x.constant != 0] or [constant(0)]
    return sum(terms[1:], terms[0])


def one_of(condition: Any, n: int) -> Int:
    """n where the condition holds, else 0."""
    w = width(min(0, n), max(0, n))
    return Int(z3.If(condition, z3.BitVecVal(n, w), z3.BitVecVal(0, w)), min(0, n), max(0, n))


_fresh = itertools.count()


def variable(name: str, bits: int) -> Any:
    return z3.BitVec(f"{name}#{next(_fresh)}", bits)


def equal(x: Int, y: Int) -> Any:
    """x = y over the integers, as an equation of the two sums."""
    w = max(x.term.size(), y.term.size())
    return fit(x.term, w) == fit(y.term, w)


def vanishes(x: Int, fact: bool = True) -> Any:
    """x = 0 mod p. With many multiples of p in reach a new variable says which; that will do for a fact, not for what
    is to be refuted."""
    first, last = -(-x.lo // P), x.hi // P
    if last - first < FEW:
        return z3.Or([x.equals(k * P) for k in range(first, last + 1)])
    if not fact:
        w = max(x.term.size(), 66)
        return z3.SRem(fit(x.term, w), z3.BitVecVal(P, w)) == 0
    k = Int(variable("quotient", width(first, last)), first, last)
    return z3.And(k.term >= first, k.term <= last, (x - k.times(P)).equals(0))


def nonresidue(n: int) -> bool:
    return pow(n, (P - 1) // 2, P) == P - 1


# ---------------------------------------------------------------- expressions


def linear(e: Expr, c: int) -> tuple[Expr, Expr] | None:
    """(k, r) with e = k * column c + r and no c in either; None if e is not of that form."""
    zero = e.graph.const(0)
    if c not in columns_of(e):
        return zero, e
    if e.kind == COLUMN:
        return e.graph.const(1), zero
    a, b = linear(e.args[0], c), linear(e.args[1], c)
    if a is None or b is None:
        return None
    if e.kind == ADD:
        return a[0] + b[0], a[1] + b[1]
    if e.kind == SUB:
        return a[0] - b[0], a[1] - b[1]
    if is_zero(a[0]):
        a, b = b, a
    return (a[0] * b[1], a[1] * b[1]) if is_zero(b[0]) else None


def is_zero(e: Expr) -> bool:
    return e.kind == CONST and e.args[0] == 0


_columns: dict[tuple[int, int], tuple[Expr, set[int]]] = {}


def columns_of(e: Expr) -> set[int]:
    """The columns in ``e``."""
    key = (id(e.graph), e.id)
    if key not in _columns or _columns[key][0] is not e:
        _columns[key] = e, {c for c, _ in e.columns()}
    return _columns[key][1]


def roots(e: Expr) -> set[int] | None:
    """The zeros of an expression in one column that is a product of linear ones."""
    if e.kind == MUL:
        a, b = roots(e.args[0]), roots(e.args[1])
        return None if a is None or b is None else a | b
    form = e.affine()
    if form is None or len(form.terms) != 1:
        return set() if e.kind == CONST and e.args[0] else None
    (k,) = form.terms.values()
    return {centred(-form.constant * pow(k, -1, P))}


# ---------------------------------------------------------------- rows


class Row:
    """One row of ``table``: :attr:`values` of its columns, and :attr:`facts` (name, formula) that its rules state.

    ``given`` fixes columns by name, ``without`` names rules to leave out (a constraint, or a message as "R16 7").
    The product of two 16-bit numbers, or larger ones, is a new number with bounds, unless ``exact``: this states
    less, so what is proved holds.
    """

    def __init__(self, table: Table, given: Mapping[str, int] | None = None, without: Collection[str] = (),
                 exact: bool = False) -> None:
        self.table, self.lay, self.exact, self.without = table, table.layout, exact, set(without)
        self.index = {name: k for k, name in enumerate(self.lay.columns)}
        self.given = {self.index[k]: v % P for k, v in (given or {}).items()}
        self.values: dict[int, Int] = {c: constant(centred(v)) for c, v in self.given.items()}
        self.facts: list[tuple[str, Any]] = []
        self.products: dict[tuple[int, int], Int] = {}
        # columns of which one rule, k c + r = 0, asks that they exist: its name, k and r
        self.quantified: dict[int, tuple[str, Expr, Expr]] = {}
        self._folded: dict[int, Expr] = {}
        self._done: dict[int, Int] = {}
        self._bits: dict[tuple[int, int], Any] = {}
        self.carries: dict[int, tuple[int, Any]] = {}  # expressions with x (x - n) = 0: n and the condition that x = n
        self._kept: list[Any] = []  # the solver reuses the numbers of terms that nobody holds
        self.rules = {n: self.fold(e) for n, e in self.lay.constraints if n not in self.without}
        self.messages = [m for k, i in enumerate(self.lay.interactions)
                         if (m := Message(self, f"{i.bus.name} {k}", i)).count != 0]
        self._bounded()
        for e in self.rules.values():
            self._carry(e)
        self._define()
        for name, e in self.rules.items():
            self.fact(name, self.zero(e))
        for m in self.messages:
            self._message(m)

    def fact(self, name: str, formula: Any) -> None:
        if not z3.is_true(formula):
            self.facts.append((name, formula))

    def __getitem__(self, name: str) -> Int:
        return self.values[self.index[name]]

    # ------------------------------------------------------------ the columns' values

    def _bounded(self) -> None:
        """Columns that a message or a single rule bounds."""
        for m in self.messages:
            for bits, form in zip(m.bits, m.forms, strict=True):
                c = m.alone(form)
                if bits and c is not None and c not in self.values and m.certain and m.active:
                    self.values[c] = unsigned(variable(self.lay.columns[c], bits))
            if m.bus == "ROM" and list(m.forms[6].terms.values()) == [M32]:  # a sign-extended immediate's high limb
                (c,) = m.forms[6].terms
                self.values[c] = unsigned(variable(self.lay.columns[c], 1))
        for name, e in list(self.rules.items()):
            cs = columns_of(e)
            if len(cs) == 1 and not cs & self.values.keys() and (found := roots(e)):
                (c,) = cs
                lo, hi = min(found), max(found)
                x = constant(lo) if lo == hi else Int(variable(self.lay.columns[c], width(lo, hi)), lo, hi)
                if found == {0, 1}:
                    x = unsigned(variable(self.lay.columns[c], 1))
                elif lo != hi:
                    self.fact(name, z3.Or([x.equals(n) for n in found]))
                self.values[c] = x
                del self.rules[name]

    def _carry(self, e: Expr) -> None:
        """Of x (x - n) = 0: x is n or 0, and so it enters other expressions."""
        if e.kind == MUL and e.args[1].kind == SUB and e.args[1].args[0] is e.args[0] \
                and e.args[0].kind in (ADD, SUB) and e.args[1].args[1].kind == CONST:
            x, n = e.args[0], centred(e.args[1].args[1].args[0])
            self.carries[x.id] = n, variable("carry", 1) == 1
            self._done[x.id] = one_of(self.carries[x.id][1], n)

    def _define(self) -> None:
        """Values of the other columns: by a lookup or an equation that determines them, or any field element."""
        used = set().union(*(columns_of(e) for e in self.rules.values()), *(m.columns for m in self.messages))
        for c in sorted(used - self.values.keys()):
            users = [(n, e) for n, e in self.rules.items() if c in columns_of(e)]
            elsewhere = any(c in m.columns for m in self.messages) or any(
                c in columns_of(x) for _, *split in self.quantified.values() for x in split)
            if len(users) == 1 and not elsewhere:
                name, e = users[0]
                split = linear(e, c)
                if split and split[0].kind != CONST:
                    self.quantified[c] = (name, *split)
                    del self.rules[name]
        unknown = [c for c in sorted(used) if c not in self.values and c not in self.quantified]
        while unknown:
            if not (any([self._by_lookup(m) for m in self.messages]) or self._by_rule()):
                c = unknown[0]
                self.values[c] = Int(z3.ZeroExt(1, variable(self.lay.columns[c], 64)), 0, P - 1)
                self.fact(f"field {self.lay.columns[c]}", self.values[c].term < P)
            unknown = [c for c in unknown if c not in self.values]
        for name, slope, rest in self.quantified.values():
            self.fact(name, z3.Or(z3.Not(self.zero(slope)), self.zero(rest)))

    def _by_lookup(self, m: Message) -> bool:
        """Does a lookup's last entry determine a column?"""
        if m.bus not in ("MSB", "AND", "POW") or not (m.certain and m.active):
            return False
        targets = {k: next(iter(f.terms)) for k, f in enumerate(m.forms) if len(f.terms) == 1 and not f.constant}
        known = [all(c in self.values for c in f.terms) for f in m.forms]
        found = []
        if m.bus == "POW" and known[0] and (k := self.form(m.forms[0]).constant) is not None and 0 <= k < 64:
            found = [(1, constant(1 << (k & 31))), (2, constant(k >> 5))]
        if m.bus == "MSB" and known[0]:
            found = [(1, unsigned(z3.Extract(15, 15, self.bits(m.name, self.form(m.forms[0]), 16))))]
        if m.bus == "AND" and known[0] and known[1]:
            x, y = (self.bits(m.name, self.form(f), 8) for f in m.forms[:2])
            mask = self.form(m.forms[1]).constant
            if list(m.forms[2].terms.values()) == [1]:
                found = [(2, unsigned(x & y))]
            elif 2 in targets and mask and mask & (mask - 1) == 0:
                weight = m.forms[2].terms[targets[2]]
                found = [(2, one_of(x & y == mask, centred(mask * pow(weight, -1, P))))]
        done = False
        for k, value in found:
            c = targets.get(k)
            if c is not None and c not in self.values and (m.bus == "AND" or m.forms[k].terms[c] == 1):
                self.values[c] = value
                m.settled.add(k)
                done = True
        return done

    def _by_rule(self) -> bool:
        """Do equations determine columns?"""
        before = len(self.rules)
        for name, e in list(self.rules.items()):
            missing = columns_of(e) - self.values.keys()
            if len(missing) == 1:
                (c,) = missing
                split = linear(e, c)
                if split is None or (k := self.evaluate(split[0]).constant) is None:
                    continue
                if abs(k) == 1:
                    self.values[c] = self.evaluate(split[1]).times(-k)
                elif k % P and (n := self.evaluate(split[1]).constant) is not None:
                    self.values[c] = constant(centred(-n * pow(k, -1, P)))
                else:
                    continue
                del self.rules[name]
        return len(self.rules) < before

    # ------------------------------------------------------------ values of expressions

    def fold(self, e: Expr) -> Expr:
        """``e`` with the given columns as constants."""
        if e.id not in self._folded:
            if e.kind in (ADD, SUB, MUL):
                a, b = self.fold(e.args[0]), self.fold(e.args[1])
                x = a + b if e.kind == ADD else a - b if e.kind == SUB else a * b
            else:
                assert e.kind in (CONST, COLUMN) and e.args[1:] != (True,), "not a rule of one row"
                x = e.graph.const(self.given[e.args[0]]) if e.kind == COLUMN and e.args[0] in self.given else e
            self._folded[e.id] = x
        return self._folded[e.id]

    def form(self, f: Affine, scale: int = 1) -> Int:
        """``scale`` times an affine form."""
        total = constant(centred(scale * f.constant))
        for c, k in f.terms.items():
            total = total + self.values[c].times(centred(scale * k))
        return total

    def evaluate(self, e: Expr) -> Int:
        if e.id not in self._done:
            self._done[e.id] = self._evaluate(e)
        return self._done[e.id]

    def _evaluate(self, e: Expr) -> Int:
        if e.kind == CONST:
            return constant(centred(e.args[0]))
        if e.kind == COLUMN:
            return self.values[e.args[0]]
        if e.kind == MUL:
            for x, k in (e.args, e.args[::-1]):
                if x.id in self.carries and k.kind == CONST:  # the carry itself: its multiple of 2^32, divided
                    n, condition = self.carries[x.id]
                    return one_of(condition, centred(n * k.args[0]))
        a, b = self.evaluate(e.args[0]), self.evaluate(e.args[1])
        x = a + b if e.kind == ADD else a - b if e.kind == SUB else self.product(a, b)
        cs = sorted(columns_of(e)) if x.hi - x.lo < 64 else range(9)
        if len(cs) <= 3 and all(self.values[c].is_bit for c in cs):  # the bounds of a truth table
            seen = [plain(e, dict(zip(cs, v, strict=True))) for v in itertools.product((0, 1), repeat=len(cs))]
            x = Int(x.term, min(seen), max(seen))
        return x

    def product(self, a: Int, b: Int) -> Int:
        for x, y in ((a, b), (b, a)):
            if x.constant is not None:
                return y.times(x.constant)
        for x, y in ((a, b), (b, a)):
            if x.is_bit:
                return x.gated(y)
        if self.exact or a.lo < 0 or b.lo < 0 or min(a.hi, b.hi) < M16:
            ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
            w = width(min(ends), max(ends))
            return Int(fit(a.term, w) * fit(b.term, w), min(ends), max(ends))
        first, second = sorted((a, b), key=lambda x: x.term.get_id())
        key = (first.term.get_id(), second.term.get_id())
        if key not in self.products:
            self._kept += [a.term, b.term]
            most = a.hi * b.hi
            x = self.products[key] = Int(z3.ZeroExt(1, variable("product", most.bit_length())), 0, most)
            zero, w = z3.Or(a.equals(0), b.equals(0)), x.term.size()
            self.fact("product", z3.And(
                x.term <= most, zero == x.equals(0), z3.Implies(a.equals(1), x.term == fit(b.term, w)),
                z3.Implies(b.equals(1), x.term == fit(a.term, w)),
                z3.Implies(z3.Not(zero), z3.And(x.term >= fit(a.term, w), x.term >= fit(b.term, w)))))
        return self.products[key]

    def bits(self, name: str, x: Int, n: int) -> Any:
        """x mod p as an unsigned bit-vector; states that it has n bits."""
        if x.constant is not None:
            self.fact(name, z3.BoolVal(x.constant % P < 1 << n))
            return z3.BitVecVal(x.constant % P, n)
        key = (x.term.get_id(), n)
        if key not in self._bits:
            self._kept.append(x.term)
            if x.lo >= 0 and x.hi < 1 << n:
                self._bits[key] = fit(x.term, n) if x.term.size() >= n else z3.ZeroExt(n - x.term.size(), x.term)
            else:
                v = variable("bits", n)
                self.fact(name, vanishes(x - unsigned(v)))
                self._bits[key] = v
        return self._bits[key]

    # ------------------------------------------------------------ what rules state

    def zero(self, e: Expr) -> Any:
        """e = 0 in the field."""
        if e.kind == MUL and e.args[0].id in self.carries:
            n, condition = self.carries[e.args[0].id]
            (a, b), x = (self.sides(v) for v in e.args[0].args), one_of(condition, n)
            left, right = (a, b) if e.args[0].kind == SUB else (a, (b[1], b[0]))
            return self.same(total([left[0], right[1]]), total([left[1], right[0], x]))
        if e.kind == MUL:
            return z3.Or(self.zero(e.args[0]), self.zero(e.args[1]))
        pair = norm(e)
        if pair:
            return z3.And(self.zero(pair[0]), self.zero(pair[1]))
        f = e.affine() if e.degree <= 1 else None
        if f is not None and not self.contains_carry(e):
            sides = [self.affine_sides(f, scale) for scale in (1, 1 << 16, 1 << 32)]
            return self.same(*min(sides, key=lambda x: x[0].hi - x[0].lo + x[1].hi - x[1].lo))
        return self.same(*self.sides(e))

    @staticmethod
    def same(x: Int, y: Int) -> Any:
        """x = y mod p; an equation of two sums is easier for the solver than one with 0."""
        return equal(x, y) if x.lo - y.hi > -P and x.hi - y.lo < P else vanishes(x - y)

    def contains_carry(self, e: Expr) -> bool:
        return bool(self.carries) and (
            e.id in self.carries or (e.kind in (ADD, SUB, MUL) and any(self.contains_carry(x) for x in e.args)))

    def affine_sides(self, f: Affine, scale: int) -> tuple[Int, Int]:
        """Two sums of positive terms whose difference is ``scale`` times an affine form."""
        parts = [(constant(1), centred(scale * f.constant)),
                 *((self.values[c], centred(scale * k)) for c, k in f.terms.items())]
        return tuple(total([x.times(abs(k)) for x, k in parts if k * sign > 0]) for sign in (1, -1))

    def sides(self, e: Expr) -> tuple[Int, Int]:
        """Two numbers whose difference is e: what is subtracted goes to the other side, if that may be more than 0."""
        x = self.evaluate(e)
        if x.lo < 0 and e.kind in (ADD, SUB):
            (a, b), (c, d) = self.sides(e.args[0]), self.sides(e.args[1])
            return (total([a, d]), total([b, c])) if e.kind == SUB else (total([a, c]), total([b, d]))
        return x, constant(0)

    def _message(self, m: Message) -> None:
        """The ranges and relations that a message states, if it is there."""
        before = len(self.facts)
        v = [None if n is None else self._entry(m, f, n) for n, f in zip(m.bits, m.forms, strict=True)]
        rest = {k: self.form(f) for k, f in enumerate(m.forms) if m.bits[k] is None and k not in m.settled}
        wanted: dict[int, Int] = {}
        if m.bus == "MSB":
            wanted = {1: unsigned(z3.Extract(15, 15, v[0]))}
        elif m.bus == "AND":
            wanted = {2: unsigned(v[0] & v[1])}
        for k, x in wanted.items():
            if k in rest:
                self.fact(m.name, vanishes(rest[k] - x))
        if m.bus == "POW" and rest:
            self.fact(m.name, z3.Or([z3.And(v[0] == k, *(vanishes(x - constant(w[i])) for i, x in rest.items()))
                                     for k in range(64) for w in [(k, 1 << (k & 31), k >> 5)]]))
        if m.bus == "KRC":
            rows = {tuple(int(x) for x in line) for line in Krc.fixed_columns().T}
            self.fact(m.name, z3.Or([z3.And([x == n for x, n in zip(v, line, strict=True)]) for line in sorted(rows)]))
        if m.bus == "EXEC":  # the last word below 2^32 is never code
            self.fact(m.name, z3.And(z3.Extract(1, 0, v[0]) == 0, z3.ULT(v[0], M32 - 3)))
        if not m.certain:
            there = self.form(m.multiplicity).equals(0)
            self.facts[before:] = [(n, z3.Or(there, f)) for n, f in self.facts[before:]]

    def _entry(self, m: Message, f: Affine, n: int) -> Any:
        scale = min((1, 1 << 16, 1 << 32), key=lambda s: sum(abs(centred(s * k)) for k in f.terms.values()))
        if scale == 1:
            return self.bits(m.name, self.form(f), n)
        v = variable("bits", n)
        x = self.form(f, scale) - unsigned(v).times(scale)
        self.fact(m.name, vanishes(x))
        return v

    # ------------------------------------------------------------ what the row says

    def said(self, bus: str, sign: int) -> list[Message]:
        """What it receives from (-1) or sends to (+1) a bus, in the order of the rules."""
        return [m for m in self.messages if m.bus == bus and m.sign == sign]

    def entries(self, m: Message) -> list[Int]:
        return [self.form(f) for f in m.forms]

    @property
    def everything(self) -> list[Any]:
        return [f for _, f in self.facts]

    def concrete(self, model: Any) -> dict[str, int]:
        """The columns in a model."""
        def number(x: Int) -> int:
            return model.eval(x.term, model_completion=True).as_signed_long()

        found = {c: number(x) % P for c, x in self.values.items()}
        for c, (_, k, rest) in self.quantified.items():
            slope = number(self.evaluate(k))
            found[c] = -number(self.evaluate(rest)) * pow(slope, -1, P) % P if slope % P else 0
        return {self.lay.columns[c]: v for c, v in found.items()}


class Message:
    """A bus message of a row, with the given columns put in."""

    def __init__(self, row: Row, name: str, i: Interaction) -> None:
        def fold(f: Affine) -> Affine:
            known = sum(k * row.given[c] for c, k in f.terms.items() if c in row.given)
            return Affine(f.constant + known, {c: k for c, k in f.terms.items() if c not in row.given})

        self.name, self.bus = name, i.bus.name
        self.sign = -1 if max(i.multiplicity.terms.values(), default=i.multiplicity.constant) > P // 2 else 1
        self.multiplicity, self.forms = fold(i.multiplicity), [fold(e) for e in i.entries]
        self.certain = not self.multiplicity.terms
        self.count: int | None = centred(self.multiplicity.constant) if self.certain else None
        self.active = name not in row.without
        kinds = LOOKUPS if self.bus in (*RANGE_BUSES, "KRC") else {}
        bits = kinds.get(self.bus) or PROMISES.get((self.bus, self.sign)) or ()
        self.bits = list(bits) if bits and self.active else [None] * len(self.forms)
        self.settled: set[int] = set()
        if not self.active and self.bus in RANGE_BUSES:
            self.count = 0

    def alone(self, f: Affine) -> int | None:
        """The column that this form is."""
        return next(iter(f.terms)) if list(f.terms.values()) == [1] and not f.constant else None

    @property
    def columns(self) -> set[int]:
        return {c for f in (*self.forms, self.multiplicity) for c in f.terms}


def norm(e: Expr) -> tuple[Expr, Expr] | None:
    """(x, y) if e is x x - n y y with n no square mod p: it is 0 only if both are."""
    if e.kind != SUB or any(x.kind != MUL for x in e.args):
        return None
    square, multiple = e.args
    n, other = sorted(multiple.args, key=lambda x: x.kind != CONST)
    if square.args[0] is square.args[1] and n.kind == CONST and other.kind == MUL and other.args[0] is other.args[1] \
            and nonresidue(n.args[0]):
        return square.args[0], other.args[0]
    return None


def plain(e: Expr, values: Mapping[int, int]) -> int:
    """``e`` over the integers."""
    if e.kind == CONST:
        return centred(e.args[0])
    if e.kind == COLUMN:
        return values[e.args[0]]
    a, b = (plain(x, values) for x in e.args)
    return a + b if e.kind == ADD else a - b if e.kind == SUB else a * b
