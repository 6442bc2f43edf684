"""How a table is written: one class with typed columns, rules and bus messages.

    class Double(Table):
        name = "DOUBLE"
        on = bit("is this row in use?")
        x = u16("the number")
        y = derived("2 x")

        def rules(t):
            t.zero("double", t.y - 2 * t.x)
            t.send(PAIR, (t.x, t.y), t.on)

A column's kind says why its value needs no other check, and emits the check where one is needed: a bit its
constraint, a u16 or byte its lookup. There is no way to declare a limb and forget its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import TailbiteError
from .expr import FIRST, LAST, PUBLIC, Affine, Expr, Graph

MAX_DEGREE = 3


class AirError(TailbiteError):
    """A table breaks a rule of the framework; the text names table, column or constraint."""


class Bus(NamedTuple):
    """A bus of the LogUp argument. ``fields`` names the entries of its tuples.

    On a *state* bus every message is sent once and received once; a *lookup* bus has one table that offers
    tuples and many requests.
    """

    id: int
    name: str
    fields: tuple[str, ...]
    state: bool = False


class Word(NamedTuple):
    """A 64-bit value as two 32-bit limbs."""

    lo: Any
    hi: Any


class Column:
    """A declaration of one or more columns; see the functions below for the kinds."""

    def __init__(self, kind: str, doc: str, count: int = 1, shape: str = "one", **extra: Any) -> None:
        self.kind, self.doc, self.count, self.shape, self.extra = kind, doc, count, shape, extra
        self.name = ""
        self.index = -1

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def labels(self) -> list[str]:
        if self.shape == "one":
            return [self.name]
        return [f"{self.name}.{s}" for s in (("lo", "hi") if self.shape == "word" else range(self.count))]


def bit(doc: str = "", count: int = 1) -> Any:
    """0 or 1: emits x (x - 1) = 0."""
    return Column("bit", doc, count, "one" if count == 1 else "list")


def selector(doc: str = "", op: int = 0) -> Any:
    """A bit that switches the row on; at most one selector of a row is set (their sum, ``real``, is a bit)."""
    return Column("selector", doc, op=op)


def u16(doc: str = "", count: int = 1, when: str = "real") -> Any:
    """16-bit limbs: emits one R16 lookup each, with multiplicity ``when`` ("real", "one" or a column's name)."""
    return Column("u16", doc, count, "one" if count == 1 else "list", when=when)


def msb16(sign: str, doc: str = "", when: str = "real") -> Any:
    """A 16-bit limb whose top bit is the column named ``sign``: emits one MSB lookup for both."""
    return Column("msb16", doc, when=when, sign=sign)


def u15(doc: str = "", count: int = 1, when: str = "real") -> Any:
    """16-bit limbs whose top bit is 0: emits one MSB lookup each."""
    return Column("u15", doc, count, "one" if count == 1 else "list", when=when)


def sign_of(limb: str, doc: str = "") -> Any:
    """The top bit of the msb16 column named ``limb``, whose lookup makes it a bit."""
    return Column("sign", doc, limb=limb)


def byte(doc: str = "", count: int = 1, when: str = "real", checked: str = "B2") -> Any:
    """Bytes. ``checked`` "B2" emits lookups in pairs (an odd one out is paired with 0); "AND" says that the
    rules send each through an AND lookup."""
    return Column("byte", doc, count, "one" if count == 1 else "list", when=when, checked=checked)


def token(doc: str = "", count: int = 1) -> Any:
    """A value received from a state bus or looked up whole, which therefore is one that was sent."""
    return Column("token", doc, count, "one" if count == 1 else "list")


def word(doc: str = "") -> Any:
    """Two 32-bit limbs received from a state bus (invariant V: only range-checked values are ever sent)."""
    return Column("token", doc, 2, "word")


def rom(doc: str = "") -> Any:
    """An entry of the ROM tuple, which is preprocessed."""
    return Column("rom", doc)


def rom_word(doc: str = "") -> Any:
    """Two limbs from the ROM tuple."""
    return Column("rom", doc, 2, "word")


def derived(doc: str, count: int = 1) -> Any:
    """A value that an equation or lookup of this table determines; ``doc`` names it."""
    return Column("derived", doc, count, "one" if count == 1 else "list")


def derived_word(doc: str) -> Any:
    """Two limbs that equations of this table determine."""
    return Column("derived", doc, 2, "word")


def free(doc: str, count: int = 1) -> Any:
    """An unconstrained field element: the multiplicity of a lookup table's row."""
    return Column("free", doc, count, "one" if count == 1 else "list")


def fixed(doc: str = "", count: int = 1) -> Any:
    """A preprocessed column."""
    return Column("fixed", doc, count, "one" if count == 1 else "list")


@dataclass(frozen=True)
class Interaction:
    """One bus message of a row: ``multiplicity`` is negative for what is received."""

    bus: Bus
    entries: tuple[Affine, ...]
    multiplicity: Affine
    lookup_table: bool = False

    def words(self) -> list[int]:
        out = [self.bus.id, *self.multiplicity.words(), len(self.entries)]
        for e in self.entries:
            out += e.words()
        return out


@dataclass
class Layout:
    """What the rules of a table say, once built."""

    graph: Graph
    columns: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    fixed_count: int = 0
    constraints: list[tuple[str, Expr]] = field(default_factory=list)
    interactions: list[Interaction] = field(default_factory=list)

    @property
    def main_count(self) -> int:
        return len(self.columns) - self.fixed_count


class TableMeta(type):
    """Collects the declared columns in order, preprocessed ones first."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        declared = [c for base in reversed(cls.__mro__) for c in vars(base).values() if isinstance(c, Column)]
        cls.declared = ([c for c in declared if c.kind == "fixed"]
                        + [c for c in declared if c.kind != "fixed"])


class Table(metaclass=TableMeta):
    """Base of all tables. Inside ``rules`` each column is an expression, a Word, or a list of expressions."""

    name = ""
    #: where preprocessed columns are committed: "" (none), "universal" or "program"
    fixed_in = ""
    #: must the table be present in every proof? (one with preprocessed rows of a program: iff it has rows)
    required = False
    #: how many instances of different heights a proof may hold (1 to 3)
    instances = 1
    min_log, max_log = 5, 26
    #: number of constraints that ``rules`` registers, bits and selector sums included; checked by the linter
    constraint_count = -1
    #: buses of the range lookups that column kinds emit; a machine sets them
    range_buses: dict[str, Bus] = {}
    declared: list[Column]

    def __init__(self) -> None:
        self.layout = Layout(Graph())
        self._selectors: list[Expr] = []
        self._names: set[str] = set()
        self._place_columns()
        self._bit_rules()
        self.rules()
        self._range_lookups()

    # ------------------------------------------------------------ columns

    def _place_columns(self) -> None:
        g, lay = self.layout.graph, self.layout
        for c in self.declared:
            exprs = []
            for label in c.labels():
                exprs.append(g.column(len(lay.columns)))
                lay.columns.append(label)
                lay.kinds.append(c.kind)
                lay.fixed_count += c.kind == "fixed"
            value: Any = exprs[0] if c.shape == "one" else Word(*exprs) if c.shape == "word" else exprs
            setattr(self, c.name, value)
            if c.kind == "selector":
                self._selectors.append(exprs[0])

    @property
    def real(self) -> Expr:
        """1 on rows in use: the sum of the selectors."""
        total = self.layout.graph.const(0)
        for s in self._selectors:
            total = total + s
        return total

    def _bit_rules(self) -> None:
        for c in self.declared:
            if c.kind in ("bit", "selector"):
                value = getattr(self, c.name)
                for label, e in zip(c.labels(), value if isinstance(value, list) else [value], strict=True):
                    self.zero(f"{label}.bit", e * (e - 1))
        if len(self._selectors) > 1:
            self.zero("flag.sum", self.real * (self.real - 1))

    def _range_lookups(self) -> None:
        for c in self.declared:
            value = getattr(self, c.name)
            items = value if isinstance(value, list) else [value]
            if c.kind == "u16":
                for e in items:
                    self.look("R16", (e,), c.extra["when"])
            elif c.kind == "u15":
                for e in items:
                    self.look("MSB", (e, self.const(0)), c.extra["when"])
            elif c.kind == "msb16":
                self.look("MSB", (value, getattr(self, c.extra["sign"])), c.extra["when"])
            elif c.kind == "byte" and c.extra["checked"] == "B2":
                padded = items + [self.const(0)] * (len(items) % 2)
                for x, y in zip(padded[::2], padded[1::2], strict=True):
                    self.look("B2", (x, y), c.extra["when"])

    def look(self, bus: str, entries: tuple[Any, ...], when: Any = "real") -> None:
        """Range lookup on the bus named ``bus``; ``when`` is its multiplicity (expression, "real", "one", column)."""
        if bus not in self.range_buses:
            raise AirError(f"{self.name}: no bus {bus} for the range lookups of its columns")
        if isinstance(when, str):
            when = self.real if when == "real" else self.const(1) if when == "one" else getattr(self, when)
        self.receive(self.range_buses[bus], entries, when)

    # ------------------------------------------------------------ what rules say

    def rules(self) -> None:
        """Register constraints and messages. Overridden by each table."""

    def const(self, x: int) -> Expr:
        return self.layout.graph.const(x)

    @property
    def first(self) -> Expr:
        """1 in row 0, else 0 (evaluated by the verifier, not committed)."""
        return self.layout.graph.node(FIRST, degree=1)

    @property
    def last(self) -> Expr:
        """1 in the last row, else 0."""
        return self.layout.graph.node(LAST, degree=1)

    def public(self, i: int) -> Expr:
        """Word ``i`` of the public output."""
        return self.layout.graph.node(PUBLIC, i)

    def next(self, e: Expr) -> Expr:
        """The column ``e`` in the following row; the last row is followed by row 0."""
        if e.kind != 1 or e.args[1]:
            raise AirError(f"{self.name}: next() takes a column")
        return self.layout.graph.column(e.args[0], True)

    def zero(self, name: str, e: Expr) -> None:
        """Constraint: ``e`` = 0 on every row."""
        if e.degree > MAX_DEGREE:
            raise AirError(f"{self.name}.{name} has degree {e.degree}, more than {MAX_DEGREE}")
        if name in self._names:
            raise AirError(f"{self.name}.{name} is declared twice")
        self._names.add(name)
        self.layout.constraints.append((name, e))

    def send(self, bus: Bus, entries: Sequence[Any], multiplicity: Any, lookup_table: bool = False) -> None:
        """Put a tuple on a bus ``multiplicity`` times."""
        self._interact(bus, entries, multiplicity, 1, lookup_table)

    def receive(self, bus: Bus, entries: Sequence[Any], multiplicity: Any) -> None:
        """Take a tuple from a bus ``multiplicity`` times."""
        self._interact(bus, entries, multiplicity, -1, False)

    def _interact(self, bus: Bus, entries: Sequence[Any], multiplicity: Any, sign: int, offers: bool) -> None:
        if len(entries) != len(bus.fields):
            raise AirError(f"{self.name}: {len(entries)} entries on bus {bus.name}, which has {len(bus.fields)}")
        forms = []
        for label, e in [*zip(bus.fields, entries, strict=True), ("multiplicity", multiplicity)]:
            form = (e if isinstance(e, Expr) else self.const(e)).affine()
            if form is None:
                raise AirError(f"{self.name}: '{label}' on bus {bus.name} is not affine in columns of the row")
            forms.append(form)
        m = forms.pop().times(sign)
        self.layout.interactions.append(Interaction(bus, tuple(forms), m, offers))

    # ------------------------------------------------------------ witness

    def column_index(self, label: str) -> int:
        return self.layout.columns.index(label)


Rule = Callable[[Any], None]
