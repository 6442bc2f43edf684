"""Kinds of mistakes 33-42: the Fiat-Shamir transcript.

A message that is not absorbed can be chosen after the challenges that should depend on it. Three tests carry such an
attack out against a pair that does not absorb it, a prover and the reference verifier made deaf to it, and show that
the package's verifier refuses the same false claim.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference_verifier as ref
from cases import Case, Made, column_words, echo_case, fibonacci, fibonacci_case, make, permutation_case, proof, word
from plain import ints
from tamper import Recorded
from test_agreement import natively
from test_dishonest import lie, wrong_step

import tailbite
from tailbite.channel import ABSORB, CHALLENGE, MESSAGE, Label, Writer, describe
from tailbite.field import P
from tailbite.hash.keccak import RATE_WORDS
from tailbite.stark import prove_fri
from tailbite.stark.params import PRESETS, preset
from tailbite.stark.prove import prove
from tailbite.stark.system import Keyed, System, commit_fixed, program_key
from tailbite.stark.verify import HEADER_WORDS
from tailbite.transcript import Transcript
from tailbite.vm.machine import machine

SOURCES = Path(tailbite.__file__).parent
MASK = (1 << 64) - 1


# ---------------------------------------------------------------- a pair that does not absorb some messages


class DeafWriter(Writer):
    """A prover's end that sends messages of some labels without absorbing them."""

    def __init__(self, deaf: set[Label]) -> None:
        super().__init__()
        self.deaf = deaf

    def message(self, label: Label, words: Any) -> None:
        before = self.t.copy()
        super().message(label, words)
        if label in self.deaf:
            self.t[:] = before


class DeafStream(ref.Stream):
    """The same for the reference verifier; its messages are counted."""

    def __init__(self, words: Any, deaf: set[int]) -> None:
        super().__init__(words)
        self.deaf, self.count = deaf, 0

    def message(self, count: int) -> list[int]:
        self.count += 1
        return self.hint(count) if self.count - 1 in self.deaf else super().message(count)


def deaf_proof(case: Case, deaf: set[Label]) -> Made:
    """A proof in the protocol that does not absorb these messages."""
    keyed = case.system.keyed(preset("fast"))
    tree = commit_fixed(case.fixed, keyed.params.log_blowup)
    key = program_key(keyed, case.entry, tree)
    words, channel = prove(keyed, key, tree, case.output, case.witness, channel=DeafWriter(deaf))
    return Made(keyed, key.id(keyed), words, channel.events)


def deaf_run(made: Made, deaf: set[Label]) -> ref.Run:
    """The reference verifier of that protocol, before it has read anything."""
    messages = [label for label, kind, _, _ in made.events if kind == MESSAGE]
    run = ref.Run(made.keyed, made.words)
    run.s = DeafStream(made.words, {k for k, label in enumerate(messages) if label in deaf})
    run.t = run.s.transcript
    return run


def deaf_verdict(made: Made, deaf: set[Label]) -> bool:
    """Whether the verifier of that protocol accepts."""
    try:
        deaf_run(made, deaf).verify(made.program_id)
    except ref.Refused:
        return False
    return True


def replaced(made: Made, label: Label, ordinal: int, words: Iterable[int]) -> Made:
    """The proof with another message in the place of one."""
    entry = next(e for e in Recorded(made.words, made.events).entries() if (e.label, e.ordinal) == (label, ordinal))
    out = made.words.copy()
    out[entry.start:entry.start + entry.size] = list(words)
    return made._replace(words=out)


def solved(matrix: list[list[int]], right: list[int]) -> list[int]:
    """The solution of a regular linear system over F_p."""
    rows = [[*m, r] for m, r in zip(matrix, right, strict=True)]
    n = len(rows)
    for c in range(n):
        pivot = next(k for k in range(c, n) if rows[k][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        scale = pow(rows[c][c], -1, P)
        rows[c] = [x * scale % P for x in rows[c]]
        for k in range(n):
            if k != c:
                rows[k] = [(x - rows[k][c] * y) % P for x, y in zip(rows[k], rows[c], strict=True)]
    return [r[-1] for r in rows]


def read_up_to_values(made: Made, deaf: set[Label]) -> ref.Run:
    """The verifier, when it has read the opened values and checked nothing."""
    run = deaf_run(made, deaf)
    run.statement(made.program_id)
    run.commitments()
    run.values()
    return run


def gap(run: ref.Run, log: int = 5) -> ref.Ext:
    """By how much the constraints at zeta miss (zeta^n - 1) (q0 + zeta^n q1)."""
    total, scale = ref.ZERO, ref.ONE
    for c in run.table_constraints(run.slots[0]):
        total, scale = ref.add(total, ref.mul(scale, c)), ref.mul(scale, run.combination)
    zeta_n = ref.power(run.zeta, 1 << log)
    q0, q1 = run.quotients[log]
    return ref.sub(total, ref.mul(ref.sub(zeta_n, ref.ONE), ref.add(q0, ref.mul(zeta_n, q1))))


def test_33_a_public_output_chosen_last() -> None:
    """Frozen Heart. With zeta known, three public words solve the three coordinates of the constraint check."""
    deaf = {Label.OUTPUT}
    true = deaf_proof(fibonacci_case(5), deaf)
    assert deaf_verdict(true, deaf) and true.refusal() != ""
    assert make(fibonacci_case(5)).refusal() == ""

    made = deaf_proof(wrong_step(1, 0), deaf)
    assert not deaf_verdict(made, deaf)
    run = read_up_to_values(made, deaf)
    missing, claims = gap(run), run.output_words
    slopes = []  # the check is affine in the words: what one more in each of them changes
    for k in range(3):
        run.output_words = [x + (i == k) for i, x in enumerate(claims)]
        slopes.append(ref.sub(gap(run), missing))
    more = solved([[s[c] for s in slopes] for c in range(3)], [-x % P for x in missing])
    output = [(x + d) % P for x, d in zip(claims, more, strict=True)]
    forged = replaced(made, Label.OUTPUT, 1, output)
    assert deaf_verdict(forged, deaf)
    a, b = output[:2]
    for _ in range(31):
        a, b = b, (a + b) % P
    assert a != output[2], "what was forged is false"
    assert forged.refusal() != ""
    honest_prover = make(wrong_step(1, 0)._replace(output=b"".join(map(word, output))))
    assert honest_prover.refusal() == "constraints"


def test_34_opened_values_chosen_after_the_batching() -> None:
    """Two values change so that the constraints hold and the weighted sum stays."""
    deaf = {Label.VALUES}
    false = fibonacci_case(5)._replace(output=word(1) + word(1) + word(7))
    assert deaf_verdict(deaf_proof(fibonacci_case(5), deaf), deaf)
    made = deaf_proof(false, deaf)
    assert not deaf_verdict(made, deaf)

    run = read_up_to_values(made, deaf)
    zeta_n = ref.power(run.zeta, 32)
    missing = ref.mul(gap(run), ref.inverse(ref.sub(zeta_n, ref.ONE)))
    drawn = [run.t.ext() for _ in range((len(run.terms) - 1).bit_length())]
    w0, w1 = ref.ONE, ref.ONE
    for k, r in enumerate(drawn):
        w0 = ref.mul(w0, r) if (len(run.terms) - 2) >> k & 1 else w0
        w1 = ref.mul(w1, r) if (len(run.terms) - 1) >> k & 1 else w1
    # d0 + zeta^n d1 = missing and w0 d0 + w1 d1 = 0
    d1 = ref.mul(missing, ref.inverse(ref.sub(zeta_n, ref.mul(w1, ref.inverse(w0)))))
    d0 = ref.sub(missing, ref.mul(zeta_n, d1))
    q0, q1 = run.quotients[5]
    values = [t.value for t in run.terms[:-2]] + [ref.add(q0, d0), ref.add(q1, d1)]
    forged = replaced(made, Label.VALUES, 0, [c for v in values for c in v])
    assert deaf_verdict(forged, deaf)
    assert forged.refusal() != "" and make(false).refusal() == "constraints"


def test_34_a_final_polynomial_chosen_after_the_queries(monkeypatch: Any) -> None:
    """A polynomial of 32 coefficients goes through whatever stands at the eight queried points."""
    deaf, seen = {Label.FINAL}, []
    commit_phase = prove_fri.commit_phase

    def spy(job: Any, ch: Any, codewords: Any) -> Any:
        seen.append(codewords[6])
        return commit_phase(job, ch, codewords)

    monkeypatch.setattr(prove_fri, "commit_phase", spy)
    assert deaf_verdict(deaf_proof(fibonacci_case(5), deaf), deaf)
    false = fibonacci_case(5)._replace(output=word(1) + word(1) + word(7))
    lie(monkeypatch, false)
    made = deaf_proof(false, deaf)
    assert not deaf_verdict(made, deaf)
    queries = sorted({v for label, _, _, v in made.events if label == Label.INDEX})
    points = [pow(ref.root(6), q, P) for q in queries]
    coefficients = [[0] * 32 for _ in range(3)]
    for c in range(3):
        matrix = [[pow(u, k, P) for k in range(len(points))] for u in points]
        coefficients[c][:len(points)] = solved(matrix, [int(seen[-1][c, q]) for q in queries])
    forged = replaced(made, Label.FINAL, 0, [x for row in zip(*coefficients, strict=True) for x in row])
    assert deaf_verdict(forged, deaf)
    assert forged.refusal() != "" and make(false).refusal() == "fri"


# ---------------------------------------------------------------- what is bound


def seen_by_verifier(keyed: Keyed, program_id: bytes, words: Any) -> list[int]:
    """Challenges that the package's verifier drew until it refused or accepted."""
    return [v for _, kind, _, v in natively(keyed)(program_id, words).events if kind == CHALLENGE]


def other_statements(made: Made) -> Iterator[tuple[str, Keyed, bytes, Any]]:
    """The same proof for a verifier that is asked about something else, its ids made to match."""
    n = len(made.keyed.system.program_tables)
    at_output = HEADER_WORDS + 5 + n

    def changed(at: int, value: int) -> Any:
        words = made.words.copy()
        words[at] = value
        return words

    def program(words: Any, keyed: Keyed) -> bytes:
        from tailbite.stark.system import ProgramKey
        key = ints(words[HEADER_WORDS:at_output])
        return ProgramKey(key[0], tuple(key[1:1 + n]), tuple(key[1 + n:])).id(keyed)

    other = copy.copy(made.keyed)
    other.__dict__["vm_words"] = made.keyed.vm_words ^ np.uint64(1)
    yield "vm id", other, program(made.words, other), made.words
    other = copy.copy(made.keyed)
    other.__dict__["params_words"] = made.keyed.params_words.copy()
    other.params_words[3] = 5
    yield "preset", other, made.program_id, changed(2, 5)
    for k in (0, *range(1 + n, 5 + n)):  # entry and root; the heights follow below
        words = changed(HEADER_WORDS + k, int(made.words[HEADER_WORDS + k]) ^ 1)
        yield f"program word {k}", made.keyed, program(words, made.keyed), words
    words = changed(HEADER_WORDS + 1, 7)
    words[at_output + 2] = 7  # and the table list, which must agree
    yield "program height", made.keyed, program(words, made.keyed), words
    words = changed(at_output, 4)
    yield "output length", made.keyed, made.program_id, words
    for bit in (0, 8, 16):
        words = changed(at_output + 1, int(made.words[at_output + 1]) ^ 1 << bit)
        yield f"output byte {bit // 8}", made.keyed, made.program_id, words
    for k in (1, 2):  # BEGIN and EMIT
        yield f"height of table {k}", made.keyed, made.program_id, changed(at_output + 2 + k, 6)


def test_33_every_field_of_the_statement_changes_the_challenges() -> None:
    """As the package's verifier draws them; the proof's messages after the statement stay as they are."""
    made = proof("echo 3")
    baseline = seen_by_verifier(made.keyed, made.program_id, made.words)
    assert len(baseline) > 8 and made.refusal() == ""
    names, first = [], {baseline[0]}
    for name, keyed, program_id, words in other_statements(made):
        drawn = seen_by_verifier(keyed, program_id, words)
        assert len(drawn) >= 4, f"{name}: alpha, beta, constraint and zeta are drawn before a check can fail"
        assert all(a != b for a, b in zip(drawn, baseline, strict=False)), name
        names.append(name)
        first.add(drawn[0])
    assert len(first) == 1 + len(names) >= 15, "no two statements have the same challenges"


def test_33_no_challenge_before_the_whole_statement() -> None:
    """The order of steps; nothing of the statement comes later. This also binds the program first (kind 42)."""
    statement = [Label.DOMAIN, Label.DOMAIN, Label.PROGRAM, Label.PROGRAM_ID, Label.OUTPUT, Label.OUTPUT, Label.TABLES]
    for shape in ("echo 3", "echo nothing", "fibonacci 5", "squares 5"):
        made = proof(shape)
        events = natively(made.keyed)(made.program_id, made.words).events
        labels = [label for label, _, _, _ in events]
        assert labels[:7] == statement and not set(statement) & set(labels[7:])
        assert {kind for _, kind, _, _ in events[:7]} == {MESSAGE, ABSORB}


# ---------------------------------------------------------------- 35: what the tables say


def lax(change: dict[str, Any]) -> System:
    """The Fibonacci system with a lowered table changed."""
    system = fibonacci_system_copy()
    system.__dict__["programs"] = [dataclasses.replace(system.programs[0], **change)]
    return system


def fibonacci_system_copy() -> System:
    return dataclasses.replace(fibonacci())


def changed_rules() -> Iterator[tuple[str, dict[str, Any]]]:
    """One change each; most keep every count and width."""
    p = fibonacci().programs[0]
    for k, (kind, a, b) in enumerate(p.ops):
        yield f"operation {k}", {"ops": (*p.ops[:k], ((kind + 1) % 3, a, b), *p.ops[k + 1:])}
        yield f"operand {k}", {"ops": (*p.ops[:k], (kind, 1 - a if a < 2 else a - 1, b), *p.ops[k + 1:])}
    for k in range(len(p.zeros)):
        yield f"constraint {k}", {"zeros": (*p.zeros[:k], p.zeros[k] - 1, *p.zeros[k + 1:])}
        yield f"constraint {k} left out", {"zeros": p.zeros[:k] + p.zeros[k + 1:]}
    yield "order of constraints", {"zeros": p.zeros[::-1]}
    yield "constants", {"constants": tuple(c + 1 for c in p.constants)}
    yield "public words", {"publics": p.publics[::-1]}
    yield "following columns", {"following": p.following[::-1]}
    yield "not required", {"required": False}
    yield "heights", {"max_log": p.max_log - 1}
    yield "instances", {"instances": 2}
    yield "width", {"main_count": 3}
    yield "name of a constraint", {"constraint_names": ("other", *p.constraint_names[1:])}


def test_35_a_constraint_changes_without_its_shape() -> None:
    """Each change makes another machine: no proof goes from one to the other, in either direction."""
    honest, seen = make(fibonacci_case(5)), set()
    assert honest.refusal() == "" and fibonacci_system_copy().keyed(preset("fast")).vm_id == honest.keyed.vm_id
    alpha = [v for label, _, _, v in honest.events if label == Label.CONSTRAINT]
    for name, change in changed_rules():
        keyed = lax(change).keyed(preset("fast"))
        seen.add(keyed.vm_id)
        assert keyed.vm_id != honest.keyed.vm_id, name
        assert honest._replace(keyed=keyed).refusal() == "program", name
        if set(change) <= {"zeros", "constants", "required", "max_log", "constraint_names"}:
            own = make(fibonacci_case(5)._replace(system=lax(change)))
            assert own._replace(keyed=honest.keyed).refusal() == "program", name
            assert [v for label, _, _, v in own.events if label == Label.CONSTRAINT] != alpha, name
    assert len(seen) == len(list(changed_rules())) > 25


def test_35_every_rule_of_the_machine_is_in_its_identity() -> None:
    """In each table a constraint turned into another, a bus message into its opposite, or left out; and each preset."""
    real, seen = machine().keyed(preset("min")), set()

    def identity(program: Any) -> bytes:
        """That of a machine with this table alone."""
        other = copy.copy(real)
        other.system = copy.copy(machine())
        other.system.__dict__["programs"] = [program]
        other.system.__dict__.pop("slots", None)
        other.__dict__.pop("words", None)
        other.__dict__.pop("vm_id", None)
        return other.vm_id

    assert identity(machine().programs[5]) == identity(dataclasses.replace(machine().programs[5]))
    count, rng = 0, random.Random(35)
    for p in machine().programs:
        changes: list[dict[str, Any]] = [{}]
        if p.zeros:
            k = rng.randrange(len(p.zeros))
            changes.append({"zeros": (*p.zeros[:k], p.zeros[k] - 1, *p.zeros[k + 1:])})
        if p.ops:
            k = rng.randrange(len(p.ops))
            kind, a, b = p.ops[k]
            changes.append({"ops": (*p.ops[:k], ((kind + 1) % 3, a, b), *p.ops[k + 1:])})
        if p.interactions:
            k = rng.randrange(len(p.interactions))
            i = p.interactions[k]
            turned = dataclasses.replace(i, multiplicity=i.multiplicity.times(-1))
            changes.append({"interactions": (*p.interactions[:k], turned, *p.interactions[k + 1:])})
            changes.append({"interactions": p.interactions[:k] + p.interactions[k + 1:]})
        for change in changes:
            seen.add(identity(dataclasses.replace(p, **change)))
            count += 1
    assert len(seen) == count > 150
    assert len({machine().keyed(p).vm_id for p in PRESETS if p.log_blowup == 1}) == 4


# ---------------------------------------------------------------- 36: where challenges come from


@functools.cache
def syntax_trees() -> list[tuple[str, ast.FunctionDef]]:
    """(file, function) of the package."""
    return [(path.name, node) for path in SOURCES.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef)]


def calls(names: set[str]) -> set[tuple[str, str]]:
    """(file, function) of every call of these names in the package."""
    return {(file, f.name) for file, f in syntax_trees() for node in ast.walk(f)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names}


def test_36_challenges_come_out_of_the_channel_alone() -> None:
    """Drawing, and reading without absorbing, happen in few places; the verifier takes no challenge as an argument."""
    assert calls({"sample_ext", "sample_below", "sample_field"}) <= {
        ("channel.py", "challenge"), ("channel.py", "challenge_below"), ("transcript.py", "__init__"),
        ("transcript.py", "sample_ext")}
    assert calls({"take"}) == {("channel.py", "message"), ("channel.py", "hint")}
    assert calls({"hint"}) == {("verify_trees.py", "read_row"), ("verify_trees.py", "climb")}
    assert calls({"squeeze"}) == {("transcript.py", "__init__"), ("transcript.py", "next_word"),
                                  ("verify_queries.py", "check_work")}
    from tailbite.stark.verify import verify
    assert list(verify.signature) == ["key", "params", "vm_id", "program_id", "proof", "memory", "log"]


# ---------------------------------------------------------------- 37: the sponge


def test_37_trailing_zeros_and_boundaries() -> None:
    """Words are padded, and the lengths of all messages are fixed by what was absorbed before."""
    seven, zeros = Transcript(), Transcript()
    seven.append_words([5, 7])
    zeros.append_words([5, 7, 0, 0])
    assert seven.digest() != zeros.digest()
    outputs = [b"", b"\0", b"\0\0", bytes(8), bytes(9), bytes(16), b"ab", b"ab\0", b"abcdefgh", b"abcdefgh\0"]
    alphas = set()
    for output in outputs:
        made = make(echo_case(output))
        assert made.refusal() == ""
        alphas.add(next(v for label, _, _, v in made.events if label == Label.ALPHA))
    assert len(alphas) == len(outputs)
    # the table list read as a part of the output, at the same bytes
    made = make(echo_case(b"abc"))
    words = made.words.copy()
    at = HEADER_WORDS + 5 + 1
    words[at] = 11
    assert made.refusal(words) in {"encoding", "shape", "statement"}


def test_37_the_capacity_stays_inside() -> None:
    """What is squeezed is the first words of the rate; the state starts anew from it, so nothing else is left."""
    t = Transcript(b"sponge")
    for step in range(50):
        t.append_bytes(bytes([step]) * (step * 7 % 300))
        out = np.frombuffer(t.sample(), dtype="<u8")
        assert t.state[:4].tolist() == out.tolist() and not t.state[4:25].any()
    t.append_words(range(RATE_WORDS - 4))  # fills the block: the permutation has run
    capacity = set(ints(t.state[RATE_WORDS:25]))
    drawn = {t.next_u64() for _ in range(64)} | {int.from_bytes(t.sample()[k:k + 8], "little") for k in range(0, 32, 8)}
    assert len(capacity) == 8 and not capacity & drawn


# ---------------------------------------------------------------- 38: encodings


EDGES = (0, 1, P - 1, P - 2, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, P >> 1)


def test_38_every_internal_form_gives_the_same_proof() -> None:
    """The prover's kernels work on any representatives; what it sends is canonical, and the same for all of them."""
    case = permutation_case(6, [5], 64)
    for slot, at in ((0, 1), (1, 2), (1, 3)):
        column = case.witness[slot][at]
        column[:] = [EDGES[k % len(EDGES)] for k in range(len(column))]
    plain = make(case)
    assert plain.refusal() == ""
    other = {k: w.copy() for k, w in case.witness.items()}
    for slot, at in ((0, 1), (1, 2), (1, 3)):
        small = other[slot][at] <= MASK - P
        other[slot][at][small] += np.uint64(P)
    assert any((w >= P).any() for w in other.values())
    assert make(case._replace(witness=other)).words.tobytes() == plain.words.tobytes()
    for entry in Recorded(plain.words, plain.events).entries():
        if entry.label in {Label.SIGMA, Label.VALUES, Label.FINAL, Label.ROWS}:
            assert (entry.of(plain.words) < P).all(), entry.name


def test_38_bytes_after_the_end() -> None:
    made = proof("squares 5")
    assert made.refusal() == ""
    for extra in ([0], [P], made.words[-4:], [0] * 17):
        assert made.refusal(np.append(made.words, np.array(extra, dtype=np.uint64))) == "extended"


# ---------------------------------------------------------------- 41: domains


def test_41_hash_domains_are_apart() -> None:
    """The tags of all uses of the hash; a proof of work is no step of the transcript."""
    from tailbite.hash.merkle import NODE_MARK
    from tailbite.stark.system import MAGIC, PROGRAM_TAG
    from tailbite.stark.verify_queries import POW_TAG

    tags = [b"tailbite vm id"[:8], PROGRAM_TAG.to_bytes(8, "little"), POW_TAG.to_bytes(8, "little"),
            MAGIC.to_bytes(8, "little"), NODE_MARK.to_bytes(8, "little")]
    assert tags == [b"tailbite", b"tb prog\0", b"tb pow\0\0", b"tailbite", b"\xff" * 8]
    # the two that begin alike go on differently: "vm id", and the version of a proof
    assert b"tailbite vm id\0\0"[8:] != (1).to_bytes(8, "little")
    made = proof("fibonacci 5")
    seed = next(v for label, _, _, v in made.events if label == Label.POW_SEED)
    digest = ref.digest([POW_TAG, 1, 2, 3, 4, 4, 5])
    assert digest != ref.digest([1, 2, 3, 4, 4, 5]) and digest != ref.digest([POW_TAG, 1, 2, 3, 4, 5, 5])
    assert seed not in [v for label, kind, _, v in made.events if kind == CHALLENGE and label != Label.POW_SEED]


def test_42_the_statement_is_absorbed_before_the_first_commitment() -> None:
    """A program cannot know a challenge of a proof about itself: its id is in all of them."""
    a, b = make(echo_case(b"abc")), make(echo_case(b"abd"))
    assert a.refusal() == b.refusal() == "" and a.program_id != b.program_id
    first, second = ([v for _, kind, _, v in m.events if kind == CHALLENGE] for m in (a, b))
    same = [k for k, (x, y) in enumerate(zip(first, second, strict=True)) if x == y and x > 1 << 16]
    assert not same
    at = [line.split()[0] for line in describe(a.events)]
    assert at.index("program_id") < at.index("main_root") < at.index("alpha")


def test_39_the_prover_and_verifier_draw_alike_from_a_range_of_one() -> None:
    """A draw of no bits takes one word on both sides, by one and the same function."""
    from tailbite.transcript import library, sample_below

    state = Transcript(b"none").state
    compiled, interpreted, kept = state.copy(), state.copy(), state.copy()
    assert int(library.sample_below(compiled, 1)) == int(sample_below(interpreted, 1)) == 0
    assert np.array_equal(compiled, interpreted)
    library.next_word(kept)
    assert np.array_equal(compiled, kept) and not np.array_equal(kept, state)


@pytest.mark.parametrize("log", [6, 7, 13, 31])
def test_39_query_indices_are_uniform_in_every_bit(log: int) -> None:
    """4096 draws as the prover makes them. Hoeffding: a fair bit is off by more than 256 less than once in 2^45."""
    ch = Writer()
    ch.message(Label.FINAL, column_words(1, 2, 3))
    drawn = [ch.challenge_below(Label.INDEX, 1 << log) for _ in range(4096)]
    for bit in range(log):
        assert abs(sum(x >> bit & 1 for x in drawn) - 2048) < 256
    assert max(drawn) < 1 << log
