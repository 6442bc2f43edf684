"""The verifier as a guest: the same verdicts as the native one, and proofs that proofs were checked."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tailbite
from tailbite import Bytes, ExecutionError, ParameterError, Private, Program, Proof, VerificationError, verify
from tailbite.demo import collatz
from tailbite.recursion import attest, check_attestation, recursion_program, verifier_input

INNER = "min"


@tailbite.guest
def liar(said: Private[Bytes]) -> None:
    tailbite.commit(said)


@pytest.fixture(scope="module")
def inner() -> Proof:
    return collatz.prove(27, params=INNER, allow_insecure=True)


@pytest.fixture(scope="module")
def outer(inner: Proof) -> Proof:
    return attest(inner, "fast", allow_insecure=True)


@pytest.fixture(scope="module")
def guest() -> Program:
    return recursion_program(INNER)


def test_guest_commits_preset_id_and_output(inner: Proof, guest: Program) -> None:
    run = guest.run(verifier_input(inner))
    expected = (5).to_bytes(8, "little") + collatz.program.id(INNER) + inner.output
    assert run.output == expected


def test_guest_is_reproducible(guest: Program) -> None:
    recursion_program.cache_clear()
    assert recursion_program(INNER).elf == guest.elf


def test_guest_and_native_verifier_give_the_same_verdict(inner: Proof, guest: Program) -> None:
    """Words changed all over the proof: both refuse, for the same reason."""
    data, rng = inner.to_bytes(), random.Random(7)
    places = [*range(80), *(rng.randrange(len(data) // 8) for _ in range(120))]
    for at in places:
        words = np.frombuffer(data, dtype="<u8").copy()
        words[at] ^= np.uint64(1 << rng.randrange(64))
        changed = words.tobytes()
        with pytest.raises(VerificationError) as native:
            verify(changed, collatz, allow_insecure=True)
        with pytest.raises(ExecutionError) as run:
            guest.run(bytes(4) + collatz.program.id(INNER) + changed)
        if "assertion failed" in str(run.value):  # the native front end may find a fault before the verifier runs
            reason = str(native.value)
            assert reason in str(run.value) or native.value.category in ("header", "shape", "statement", "truncated")


def test_guest_refuses_what_is_not_an_id_and_a_proof(inner: Proof, guest: Program) -> None:
    good = verifier_input(inner)
    for bad in (b"", good[:-4], good[:20], good[:-8], good + bytes(8), good[:4] + bytes(32) + good[36:]):
        with pytest.raises(ExecutionError):
            guest.run(bad)


def test_attestation(inner: Proof, outer: Proof, guest: Program) -> None:
    a = check_attestation(outer, guest.id("fast"), collatz.program.id(INNER), allow_insecure=True)
    assert a.output == inner.output and a.bits == 0 and a.params.name == INNER


def test_attestation_is_about_what_the_caller_names(outer: Proof, guest: Program) -> None:
    good_guest, good_id = guest.id("fast"), collatz.program.id(INNER)
    for guest_id, program_id in ((bytes(32), good_id), (collatz.program.id("fast"), good_id),
                                 (good_guest, bytes(32)), (good_guest, collatz.program.id("fast")),
                                 (good_guest, [good_guest, good_id]), (good_guest, [good_id, good_id])):
        with pytest.raises(VerificationError):
            check_attestation(outer, guest_id, program_id, allow_insecure=True)
    for wrong in (b"short", []):
        with pytest.raises(ParameterError):
            check_attestation(outer, good_guest, wrong, allow_insecure=True)


def test_weak_layers_are_named(inner: Proof, outer: Proof, guest: Program) -> None:
    with pytest.raises(VerificationError, match="tests only"):
        check_attestation(outer, guest.id("fast"), collatz.program.id(INNER))
    with pytest.raises(VerificationError, match="fewer than"):
        check_attestation(outer, guest.id("fast"), collatz.program.id(INNER), min_bits=100, allow_insecure=True)


def test_a_program_that_only_claims_to_be_the_verifier_is_not(inner: Proof) -> None:
    """Any program can commit the bytes that the guest would; the pinned guest id tells them apart."""
    said = (5).to_bytes(8, "little") + collatz.program.id(INNER) + b"anything"
    fake = liar.prove(said, params="fast", allow_insecure=True)
    assert fake.output == said
    with pytest.raises(VerificationError):
        check_attestation(fake, recursion_program(INNER).id("fast"), collatz.program.id(INNER), allow_insecure=True)
    check = check_attestation(fake, liar.program.id("fast"), collatz.program.id(INNER), allow_insecure=True)
    assert check.output == b"anything"  # which is why the guest's id is the caller's to pin
