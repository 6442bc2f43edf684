"""The verifier in the machine knows its tables, roots, preset and ids: a proof cannot bring others along.

Each prover here makes a proof that is good in every way but one: under a key of its own, which is accepted natively by
a verifier with that key, and claims the identity of the real one. Its challenges are then those of the real machine.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from test_agreement import Outcome, guest, hashing, natively

from tailbite import Program
from tailbite.air import Table, bit
from tailbite.demo import collatz
from tailbite.recursion import recursion_program
from tailbite.stark.params import Params, preset
from tailbite.stark.prove import prove
from tailbite.stark.system import Keyed, System, commit_fixed, program_key
from tailbite.stark.verify import HEADER_WORDS
from tailbite.vm.executor import execute
from tailbite.vm.machine import machine, program_columns
from tailbite.vm.trace import fill

INNER = "min"
TABLES_AT = HEADER_WORDS + 7 + 1 + 2  # in a proof with 16 bytes of output
PROGRAM = slice(HEADER_WORDS, HEADER_WORDS + 7)


class Made(NamedTuple):
    """A proof with the id that its program has under the prover's key."""

    program_id: bytes
    words: Any

    def changed(self, at: int, value: int) -> Made:
        words = self.words.copy()
        words[at] = value
        return Made(self.program_id, words)


def real(params: str = INNER) -> Keyed:
    return machine().keyed(preset(params))


def posing(system: System, params: Params, as_what: Keyed) -> Keyed:
    """A key of other tables, roots or parameters that says it is ``as_what``."""
    keyed = Keyed(system, params)
    keyed.__dict__["vm_id"] = as_what.vm_id
    return keyed


def made(keyed: Keyed, program: Program = collatz.program, private_input: bytes = collatz.encode(27),
         without: Iterable[int] = (), extra: dict[int, Any] | None = None) -> Made:
    """A proof under a key, without the tables of some slots, or with more."""
    fixed = commit_fixed(program_columns(program.image), keyed.params.log_blowup)
    key = program_key(keyed, program.image.entry, fixed)
    execution = execute(program.image, private_input)
    columns = fill(execution, program.image, private_input).columns
    witness = {slot: c for slot, c in columns.items() if slot not in without} | (extra or {})
    words, _ = prove(keyed, key, fixed, execution.output, witness, 2)
    return Made(key.id(keyed), words)


@functools.cache
def honest(params: str = INNER) -> Made:
    return made(real(params))


@functools.cache
def slot(name: str) -> int:
    """The first slot of a table of the machine."""
    return machine().slots.index((machine().index(name), 0))


def judged(proof: Made, params: str = INNER) -> str:
    """Category of the refusal, "" if it is accepted: native and guest verifier agree, in their records too."""
    outcome: Outcome = guest(params)(proof.program_id, proof.words)
    assert outcome == natively(real(params))(proof.program_id, proof.words)
    return outcome.category


def accepted_under(keyed: Keyed, proof: Made) -> bool:
    """Whether a verifier with the prover's own key accepts."""
    return natively(keyed)(proof.program_id, proof.words).reason == ""


def test_honest_proof() -> None:
    assert judged(honest()) == ""
    assert int(honest().words[TABLES_AT + slot("ROM")]) == int(honest().words[PROGRAM][1])


# ---------------------------------------------------------------- ids


def test_the_id_is_the_proofs_own() -> None:
    """The guest takes an id as input: only that of the program that the proof is about."""
    for other in (hashing.program.id(INNER), collatz.program.id("fast"), bytes(32), honest().program_id[::-1]):
        assert judged(honest()._replace(program_id=other)) == "program"


def test_the_program_is_the_proofs_own() -> None:
    """Another program's key in the proof, by its own id, or by the id of the one that was proved."""
    other = made(real(), hashing.program, hashing.encode(3))
    assert judged(other) == ""
    words = honest().words.copy()
    words[PROGRAM] = other.words[PROGRAM]
    assert judged(Made(honest().program_id, words)) == "program"
    assert judged(Made(other.program_id, words)) in ("shape", "balance", "constraints")


def test_the_committed_id_is_the_verified_one() -> None:
    for proof in (honest(), made(real(), hashing.program, hashing.encode(3))):
        run = recursion_program(INNER).run(bytes(4) + proof.program_id + proof.words.astype("<u8").tobytes())
        assert run.output[8:40] == proof.program_id
    assert judged(honest()) == ""


# ---------------------------------------------------------------- universal roots


@pytest.mark.parametrize("name", ["REG", "LUT", "POW", "KRC"])
def test_universal_root(name: str) -> None:
    """One cell of a universal table is another, in a row that the run does not use, or in an absent table."""
    system = machine()
    columns = system.universal[name].copy()
    columns[-1, -1] ^= np.uint64(1)
    other = dataclasses.replace(system, universal={**system.universal, name: columns})
    keyed = posing(other, preset(INNER), real())
    proof = made(keyed)
    assert proof.program_id == honest().program_id
    assert accepted_under(keyed, proof)
    assert judged(proof) == "opening"


# ---------------------------------------------------------------- presets


def test_another_preset() -> None:
    """A proof of another preset: by its name, and renamed."""
    other = honest("fast")
    assert judged(other, "fast") == ""
    assert judged(other) == "header"
    assert judged(other.changed(2, preset(INNER).number)) == "program"
    renamed = other.changed(2, preset(INNER).number)._replace(program_id=honest().program_id)
    assert judged(renamed) == "balance"
    assert judged(honest(), "fast") == "header"


@pytest.mark.parametrize(("weaker", "category"), [
    ({"num_queries": 1}, "truncated"), ({"num_queries": 220}, ""), ({"grinding_bits": 0}, "work"),
    ({"grinding_bits": 10}, "work"), ({"num_queries": 1, "grinding_bits": 0}, "work")])
def test_a_preset_with_less_work(weaker: dict[str, int], category: str) -> None:
    """A prover that claims a preset and spares itself queries or proof of work."""
    params = preset("strong2")
    keyed = posing(machine(), dataclasses.replace(params, **weaker), real("strong2"))
    proof = made(keyed)
    assert accepted_under(keyed, proof)
    assert judged(proof, "strong2") in ({category} if category else {"encoding", "opening", "truncated"})


# ---------------------------------------------------------------- table sets


class Free(Table):
    """A table that says nothing."""

    name = "FREE"
    constraint_count = 1
    x = bit("any bit")

    def rules(t) -> None:
        return


def test_a_table_more() -> None:
    system = dataclasses.replace(machine(), tables=[*machine().tables, Free()])
    keyed = posing(system, preset(INNER), real())
    for extra in ({}, {len(machine().slots): np.zeros((1, 32), dtype=np.uint64)}):
        proof = made(keyed, extra=extra)
        assert accepted_under(keyed, proof)
        assert judged(proof) in ("constraints", "balance", "encoding")


def test_a_constraint_less() -> None:
    """A table that the run uses, without its last constraint."""
    system = dataclasses.replace(machine())
    at = system.index("ADDI")
    lax = list(system.programs)
    lax[at] = dataclasses.replace(lax[at], zeros=lax[at].zeros[:-1])
    system.__dict__["programs"] = lax
    keyed = posing(system, preset(INNER), real())
    proof = made(keyed)
    assert accepted_under(keyed, proof)
    assert judged(proof) == "constraints"


@pytest.mark.parametrize("name", ["ADDI", "BEQ", "CBYTE", "LUT"])
def test_a_table_left_out(name: str) -> None:
    """Honest but for one table, of which there is nothing."""
    assert int(honest().words[TABLES_AT + slot(name)]) != 0
    table = machine().programs[machine().index(name)]
    left_out = range(slot(name), slot(name) + table.instances)
    assert judged(made(real(), without=left_out)) == ("shape" if table.required else "balance")


def test_table_list() -> None:
    """Heights in the list that the commitments are not of."""
    logs = honest().words[TABLES_AT:TABLES_AT + len(machine().slots)]
    present = np.flatnonzero(logs).tolist()
    absent = next(k for k in range(len(logs)) if logs[k] == 0 and machine().slots[k][1] == 0)
    assert present and judged(honest()) == ""
    for at, log in [*((k, 0) for k in present), *((k, int(logs[k]) + 1) for k in present), (absent, 5), (absent, 27)]:
        assert judged(honest().changed(TABLES_AT + at, log)) in ("shape", "balance", "constraints", "encoding")
    for at in (TABLES_AT + slot("ROM"), TABLES_AT + slot("IMAGE")):
        assert judged(honest().changed(at, int(honest().words[at]) + 1)) == "shape"


def test_second_instances() -> None:
    """A second instance higher than the first, or without one."""
    for name, first, second in (("ADDI", 5, 6), ("ADDI", 0, 5)):
        at = TABLES_AT + slot(name)
        assert judged(honest().changed(at, first).changed(at + 1, second)) == "shape"
