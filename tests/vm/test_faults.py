"""Faults in witnesses are refused, or explained; a small sample of what ``run_faults.py`` does at length."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from fault_check import Difference, slot_of
from faults import (
    FREE,
    OTHER_WITNESSES,
    Fault,
    Maker,
    NoFault,
    case_of,
    cell_fault,
    draw,
    explain,
    halt_fault,
    input_of,
    instruction_fault,
    is_true,
    judge,
    keccak_fault,
    output_fault,
    repaired_fault,
    state_fault,
    tables,
    world_fault,
)

from tailbite.vm.executor import execute
from tailbite.vm.ops import Op

KINDS = ("plain", "input", "keccak", "split", "rest")
SEED, GUESTS = 3, 1


def faults(table: str, seed: int = SEED) -> Iterator[Fault]:
    for index in count():
        try:
            yield draw(seed, table, index, GUESTS)
        except NoFault:
            continue


def made(maker: Maker, kind: str, table: str, most: int) -> Iterator[Fault]:
    """Faults of one maker in one guest."""
    for index in range(most):
        try:
            yield maker(random.Random(index), case_of(kind, 0), table)
        except NoFault:
            continue


# ---------------------------------------------------------------- honest twins


@pytest.mark.parametrize("kind", KINDS)
def test_honest_cases_are_accepted(kind: str) -> None:
    """By the full check when a case is made, by the verifier, and by differences."""
    case = case_of(kind, 0)
    assert case.witness(case.columns, case.output).verdict() == ""
    copied = {slot: main.copy() for slot, main in case.columns.items()}
    assert not Difference.of(case, copied, case.output).reasons()


def test_the_guests_execute_every_operation_in_every_table() -> None:
    ops: set[Op] = set()
    slots: set[int] = set()
    for kind in KINDS:
        ops |= set(case_of(kind, 0).execution.counts)
        slots |= case_of(kind, 0).columns.keys()
    assert ops == set(Op)
    assert {slot_of(t) for t in tables()} <= slots


@pytest.mark.parametrize("kind", KINDS)
def test_a_refilled_honest_run_settles_as_honest(kind: str) -> None:
    """Filling again without counting lookups loses nothing that settling does not restore."""
    case = case_of(kind, 0)
    d = Difference.of(case, case.refill(case.execution, case.guest.private_input), case.output)
    d.settle()
    assert not d.reasons()
    assert case.witness(d.settled(), case.output).reasons() == set()


# ---------------------------------------------------------------- the check by differences


@pytest.mark.parametrize("table", tables())
def test_differences_and_full_check_agree(table: str) -> None:
    """On what is broken, constraint by constraint and bus by bus."""
    for _, fault in zip(range(1), faults(table, seed=5), strict=False):
        judgement, d = judge(fault)
        assert d.witness().reasons() == set(judgement.reasons)


@pytest.mark.parametrize("table", ["LW", "COMMIT", "INPUT"])
def test_settling_by_differences_is_as_good_as_in_full(table: str) -> None:
    """What ``Witness.settle`` can make good, settling by differences can."""
    for fault in made(cell_fault, "input", table, 4):
        w = fault.case.witness({k: c.copy() for k, c in fault.columns.items()}, fault.output)
        w.settle()
        judgement, _ = judge(fault)
        assert set(judgement.reasons) <= w.reasons()


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("table", tables())
def test_no_fault_passes(table: str) -> None:
    refused = 0
    for fault in faults(table):
        judgement, _ = judge(fault)
        assert judgement.verdict in ("refused", "undone", "harmless"), judgement
        refused += judgement.verdict == "refused"
        if refused == 8:
            break


@pytest.mark.parametrize("table", tables()[::4])
def test_no_proof_of_a_fault_is_accepted(table: str) -> None:
    for fault in faults(table):
        judgement, d = judge(fault)
        if judgement.verdict == "refused":
            assert d.witness().verdict() in ("constraints", "balance")
            break


# ---------------------------------------------------------------- what may be accepted


def test_what_is_true() -> None:
    """The claim must be the output of the program on the input that the witness holds."""
    for kind in ("plain", "input"):
        case = case_of(kind, 0)
        assert is_true(case, case.columns, case.output)
        assert not is_true(case, case.columns, case.output[:-1])
        assert not is_true(case, case.columns, bytes([case.output[0] ^ 1]) + case.output[1:])
    data = case.guest.private_input
    assert input_of(case.columns) == data
    other = bytes(b ^ 1 for b in data)
    run = execute(case.image, other)
    columns = case.refill(run, other)
    assert run.output != case.output
    assert is_true(case, columns, run.output) and not is_true(case, columns, case.output)


def test_free_cells_are_free() -> None:
    """Each entry of the list is met, and the verifier accepts an example of it."""
    wanted = {f"{f.table}.{name.split('.')[0]}" for f in FREE for name in f.columns}
    shown: set[str] = set()
    for table in sorted({f.table for f in FREE}):
        of_table = {w for w in wanted if w.startswith(table + ".")}
        for maker in (cell_fault, repaired_fault):
            for fault in made(maker, "plain", table, 6000):
                if of_table <= shown:
                    break
                judgement, d = judge(fault)
                new = set(judgement.why.split(", ")) & of_table - shown if judgement.verdict == "harmless" else set()
                if new and not shown & of_table:
                    assert d.witness().reasons() == set()
                    assert d.witness().verdict() == ""
                shown |= new
    assert shown == wanted


def test_other_witnesses_of_a_true_statement() -> None:
    """Padding, equal rows of KRC, input that nothing reads, dwords that nothing accesses."""
    sources = {"padding": ("plain", "ADDI"), "equal rows": ("keccak", "KRC"), "other input": ("input", "INPUT"),
               "listed dword": ("plain", "FIN")}
    assert sources.keys() == OTHER_WITNESSES.keys()
    for why, (kind, table) in sources.items():
        for maker in (cell_fault, repaired_fault):
            found = next((d for f in made(maker, kind, table, 3000) for j, d in [judge(f)] if j.why == why), None)
            if found:
                break
        assert found, why
        assert found.witness().verdict() == "", why


# ---------------------------------------------------------------- the tests can fail

LOST = [  # a rule, and a way to break it: maker, guest and table
    ("REG", state_fault, "plain", "REG"), ("RAM", state_fault, "plain", "FIN"), ("ROM", world_fault, "plain", "ROM"),
    ("RAM", world_fault, "plain", "IMAGE"), ("REG", halt_fault, "plain", "HALT"),
    ("EXEC", instruction_fault, "plain", "ADDI"), ("KST", keccak_fault, "keccak", "KROUND"),
    ("KROUND", keccak_fault, "keccak", "KROUND"), ("OUT", output_fault, "plain", "CBYTE"),
    ("CBYTE.ob", output_fault, "plain", "CBYTE"), ("ADDSUB", instruction_fault, "plain", "ADDSUB"),
    ("DIVREM", instruction_fault, "plain", "DIVREM"), ("R16", instruction_fault, "plain", "SLT"),
    ("R16", instruction_fault, "plain", "BLT"), ("MLOAD", instruction_fault, "plain", "MLOAD"),
]


@pytest.mark.parametrize(("lost", "maker", "kind", "table"), LOST, ids=[f"{x[0]}-{x[3]}" for x in LOST])
def test_without_a_rule_something_false_passes(lost: str, maker: Maker, kind: str, table: str,
                                               monkeypatch: Any) -> None:
    """A check that ignores one bus, or the constraints of one table, accepts a fault, and that is called a miss."""
    honest = Difference.reasons

    def reasons(d: Difference) -> set[str]:
        return {r for r in honest(d) if not (r + ".").startswith(lost + ".")}

    monkeypatch.setattr(Difference, "reasons", reasons)
    assert any(judge(fault)[0].verdict == "miss" for fault in made(maker, kind, table, 150))
    monkeypatch.undo()
    assert all(judge(fault)[0].verdict != "miss" for fault in made(maker, kind, table, 5))


def test_an_unexplained_witness_is_reported(monkeypatch: Any) -> None:
    """Without its entry in the list, a free cell is an error."""
    fault = next(f for f in made(cell_fault, "plain", "SLT", 2000) if judge(f)[0].why in ("SLT.xa", "SLT.xb"))
    monkeypatch.setattr("faults.FREE", tuple(f for f in FREE if f.table != "SLT"))
    judgement, d = judge(fault)
    assert judgement.verdict == "unexplained" and "SLT.x" in judgement.why
    assert explain(fault, d) == ""
