"""Kinds of mistakes 43-52: low-degree test, openings, Merkle trees."""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases import SHAPES, Case, Made, fibonacci_case, make, permutation_case, proof, refusal, squares_case, word
from plain import array
from tamper import Recorded
from test_dishonest import lie, wrong_step
from test_merkle import matrices, opened
from test_merkle import refusal as opening_refusal
from test_transcript_binding import calls

import tailbite
from tailbite import Proof, VerificationError, verify
from tailbite.air import Table, token
from tailbite.air.table import AirError
from tailbite.channel import CHALLENGE, Label, Writer
from tailbite.demo import collatz
from tailbite.errors import ParameterError
from tailbite.field import Ext, P, root_of_unity
from tailbite.hash import merkle
from tailbite.lang import u64
from tailbite.stark import prove as prover
from tailbite.stark import prove_fri, verify_queries
from tailbite.stark.params import PRESETS, preset
from tailbite.stark.prove import prove
from tailbite.stark.soundness import Shape, soundness
from tailbite.stark.system import Keyed, System, commit_fixed, program_key
from tailbite.stark.verifier import CATEGORIES, check_words
from tailbite.stark.verify_constraints import ext_at, set_ext
from tailbite.stark.verify_trees import members

TYPED = set(CATEGORIES) - {"internal"}
SOURCES = Path(tailbite.__file__).parent


# ---------------------------------------------------------------- 43: roll-in and degree


Errors = dict[int, Any]
"""What is added to the codeword of a height (by its log): shape (3, size)."""


def with_errors(monkeypatch: pytest.MonkeyPatch, errors: Errors) -> None:
    """Prover and interpreted verifier take codewords with these errors for those that the rows imply.

    So the low-degree test stands alone, as a library has it, and may be given any words.
    """
    codeword, scope = prove_fri.codeword, verify_queries.check_queries.interpreted.__globals__
    quotients = scope["batched_quotients"]

    def spoilt(job: Any, terms: Any, log: int, zeta: Any) -> Any:
        out = codeword(job, terms, log, zeta)
        if log in errors:
            out = ((out.astype(object) + errors[log]) % P).astype(np.uint64)
        return out

    def spoilt_too(shape: Any, c: Any, weights: Any, sets: Any, sums: Any, points: Any, s: Any) -> Any:
        out = quotients(shape, c, weights, sets, sums, points, s)
        for log, error in errors.items():
            k = log + int(shape.blowup)
            for j in range(int(sets.sizes[k])):
                at = sums.at[k] + j
                e = error[:, int(members(sets, k)[j])]
                set_ext(out, at, ext_at(out, at) + Ext(*(u64(int(x)) for x in e)))
        return out

    monkeypatch.setattr(prove_fri, "codeword", spoilt)
    monkeypatch.setitem(scope, "batched_quotients", spoilt_too)


def without_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prover and interpreted verifier add a joining codeword as it is, without a challenge of its own."""
    drawn, scope = Writer.challenge, verify_queries.read_folding.interpreted.__globals__
    challenge = scope["challenge"]

    def plain(self: Any, label: Label) -> Any:
        x = drawn(self, label)
        return (1, 0, 0) if label == Label.FRI_LAMBDA else x

    def plain_too(ch: Any, label: Any) -> Any:
        x = challenge(ch, label)
        return Ext(u64(1), u64(0), u64(0)) if int(label) == Label.FRI_LAMBDA else x

    monkeypatch.setattr(Writer, "challenge", plain)
    monkeypatch.setitem(scope, "challenge", plain_too)


def interpreted(case: Case) -> str:
    """Category of the interpreter's refusal of a new proof; "" if it accepts."""
    made = make(case)
    try:
        check_words(made.keyed, made.program_id, made.words, interpret=True)
    except VerificationError as e:
        return e.category
    return ""


def test_43_errors_of_two_heights_that_cancel() -> None:
    """An error of four equal values folds to itself for any beta; the lower height has its negative.

    Where a codeword joins without fresh randomness they cancel, and far words pass. A challenge tells them apart.
    """
    case = permutation_case(7, [5], 64)
    noise = np.random.default_rng(43).integers(0, P, (3, 64), dtype=np.uint64).astype(object)
    high, low = {7: np.tile(noise, 4)}, {5: -noise % P}
    for fresh, errors, expected in [(False, {}, ""), (False, high | low, ""), (False, high, "fri"), (False, low, "fri"),
                                    (True, {}, ""), (True, high | low, "fri")]:
        with pytest.MonkeyPatch.context() as patch:
            with_errors(patch, errors)
            if not fresh:
                without_lambda(patch)
            assert interpreted(case) == expected, (fresh, list(errors))


def test_43_one_degree_more() -> None:
    """A codeword of degree 32, one more than the final polynomial has; degree 31 passes."""
    us = [pow(root_of_unity(6), i, P) for i in range(64)]
    for degree, expected in ((31, ""), (32, "fri"), (63, "fri")):
        error = np.array([[pow(u, degree, P) for u in us], [0] * 64, [0] * 64], dtype=object)
        with pytest.MonkeyPatch.context() as patch:
            with_errors(patch, {5: error})
            assert interpreted(fibonacci_case(5)) == expected, degree


# ---------------------------------------------------------------- 44, 45: consistency at each place


def test_44_false_claims_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """No false statement passes in many tries, be the opened values honest or made to fit."""
    rng = np.random.default_rng(44)
    assert make(fibonacci_case(5)).refusal() == ""
    for _ in range(100):
        steps = [int(x) for x in rng.integers(1, P, 2, dtype=np.uint64)]
        assert make(wrong_step(*steps)).refusal() == "constraints"
    for _ in range(40):
        with monkeypatch.context() as patch:
            false = fibonacci_case(5)._replace(output=word(1) + word(1) + word(int(rng.integers(0, 1 << 60))))
            lie(patch, false)
            assert make(false).refusal() == "fri"


def test_44_each_query_checks_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cell of one committed row is wrong: refused if and only if a query falls on it."""
    commit, verdicts = prover.Job.commit, set()
    for index in range(64):
        first = iter([True])

        def spoilt(job: Any, parts: Any, index: int = index, first: Iterator[bool] = first) -> Any:
            if next(first, False):
                parts = [(columns, extended.copy()) for columns, extended in parts]
                parts[0][1][0, index] ^= np.uint64(1)
            return commit(job, parts)

        monkeypatch.setattr(prover.Job, "commit", spoilt)
        made = make(fibonacci_case(5))
        queried = index in {v for label, _, _, v in made.events if label == Label.INDEX}
        assert made.refusal() == ("fri" if queried else "")
        verdicts.add(queried)
    assert verdicts == {True, False}


LAYERED = fibonacci_case(9)  # folds 2^10 to 2^7 to 2^6


@pytest.mark.parametrize("layer", [0, 1])
def test_45_every_column_of_every_layer(layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer is committed with one of its columns wrong; what is folded is right. Also the last layer counts."""
    def tampering(column: int) -> Callable[..., Any]:
        seen = iter(range(100))

        def commit(heights: dict[int, list[Any]], pool: Any) -> Any:
            ((rows, columns),) = heights.items()
            if next(seen) == layer and column < len(columns):
                columns = [c + np.uint64(k == column) for k, c in enumerate(columns)]
            return merkle.commit({rows: columns}, pool)

        return commit

    width = 24 if layer == 0 else 6
    for column in range(width + 1):
        with monkeypatch.context() as patch:
            patch.setattr(prove_fri, "merkle", types.SimpleNamespace(commit=tampering(column)))
            assert make(LAYERED).refusal() == ("fri" if column < width else "")


def test_45_every_coefficient_of_the_final_polynomial(monkeypatch: pytest.MonkeyPatch) -> None:
    message = Writer.message
    for k in range(97):
        def other(self: Any, label: Label, words: Any, k: int = k) -> None:
            w = np.array(words, dtype=np.uint64).reshape(-1)
            if label == Label.FINAL and k < 96:
                w[k] = (int(w[k]) + 1) % P
            message(self, label, w)

        monkeypatch.setattr(Writer, "message", other)
        assert make(LAYERED).refusal() == ("fri" if k < 96 else "")


# ---------------------------------------------------------------- 46: parameters


class Posing(Keyed):
    """A key with other parameters that says that it is the real one."""

    def __init__(self, real: Keyed, **change: int) -> None:
        super().__init__(real.system, dataclasses.replace(real.params, **change))
        self.__dict__["vm_id"] = real.vm_id


def posed(case: Case, **change: int) -> tuple[Made, Keyed]:
    """A proof with other parameters than `fast` has, and the key it was made with."""
    real = case.system.keyed(preset("fast"))
    keyed = Posing(real, **change)
    tree = commit_fixed(case.fixed, keyed.params.log_blowup)
    key = program_key(keyed, case.entry, tree)
    words, channel = prove(keyed, key, tree, case.output, case.witness)
    return Made(real, key.id(real), words, channel.events), keyed


@pytest.mark.parametrize("change", [{}, {"num_queries": 1}, {"num_queries": 7}, {"num_queries": 9},
                                    {"num_queries": 64}, {"grinding_bits": 0}, {"grinding_bits": 3}, {"log_blowup": 2}])
def test_46_the_verifier_has_its_own_parameters(change: dict[str, int]) -> None:
    made, own = posed(squares_case(6), **change)
    assert refusal(own, made.program_id, made.words) == "", "it is good under the parameters it was made with"
    assert made.refusal() in TYPED if change else made.refusal() == ""


def test_46_no_queries_at_all() -> None:
    """Not even a verifier that asks nothing accepts a proof that opens nothing."""
    made, _ = posed(squares_case(6), num_queries=1)
    assert made._replace(keyed=posed(squares_case(6), num_queries=1)[1]).refusal() == ""
    opened_from = next(e.start for e in Recorded(made.words, made.events).entries() if e.label == Label.ROWS)
    nobody = Posing(made.keyed, num_queries=0)
    assert refusal(nobody, made.program_id, made.words[:opened_from]) != ""
    assert made.refusal(made.words[:opened_from]) == "truncated"


def test_46_parameters_cannot_be_named() -> None:
    """A proof names a number on a closed list; no queries would be worth nothing anyway."""
    made, at = proof("fibonacci 5"), 2
    honest = collatz.prove(5, params="fast", allow_insecure=True)
    assert made.refusal() == "" and verify(honest, collatz, allow_insecure=True).bits < 10
    for number in (0, 7, 8, 63, 64, (1 << 32) + 6, 1 << 63, (1 << 64) - 1):
        words = made.words.copy()
        words[at] = number
        assert made.refusal(words) == "header"
        words = honest.words.copy()
        words[at] = number
        with pytest.raises(VerificationError, match="header: unknown preset"):
            Proof(words)
        with pytest.raises(ParameterError):
            preset(number)
    shape = Shape((9, 7), 100, 100, logup_denominators=1000, logup_tuple_len=5)
    for params in PRESETS:
        assert params.num_queries > 0
        assert soundness(dataclasses.replace(params, num_queries=0, grinding_bits=0), shape).total == 0


# ---------------------------------------------------------------- 47: lengths of lists


MESSAGES = [Label.PROGRAM, Label.OUTPUT, Label.TABLES, Label.MAIN_ROOT, Label.LOGUP_ROOT, Label.SIGMA,
            Label.QUOTIENT_ROOT, Label.VALUES, Label.FRI_ROOT, Label.FINAL, Label.NONCE]


@pytest.mark.parametrize("label", MESSAGES, ids=lambda x: x.name.lower())
def test_47_a_message_of_another_length(label: Label, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent and absorbed by the prover itself, so that its challenges follow: one word less or more, or three."""
    message, case = Writer.message, SHAPES["squares 8"]
    for change in (0, -3, -1, 1, 3):
        changed = []

        def other(self: Any, wanted: Label, words: Any, change: int = change, changed: list[Label] = changed) -> None:
            w = np.array(words, dtype=np.uint64).reshape(-1)
            if wanted == label and change:
                w = w[:max(len(w) + change, 0)] if change < 0 else np.concatenate([w, w[:1].repeat(change)])
                changed.append(label)
            message(self, wanted, w)

        monkeypatch.setattr(Writer, "message", other)
        verdict = make(case).refusal()
        assert bool(changed) == bool(change)
        assert verdict in TYPED if change else verdict == "", change


def openings(change: Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]) -> Callable[..., None]:
    """An ``open_tree`` that changes the blocks of rows, or of siblings, of every tree."""
    def open_tree(ch: Writer, tree: merkle.Tree, queries: list[int]) -> None:
        rows, siblings = change(list(tree.rows(queries)), list(tree.siblings(queries)))
        for block in rows:
            for row in block:
                ch.hint(Label.ROWS, row)
        for block in siblings:
            ch.hint(Label.SIBLINGS, block)

    return open_tree


OPENINGS: dict[str, Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]] = {
    "honest": lambda r, s: (r, s),
    "a row less": lambda r, s: ([b[:-1] for b in r], s),
    "a row twice": lambda r, s: ([np.concatenate([b, b[-1:]]) for b in r], s),
    "rows in another order": lambda r, s: ([b[::-1] for b in r], s),
    "rows of one query": lambda r, s: ([b[:1].repeat(len(b), axis=0) for b in r], s),
    "a column less": lambda r, s: ([b[:, :-1] for b in r], s),
    "a column more": lambda r, s: ([np.pad(b, ((0, 0), (0, 1))) for b in r], s),
    "a sibling less": lambda r, s: (r, [b[1:] for b in s]),
    "a sibling more": lambda r, s: (r, [np.concatenate([b[:1], b]) for b in s]),
    "siblings in another order": lambda r, s: (r, [b[::-1] for b in s]),
    "no siblings": lambda r, s: (r, []),
    "a level more": lambda r, s: (r, [s[0][:1], *s]),
    "a level less": lambda r, s: (r, s[1:]),
}


@pytest.mark.parametrize("name", OPENINGS)
def test_47_openings_of_another_length_or_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list in an opening, shortened, extended or permuted by a prover that is honest otherwise."""
    monkeypatch.setattr(prove_fri, "open_tree", openings(OPENINGS[name]))
    for shape in ("fibonacci 9", "permutation 9 7 6", "squares 8"):
        verdict = make(SHAPES[shape]).refusal()
        assert verdict in {"opening", "truncated", "extended", "encoding"} if name != "honest" else verdict == ""


def test_47_no_list_ends_where_another_does() -> None:
    """In Python code too: every ``zip`` of the package demands equal lengths, but for one in the prover's NTT."""
    lax, count = [], 0
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
                count += 1
                strict = [ast.unparse(k.value) for k in node.keywords if k.arg == "strict"]
                lax += [path.name] if strict != ["True"] else []
    assert count > 50 and lax == ["ntt.py"]


# ---------------------------------------------------------------- 48: query positions


@pytest.mark.parametrize("chosen", [lambda q, n: 0, lambda q, n: n - 1, lambda q, n: q + 1 & n - 1, lambda q, n: q])
def test_48_positions_are_the_verifiers(chosen: Callable[[int, int], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that opens where it likes; positions are in no message."""
    below = Writer.challenge_below
    monkeypatch.setattr(Writer, "challenge_below", lambda self, label, n: chosen(below(self, label, n), n))
    made = make(SHAPES["squares 6"])
    honest = chosen(5, 64) == 5
    assert made.refusal() == "" if honest else made.refusal() in {"opening", "truncated", "extended", "encoding"}
    assert {kind for label, kind, _, _ in made.events if label == Label.INDEX} == {CHALLENGE}
    assert Label.INDEX not in {e.label for e in Recorded(made.words, made.events).entries()}


# ---------------------------------------------------------------- 49, 50: trees


def test_49_a_root_has_one_shape() -> None:
    """Matrices of zeros of every small shape, where only the shape can tell roots apart."""
    shapes = [{h: w} for h in (8, 16, 32) for w in (*range(1, 20), 34, 51)]
    shapes += [{h: w, k: v} for h in (16, 32) for k in (8, 16) if k < h for w in (1, 2, 3) for v in (1, 2, 3)]
    shapes += [{32: 1, 16: w, 8: v} for w in (1, 2) for v in (1, 2)]
    roots = {tuple(merkle.commit({h: [np.zeros(h, dtype=np.uint64)] * w for h, w in s.items()}).root) for s in shapes}
    assert len(roots) == len(shapes)


def test_49_an_opening_under_another_shape() -> None:
    """The words of an honest opening, cut into rows in another way or taken for a tree of another height."""
    tree = merkle.commit(matrices({32: 4, 8: 2}))
    indices, rows, siblings = opened(tree, [3, 9])
    assert opening_refusal(tree.root, indices, rows, siblings) == ""
    flat = [x for row in rows[32] for x in row]
    for width in (1, 2, 3, 5, 8):
        cut = [flat[k:k + width] for k in range(0, len(flat) // width * width, width)]
        assert opening_refusal(tree.root, indices, {32: cut, 8: rows[8]}, siblings) != ""
    for high, low in ((64, 8), (16, 8), (32, 16), (32, 4), (8, 4)):
        assert opening_refusal(tree.root, indices, {high: rows[32], low: rows[8]}, siblings) != ""
    assert opening_refusal(tree.root, indices, {32: rows[32]}, siblings) != ""


def test_50_indices_are_drawn_below_the_size() -> None:
    """The opening code takes them for granted; they come from the draw alone, and none is in a proof."""
    assert calls({"index_sets"}) == calls({"draw_queries"}) - {("verify.py", "verify")} | {
        ("verify_queries.py", "check_queries")}
    for log in (0, 1, 6, 27, 29, 32):
        ch = Writer()
        ch.message(Label.FINAL, array([log]))
        assert all(ch.challenge_below(Label.INDEX, 1 << log) < 1 << log for _ in range(200))
    for shape, case in SHAPES.items():
        made = proof(shape)
        top = max(int(w.shape[1]) if w is not None else case.fixed[k].shape[1] for k, w in case.witness.items())
        drawn = [v for label, _, _, v in check_words(made.keyed, made.program_id, made.words, record=True)
                 if label == Label.INDEX]
        assert len(drawn) == 8 and max(drawn) < 2 * top


# ---------------------------------------------------------------- 51: the checks of a verifier


class Cubic(Table):
    """x^4 = x^4, of too high a degree."""

    name = "CUBIC"
    constraint_count = 1
    x = token("any")

    def rules(t) -> None:
        t.zero("degree", t.x * t.x * t.x * (t.x - t.next(t.x)))


class Quadratic(Table):
    """The same of an allowed degree."""

    name = "QUADRATIC"
    constraint_count = 1
    x = token("any")

    def rules(t) -> None:
        t.zero("degree", t.x * t.x * (t.x - t.next(t.x)))


def test_51_largest_degree() -> None:
    System("s", [Quadratic()], [])
    with pytest.raises(AirError, match="degree"):
        System("s", [Cubic()], [])


def changed_at(label: Label, ordinal: int, change: Callable[[Any], Any]) -> Callable[[Proof], bytes]:
    """A proof file with one entry of its stream changed."""
    def build(p: Proof) -> bytes:
        entry = next(e for e in Recorded(p.words, p.events).entries() if (e.label, e.ordinal) == (label, ordinal))
        new = change(entry.of(p.words).copy())
        words = np.concatenate([p.words[:entry.start], new, p.words[entry.start + entry.size:]])
        return words.astype("<u8").tobytes()

    return build


def put(at: int, value: int) -> Callable[[Any], Any]:
    def change(w: Any) -> Any:
        w[at] = value % (1 << 64)
        return w

    return change


CHECKS: dict[str, tuple[Callable[[Proof], bytes], set[str]]] = {
    "honest": (Proof.to_bytes, set()),
    "size of the extension": (changed_at(Label.TABLES, 0, put(2, 27)), {"shape"}),
    "a size whose shift would wrap": (changed_at(Label.TABLES, 0, put(2, 64 + 6)), {"shape"}),
    "degree of the final polynomial": (changed_at(Label.FINAL, 0, lambda w: np.append(w, w[:3])), {"opening", "work",
                                                                                                "encoding", "fri"}),
    "number of evaluations": (changed_at(Label.VALUES, 0, lambda w: w[:-3]), TYPED - {"header", "program"}),
    "an evaluation at another place": (changed_at(Label.VALUES, 0, lambda w: np.roll(w, 3)), {"constraints"}),
    "a row at another place": (changed_at(Label.ROWS, 0, lambda w: np.roll(w, 1)), {"opening"}),
    "proof of work": (changed_at(Label.NONCE, 0, lambda w: w + np.uint64(1)), {"work"}),
    "a required table": (changed_at(Label.TABLES, 0, put(2, 0)), {"shape"}),
    "bytes that are no words": (lambda p: p.to_bytes()[:-3], {"truncated"}),
    "nothing at all": (lambda p: b"", {"truncated"}),
    "text": (lambda p: b"not a proof at all, but eight bytes times many".ljust(4096, b"."), {"header"}),
}


@pytest.fixture(scope="module")
def small_proof() -> Proof:
    return collatz.prove(5, params="fast", allow_insecure=True)


@pytest.mark.parametrize("name", CHECKS)
def test_51_each_check_of_a_verifier(name: str, small_proof: Proof) -> None:
    """The list that another project had to add one by one; largest degree above, security below."""
    build, expected = CHECKS[name]
    if not expected:
        assert verify(build(small_proof), collatz, allow_insecure=True).result == 5
        return
    with pytest.raises(VerificationError) as e:
        verify(build(small_proof), collatz, allow_insecure=True)
    assert e.value.category in expected


def test_51_parameters_against_the_demanded_security(small_proof: Proof) -> None:
    bits = verify(small_proof, collatz, allow_insecure=True).bits
    assert verify(small_proof, collatz, min_bits=bits, allow_insecure=True).bits == bits < 10
    for options in ({}, {"min_bits": 0}, *({"min_bits": x, "allow_insecure": True}
                                           for x in (bits + 0.01, float("nan"), float("inf")))):
        with pytest.raises(VerificationError) as e:
            verify(small_proof, collatz, **options)
        assert e.value.category == "soundness"
