"""Provers that do not keep to the rules: wrong witnesses, lies on the way, and encodings of their own."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import reference_verifier as ref
from airs import squares_columns
from cases import (
    OUT,
    SHAPES,
    START,
    Case,
    column_words,
    echo_case,
    fibonacci,
    fibonacci_case,
    make,
    permutation,
    permutation_case,
    proof,
    refusal,
    squares_case,
    word,
)

from tailbite.air.check import Trace, check
from tailbite.channel import Label
from tailbite.errors import Trap
from tailbite.field import Ext, P
from tailbite.lang import Slice, function, u64
from tailbite.stark import prove as prover
from tailbite.stark import prove_fri, prove_quotient
from tailbite.stark.params import preset
from tailbite.stark.system import KEY_HEADER, System, commit_fixed, program_key
from tailbite.stark.verify_constraints import Claim, check_balance

# ---------------------------------------------------------------- wrong witnesses


def wrong_step(da: int, db: int) -> Case:
    """Fibonacci with one wrong step in row 6."""
    rows, (a, b) = [], (1, 1)
    for i in range(32):
        rows.append((a, b))
        a, b = (b + da * (i == 6)) % P, (a + b + db * (i == 6)) % P
    return Case(fibonacci(), word(1) + word(1) + word(rows[-1][1]), {0: column_words(*zip(*rows, strict=True))})


def wrong_public(i: int) -> Case:
    """Fibonacci with another public word ``i``."""
    case = fibonacci_case(5)
    out = bytearray(case.output)
    out[8 * i] ^= 1
    return case._replace(output=bytes(out))


def changed(case: Case, slot: int, column: int, row: int, value: int) -> Case:
    """One cell of a witness changed."""
    witness = {k: w.copy() for k, w in case.witness.items() if w is not None}
    witness[slot][column, row] = value
    return case._replace(witness={**case.witness, **witness})


def doubled(slot: int, column: int) -> Case:
    """A message counted twice by its sender or receiver, and balanced by two on the other side."""
    case = permutation_case(5, [5], 20)
    sent, got = (case.witness[k].copy() for k in (0, 1))
    if slot == 0:
        sent[0, 0] = 2
        free = np.nonzero(got[0] == 0)[0][0]
        got[0, free], got[2, free] = 1, sent[1, 0]
    else:
        got[column, 0] = 2
        sent[:, 20] = 1, got[2 + column, 0]
    return case._replace(witness={0: sent, 1: got})


def wrong_square(start: bool) -> Case:
    """The running sum of squares begins, or goes on, one too high."""
    case = squares_case(6)
    total = case.witness[1].copy()
    total[1, 0 if start else 20:] += np.uint64(1)
    return case._replace(witness={**case.witness, 1: total}, output=word(int(total[1, -1])))


def wrong_lookup() -> Case:
    """A square that the lookup table does not have, with a sum to match."""
    case = squares_case(6)
    total = case.witness[1].copy()
    total[0, 9] += np.uint64(1)
    total[1, 9:] += np.uint64(1)
    return case._replace(witness={**case.witness, 1: total}, output=word(int(total[1, -1])))


WRONG: dict[str, tuple[Callable[[], Case], str]] = {
    "FIB.step.a": (lambda: wrong_step(1, 0), "constraints"),
    "FIB.step.b": (lambda: wrong_step(0, 1), "constraints"),
    "FIB.first.a": (lambda: wrong_public(0), "constraints"),
    "FIB.first.b": (lambda: wrong_public(1), "constraints"),
    "FIB.result": (lambda: wrong_public(2), "constraints"),
    "SOURCE.on.bit": (lambda: doubled(0, 0), "constraints"),
    "SINK.on.bit": (lambda: doubled(1, 0), "constraints"),
    "SINK.two.bit": (lambda: doubled(1, 1), "constraints"),
    "SOURCE.bus LOOP": (lambda: changed(permutation_case(6, [5], 64), 0, 1, 3, 5), "balance"),
    "SINK.bus LOOP": (lambda: changed(permutation_case(9, [7, 6], 384), 2, 0, 7, 0), "balance"),
    "GIVEN.start": (lambda: wrong_square(True), "constraints"),
    "GIVEN.sum": (lambda: wrong_square(False), "constraints"),
    "GIVEN.bus SQUARE": (wrong_lookup, "balance"),
    "SQUARES.bus SQUARE": (lambda: changed(squares_case(6), 0, 0, 11, 40), "balance"),
    "EMIT.bus AT": (lambda: changed(echo_case(b"abc"), 2, 1, 0, 1), "balance"),
    "verifier.bus OUT": (lambda: echo_case(b"abc")._replace(output=b"abd"), "balance"),
    "verifier.bus OUT (length)": (lambda: echo_case(b"abc")._replace(output=b"abc\0"), "balance"),
    "verifier.bus START": (lambda: echo_case(b"abc")._replace(entry=4), "balance"),
}


def failures(case: Case) -> set[str]:
    """Names of what the trace check finds."""
    system, traces = case.system, []
    for slot, main in case.witness.items():
        k = system.slots[slot][0]
        columns = squares_columns() if system.tables[k].name == "SQUARES" else case.fixed.get(k, np.zeros((0, 0)))
        traces.append(Trace(system.tables[k], columns, np.zeros((0, 0)) if main is None else main))
    publics = [int.from_bytes(case.output[8 * i:8 * i + 8], "little") for i in range(system.public_words)]
    terms = []
    if system.start_bus is not None:
        terms = [(START.id, (case.entry, 4), 1), *((OUT.id, (i, b), -1) for i, b in enumerate(case.output))]
    return {f"{f.table}.{f.name}" for f in check(traces, publics, terms)}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_witness(name: str) -> None:
    build, category = WRONG[name]
    case = build()
    found = failures(case)
    if category == "constraints":
        assert found == {name}, "the witness is to break this rule and no other"
    else:
        assert found and all(".bus " in f for f in found)
    assert make(case).refusal() == category


@pytest.mark.parametrize("shape", ["fibonacci 5", "permutation 9 7 6", "squares 6", "echo 3"])
def test_trace_check_passes_good_witnesses(shape: str) -> None:
    assert failures(SHAPES[shape]) == set()


def test_tables_left_out_or_out_of_order() -> None:
    case = permutation_case(6, [5, 5], 64)
    assert make(case).refusal() == ""
    w = case.witness
    for witness in ({1: w[1], 2: w[2]}, {0: w[0], 2: w[1]}, {0: w[0], 1: w[1], 2: np.zeros((4, 64), np.uint64)}):
        assert make(case._replace(witness=witness)).refusal() == "shape"
    assert make(case._replace(witness={0: w[0]})).refusal() == "balance"
    case = squares_case(6)
    for left in (0, 1):
        assert make(case._replace(witness={left: case.witness[left]})).refusal() == "shape"


# ---------------------------------------------------------------- lies on the way


def squares_of(given: Any, table: Any) -> Case:
    """A witness of SQUARES and GIVEN for other preprocessed columns, and the sum that it claims."""
    xs, on = given
    s = table[1][xs.astype(int)]
    total = np.cumsum(s)
    requests = np.bincount(xs[on == 1].astype(int), minlength=64)
    return Case(squares_case(6).system, word(int(total[-1])),
                {0: requests[None, :].astype(np.uint64), 1: column_words(s, total)}, {1: given})


def test_other_preprocessed_columns() -> None:
    """The trees that are opened are those of the key: a good run on other columns does not pass for a run on these."""
    honest = squares_case(6)
    fake_table, fake_numbers = squares_columns(), honest.fixed[1][:, ::-1].copy()
    fake_table[1, 3] = 10
    keyed = honest.system.keyed(preset("fast"))
    lying = copy.copy(keyed)
    lying.universal = commit_fixed({0: fake_table}, 1)
    trees = [commit_fixed({1: c}, 1) for c in (honest.fixed[1], fake_numbers)]
    key = program_key(keyed, 0, trees[0])
    for k, tree, numbers, table, expected in (
            (keyed, trees[0], honest.fixed[1], squares_columns(), ""),
            (lying, trees[0], honest.fixed[1], fake_table, "opening"),
            (keyed, trees[1], fake_numbers, squares_columns(), "opening")):
        case = squares_of(numbers, table)
        words, _ = prover.prove(k, key, tree, case.output, case.witness)
        assert refusal(keyed, key.id(keyed), words) == expected


def lie(monkeypatch: Any, case: Case) -> None:
    """Make the prover claim the quotient value that the constraints at zeta demand (one table, no buses)."""
    run = ref.Run(case.system.keyed(preset("fast")), [])
    run.output_words = [int.from_bytes(case.output[k:k + 8], "little") for k in range(0, len(case.output), 8)]
    quotients, open_at = prove_quotient.quotients, prover.open_at

    def keep_challenge(job: Any, instances: Any, challenge: Any, *rest: Any) -> Any:
        run.combination = challenge
        return quotients(job, instances, challenge, *rest)

    def opened(job: Any, instances: Any, qs: Any, zeta: Any) -> Any:
        terms = open_at(job, instances, qs, zeta)
        (t,) = instances
        run.zeta, values = zeta, terms.values
        n = len(t.main)
        slot = ref.Slot(t.program, t.log, [], values[:n], values[n:-2])
        total = ref.ZERO
        for c in reversed(run.table_constraints(slot)):
            total = ref.add(c, ref.mul(total, run.combination))
        zeta_n = ref.power(zeta, 1 << t.log)
        quotient = ref.mul(total, ref.inverse(ref.sub(zeta_n, ref.ONE)))
        values[-2] = ref.sub(quotient, ref.mul(zeta_n, values[-1]))
        return terms

    monkeypatch.setattr(prove_quotient, "quotients", keep_challenge)
    monkeypatch.setattr(prover, "open_at", opened)


@pytest.mark.parametrize("log", [5, 8])
def test_lie_about_the_quotient(log: int, monkeypatch: Any) -> None:
    """A claimed value that satisfies the constraints, but is not the committed column's: FRI finds out."""
    good, bad = fibonacci_case(log), fibonacci_case(log)._replace(output=word(1) + word(1) + word(7))
    assert make(bad).refusal() == "constraints"
    lie(monkeypatch, good)
    assert make(good).refusal() == ""
    lie(monkeypatch, bad)
    assert make(bad).refusal() == "fri"


def test_lie_about_a_joining_codeword(monkeypatch: Any) -> None:
    """Each height's codeword is tested, the largest and those that join."""
    case, codeword = SHAPES["permutation 9 7 6"], prove_fri.codeword
    for victim in (9, 7, 6):
        def spoilt(job: Any, terms: Any, log: int, zeta: Any, victim: int = victim) -> Any:
            out = codeword(job, terms, log, zeta)
            if log == victim:
                out[0] = np.roll(out[0], 1)
            return out

        monkeypatch.setattr(prove_fri, "codeword", spoilt)
        assert make(case).refusal() == "fri"
    monkeypatch.setattr(prove_fri, "codeword", codeword)
    assert make(case).refusal() == ""


@pytest.mark.parametrize(("label", "which"), [
    (Label.FRI_BETA, 0), (Label.FRI_BETA, 2), (Label.FRI_LAMBDA, 0), (Label.BATCHING, 0), (Label.BATCHING, 4),
    (Label.ALPHA, 0), (Label.BETA, 0), (Label.CONSTRAINT, 0), (Label.ZETA, 0)])
def test_another_challenge(label: Label, which: int, monkeypatch: Any) -> None:
    """A prover that works with a challenge of its own choice."""
    challenge = prover.Writer.challenge
    count = iter(range(1000))

    def chosen(self: Any, wanted: Label) -> Any:
        x = challenge(self, wanted)
        return (5, 6, 7) if wanted == label and next(count) == which else x

    case = SHAPES["permutation 9 7 6"]
    monkeypatch.setattr(prover.Writer, "challenge", chosen)
    assert make(case).refusal() in {"balance", "constraints", "fri"}
    assert next(count) > which, "the challenge was drawn"


def test_other_queries(monkeypatch: Any) -> None:
    below = prover.Writer.challenge_below
    monkeypatch.setattr(prover.Writer, "challenge_below", lambda self, label, bound: below(self, label, bound) ^ 1)
    assert make(SHAPES["squares 6"]).refusal() == "opening"


# ---------------------------------------------------------------- consistent, but not as the format wants it


@pytest.mark.parametrize("name", ["MAGIC", "PROTOCOL_VERSION"])
def test_another_header(name: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(prover, name, getattr(prover, name) + 1)
    assert make(fibonacci_case(5)).refusal() == "header"


def test_padding_of_the_output(monkeypatch: Any) -> None:
    words_of = prover._words
    for size, expected in ((3, "encoding"), (8, "")):
        def padded(data: bytes, size: int = size) -> Any:
            out = words_of(data)
            out[-1] |= np.uint64(1 << 63 if size % 8 else 0)
            return out

        monkeypatch.setattr(prover, "_words", padded)
        assert make(echo_case(b"abcdefgh"[:size])).refusal() == expected


def silence(system: System) -> Case:
    """A case whose columns are all zero, and with them most of its proof."""
    if system is fibonacci():
        return Case(system, bytes(24), {0: np.zeros((2, 32), dtype=np.uint64)})
    return Case(system, b"", {0: np.zeros((2, 32), dtype=np.uint64), 1: np.zeros((4, 32), dtype=np.uint64)})


@pytest.mark.parametrize("label", [Label.OUTPUT, Label.SIGMA, Label.VALUES, Label.FINAL])
def test_zero_has_one_encoding_in_messages(label: Label, monkeypatch: Any) -> None:
    """p for 0, sent and absorbed."""
    case = silence(permutation() if label == Label.SIGMA else fibonacci())
    message = prover.Writer.message

    def other(self: Any, wanted: Label, words: Any) -> None:
        w = np.array(words, dtype=np.uint64).reshape(-1)
        if wanted == label and len(w) > 1:
            assert w[-1] == 0
            w[-1] = P
        message(self, wanted, w)

    assert make(case).refusal() == ""
    monkeypatch.setattr(prover.Writer, "message", other)
    assert make(case).refusal() == "encoding"


def test_zero_has_one_encoding_in_rows(monkeypatch: Any) -> None:
    """p for 0, committed."""
    commit = prover.Job.commit

    def other(job: Any, parts: Any) -> Any:
        for _, extended in parts:
            extended[0] = P
        return commit(job, parts)

    monkeypatch.setattr(prover.Job, "commit", other)
    assert make(silence(fibonacci())).refusal() == "encoding"


def test_multiplicities_cannot_wrap() -> None:
    """A key with so many messages cannot be built, so one is forged."""
    made = proof("permutation 6 5")
    p = made.keyed.system.programs[0]
    at = KEY_HEADER + len(p.words()) - 1 - sum(len(i.words()) for i in p.interactions)
    assert made.keyed.words[at] == len(p.interactions) == 1
    forged = copy.copy(made.keyed)
    forged.__dict__["words"] = made.keyed.words.copy()
    forged.words[at] = 1 << 54
    assert refusal(forged, made.program_id, made.words) == "shape"


@function
def balance(key: Slice[u64], sigmas: Slice[u64], output: Slice[u64], alpha: u64, beta: u64, entry: u64) -> None:
    """The check of the sums, with challenges of the caller's."""
    zero = Ext(u64(0), u64(0), u64(0))
    claim = Claim(sigmas, sigmas, output, Ext(alpha, u64(0), u64(0)), Ext(beta, u64(0), u64(0)), zero, zero)
    check_balance(key, claim, u64(1), entry, u64(1))


def test_challenges_that_hit_the_verifiers_messages() -> None:
    """alpha = 1 + 3 beta + 4 beta^2 = 2 + 0 beta + 6 beta^2 makes both fractions infinite, and no sum right."""
    key = column_words(1, 0, 0, START.id, OUT.id, 0, 0, 0, 0, 0)
    with pytest.raises(Trap, match="balance: a challenge hits"):
        balance(key, column_words(0, 0, 0), column_words(6), 8, 1, 3)
    with pytest.raises(Trap, match="balance: the bus messages"):
        balance(key, column_words(0, 0, 0), column_words(6), 8, 1, 4)
    # alpha = 10: 1 / (10 - 8) - 1 / (10 - 8), so nothing is missing
    balance(key, column_words(0, 0, 0), column_words(6), 10, 1, 3)
