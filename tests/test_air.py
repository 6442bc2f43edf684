"""Tables: expressions, the linter's rules with passing twins, the trace check, the lowered words."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plain
import pytest
from plain import P, array, ints

from tailbite import air
from tailbite.air import (
    AirError,
    Bus,
    Table,
    bit,
    byte,
    compile_table,
    derived,
    fixed,
    free,
    lint,
    msb16,
    selector,
    sign_of,
    token,
    u15,
    u16,
    word,
)
from tailbite.air.check import Trace, _totals, check, check_buses, tuples
from tailbite.air.expr import Graph

STATE = Bus(1, "STATE", ("a", "b"), state=True)
LOOK = Bus(2, "LOOK", ("x",))
R16, MSB, B2 = Bus(3, "R16", ("v",)), Bus(4, "MSB", ("v", "top")), Bus(5, "B2", ("x", "y"))
AND = Bus(6, "AND", ("x", "y", "x&y"))
BUSES = (STATE, LOOK, R16, MSB, B2, AND)
RANGES = {b.name: b for b in (R16, MSB, B2, AND)}
Rules = Callable[[Any], None]


def table(rules: Rules, constraints: int, name: str = "T", **columns: Any) -> Table:
    """A table of these columns and rules."""
    body = {"name": name, "constraint_count": constraints, "rules": rules, "range_buses": RANGES, **columns}
    return type(name, (Table,), body)()


def linted(make: Callable[[], Table], buses: Sequence[Bus] = BUSES) -> str:
    """What building or linting a table complains of; "" if nothing."""
    try:
        lint([make()], buses)
    except AirError as e:
        return str(e)
    return ""


# ---------------------------------------------------------------- the linter's rules, each with a passing twin


def state_row(multiplicity: Rules, constraints: int = 1, **more: Any) -> Callable[[], Table]:
    """A table that sends on a state bus with this multiplicity."""
    columns = {"on": selector("in use"), "x": token("value"), **more}
    return lambda: table(lambda t: t.send(STATE, (t.x, 2 * t.x + 1), multiplicity(t)), constraints, **columns)


def request(multiplicity: Rules, constraints: int = 1, **more: Any) -> Callable[[], Table]:
    """A table that looks something up with this multiplicity."""
    columns = {"on": selector("in use"), "x": token("value"), **more}
    return lambda: table(lambda t: t.receive(LOOK, (t.x,), multiplicity(t)) or t.send(STATE, (t.x, 0), t.on),
                         constraints, **columns)


def offer(multiplicity: Rules, bus: Bus = LOOK, **more: Any) -> Callable[[], Table]:
    """A lookup table."""
    columns = {"x": fixed("entry"), "m": free("requests"), **more}
    entries = ("x",) * len(bus.fields)
    return lambda: table(lambda t: t.send(bus, tuple(getattr(t, e) for e in entries), multiplicity(t),
                                          lookup_table=True), 0, **columns)


def simple(rules: Rules, constraints: int, **more: Any) -> Callable[[], Table]:
    """A table with a value and a bit, and a message that uses both."""
    def all_rules(t: Any) -> None:
        t.send(STATE, (t.x, 0), t.on)
        rules(t)

    return lambda: table(all_rules, constraints + 1, on=bit("in use"), x=token("value"), **more)


two = {"p": selector("first"), "q": selector("second")}
TWINS: dict[str, tuple[Callable[[], Table], Callable[[], Table], str]] = {
    "R1 constant on a state bus": (
        state_row(lambda t: t.const(1)), state_row(lambda t: t.on), "constant multiplicity on state bus STATE"),
    "R1 constant beside a bit": (
        state_row(lambda t: 1 - t.on), state_row(lambda t: t.on), "constant multiplicity on state bus"),
    "R1 value as multiplicity": (
        state_row(lambda t: t.x), state_row(lambda t: t.on), "multiplicity x on bus STATE is not a bit"),
    "R1 twice a bit": (state_row(lambda t: 2 * t.on), state_row(lambda t: t.on), "is not a sum of bits"),
    "R1 difference of bits": (
        state_row(lambda t: t.p - t.q, 4, **two), state_row(lambda t: t.p + t.q + t.on, 4, **two),
        "is not a sum of bits"),
    "R1 free column on a state bus": (
        state_row(lambda t: t.m, m=free("count")), state_row(lambda t: t.m, 2, m=bit("count")), "is not a bit"),
    "R1 a state bus has no lookup table": (
        offer(lambda t: t.m, STATE), offer(lambda t: t.m), "a state bus .STATE. has no lookup table"),
    "R2 constant other than 1": (
        request(lambda t: t.const(2)), request(lambda t: t.const(1)), "neither 1 nor a sum of bits"),
    "R2 constant beside a bit": (
        request(lambda t: t.on + 1), request(lambda t: t.on), "neither 1 nor a sum of bits"),
    "R2 value as multiplicity": (request(lambda t: t.x), request(lambda t: t.on), "is not a bit"),
    "R2 no multiplicity at all": (request(lambda t: t.const(0)), request(lambda t: t.on), "never there"),
    "R2 only a lookup table sends": (
        lambda: table(lambda t: t.send(LOOK, (t.x,), t.on), 1, on=bit("on"), x=token("value")),
        lambda: table(lambda t: t.receive(LOOK, (t.x,), t.on), 1, on=bit("on"), x=token("value")),
        "only a lookup table may send on bus LOOK"),
    "R2 a lookup table counts with a free column": (
        offer(lambda t: t.x), offer(lambda t: t.m), "one free column as multiplicity"),
    "R2 a lookup table counts with one column": (
        offer(lambda t: t.m + t.k, k=free("more")), offer(lambda t: t.m), "one free column as multiplicity"),
    "R2 a lookup table counts without a constant": (
        offer(lambda t: t.m + 1), offer(lambda t: t.m), "one free column as multiplicity"),
    "R2 a lookup table counts once": (offer(lambda t: 2 * t.m), offer(lambda t: t.m), "one free column"),
    "R3 product in a tuple": (
        simple(lambda t: t.receive(LOOK, (t.x * t.on,), t.on), 0),
        simple(lambda t: t.receive(LOOK, (3 * t.x + t.on - 5,), t.on), 0), "'x' on bus LOOK is not affine"),
    "R3 following row in a tuple": (
        simple(lambda t: t.receive(LOOK, (t.next(t.x),), t.on), 0),
        simple(lambda t: t.receive(LOOK, (t.x,), t.on), 0), "not affine in columns of the row"),
    "R3 row selector in a tuple": (
        simple(lambda t: t.receive(LOOK, (t.first,), t.on), 0),
        simple(lambda t: t.receive(LOOK, (1,), t.on), 0), "not affine"),
    "R3 public word in a tuple": (
        simple(lambda t: t.receive(LOOK, (t.public(0),), t.on), 0),
        simple(lambda t: t.receive(LOOK, (0,), t.on), 0), "not affine"),
    "R3 product as multiplicity": (
        request(lambda t: t.on * t.on), request(lambda t: t.on), "'multiplicity' on bus LOOK is not affine"),
    "R3 tuple of another length": (
        simple(lambda t: t.receive(LOOK, (t.x, 0), t.on), 0), simple(lambda t: t.receive(LOOK, (t.x,), t.on), 0),
        "2 entries on bus LOOK, which has 1"),
    "R4 degree 4": (
        simple(lambda t: t.zero("cube", t.x * t.x * t.x * t.on), 1),
        simple(lambda t: t.zero("cube", t.x * t.x * t.x), 1), r"T\.cube has degree 4, more than 3"),
    "R4 a row selector counts": (
        simple(lambda t: t.zero("start", t.first * t.x * t.x * t.x), 1),
        simple(lambda t: t.zero("start", t.first * t.x * t.x), 1), r"T\.start has degree 4"),
    "R4 the following row counts": (
        simple(lambda t: t.zero("step", t.next(t.x) * t.x * t.x * t.on), 1),
        simple(lambda t: t.zero("step", t.next(t.x) * t.x * t.on), 1), r"T\.step has degree 4"),
    "R5 no bus for a range": (
        lambda: type("T", (Table,), {"name": "T", "constraint_count": 0, "x": u16("limb")})(),
        simple(lambda t: None, 0, y=u16("limb", when="on")), "no bus R16 for the range lookups"),
    "R5 a range lookup that no row makes": (
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=u16("limb")),
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=u16("limb", when="on")), "on bus R16 is 0"),
    "R5 sign of a column without one": (
        simple(lambda t: t.zero("use", t.s - t.y), 1, s=sign_of("y"), y=u16("limb", when="on")),
        simple(lambda t: None, 0, s=sign_of("y"), y=msb16("s", "limb", when="on")), "y is not an msb16 column"),
    "R5 byte that nothing checks": (
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=byte("byte", checked="AND")),
        simple(lambda t: t.look("AND", (1, t.y, 1), "on"), 0, y=byte("byte", checked="AND")),
        r"T\.y: no AND lookup makes it a byte"),
    "R5 byte only as the result of AND": (
        simple(lambda t: t.look("AND", (255, 255, t.y), "on"), 0, y=byte("byte", checked="AND")),
        simple(lambda t: t.look("AND", (t.y, 255, 0), "on"), 0, y=byte("byte", checked="AND")), "no AND lookup"),
    "R5 byte only in a sum": (
        simple(lambda t: t.look("AND", (t.y + t.x, 255, 0), "on"), 0, y=byte("byte", checked="AND")),
        simple(lambda t: t.look("AND", (t.y, t.x, 0), "on"), 0, y=byte("byte", checked="AND")), "no AND lookup"),
    "R5 byte checked by an unknown bus": (
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=byte("byte", checked="XYZ")),
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=byte("byte", when="on")), "no XYZ lookup"),
    "R5 derived from nothing": (
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=derived("")),
        simple(lambda t: t.zero("use", t.y - t.x), 1, y=derived("x")), "nothing says what determines it"),
    "R6 unused column": (
        simple(lambda t: None, 0, y=token("spare")), simple(lambda t: t.zero("use", t.y - t.x), 1, y=token("spare")),
        "no constraint or message uses y"),
    "R6 column times zero": (
        simple(lambda t: t.zero("use", 0 * t.y + t.x), 1, y=token("spare")),
        simple(lambda t: t.zero("use", 2 * t.y + t.x), 1, y=token("spare")), "uses y"),
    "R6 column that cancels": (
        simple(lambda t: t.receive(LOOK, (t.x + t.y - t.y,), t.on), 0, y=token("spare")),
        simple(lambda t: t.receive(LOOK, (t.x + t.y,), t.on), 0, y=token("spare")), "uses y"),
    "R6 tautology": (
        simple(lambda t: t.zero("same", t.x * t.on - t.on * t.x), 1),
        simple(lambda t: t.zero("same", t.x * t.on - t.on), 1), r"T\.same holds or fails whatever"),
    "R6 constraint on no column": (
        simple(lambda t: t.zero("none", t.first - t.last), 1),
        simple(lambda t: t.zero("none", t.first * t.x), 1), r"T\.none holds or fails whatever the trace is"),
    "R6 no message at all": (
        lambda: table(lambda t: t.zero("only", t.x), 1, x=token("value")), simple(lambda t: None, 0), "no bus message"),
    "R7 a constraint too few": (
        simple(lambda t: None, 1), simple(lambda t: t.zero("one", t.x), 1), "declares 2 constraints and registers 1"),
    "R7 a constraint too many": (
        simple(lambda t: t.zero("a", t.x) or t.zero("b", t.x - 1), 1),
        simple(lambda t: t.zero("a", t.x) or t.zero("b", t.x - 1), 2), "declares 2 constraints and registers 3"),
    "R7 a constraint twice": (
        simple(lambda t: t.zero("a", t.x) or t.zero("a", t.on), 2),
        simple(lambda t: t.zero("a", t.x) or t.zero("b", t.on), 2), r"T\.a is declared twice"),
    "R8 unregistered bus": (
        simple(lambda t: t.receive(Bus(9, "OTHER", ("x",)), (t.x,), t.on), 0),
        simple(lambda t: t.receive(LOOK, (t.x,), t.on), 0), "bus OTHER is not registered"),
    "R8 bus of the same id with other fields": (
        simple(lambda t: t.receive(Bus(2, "LOOK", ("x", "y")), (t.x, 0), t.on), 0),
        simple(lambda t: t.receive(Bus(2, "LOOK", ("x",)), (t.x,), t.on), 0), "bus LOOK is not registered"),
    "next of an expression": (
        simple(lambda t: t.zero("n", t.next(t.x + 1)), 1), simple(lambda t: t.zero("n", t.next(t.x) + 1), 1),
        "takes a column"),
    "next of next": (
        simple(lambda t: t.zero("n", t.next(t.next(t.x))), 1), simple(lambda t: t.zero("n", t.next(t.x)), 1),
        "takes a column"),
}


@pytest.mark.parametrize("rule", TWINS)
def test_broken_rule_is_named(rule: str) -> None:
    broken, _, message = TWINS[rule]
    with pytest.raises(AirError, match=message):
        lint([broken()], BUSES)


@pytest.mark.parametrize("rule", TWINS)
def test_its_twin_passes(rule: str) -> None:
    assert linted(TWINS[rule][1]) == ""


def test_the_degree_is_checked_where_it_is_written() -> None:
    with pytest.raises(AirError, match=r"T\.fourth has degree 4"):
        simple(lambda t: t.zero("fourth", t.x * t.x * t.x * t.x), 1)()
    simple(lambda t: t.zero("third", t.x * t.x * t.x), 1)()


def test_the_linter_checks_the_degree_again() -> None:
    """Also for a constraint that did not come through ``zero``."""
    t = simple(lambda t: t.zero("one", t.x), 1)()
    lint([t], BUSES)
    t.layout.constraints[-1] = ("one", t.x * t.x * t.x * t.x)
    with pytest.raises(AirError, match=r"T\.one has degree 4"):
        lint([t], BUSES)


@pytest.mark.parametrize(("buses", "message"), [
    ((*BUSES, Bus(1, "SEVENTH", ())), "share an id"), ((*BUSES, Bus(7, "LOOK", ())), "share an id or a name"),
    ((*BUSES, Bus(0, "ZERO", ())), "begin with 1"), ((*BUSES, Bus(-1, "NEGATIVE", ())), "begin with 1")])
def test_r8_bus_registry(buses: tuple[Bus, ...], message: str) -> None:
    good = simple(lambda t: None, 0)
    assert message in linted(good, buses)
    assert linted(good, (*BUSES, Bus(7, "SEVENTH", ()))) == ""


def test_table_names_and_offers_are_unique() -> None:
    a, b = offer(lambda t: t.m)(), offer(lambda t: t.m)()
    with pytest.raises(AirError, match="two tables are named T"):
        lint([a, b], BUSES)
    b.name = "U"
    with pytest.raises(AirError, match="table T offers bus LOOK already"):
        lint([a, b], BUSES)
    c = simple(lambda t: None, 0)()
    c.name = "U"
    lint([a, c], BUSES)


def test_kinds_emit_their_checks() -> None:
    """No limb without its lookup, no bit without its constraint."""
    t = table(lambda t: t.send(STATE, (t.w.lo, t.w.hi), t.f + t.g), 6, f=selector("f"), g=selector("g"),
              b=bit("bits", 2), c=bit("one"), limb=u16("limbs", 2), half=u15("15 bits"), s=sign_of("m"),
              m=msb16("s", "signed"), bytes=byte("bytes", 3), w=word("word"))
    lint([t], BUSES)
    assert [n for n, _ in t.layout.constraints] == ["f.bit", "g.bit", "b.0.bit", "b.1.bit", "c.bit", "flag.sum"]
    names = t.layout.columns
    shown = [(i.bus.name, [("+".join(names[c] for c in e.terms) or e.constant) for e in i.entries],
              {names[c]: k for c, k in i.multiplicity.terms.items()}) for i in t.layout.interactions[1:]]
    real = {"f": P - 1, "g": P - 1}
    assert shown == [("R16", ["limb.0"], real), ("R16", ["limb.1"], real), ("MSB", ["half", 0], real),
                     ("MSB", ["m", "s"], real), ("B2", ["bytes.0", "bytes.1"], real), ("B2", ["bytes.2", 0], real)]


def test_the_public_names_are_there() -> None:
    assert all(hasattr(air, name) for name in air.__all__)


# ---------------------------------------------------------------- expressions


def test_equal_expressions_are_one_node() -> None:
    g = Graph()
    x, y = g.column(0), g.column(1)
    assert x + y is y + x and x * y is y * x and (x + y) * 2 is 2 * (y + x)
    assert x - y is not y - x
    assert x + 0 is x and x * 1 is x and (x * 0).args == (0,) and (x - x).args == (0,)
    assert (g.const(5) - 7).args == (P - 2,) and (3 - g.const(3)).args == (0,) and (-g.const(1)).args == (P - 1,)
    with pytest.raises(TypeError):
        x + 1.5


def test_degrees() -> None:
    g = Graph()
    x, y = g.column(0), g.column(1, True)
    assert [e.degree for e in (g.const(3), x, y, x + y, x * y, x * y - x, (x * y + 1) * x, 7 * x, -x)] == [
        0, 1, 1, 1, 2, 2, 3, 1, 1]


def test_affine_forms() -> None:
    g = Graph()
    x, y = g.column(3), g.column(1)
    form = (5 - 2 * (x - 3 * y) + x * 2 + y).affine()
    assert form is not None
    assert (form.constant, form.terms) == (5, {1: 7})
    assert form.words() == [5, 1, 1, 7]
    assert (x * y).affine() is None and g.column(0, True).affine() is None


# ---------------------------------------------------------------- checking a trace


class Counter(Table):
    """Counts up, in steps that a lookup allows, from a public word; sends its even values."""

    name = "COUNTER"
    constraint_count = 5
    on = bit("in use")
    x, d = token("count"), token("step")

    def rules(t) -> None:
        t.zero("start", t.first * (t.x - t.public(1)))
        t.zero("step", (1 - t.last) * (t.next(t.x) - t.x - t.d))
        t.zero("end", t.last * t.d)
        t.zero("twice", t.on * (t.d - 2))
        t.send(STATE, (t.x, 2 * t.x + 1), t.on)
        t.receive(LOOK, (t.d,), 1)


class Steps(Table):
    """Offers the steps."""

    name = "STEPS"
    constraint_count = 0
    x, m = fixed("step"), free("requests")

    def rules(t) -> None:
        t.send(LOOK, (t.x,), t.m, lookup_table=True)


class Taker(Table):
    """Receives the pairs."""

    name = "TAKER"
    constraint_count = 2
    on = selector("in use")
    a, b = token("a"), token("b")

    def rules(t) -> None:
        t.zero("pair", t.on * (t.b - 2 * t.a - 1))
        t.receive(STATE, (t.a, t.b), t.on)


PUBLICS = (99, 1000)


def good_traces(n: int = 16) -> list[Trace]:
    """Traces of the three tables that satisfy everything."""
    rng = random.Random(4)
    d = [rng.randrange(4) for _ in range(n - 1)] + [0]
    x = [PUBLICS[1] + sum(d[:i]) for i in range(n)]
    on = [int(k == 2) for k in d]
    pairs = [(v, 2 * v + 1) for v, o in zip(x, on, strict=True) if o]
    rng.shuffle(pairs)
    taken = [(1, a, b) for a, b in pairs] + [(0, 0, 0)] * (n - len(pairs))
    steps = list(range(8))
    return [Trace(Counter(), np.zeros((0, n), np.uint64), np.array([on, x, d], dtype=np.uint64)),
            Trace(Steps(), array(steps).reshape(1, 8), array(d.count(s) for s in steps).reshape(1, 8)),
            Trace(Taker(), np.zeros((0, n), np.uint64), np.array(taken, dtype=np.uint64).T.copy())]


def first_failure(traces: list[Trace], **more: Any) -> Any:
    failures = check(traces, PUBLICS, **more)
    assert failures
    return failures[0]


def test_a_good_trace_passes() -> None:
    lint([t.table for t in good_traces()], BUSES)
    assert check(good_traces(), PUBLICS) == []


def test_a_failing_constraint_is_named_with_row_and_values() -> None:
    traces = good_traces()
    counter = traces[0].main
    row = ints(counter[0]).index(1)
    counter[2][row] = 3
    failure = first_failure(traces)
    assert (failure.table, failure.name, failure.row) == ("COUNTER", "step", row)
    x, following = int(counter[1][row]), int(counter[1][row + 1])
    assert failure.values == {"x": x, "x'": following, "d": 3}
    assert str(failure) == f"COUNTER.step fails in row {row}: x={x:#x}, x'={following:#x}, d=3"
    assert {f.name for f in check(traces, PUBLICS)} >= {"step", "twice"}


@pytest.mark.parametrize(("name", "column", "row", "value"), [
    ("on.bit", 0, 3, 2), ("start", 1, 0, 5), ("end", 2, 15, 1), ("step", 1, 15, 7), ("step", 1, 1, P - 1)])
def test_each_constraint_can_fail(name: str, column: int, row: int, value: int) -> None:
    traces = good_traces()
    assert check(traces, PUBLICS) == []
    traces[0].main[column][row] = value
    assert name in {f.name for f in check(traces, PUBLICS)}


def test_public_words_are_read() -> None:
    failures = check(good_traces(), (99, 1001))
    assert [(f.table, f.name, f.row) for f in failures] == [("COUNTER", "start", 0)]
    assert check(good_traces(), (0, 1000)) == []


def test_the_last_row_is_followed_by_the_first() -> None:
    t = table(lambda t: t.zero("cycle", t.next(t.x) - t.x - 1) or t.receive(LOOK, (t.x,), 1), 1, x=token("x"))
    trace = Trace(t, np.zeros((0, 8), np.uint64), np.arange(8, dtype=np.uint64).reshape(1, 8))
    failures = check([trace])
    assert [(f.name, f.row, f.values) for f in failures if f.name == "cycle"] == [("cycle", 7, {"x": 7, "x'": 0})]


def test_at_most_ten_rows_of_a_constraint_are_reported() -> None:
    traces = good_traces()
    traces[0].main[0][:] = 2
    assert len([f for f in check(traces, PUBLICS) if f.name == "on.bit"]) == 10


def test_unbalanced_tuples_are_named_with_their_rows() -> None:
    traces = good_traces()
    taker = traces[2].main
    taker[1][0] += np.uint64(1)
    taker[2][0] += np.uint64(2)
    failures = [f for f in check(traces, PUBLICS) if "bus" in f.name]
    assert len(failures) == 2
    received = next(f for f in failures if "TAKER row 0 receives" in f.name)
    assert received.values == {"a": int(taker[1][0]), "b": int(taker[2][0])}
    sent = next(f for f in failures if "sends" in f.name)
    assert sent.table == "COUNTER" and f"COUNTER row {sent.row} sends" in sent.name
    assert sent.values["a"] == int(traces[0].main[1][sent.row]) == int(taker[1][0]) - 1


def test_a_wrong_count_of_requests_is_named() -> None:
    traces = good_traces()
    traces[1].main[0][1] += np.uint64(1)
    failures = check(traces, PUBLICS)
    assert [(f.values, f.name.split()[1]) for f in failures] == [({"x": 1}, "LOOK")]
    assert "STEPS row 1 sends" in failures[0].name and "COUNTER row" in failures[0].name


def test_terms_of_the_verifier_count() -> None:
    traces = good_traces()
    row = 0
    a, b = int(traces[2].main[1][row]), int(traces[2].main[2][row])
    traces[2].main[0][row] = 0
    assert "bus STATE" in first_failure(traces).name
    assert check(traces, PUBLICS, [(STATE.id, (a, b), -1)]) == []
    failure = first_failure(traces, terms=[(STATE.id, (a, b + 1), -1)])
    assert "bus STATE" in failure.name
    assert "the verifier" in first_failure(good_traces(), terms=[(STATE.id, (1, 2), 1)]).name


def test_a_term_on_a_bus_that_no_table_uses_is_not_forgotten() -> None:
    failure = first_failure(good_traces(), terms=[(77, (1, 2), 1)])
    assert failure.table == "verifier" and "bus 77" in failure.name
    assert check(good_traces(), PUBLICS, [(77, (1, 2), 0)]) == []


def test_multiplicities_count_modulo_p_and_exactly() -> None:
    """Also for more rows than a float could count."""
    n = 1 << 22
    counts = np.full(n, P - 1, dtype=np.uint64)
    counts[0] = n - 1
    which = np.zeros(n, dtype=np.int64)
    assert _totals(which, counts, 2) == [0, 0]
    counts[0] -= np.uint64(1)
    assert _totals(which, counts, 1) == [P - 1]
    assert _totals(array([0, 1, 0]).astype(np.int64), array([P - 3, 5, 3]), 2) == [0, 5]


def test_the_same_tuple_on_two_buses_does_not_balance() -> None:
    t = table(lambda t: t.send(STATE, (t.x, 0), t.on) or t.receive(Bus(9, "TWIN", ("a", "b"), True), (t.x, 0), t.on),
              1, on=bit("on"), x=token("x"))
    trace = Trace(t, np.zeros((0, 8), np.uint64), np.array([[1] * 8, range(8)], dtype=np.uint64))
    assert {f.name.split()[1] for f in check_buses([trace])} == {"STATE", "TWIN"}


def test_columns_of_another_height_are_refused() -> None:
    trace = Trace(Counter(), np.zeros((0, 4), np.uint64), np.zeros((3, 4), np.uint64))
    with pytest.raises(ValueError, match="multiple of 8"):
        check([trace], PUBLICS)


# ---------------------------------------------------------------- the lowered words


class Everything(Table):
    """Every kind of slot and operation."""

    name = "EVERYTHING"
    fixed_in = "universal"
    required = True
    instances = 1
    min_log, max_log = 5, 9
    constraint_count = 7
    range_buses = RANGES
    f, g = selector("f"), selector("g")
    k, h = fixed("k", 2), fixed("h")
    x = token("x", 3)
    y = u16("y")

    def rules(t) -> None:
        t.zero("mix", t.f * (t.next(t.x[0]) - t.k[1] * 5) + t.last * t.x[1] - t.public(2))
        t.zero("deep", (t.x[0] - t.x[1]) * (t.x[1] + t.next(t.x[2])) * t.h)
        t.zero("constant", 7 - t.x[2] * (P - 3))
        t.zero("plain", t.first * t.k[0] + t.public(0) * t.x[0])
        t.send(STATE, (t.x[0] - 3 * t.k[0], 12), t.f + t.g)
        t.receive(LOOK, (t.x[1] - t.x[2],), t.h)


class Words:
    """A reader of a table's words, from their description."""

    def __init__(self, words: list[int]) -> None:
        self.words, self.at = words, 1
        assert words[0] == len(words) - 1
        self.name = b"".join(w.to_bytes(8, "little") for w in self.take(2)).rstrip(b"\0").decode()
        self.fixed_in, self.required, self.instances, self.min_log, self.max_log, self.fixed, self.main = self.take(7)
        self.following, self.publics, self.constants = self.counted(), self.counted(), self.counted()
        self.ops = self.counted(3)
        self.zeros = self.counted()
        self.messages = [self.message() for _ in range(self.take(1)[0])]
        assert self.at == len(words)

    def take(self, n: int) -> list[int]:
        self.at += n
        return self.words[self.at - n:self.at]

    def counted(self, size: int = 1) -> list[Any]:
        items = self.take(size * self.take(1)[0])
        return items if size == 1 else [tuple(items[k:k + size]) for k in range(0, len(items), size)]

    def affine(self) -> tuple[int, list[tuple[int, int]]]:
        return self.take(1)[0], self.counted(2)

    def message(self) -> tuple[int, Any, list[Any]]:
        bus, multiplicity = self.take(1)[0], self.affine()
        return bus, multiplicity, [self.affine() for _ in range(self.take(1)[0])]

    def constraints(self, here: list[int], following: list[int], first: int, last: int,
                    publics: Sequence[int]) -> list[int]:
        """Values of all constraints on one row."""
        slots = [*here, *(following[c] for c in self.following), first, last, *(publics[i] for i in self.publics),
                 *self.constants]
        for kind, a, b in self.ops:
            x, y = slots[a], slots[b]
            slots.append((x + y, x - y, x * y)[kind] % P)
        return [slots[z] for z in self.zeros]

    def send(self, k: int, here: list[int]) -> tuple[list[int], int]:
        """Entries and multiplicity of message ``k`` on one row."""
        def value(form: tuple[int, list[tuple[int, int]]]) -> int:
            return (form[0] + sum(here[c] * w for c, w in form[1])) % P

        _, multiplicity, entries = self.messages[k]
        return [value(e) for e in entries], value(multiplicity)


def random_trace(t: Table, n: int, seed: int) -> Trace:
    """Random values, zeros often."""
    rng = random.Random(seed)

    def column() -> list[int]:
        return [rng.choice((0, 0, 1, rng.choice(plain.CANONICAL), rng.randrange(P))) for _ in range(n)]

    lay = t.layout
    rows = [np.array([column() for _ in range(k)], dtype=np.uint64).reshape(k, n)
            for k in (lay.fixed_count, lay.main_count)]
    return Trace(t, *rows)


def failing_by_words(words: Words, trace: Trace, publics: Sequence[int]) -> set[tuple[int, int]]:
    """(constraint, row) pairs that do not vanish."""
    rows = [[int(trace.column(c)[i]) for c in range(words.fixed + words.main)] for i in range(trace.height)]
    out = set()
    for i, row in enumerate(rows):
        values = words.constraints(row, rows[(i + 1) % len(rows)], i == 0, i == len(rows) - 1, publics)
        out |= {(k, i) for k, v in enumerate(values) if v}
    return out


@pytest.mark.parametrize("make", [Everything, Counter, Steps, Taker])
def test_words_mean_what_the_check_computes(make: type[Table]) -> None:
    t = make()
    program = compile_table(t)
    words = Words(program.words())
    names = [n for n, _ in t.layout.constraints]
    for seed in range(8):
        trace, publics = random_trace(t, 8, seed), (seed, 0, P - 1)
        want = {(names.index(f.name), f.row) for f in check([trace], publics) if f.name in names}
        assert failing_by_words(words, trace, publics) == want
        for k, i in enumerate(t.layout.interactions):
            entries, counts = tuples(trace, i)
            for row in range(8):
                here = [int(trace.column(c)[row]) for c in range(len(t.layout.columns))]
                assert words.send(k, here) == (ints(entries[row]), int(counts[row]))


def test_values_of_constraints_agree_and_not_only_their_zeros() -> None:
    """Add an unknown column to each constraint: it vanishes exactly where the words give its value."""
    base = Words(compile_table(Everything()).words())
    trace = random_trace(Everything(), 8, 3)
    rows = [[int(trace.column(c)[i]) for c in range(base.fixed + base.main)] for i in range(8)]
    values = [base.constraints(rows[i], rows[(i + 1) % 8], i == 0, i == 7, (1, 2, 3)) for i in range(8)]

    class Shifted(Everything):
        v = token("value of 'deep'")

        def zero(t, name: str, e: Any) -> None:
            super().zero(name, e - t.v if name == "deep" else e)

    at = [n for n, _ in Everything().layout.constraints].index("deep")
    column = array(v[at] for v in values)
    shifted = Trace(Shifted(), trace.fixed, np.vstack([trace.main, column]))
    assert any(v[at] for v in values)
    assert "deep" not in {f.name for f in check([shifted], (1, 2, 3))}


def test_words_round_trip() -> None:
    p = compile_table(Everything())
    w = Words(p.words())
    assert (w.name, w.fixed_in, w.required, w.instances, w.min_log, w.max_log) == ("EVERYTHING", 1, 1, 1, 5, 9)
    assert (w.fixed, w.main) == (p.fixed_count, p.main_count) == (3, 6)
    assert tuple(w.following) == p.following and tuple(w.publics) == p.publics == (0, 2)
    assert tuple(w.constants) == p.constants and tuple(w.ops) == p.ops and tuple(w.zeros) == p.zeros
    assert [m[0] for m in w.messages] == [i.bus.id for i in p.interactions]
    assert p.slot_count == p.first_op + len(p.ops)
    assert all(a < p.first_op + k and b < p.first_op + k for k, (_, a, b) in enumerate(p.ops))
    assert p.uses_selectors and not compile_table(Taker()).uses_selectors
    assert (p.pairs, p.constraint_count) == (2, 9)


def test_words_are_deterministic_and_canonical() -> None:
    assert compile_table(Everything()).words() == compile_table(Everything()).words()
    assert all(0 <= w < P for w in compile_table(Everything()).words()[3:])


def test_every_rule_is_in_the_words() -> None:
    """A change without a change of shape: another constant, sign, column, bus, or multiplicity."""
    def words(constant: int = 5, column: int = 0, bus: Bus = STATE, sign: int = 1, rank: int = 1) -> tuple[int, ...]:
        def rules(t: Any) -> None:
            t.zero("a", t.x[column] - constant)
            t.zero("b", t.x[0] * t.x[1] - t.x[2])
            (t.send if sign > 0 else t.receive)(bus, (t.x[2], rank * t.x[0]), t.on)

        return tuple(compile_table(table(rules, 3, on=bit("on"), x=token("x", 3))).words())

    variants = [words(), words(constant=6), words(column=1), words(bus=B2), words(sign=-1), words(rank=2)]
    assert len(set(variants)) == len(variants) and len({len(v) for v in variants}) == 1
    assert words() == words()


def test_names_are_in_the_identity() -> None:
    p = compile_table(Everything())
    assert b"mix" in p.names() and b"x.2" in p.names() and b"STATE(a,b)" in p.names()


@pytest.mark.parametrize(("name", "fits"), [("A" * 16, True), ("A" * 17, False), ("", True)])
def test_names_take_sixteen_bytes(name: str, fits: bool) -> None:
    program = compile_table(table(lambda t: t.send(STATE, (t.x, 0), t.on), 1, name, on=bit("on"), x=token("x")))
    if fits:
        assert Words(program.words()).name == name
    else:
        with pytest.raises(ValueError, match="longer than 16 bytes"):
            program.words()


def test_common_parts_are_computed_once() -> None:
    t = table(lambda t: t.zero("a", (t.x + t.on) * t.x) or t.zero("b", (t.on + t.x) * (t.x + t.on) - 1)
              or t.send(STATE, (t.x, 0), t.on), 3, on=bit("on"), x=token("x"))
    ops = compile_table(t).ops
    assert len(ops) == len(set(ops))
    for a, b in itertools.combinations(compile_table(t).zeros, 2):
        assert a != b
