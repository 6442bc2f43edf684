"""The outside truth for the proof format: a verifier written from its description gives the same verdicts."""

from __future__ import annotations

import numpy as np
import pytest
import reference_verifier as ref
from cases import SHAPES, Made, make, permutation_case, proof

SMALL = ["fibonacci 5", "permutation 5 5 5", "squares 5", "echo 3"]


def accepts(made: Made, words: object = None) -> bool:
    """The reference verifier's verdict."""
    try:
        ref.verify(made.keyed, made.program_id, made.words if words is None else words)
    except ref.Refused:
        return False
    return True


@pytest.mark.parametrize("shape", SHAPES)
def test_accepts(shape: str) -> None:
    made = proof(shape)
    assert ref.verify(made.keyed, made.program_id, made.words) == SHAPES[shape].output
    assert made.refusal() == ""


@pytest.mark.parametrize("name", ["standard", "strong", "strong8", "min"])
@pytest.mark.parametrize("shape", ["permutation 5 5 5", "squares 5"])
def test_accepts_other_presets(shape: str, name: str) -> None:
    assert accepts(proof(shape, name))


@pytest.mark.parametrize("shape", SMALL)
def test_refuses_changes(shape: str) -> None:
    made = proof(shape)
    for i in range(0, len(made.words), 11):
        words = made.words.copy()
        words[i] ^= np.uint64(1 << i % 64)
        assert not accepts(made, words), i
    for n in (0, 1, 12, len(made.words) - 1):
        assert not accepts(made, made.words[:n])
    assert not accepts(made, [*made.words, 0])


def test_refuses_other_programs() -> None:
    for shape in SMALL:
        for other in SMALL:
            assert accepts(proof(other)._replace(words=proof(shape).words)) == (shape == other)


def test_field() -> None:
    a, b = (5, 6, ref.P - 7), (1 << 40, 3, 1)
    assert ref.mul(a, ref.inverse(a)) == ref.ONE
    assert ref.mul(ref.mul(a, b), ref.inverse(b)) == a
    assert ref.mul((0, 1, 0), (0, 0, 1)) == (2, 0, 0)
    assert ref.power(a, 5) == ref.mul(a, ref.power(a, 4))


def test_refuses_wrong_witness() -> None:
    case = permutation_case(6, [5], 64)
    assert accepts(make(case))
    case.witness[0][1, 3] ^= np.uint64(1)
    assert not accepts(make(case))
