"""Attacks on the statement, the list of tables, and what machine and program fix; see test_attacks.py."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
from attacks import FAST, Witness, lookups, verdict
from test_attacks import ARITHMETIC, A
from test_attacks_machine import CALLS, DATA, MEMORY, key

from tailbite.air.check import Trace, check
from tailbite.field import P
from tailbite.stark import prove_logup
from tailbite.stark.prove import prove as prove_words
from tailbite.stark.system import System, commit_fixed, program_key
from tailbite.stark.verifier import check_words
from tailbite.stark.verify import HEADER_WORDS
from tailbite.vm.buses import BUSES, EXEC, OUT
from tailbite.vm.executor import execute
from tailbite.vm.machine import TABLES, machine, program_columns, verifier_terms
from tailbite.vm.tables.fin import Fin
from tailbite.vm.trace import fill

REQUIRED = ["ROM", "IMAGE", "REG", "LUT", "FIN", "INPUT", "HALT"]


def test_09_claimed_sums_that_cancel(monkeypatch: Any) -> None:
    """Two tables claim sums that are wrong by opposite amounts: the total stays 0, and each running sum breaks."""
    honest, lies = prove_logup.fill, iter([12345, P - 12345])

    def lying(job: Any, t: Any, alpha: Any, beta: Any) -> None:
        honest(job, t, alpha, beta)
        if t.program.name in ("ADDI", "CONST"):
            t.sigma = ((t.sigma[0] + next(lies)) % P, *t.sigma[1:])

    w = ARITHMETIC.honest()
    monkeypatch.setattr(prove_logup, "fill", lying)
    words = w.proof()
    monkeypatch.undo()
    assert next(lies, None) is None
    assert verdict(words, w.program) == "constraints" and w.verdict() == ""


def test_13_wrong_row_of_a_lookup_table() -> None:
    """With x & y wrong in one row of LUT a wrong ANDI fits, but LUT's root is part of the machine."""
    w = ARITHMETIC.honest().copy()
    low = A & 0xFF
    part, row = w.rewrite("andi", r=(A & -5) - 1)
    part.put(row, n__0=low - 1)
    w.settle()
    assert w.reasons() == {"AND"}

    lut = machine().universal["LUT"].copy()
    entry = low + 256 * (-5 & 0xFF)
    assert lut[2, entry] == low
    lut[2, entry] -= 1
    w["LUT"]["m_and"][entry] += np.uint64(1)
    traces = [Trace(t.table, lut, t.main) if t.table.name == "LUT" else t for t in w._traces()]
    assert not check(traces, (), verifier_terms(w.program.image.entry, w.output))

    keyed, fixed, program = w.program.keyed(FAST)
    lying = copy.copy(keyed)
    lying.universal = commit_fixed({**keyed.universal.columns, machine().index("LUT"): lut}, FAST.log_blowup)
    words, _ = prove_words(lying, program, fixed, w.output, w.columns)
    assert verdict(words, w.program) == "opening"


class TwoFins(Fin):
    instances = 2


def test_21_second_instance_of_fin() -> None:
    """A machine in which FIN may have two instances takes zero for a dword of the image; it is another machine."""
    w = MEMORY.honest().copy()
    address = DATA + 0x40
    w.rewrite("ld", r=0, m0=0)
    w.touch(add=[(*key(address), 1)], remove=[key(address)])
    w.settle()
    assert w.reasons() == {"RAM"}
    image, slot = w.program.image, w.slot("FIN")
    second = w.copy()
    second["FIN"].main[:] = 0
    second.touch(add=[(*key(address), 0)])
    second["FIN"].put(list(second["FIN"]["act"]).index(1), v=int.from_bytes(MEMORY.data[DATA][0x40:0x48], "little"))
    w["LUT"]["m_r16"][:] += lookups([Trace(second["FIN"].table, np.zeros((0, 32)), second["FIN"].main)])["LUT", "m_r16"]

    system = machine()
    tables = [TwoFins() if t is Fin else t() for t in TABLES]
    evil = System(system.name, tables, BUSES, system.universal, start_bus=EXEC, output_bus=OUT)
    columns = {k + (k > slot): c for k, c in w.columns.items()} | {slot + 1: second.columns[slot]}
    keyed = evil.keyed(FAST)
    fixed = commit_fixed(program_columns(image), FAST.log_blowup)
    program = program_key(keyed, image.entry, fixed)
    words, _ = prove_words(keyed, program, fixed, w.output, dict(sorted(columns.items())))
    check_words(keyed, program.id(keyed), words)  # the attack works there
    assert verdict(words, w.program) != "" and verdict(words, program.id(keyed)) != ""


def without(w: Witness, name: str) -> Witness:
    w = w.copy()
    del w.columns[w.slot(name)]
    return w


@pytest.mark.parametrize("name", REQUIRED)
def test_36_required_table_left_out(name: str) -> None:
    w = without(CALLS.honest(), name)
    assert w.reasons() and w.verdict() == "shape"


def test_36_required_tables_are_declared() -> None:
    assert [t.name for t in TABLES if t.required] == REQUIRED
    assert {t.name for t in TABLES if t.instances == 2}.isdisjoint(REQUIRED)


@pytest.mark.parametrize("name", ["COMMIT", "CBYTE", "PRINT", "CYCLES", "CONST"])
def test_36_other_table_left_out(name: str) -> None:
    """Its rows are missing on the buses."""
    w = without(CALLS.honest(), name)
    assert w.reasons() and w.verdict() == "balance"


def test_36_table_not_in_use_may_be_there() -> None:
    w = CALLS.honest().copy()
    for name in ("REFRESH", "KCALL", "MSTORE"):
        w[name]
    assert not w.reasons() and w.verdict() == ""


def test_53_second_instance_without_a_first_or_larger() -> None:
    w = CALLS.honest().copy()
    slot = w.slot("CONST")
    w.columns[slot + 1] = w.columns.pop(slot)
    w.columns = dict(sorted(w.columns.items()))
    assert not w.reasons() and w.verdict() == "shape"
    empty = np.zeros((w.columns[slot + 1].shape[0], 32), np.uint64)
    w.columns[slot + 1] = np.pad(w.columns[slot + 1], ((0, 0), (0, 32)))
    w.columns = dict(sorted({**w.columns, slot: empty}.items()))
    assert not w.reasons() and w.verdict() == "shape"
    w.columns[slot], w.columns[slot + 1] = w.columns[slot + 1], w.columns[slot]
    assert not w.reasons() and w.verdict() == ""


@pytest.mark.parametrize("name", ["FIN", "CBYTE"])
def test_53_tables_of_other_heights_are_honest_too(name: str) -> None:
    """The prover may choose a larger table; the proof says so, and nothing else changes."""
    w = MEMORY.honest().copy() if name == "FIN" else CALLS.honest().copy()
    if name == "FIN":
        rows = Fin.rows(w.execution.log)
        w.columns[w.slot(name)] = w[name].table.witness(rows, 2 * w[name].main.shape[1])
    else:
        w.columns[w.slot(name)] = np.pad(w[name].main, ((0, 0), (0, 32)))
    w.settle()
    assert not w.reasons() and w.verdict() == ""


def test_35_every_word_of_the_statement_is_bound() -> None:
    """Entry, program heights, root, output, list of tables: changed in a proof, nothing is accepted."""
    w = CALLS.honest()
    words = w.proof()
    end = HEADER_WORDS + 7 + 2 + len(machine().slots)
    assert verdict(words, w.program) == ""
    for k in range(end):
        other = words.copy()
        other[k] ^= np.uint64(1)
        assert verdict(other, w.program) != "", k


@pytest.mark.parametrize("field", ["entry", "root", "log_heights"])
def test_35_proof_under_another_program_key(field: str) -> None:
    """Made and absorbed consistently by the prover: the key must have the id that the caller trusts."""
    w = CALLS.honest()
    keyed, fixed, program = w.program.keyed(FAST)
    value = getattr(program, field)
    other = dataclasses.replace(program, **{field: value + 4 if field == "entry" else (value[0] ^ 1, *value[1:])})
    words, _ = prove_words(keyed, other, fixed, w.output, w.columns)
    assert verdict(words, w.program) == "program"
    assert verdict(words, other.id(keyed)) != ""
    assert verdict(words, program.id(keyed)) == "program"


def test_55_proof_of_another_program() -> None:
    """Two programs with the same output, each under the other's id, or with the other's preprocessed tables."""
    w = CALLS.honest()
    other = CALLS.program(then=0x00300313)  # li x6, 3
    run = execute(other.image)
    assert run.output == w.output
    keyed, fixed, program = other.keyed(FAST)
    columns = fill(run, other.image, b"").columns
    words, _ = prove_words(keyed, program, fixed, run.output, columns)
    assert verdict(words, other) == "" and verdict(words, w.program) == "program"
    forged, _ = prove_words(keyed, w.program.keyed(FAST)[2], fixed, run.output, columns)
    assert verdict(forged, w.program) == "opening"


def test_20_image_dword_cannot_be_left_out() -> None:
    """It is sent though no instruction accesses it, so FIN must list it."""
    w = MEMORY.honest().copy()
    w.touch(remove=[key(DATA + 0x18)])
    w.settle()
    assert w.reasons() == {"RAM"} and w.verdict() == "balance"
