"""Rules that every table must keep; breaking one is a build error, not a review comment."""

from __future__ import annotations

from collections.abc import Iterable

from .table import MAX_DEGREE, AirError, Bus, Column, Table

_BITS = {"bit", "selector", "fixed"}


def lint(tables: Iterable[Table], buses: Iterable[Bus]) -> None:
    """Check rules R1 to R8 on a machine's tables; raises :class:`AirError` naming table and place."""
    known = list(buses)
    if len({b.id for b in known}) != len(known) or len({b.name for b in known}) != len(known):
        raise AirError("two buses share an id or a name")
    if any(b.id < 1 for b in known):
        raise AirError("bus ids begin with 1")
    names: set[str] = set()
    offers: dict[Bus, str] = {}
    for t in tables:
        if t.name in names:
            raise AirError(f"two tables are named {t.name}")
        names.add(t.name)
        _lint_table(t, known)
        for bus in {i.bus for i in t.layout.interactions if i.lookup_table}:
            if bus in offers:
                raise AirError(f"{t.name}: table {offers[bus]} offers bus {bus.name} already")
            offers[bus] = t.name


def _lint_table(t: Table, buses: list[Bus]) -> None:
    lay = t.layout
    used: set[int] = set()
    for name, e in lay.constraints:
        if e.degree > MAX_DEGREE:
            raise AirError(f"{t.name}.{name} has degree {e.degree}, more than {MAX_DEGREE}")
        if not e.columns():
            raise AirError(f"{t.name}.{name} holds or fails whatever the trace is")
        used |= {c for c, _ in e.columns()}
    for i in lay.interactions:
        if i.bus not in buses:
            raise AirError(f"{t.name}: bus {i.bus.name} is not registered")
        for form in (*i.entries, i.multiplicity):
            used |= set(form.terms)
        _lint_multiplicity(t, i.bus, i.multiplicity.constant, i.multiplicity.terms, i.lookup_table)
    for c in t.declared:
        _lint_column(t, c)
    unused = [lay.columns[c] for c in range(len(lay.columns)) if c not in used]
    if unused:
        raise AirError(f"{t.name}: no constraint or message uses {', '.join(unused)}")
    if not lay.interactions and t.range_buses:
        raise AirError(f"{t.name} has no bus message: nothing ties it to the rest")
    if t.constraint_count != len(lay.constraints):
        raise AirError(f"{t.name} declares {t.constraint_count} constraints and registers {len(lay.constraints)}")


def _lint_column(t: Table, c: Column) -> None:
    """R5: what a column's kind leaves to another column, or to the rules, is there."""
    if c.kind in ("derived", "free") and not c.doc:
        raise AirError(f"{t.name}.{c.name}: nothing says what determines it")
    if c.kind == "sign" and not any(d.name == c.extra["limb"] and d.extra.get("sign") == c.name for d in t.declared):
        raise AirError(f"{t.name}.{c.name}: {c.extra['limb']} is not an msb16 column with that sign")
    if c.kind == "byte" and c.extra["checked"] != "B2":
        bus = c.extra["checked"]
        for label in c.labels():
            alone = ((t.column_index(label), 1),)
            if bus != "AND" or not any(tuple(e.terms.items()) == alone and not e.constant
                                       for i in t.layout.interactions if i.bus.name == bus for e in i.entries[:2]):
                raise AirError(f"{t.name}.{label}: no {bus} lookup makes it a byte")


def _lint_multiplicity(t: Table, bus: Bus, constant: int, terms: dict[int, int], offers: bool) -> None:
    """R1, R2: what may stand as a multiplicity."""
    from ..field import P

    lay = t.layout
    if offers:
        if bus.state:
            raise AirError(f"{t.name}: a state bus ({bus.name}) has no lookup table")
        if constant or list(terms.values()) != [1] or lay.kinds[next(iter(terms))] != "free":
            raise AirError(f"{t.name}: a lookup table offers bus {bus.name} with one free column as multiplicity")
        return
    if not constant and not terms:
        raise AirError(f"{t.name}: the multiplicity on bus {bus.name} is 0, so the message is never there")
    signs = {P - 1 if v > P // 2 else 1 for v in terms.values()}
    if any(v not in (1, P - 1) for v in terms.values()) or len(signs) > 1:
        raise AirError(f"{t.name}: the multiplicity on bus {bus.name} is not a sum of bits")
    for c in terms:
        if lay.kinds[c] not in _BITS:
            raise AirError(f"{t.name}: multiplicity {lay.columns[c]} on bus {bus.name} is not a bit")
    if constant:
        if bus.state:
            raise AirError(f"{t.name}: a constant multiplicity on state bus {bus.name}: padding rows would send")
        if terms or constant not in (1, P - 1):
            raise AirError(f"{t.name}: the multiplicity on bus {bus.name} is neither 1 nor a sum of bits")
    if not bus.state and (signs == {1} or constant == 1):
        raise AirError(f"{t.name}: only a lookup table may send on bus {bus.name}")
