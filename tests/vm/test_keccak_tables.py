"""keccak_permute, proved: known answers through whole proofs; forged rounds, states and pointers are refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from assembler import asm, call, elf, halt, li

from tailbite.air.check import Trace, check, check_buses, check_constraints
from tailbite.program import Program
from tailbite.proof import VerificationError, verify
from tailbite.stark.params import preset
from tailbite.stark.prove import prove as prove_words
from tailbite.vm.executor import execute
from tailbite.vm.machine import machine, verifier_terms
from tailbite.vm.tables.kcall import Kcall
from tailbite.vm.tables.kround import Kround
from tailbite.vm.trace import fill

STATE = 0x20000
KECCAK = (-2) & (1 << 64) - 1
# Keccak-f[1600] of the zero state, once and twice (https://keccak.team, KeccakF-1600-IntermediateValues.txt)
ONCE = "e7dde140798f25f18a47c033f9ccd584eea95aa61e2698d54d49806f304715bd57d05362054e288bd46f8e7f2da497ff"
TWICE = "3ccb6ef94d955c2d6db55770d02c336a6c6bd770128d3d0994d06955b2d9208a"


def program(count: int, commit: int = 32, state: bytes = bytes(200), at: int = STATE) -> Program:
    """Permutes ``count`` times and commits the first bytes."""
    loop = [*call(KECCAK, at), asm("addi", 5, 5, -1)]
    words = [*li(5, count), *loop, asm("bne", 5, 0, -4 * len(loop)), *call(64, 1, at, commit), *halt()]
    return Program.from_elf(elf(words, {at: state} if any(state) else None))


def test_known_answers_through_a_proof() -> None:
    for count, answer in ((1, ONCE), (2, TWICE)):
        p = program(count, len(answer) // 2)
        proof = p.prove(params="fast", allow_insecure=True)
        assert verify(proof, p, allow_insecure=True).output.hex() == answer


@pytest.mark.parametrize("count", [1, 2, 3, 11])
def test_any_number_of_calls(count: int) -> None:
    """24 rounds do not divide a power of two; heights and the number of calls do not matter."""
    p = program(count, 200, random.Random(count).randbytes(200))
    run, failures = p.check()
    assert not failures
    proof = p.prove(params="fast", allow_insecure=True)
    assert verify(proof, p, allow_insecure=True).output == run.output


@pytest.mark.parametrize("at", [STATE + 4, STATE + 1, (1 << 32) - 192])
def test_pointers_that_cannot_be_proved_trap(at: int) -> None:
    from tailbite import ExecutionError

    words = [*li(10, at), *li(17, KECCAK), 0x73, *halt()]
    with pytest.raises(ExecutionError):
        Program.from_elf(elf(words)).run()


@pytest.fixture(scope="module")
def filled() -> tuple[Program, Any, Any]:
    p = program(2, 32, random.Random(5).randbytes(200))
    execution = execute(p.image)
    return p, execution, fill(execution, p.image, b"")


def slot_of(name: str) -> int:
    system = machine()
    return system.slots.index((system.index(name), 0))


def altered(filled: Any, name: str, changes: list[tuple[str, int, Any]]) -> list[Trace]:
    """Traces with cells of a table changed: (column, row, function of the old value)."""
    p, _, tables = filled
    table = machine().tables[machine().index(name)]
    slot = slot_of(name)
    columns = dict(tables.columns)
    columns[slot] = columns[slot].copy()
    for label, row, change in changes:
        k = table.column_index(label) - table.layout.fixed_count
        columns[slot][k, row] = np.uint64(change(int(columns[slot][k, row])))
    return type(tables)(columns, tables.rows).traces(p.image)


KROUND_COLUMNS = ["f", "id", "r", "a.0", "a.49", "p.0", "p.319", "d.0", "d.100", "a1.0", "a1.1599", "a1.700", "c.0",
                  "c.6", "rc.3", "out.0", "out.1", "out.49"]


@pytest.mark.parametrize("label", KROUND_COLUMNS)
@pytest.mark.parametrize("row", [0, 5, 23, 47, 60])
def test_every_kind_of_column_of_a_round_is_bound(filled: Any, label: str, row: int) -> None:
    """One cell changed, in a round in use or in a padding row (60)."""
    p, execution, _ = filled
    if row == 60 and label in ("id", "r", "rc.3"):
        return  # on a row that is not in use nothing reads them
    traces = altered(filled, "KROUND", [(label, row, lambda x: x ^ 1)])
    assert check(traces, (), verifier_terms(p.image.entry, execution.output)), label


def test_theta_cannot_be_shifted_between_its_parts(filled: Any) -> None:
    """Flip d and a1 of a whole column together, so that ``in`` still holds: parity refuses."""
    for x, z in ((0, 0), (3, 17)):
        changes = [(f"d.{64 * x + z}", 3, lambda v: 1 - v)]
        changes += [(f"a1.{64 * (x + 5 * y) + z}", 3, lambda v: 1 - v) for y in range(5)]
        kround = next(t for t in altered(filled, "KROUND", changes) if t.table.name == "KROUND")
        names = {f.name for f in check_constraints(kround)}
        assert names and not any(n.startswith("in.") for n in names)


def test_rounds_cannot_be_skipped_or_swapped(filled: Any) -> None:
    p, execution, _ = filled
    for changes in ([("f", 10, lambda x: 0)], [("r", 4, lambda x: x + 1), ("r", 5, lambda x: x - 1)],
                    [("r", 23, lambda x: 24)], [("id", 3, lambda x: x + 4)]):
        failures = check_buses(altered(filled, "KROUND", changes), verifier_terms(p.image.entry, execution.output))
        assert failures


@pytest.mark.parametrize("label", ["w", "h", "a.0", "b.0", "b.49", "tm.24", "dm.7", "t17", "t10", "pc", "ts"])
def test_every_kind_of_column_of_a_call_is_bound(filled: Any, label: str) -> None:
    p, execution, _ = filled
    traces = altered(filled, "KCALL", [(label, 0, lambda x: x ^ 1)])
    assert check(traces, (), verifier_terms(p.image.entry, execution.output))


def test_a_forged_permutation_is_refused_by_the_verifier(filled: Any) -> None:
    """All limbs, memory and output follow a wrong last round; only the round's own bits contradict."""
    p, execution, tables = filled
    keyed, fixed, key = p.keyed(preset("fast"))
    good, _ = prove_words(keyed, key, fixed, execution.output, tables.columns)
    verify(good.astype("<u8").tobytes(), p, allow_insecure=True)
    columns = {k: c.copy() for k, c in tables.columns.items()}
    kround, kcall, cbyte = slot_of("KROUND"), slot_of("KCALL"), slot_of("CBYTE")
    out = Kround().column_index("out.0")
    b = Kcall().column_index("b.0")
    columns[kround][out, 47] ^= np.uint64(1)
    columns[kcall][b, 1] ^= np.uint64(1)
    system = machine()
    table = system.tables[system.index("CBYTE")]
    for row in range(8):  # the committed bytes of the first dword
        columns[cbyte][table.column_index("v.0"), row] ^= np.uint64(1)
    columns[cbyte][table.column_index("ob"), 0] ^= np.uint64(1)
    output = bytes([execution.output[0] ^ 1]) + execution.output[1:]
    words, _ = prove_words(keyed, key, fixed, output, columns)
    with pytest.raises(VerificationError) as e:
        verify(words.astype("<u8").tobytes(), p, allow_insecure=True)
    assert e.value.category in ("constraints", "balance")
