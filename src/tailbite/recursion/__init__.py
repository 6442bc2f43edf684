"""Recursion: the verifier as a program of the machine, so that a proof can show that proofs were checked.

    inner = collatz.prove(27, params="strong")
    outer = attest(inner)                               # runs the verifier on the machine, and proves that run
    check_attestation(outer, recursion_program("strong").id(), collatz.program.id("strong")).output

The guest is the very source that verifies natively, with the machine's tables compiled in for one inner preset. It
reads a program id and a proof, traps if the proof is bad, and commits the preset's number, the program id and the
inner public output. Who checks the outer proof pins the guest's id, and says which inner program it is about.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ParameterError
from ..program import Program
from ..proof import DEFAULT_MIN_BITS, Proof, verify
from ..stark.params import Params, preset
from ..stark.verifier import refusal
from .guest import HEAD, build


@dataclass(frozen=True)
class Attestation:
    """What an accepted outer proof shows: proofs of ``program_id`` with this ``output`` were checked.

    ``bits``: the least over all layers; an inner layer counts as its preset's aim, a test preset as nothing.
    """

    program_id: bytes
    output: bytes
    params: Params
    bits: float


@functools.cache
def recursion_program(params: str | int) -> Program:
    """The verifier of proofs at an inner preset, as a program. Compiled on first use, always to the same bytes."""
    from ..vm.machine import machine

    return Program.from_elf(build(machine().keyed(preset(params))))


def verifier_input(inner: Proof) -> bytes:
    """Private input of the recursion guest: four bytes, so that words are aligned; the program id; the proof."""
    return bytes(4) + inner.program_id + inner.to_bytes()


def attest(inner: Proof, params: str | int = "standard", **options: Any) -> Proof:
    """Prove that ``inner`` verifies. The options are those of :meth:`Program.prove`."""
    return recursion_program(inner.params.number).prove(verifier_input(inner), params, **options)


def check_attestation(outer: Proof | bytes, guest_id: bytes, program_id: bytes | Sequence[bytes],
                      min_bits: float | None = None, *, allow_insecure: bool = False) -> Attestation:
    """Check an outer proof by the recursion guest ``guest_id``, about the inner program ``program_id``.

    Both ids come from the caller, never from a proof. For deeper nesting ``program_id`` is a list, outermost first:
    each but the last is the id of a recursion guest. Raises :class:`VerificationError` if the proof is bad, about
    another program, or has fewer than ``min_bits`` bits (default 100; 0 with ``allow_insecure``) in its weakest layer.
    """
    if min_bits is None:
        min_bits = 0 if allow_insecure else DEFAULT_MIN_BITS
    ids = [program_id] if isinstance(program_id, bytes | bytearray) else list(program_id)
    if not ids or any(len(i) != 32 for i in ids):
        raise ParameterError("a program id has 32 bytes, and at least one is needed")
    statement = verify(outer, guest_id, min_bits=0, allow_insecure=allow_insecure)
    bits, output = statement.bits, statement.output
    for expected in ids:
        params, output = _layer(output, bytes(expected), allow_insecure)
        bits = min(bits, params.aim_bits if params.secure else 0)
    if not bits >= min_bits:
        raise refusal(f"soundness: the weakest layer has {bits:g} bits, fewer than the {min_bits:g} demanded")
    return Attestation(bytes(ids[-1]), output, params, bits)


def _layer(output: bytes, expected: bytes, allow_insecure: bool) -> tuple[Params, bytes]:
    """Preset and inner output that a recursion guest committed, after checking which program it is about."""
    if len(output) < HEAD:
        raise refusal("statement: this is not the output of a recursion guest")
    try:
        params = preset(int(np.frombuffer(output[:8], dtype="<u8")[0]))
    except ParameterError as e:
        raise refusal(f"statement: inner layer: {e}") from None
    if not params.secure and not allow_insecure:
        raise refusal(f"soundness: an inner proof was made with preset '{params.name}', which is for tests only")
    if output[8:HEAD] != expected:
        raise refusal("program: the inner proof is about another program")
    return params, output[HEAD:]


__all__ = ["Attestation", "attest", "check_attestation", "recursion_program", "verifier_input"]
