"""Kinds of mistakes 28-32: the argument that what is sent on a bus is received."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from airs import LOOP, Given, Sink, Source, Squares, squares_columns
from cases import SHAPES, Case, Made, column_words, make, permutation_case, proof, refusal, squares_case, word
from tamper import Recorded
from test_attacks_machine import CALLS
from test_chips import DEFINED
from test_system import Idle

from tailbite.air import Bus, Table, selector, token
from tailbite.air.lint import lint
from tailbite.air.program import compile_table
from tailbite.air.table import AirError, Interaction
from tailbite.channel import CHALLENGE, Label
from tailbite.field import P
from tailbite.stark import prove as prover
from tailbite.stark import prove_logup
from tailbite.stark.system import System
from tailbite.vm.buses import BUSES
from tailbite.vm.machine import TABLES, machine

LONG = Bus(7, "LONG", ("value", "zero"), state=True)


# ---------------------------------------------------------------- 28: p messages


def test_28_a_proof_has_far_fewer_than_p_messages() -> None:
    """All tables at their greatest height stay below the verifier's bound, so it refuses no honest proof; a key beyond
    it is refused in stark/test_dishonest.py. On state buses each message counts 1 or -1."""
    system = machine()
    most = sum(len(p.interactions) * p.instances << p.max_log for p in system.programs)
    assert most < 1 << 60 < P
    for t in system.tables:
        for i in t.layout.interactions:
            kinds = {t.layout.kinds[c] for c in i.multiplicity.terms}
            assert kinds <= {"bit", "selector", "fixed"} or (i.lookup_table and kinds == {"free"})
            assert set(i.multiplicity.terms.values()) in ({1}, {P - 1}, set())


def test_28_counts_that_are_too_large_by_p_or_by_one() -> None:
    """The count of a lookup table's row is a field element: p more is the same, any other is refused."""
    for delta, fine in ((0, True), (P, True), (1, False), (-1, False), (1 << 32, False)):
        w = CALLS.honest().copy()
        counts = w["LUT"]["m_r16"]
        counts[77] = (int(counts[77]) + delta) % P
        assert (w.reasons() == set()) == fine
    assert w.verdict() == "balance"


# ---------------------------------------------------------------- 29: messages that look alike


def test_29_buses_have_ids_of_their_own() -> None:
    assert len({b.id for b in BUSES}) == len(BUSES) and all(b.id > 0 for b in BUSES)
    lint([], BUSES)
    for one, other in itertools.permutations(BUSES, 2):
        with pytest.raises(AirError, match="share an id"):
            lint([], [b._replace(id=other.id) if b is one else b for b in BUSES])


def receiver(bus: Bus, *entries: int) -> type[Table]:
    """Takes values from a bus, with constants after each."""
    def rules(t: Any) -> None:
        t.receive(bus, (t.x, *entries), t.on)

    return type("Receiver", (Table,), {"name": "SINK", "constraint_count": 1, "on": selector("in use"),
                                       "x": token("value"), "rules": rules})


@pytest.mark.parametrize(("bus", "entries", "expected"), [
    (LOOP, (), ""), (LONG, (0,), "balance"), (LONG, (LOOP.id,), "balance"),
    (LOOP._replace(id=8, name="OTHER"), (), "balance")])
def test_29_message_on_another_bus(bus: Bus, entries: tuple[int, ...], expected: str) -> None:
    """(a) is not (a, 0) elsewhere, nor (a) elsewhere."""
    system = System("two buses", [Source(), receiver(bus, *entries)()], list({LOOP, bus}))
    columns = np.zeros((2, 32), np.uint64)
    columns[0, :5], columns[1, :5] = 1, (3, 1, 4, 1, 5)
    assert make(Case(system, b"", {0: columns, 1: columns.copy()})).refusal() == expected


def test_29_tuples_of_a_bus_have_one_length() -> None:
    for bus, entries in ((LOOP, (0,)), (LONG, ()), (LONG, (0, 0))):
        with pytest.raises(AirError, match=f"entries on bus {bus.name}"):
            receiver(bus, *entries)()
    for bus, entries in ((LOOP, ()), (LONG, (0,))):
        lint([receiver(bus, *entries)()], [LOOP, LONG])


def test_29_requests_of_two_lookups_do_not_mix() -> None:
    """5 on R16 and (5, 0) on B2 are offered by the same row."""
    w = CALLS.honest().copy()
    w["LUT"]["m_r16"][5] += np.uint64(1)
    w["LUT"]["m_b2"][5] = (int(w["LUT"]["m_b2"][5]) - 1) % P
    assert w.reasons() == {"R16", "B2"} and w.verdict() == "balance"
    assert CALLS.honest().reasons() == set()


# ---------------------------------------------------------------- 30: sums of tables


def with_idle() -> Case:
    """A permutation beside a table that talks to nobody."""
    case = permutation_case(5, [5], 20)
    system = System("with idle", [Idle(), Source(), Sink()], [LOOP])
    return Case(system, b"", {0: np.full((1, 32), 5, np.uint64), 1: case.witness[0], 2: case.witness[1]})


def test_30_silent_tables_have_no_sum(monkeypatch: Any) -> None:
    """Two tables talk, so two sums are read; a third one, for the silent table, is read as something else."""
    case = with_idle()
    made = make(case)
    (sums,) = [e for e in Recorded(made.words, made.events).entries() if e.label == Label.SIGMA]
    assert made.refusal() == "" and sums.size == 3 * 2
    message = prover.Writer.message

    def longer(self: Any, label: Label, words: Any) -> None:
        message(self, label, [1, 0, 0, *words] if label == Label.SIGMA else words)

    monkeypatch.setattr(prover.Writer, "message", longer)
    assert make(case).refusal() != ""


def test_30_a_sum_decides_all_later_challenges(monkeypatch: Any) -> None:
    case, honest_fill = with_idle(), prove_logup.fill
    honest = make(case)
    for victim, coordinate in itertools.product(("SOURCE", "SINK"), range(3)):
        def lying(job: Any, t: Any, alpha: Any, beta: Any, victim: str = victim, k: int = coordinate) -> None:
            honest_fill(job, t, alpha, beta)
            if t.program.name == victim:
                t.sigma = (*t.sigma[:k], (t.sigma[k] + 1) % P, *t.sigma[k + 1:])

        monkeypatch.setattr(prove_logup, "fill", lying)
        other = make(case)
        assert other.refusal() == "balance"
        before, after = split_challenges(honest), split_challenges(other)
        assert before[0] == after[0]
        assert after[1] and not {x for x in before[1] if x[1] > 1 << 16} & set(after[1])


def split_challenges(made: Made) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(label, value) of the challenges before and after the sums."""
    at = next(k for k, e in enumerate(made.events) if e[0] == Label.SIGMA)
    drawn = [(k, (label, value)) for k, (label, kind, _, value) in enumerate(made.events) if kind == CHALLENGE]
    return [x for k, x in drawn if k < at], [x for k, x in drawn if k > at]


# ---------------------------------------------------------------- 31: what the verifier knows of messages


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_31_every_message_is_in_the_key(table: Any) -> None:
    """Another bus, sign, count or entry, or a message more or fewer, gives other words, of which vm_id is the hash."""
    p = compile_table(table())
    messages, words = list(p.interactions), p.words()
    honest = words_of(messages)
    assert words[-len(honest) - 1:] == [len(messages), *honest]
    for k, i in enumerate(messages):
        other_bus = next(b for b in BUSES if b.id != i.bus.id)
        for new in (dataclasses.replace(i, bus=other_bus),
                    dataclasses.replace(i, multiplicity=i.multiplicity.times(P - 1)),
                    dataclasses.replace(i, multiplicity=i.multiplicity.plus(i.multiplicity)),
                    *(dataclasses.replace(i, entries=(*i.entries[:n], e.plus(i.multiplicity), *i.entries[n + 1:]))
                      for n, e in enumerate(i.entries))):
            assert words_of([*messages[:k], new, *messages[k + 1:]]) != honest
        assert len(words_of(messages[:k] + messages[k + 1:])) < len(honest)


def words_of(messages: list[Interaction]) -> list[int]:
    return [w for i in messages for w in i.words()]


class Deaf(Sink):
    """Its second values come from nowhere."""

    constraint_count = 3

    def rules(t) -> None:
        t.receive(LOOP, (t.x,), t.on)
        t.zero("any", t.two * (1 - t.two) * t.y)


def test_31_messages_are_not_the_provers_choice() -> None:
    """A proof under tables that leave a message out is none under the right ones, whatever id it is checked with."""
    case = permutation_case(5, [5], 20)
    sent, got = case.witness[0].copy(), case.witness[1]
    firsts = got[2, got[0] == 1]
    sent[:] = 0
    sent[0, :len(firsts)], sent[1, :len(firsts)] = 1, firsts
    false = {0: sent, 1: got}  # second values are in use that nobody sent
    assert got[1].any()
    honest, evil = make(case), make(Case(System("permutation", [Source(), Deaf()], [LOOP]), b"", false))
    assert honest.refusal() == "" and evil.refusal() == ""
    assert make(case._replace(witness=false)).refusal() == "balance"
    assert evil.keyed.vm_id != honest.keyed.vm_id and evil.program_id != honest.program_id
    for program_id in (honest.program_id, evil.program_id):
        assert refusal(honest.keyed, program_id, evil.words) != ""


# ---------------------------------------------------------------- 32: zeros, and siblings


def test_32_zeros_are_offered_only_where_they_are_true() -> None:
    """POW and KRC have no row of zeros, their padding included; of ROM see test_13."""
    zeros = {name: tuple([0] * len(next(b for b in BUSES if b.name == name).fields)) for name in DEFINED}
    assert {name for name in DEFINED if zeros[name] in DEFINED[name]()} == {"AND", "B2", "R16", "MSB"}
    for t in machine().tables:
        for i in (i for i in t.layout.interactions if i.lookup_table and i.bus.name in DEFINED):
            row = t.row_of(i.bus, [np.zeros(1, np.uint64)] * len(i.bus.fields))
            assert (row[0] >= 0) == (zeros[i.bus.name] in DEFINED[i.bus.name]()), i.bus.name


@pytest.mark.parametrize("asked", [0, 1])
def test_32_lookup_of_zeros(asked: int) -> None:
    """(0, 0) in a table of squares from 1 to 64: refused; the twin asks for (1, 1)."""
    n = np.arange(1, 65, dtype=np.uint64)
    system = System("squares from 1", [Squares(), Given()], [Squares().layout.interactions[0].bus],
                    universal={"SQUARES": np.stack([n, n * n])})
    xs = np.array([asked, *range(2, 33)], np.uint64)
    requests = np.zeros(64, np.uint64)
    requests[[int(x) - 1 for x in xs if x]] = 1
    total = np.cumsum(xs * xs)
    case = Case(system, word(int(total[-1])), {0: requests[None, :], 1: column_words(xs * xs, total)},
                {1: column_words(xs, np.ones(32, np.uint64))})
    assert make(case).refusal() == ("" if asked else "balance")
    assert squares_columns()[0, 0] == 0 and make(squares_case(5)).refusal() == ""


@pytest.mark.parametrize("shape", ["squares 6", "permutation 9 7 6"])
def test_32_swapped_siblings(shape: str) -> None:
    """In the proof: any digest of a Merkle path exchanged with the next one, unless the two are equal."""
    made = proof(shape)
    assert shape in SHAPES and made.refusal() == ""
    swaps = 0
    for e in Recorded(made.words, made.events).entries():
        if e.label == Label.SIBLINGS:
            for k in range(e.start, e.start + e.size - 4, 4):
                one, two = made.words[k:k + 4].copy(), made.words[k + 4:k + 8].copy()
                if not np.array_equal(one, two):
                    words = made.words.copy()
                    words[k:k + 4], words[k + 4:k + 8] = two, one
                    assert made.refusal(words) == "opening"
                    swaps += 1
    assert swaps > 5
