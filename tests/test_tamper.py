"""The tamper manifest, natively: every message and opening of proofs of AIRs and of the machine, times every strategy.

Guest and interpreter are compared on it in test_agreement.py. ``python tests/test_tamper.py`` prints the figures.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tamper
from tamper import MOVED, STRATEGIES, WHOLE, Recorded, Tampered, expected, manifest

from tailbite import Proof
from tailbite.channel import HINT, MESSAGE
from tailbite.stark.verifier import CATEGORIES, check_words

sys.path.insert(0, str(Path(__file__).parent / "stark"))
from cases import SHAPES, make, refusal

ARTEFACTS = Path(__file__).parent / "artefacts"
AIRS = ["fibonacci 6", "permutation 5 5 5", "permutation 9 7 6", "squares 5", "echo 3"]
MACHINE = ["collatz.min", "collatz.fast"]
NAMES = [*AIRS, *MACHINE]


class Target(NamedTuple):
    """A proof, and what it is verified with."""

    keyed: Any
    program_id: bytes
    proof: Recorded


@functools.cache
def target(name: str) -> Target:
    if name in AIRS:
        made = make(SHAPES[name])
        return Target(made.keyed, made.program_id, Recorded(made.words, made.events))
    p = Proof.load(ARTEFACTS / f"{name}.proof")
    return Target(p.keyed, p.program_id, Recorded(p.words, check_words(p.keyed, p.program_id, p.words, record=True)))


def cases(name: str) -> list[Tampered]:
    """The manifest of a proof; the others of its kind give what replaces its entries."""
    kind = AIRS if name in AIRS else MACHINE
    return list(manifest(target(name).proof, [target(other).proof for other in kind if other != name]))


@pytest.mark.parametrize("name", NAMES)
def test_every_change_is_refused_as_expected(name: str) -> None:
    t = target(name)
    assert refusal(t.keyed, t.program_id, t.proof.words) == ""
    found = cases(name)
    assert {c.entry for c in found} == set(t.proof.entries())
    for case in found:
        category = refusal(t.keyed, t.program_id, case.words)
        assert category in expected(case), f"{case.name}: {category or 'accepted'}"


def test_every_strategy_meets_every_label() -> None:
    """Over all proofs. Digests and the header have no other form of an element where this is so, see below."""
    met = {(c.entry.label, c.strategy) for name in NAMES for c in cases(name)}
    missing = {(label, s.__name__) for label in STRATEGIES for s in WHOLE} - met
    assert all(strategy == "add_p" or (label.name, strategy) == ("NONCE", "swap") for label, strategy in missing)
    assert {label for label, strategy in met if strategy == "add_p"} >= {*tamper.ELEMENTS, tamper.Label.OUTPUT}


def test_expectations_are_categories() -> None:
    assert set(tamper.IN_PLACE) == set(MOVED) == set(STRATEGIES)
    known = set(CATEGORIES) - {"internal", "soundness"}
    assert all(set(text.split()) < known for text in (*tamper.IN_PLACE.values(), *MOVED.values()))


def figures() -> str:
    """Entries, cases and categories of each proof, as a table."""
    lines = ["| proof | entries | cases | accepted | refusals |", "|---|---|---|---|---|"]
    total = Counter[str]()
    for name in NAMES:
        t, found = target(name), cases(name)
        kinds = Counter(refusal(t.keyed, t.program_id, c.words) for c in found)
        entries = sum(kind in (MESSAGE, HINT) for _, kind, _, _ in t.proof.events)
        told = ", ".join(f"{k} {n}" for k, n in kinds.most_common() if k)
        lines.append(f"| {name} | {entries} | {len(found)} | {kinds['']} | {told} |")
        total += Counter(entries=entries, cases=len(found), accepted=kinds[""])
    return "\n".join([*lines, f"| all | {total['entries']} | {total['cases']} | {total['accepted']} | |"])


if __name__ == "__main__":
    print(figures())
