"""A short run of the fuzzer, and that it notices each kind of violation. Long runs: ``run.py`` beside this file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if sys.platform != "linux":
    pytest.skip("limits and signals are those of Linux", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "stark"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "vm"))

from cases import refusal
from fuzz_elfs import Elfs
from fuzz_proofs import air_seeds, final_value
from fuzz_reasons import reasons, unreached
from fuzz_watch import SKIPPED, fuzz, judge

from tailbite.channel import Label
from tailbite.field import P

PROOF_REASONS = 20  # of some thirty


@pytest.mark.parametrize(("target", "count", "answers"), [
    ("proofs", 2000, {"opening: rows and siblings do not lead to the committed root",
                      "constraints: the quotient does not match at the out-of-domain point",
                      "balance: the bus messages do not cancel", "work: the nonce does not reach the difficulty"}),
    ("min", 2000, {"opening: rows and siblings do not lead to the committed root",
                   "encoding: a field element is not canonical"}),
    ("elfs", 1500, {"ran", "ran, was proved and verified", "Panic: the program ",
                    "ElfError: the segments at N to N and at N to N overlap"}),
    ("files", 150, {"run: yes: ", "inspect: yes: ", "a source that parses: not run",
                    "verify: no: opening: rows and siblings do not lead to the committed root"})])
def test_no_violation(target: str, count: int, answers: set[str]) -> None:
    """Nor is it all refused for the same reason: the answers are those of early and of late checks."""
    summary = fuzz(target, count)
    assert summary["violations"] == [] and summary["cases"] == count and summary["skipped"] < count // 10
    assert answers <= summary["answers"].keys()
    if target in ("proofs", "min"):
        left = unreached(summary["answers"])
        assert len(reasons()) - len(left) >= PROOF_REASONS, left


@pytest.mark.parametrize(("target", "kind", "text"), [
    ("broken-accepts", "Violation", "a mutant of tiny at min is accepted"),
    ("broken-raises", "ValueError", "an error without a type of its own"),
    ("broken-hangs", "hang", ""), ("broken-allocates", "MemoryError", "3.00 GiB"), ("broken-crashes", "crash", "-11")])
def test_each_kind_of_violation_is_noticed(target: str, kind: str, text: str) -> None:
    """At the case that does it, and the cases behind it are judged too."""
    summary = fuzz(target, 6)
    assert summary["next"] == 6
    bad = [v for v in summary["violations"] if v["number"] == 3]
    assert [v["kind"] for v in bad] == [kind] and text in bad[0]["text"]
    if target != "broken-accepts":
        assert len(summary["violations"]) == 1
        assert f"in {kind_of(target)}" in bad[0]["where"] and sum(summary["answers"].values()) == 5


def kind_of(target: str) -> str:
    """The function that breaks it, which the report of a violation names."""
    return "string_at" if target == "broken-crashes" else target.removeprefix("broken-")


def test_a_case_depends_on_seed_and_number_alone() -> None:
    whole = fuzz("elfs", 100, seed=7)
    parts = [fuzz("elfs", 50, seed=7, start=start) for start in (0, 50)]
    together: dict[str, Any] = {}
    for part in parts:
        for answer, n in part["answers"].items():
            together[answer] = together.get(answer, 0) + n
    assert together == whole["answers"]
    target = Elfs()
    assert [judge(target, 7, n) for n in range(20)] == [judge(target, 7, n) for n in range(20)]
    assert [judge(target, 7, n) for n in range(20)] != [judge(target, 8, n) for n in range(20)]


def test_skipped_cases_are_the_original() -> None:
    """A mutation that changes nothing is not judged: only those are skipped."""
    target = Elfs()
    target.seeds = target.seeds[:1]
    loaded: list[bytes] = []

    def load(data: bytes) -> Any:
        loaded.append(data)
        return original(data)

    original, target.load = target.load, load  # type: ignore[method-assign]
    answers = [judge(target, 1, n) for n in range(300)]
    assert target.seeds[0] not in loaded and 0 < answers.count(SKIPPED) == 300 - len(loaded)


def test_one_query_sees_one_value_of_the_final_polynomial() -> None:
    """The only mutant that may be accepted, and only at ``min``: d (u^13 - u^29) is 0 for a quarter of the u."""
    accepted = 0
    for air in air_seeds("min"):
        original, at = air.seed.proof.words, air.seed.entries[Label.FINAL][0].start
        for d in range(1, 1000):
            words = original.copy()
            words[[at + 3 * 13, at + 3 * 29]] = [(int(words[at + 3 * 13]) + d) % P, (int(words[at + 3 * 29]) - d) % P]
            if refusal(air.keyed, air.program_id, words) == "":
                assert air.agrees_at_the_query(words)
                accepted += 1
    assert 0 < accepted < 1000 * len(air_seeds("min")) / 64
    one, two = np.zeros((2, 96), dtype=np.uint64)
    one[3 * 13], two[3 * 29] = 5, 5
    assert final_value(one, 52) == final_value(two, 52) and final_value(one, 51) != final_value(two, 51)
