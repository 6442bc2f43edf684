"""Provers that know a challenge before they should, and what each of them proves with it.

An attack runs a false claim against the *lax* verifier: the reference verifier, replaying some challenges of an honest
proof. It stands for a verifier that forgot to absorb the messages before them. Each attack uses what it knows of one
challenge, its ``label``. Others are frozen only where the attack must know them too; what it does with them alone does
not do, which :func:`attempt` with ``live`` shows.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np
import reference_verifier as ref
from cases import Case, Made, column_words, fibonacci, fibonacci_case, permutation_case, squares_case, word
from reference_verifier import Ext, add, base, inverse, mul, power, sub

from tailbite.air import Bus, Table, free, selector, token
from tailbite.channel import Label, Writer
from tailbite.field import GENERATOR, P
from tailbite.stark import prove as prover
from tailbite.stark import prove_fri, prove_quotient
from tailbite.stark.params import FINAL_LOG_DEGREE, preset
from tailbite.stark.prove_open import open_at
from tailbite.stark.system import System, commit_fixed, program_key
from tailbite.transcript import library

Drawn = Mapping[Label, Sequence[Any]]


class Replaying(Writer):
    """A channel that replays frozen challenges, and keeps those of the transcript, those that counted and messages.

    A frozen output is sent as it is, and another is absorbed.
    """

    def __init__(self, frozen: Drawn | None = None) -> None:
        super().__init__()
        self.frozen = {label: list(values) for label, values in (frozen or {}).items()}
        self.drawn: dict[Label, list[Any]] = defaultdict(list)
        self.given: dict[Label, list[Any]] = defaultdict(list)
        self.sent: dict[Label, list[int]] = {}
        self.final: Callable[[Any], Any] | None = None

    def replayed(self, label: Label, drawn: Any) -> Any:
        """The challenge that counts."""
        known = self.frozen.get(label)
        value = known[len(self.given[label])] if known is not None else drawn
        self.drawn[label].append(drawn)
        self.given[label].append(value)
        return value

    def challenge(self, label: Label) -> Ext:
        return self.replayed(label, super().challenge(label))

    def challenge_below(self, label: Label, bound: int) -> int:
        return self.replayed(label, super().challenge_below(label, bound))

    def pow_seed(self) -> list[int]:
        return list(self.replayed(Label.POW_SEED, super().pow_seed()))

    def message(self, label: Label, words: Any) -> None:
        if label == Label.FINAL and self.final is not None:
            words = self.final(self)
        sent = np.array(words, dtype=np.uint64).reshape(-1)
        self.sent[label] = sent.tolist()
        if label == Label.OUTPUT and label in self.frozen:
            self.parts.append(sent)
            self.absorb(label, self.replayed(label, sent.tolist()))
            return
        if label == Label.OUTPUT:
            self.replayed(label, sent.tolist())
        super().message(label, sent)


class Forger(NamedTuple):
    """A prover with what it believes the challenges to be, a channel, and the package's functions to replace."""

    old: Drawn
    nonce: int
    channel: Replaying
    patch: Any

    def known(self, label: Label) -> Any:
        """The first challenge of this label in the honest proof."""
        return self.old[label][0]

    def judge(self, case: Case, values: Sequence[Ext], zeta: Ext, root: Sequence[int] = ()) -> ref.Run:
        """The reference verifier with the values of the constraints' check; ``root`` if it is not sent yet."""
        keyed, _, key = keys(case)
        seen = {label.name.lower(): v for label, v in self.channel.given.items()} | {"zeta": [zeta]}
        words = [*self.channel.words().tolist(), *root, *(c for v in values for c in v)]
        run = ref.Run(keyed, words, seen)
        run.statement(key.id(keyed))
        run.commitments()
        run.values()
        return run

    def on_quotients(self, change: Callable[[Any, Any, list[Any]], None]) -> None:
        """``change(job, instances, quotients)`` before they are committed."""
        quotients = prove_quotient.quotients

        def changed(job: Any, instances: Any, *rest: Any) -> Any:
            out = quotients(job, instances, *rest)
            change(job, instances, out)
            return out

        self.patch.setattr(prove_quotient, "quotients", changed)

    def commit_shifted(self, quotient: Any, by: Sequence[Ext], zeta: Ext) -> None:
        """Commit q0 of a height plus an extension column, and batch what is committed: the prover's own batching starts
        from the polynomial."""
        codeword = prove_fri.codeword
        shift(quotient.extended, 0, by)

        def committed(job: Any, terms: Any, log: int, *rest: Any) -> Any:
            out = codeword(job, terms, log, *rest)
            if log == quotient.log:
                weight = next(w for c, w in terms.here if c.ctypes.data == quotient.rows[0].ctypes.data)
                size = out.shape[1].bit_length() - 1
                shift(out, 0, [mul(mul(weight, b), inverse(from_zeta(size, i, zeta))) for i, b in enumerate(by)])
            return out

        self.patch.setattr(prove_fri, "codeword", committed)

    def on_values(self, change: Callable[[list[Ext], Ext], None]) -> None:
        """``change(values, zeta)`` in place, before they are sent."""
        def changed(job: Any, instances: Any, quotients: Any, zeta: Any) -> Any:
            out = open_at(job, instances, quotients, zeta)
            change(out.values, zeta)
            return out

        self.patch.setattr(prover, "open_at", changed)

    def on_final(self, change: Callable[[Replaying, list[Ext]], Any]) -> None:
        """``change(channel, codeword)`` gives the final polynomial of a proof without folds."""
        codeword, seen = prove_fri.codeword, list[Any]()

        def noted(*args: Any) -> Any:
            seen.append(codeword(*args))
            return seen[-1]

        self.patch.setattr(prove_fri, "codeword", noted)
        self.channel.final = lambda channel: change(channel, list(zip(*seen[-1].tolist(), strict=True)))


class Attack(NamedTuple):
    """A claim with its honest twin, the challenges that are frozen, how it is forged, and how it is refused here."""

    label: Label
    others: tuple[Label, ...]
    honest: Case
    forge: Callable[[Forger], Case]
    category: str


def keys(case: Case, name: str = "fast") -> tuple[Any, Any, Any]:
    """A case's key, program tree and program key."""
    keyed = case.system.keyed(preset(name))
    tree = commit_fixed(case.fixed, keyed.params.log_blowup)
    return keyed, tree, program_key(keyed, case.entry, tree)


def prove(case: Case, channel: Replaying) -> Made:
    """Prove a case, be it true or not, over a channel."""
    keyed, tree, key = keys(case)
    words, _ = prover.prove(keyed, key, tree, case.output, case.witness, channel=channel)
    return Made(keyed, key.id(keyed), words, channel.events)


def lax(made: Made, frozen: Drawn, words: Any = None) -> str:
    """Why the verifier that replays challenges refuses; "" if it accepts."""
    try:
        ref.verify(made.keyed, made.program_id, made.words if words is None else words,
                   {label.name.lower(): values for label, values in frozen.items()})
    except ref.Refused as e:
        return str(e)
    return ""


# ---------------------------------------------------------------- linear algebra


def det(a: Ext, b: Ext, c: Ext) -> int:
    """Determinant of three elements as vectors over the base field."""
    return (a[0] * (b[1] * c[2] - b[2] * c[1]) - b[0] * (a[1] * c[2] - a[2] * c[1])
            + c[0] * (a[1] * b[2] - a[2] * b[1])) % P


def coordinates(a: Ext, b: Ext, c: Ext, target: Ext) -> tuple[int, int, int]:
    """Base elements x, y, z with x a + y b + z c = target (Cramer)."""
    scale = pow(det(a, b, c), -1, P)
    return det(target, b, c) * scale % P, det(a, target, c) * scale % P, det(a, b, target) * scale % P


def times(poly: list[int], root: int) -> list[int]:
    """The polynomial times (u - root)."""
    return [(a - root * b) % P for a, b in zip([0, *poly], [*poly, 0], strict=True)]


def through(points: Sequence[int], values: Sequence[Ext]) -> list[Ext]:
    """Coefficients of the polynomial of least degree through some points of the base field (Lagrange)."""
    out = [ref.ZERO] * len(points)
    for x, y in zip(points, values, strict=True):
        others = [z for z in points if z != x]
        basis = reduce(times, others, [1])
        scale = pow(reduce(lambda acc, z, x=x: acc * (x - z) % P, others, 1), -1, P)
        out = [add(o, mul(y, base(b * scale))) for o, b in zip(out, basis, strict=True)]
    return out


def flat(final: Sequence[Ext]) -> list[int]:
    """A final polynomial as it is sent."""
    padded = [*final, *[ref.ZERO] * ((1 << FINAL_LOG_DEGREE) - len(final))]
    return [c for x in padded for c in x]


def shift(columns: Any, at: int, by: Sequence[Ext]) -> None:
    """Add an extension column to three base columns from ``at`` on."""
    for k in range(3):
        columns[at + k] = [(int(x) + b[k]) % P for x, b in zip(columns[at + k], by, strict=True)]


def weights(batching: Sequence[Ext], count: int) -> list[Ext]:
    """Batching weights of all terms."""
    return [reduce(mul, (r for k, r in enumerate(batching) if t >> k & 1), ref.ONE) for t in range(count)]


def lacking(run: ref.Run, log: int) -> Ext:
    """What must be added to q0 at zeta for the constraints to hold there."""
    return mul(run.gap(log), inverse(sub(power(run.zeta, 1 << log), ref.ONE)))


# ---------------------------------------------------------------- bus challenges

OFFERS = [Bus(k, f"OFFER{k}", ("x",)) for k in range(1, 5)]
TUPLE = Bus(1, "TUPLE", ("a", "b", "c", "d"), state=True)


class Offers(Table):
    """Offers zero on four lookup buses."""

    name = "OFFERS"
    required = True
    constraint_count = 0
    m0, m1, m2, m3 = free("requests"), free("requests"), free("requests"), free("requests")

    def rules(t) -> None:
        for bus, m in zip(OFFERS, (t.m0, t.m1, t.m2, t.m3), strict=True):
            t.send(bus, (0,), m, lookup_table=True)


class Tuples(Table):
    """Sends a tuple of four, and receives one."""

    name = "TUPLES"
    required = True
    constraint_count = 1
    on = selector("in use")
    a, b, c, d = token("sent"), token("sent"), token("sent"), token("sent")
    e, f, g, h = token("received"), token("received"), token("received"), token("received")

    def rules(t) -> None:
        t.send(TUPLE, (t.a, t.b, t.c, t.d), t.on)
        t.receive(TUPLE, (t.e, t.f, t.g, t.h), t.on)


@cache
def offers() -> System:
    return System("offers", [Offers()], OFFERS)


@cache
def tuples() -> System:
    return System("tuples", [Tuples()], [TUPLE])


def offers_case(requests: Sequence[int]) -> Case:
    """The first row has these multiplicities; none are right but zeros, as nobody asks."""
    main = np.zeros((4, 32), dtype=np.uint64)
    main[:, 0] = requests
    return Case(offers(), b"", {0: main})


def tuples_case(sent: Sequence[int], received: Sequence[int]) -> Case:
    main = np.zeros((9, 32), dtype=np.uint64)
    main[:, 0] = [1, *sent, *received]
    return Case(tuples(), b"", {0: main})


def known_alpha(f: Forger) -> Case:
    """Multiplicities m with m0 / (alpha - 1) + ... + m3 / (alpha - 4) = 0, whatever beta is."""
    terms = [inverse(sub(f.known(Label.ALPHA), base(bus.id))) for bus in OFFERS]
    a, b, c = coordinates(*terms[:3], sub(ref.ZERO, terms[3]))
    return offers_case([a, b, c, 1])


def known_beta(f: Forger) -> Case:
    """Two tuples with the same fingerprint, whatever alpha is: their difference d has d0 + d1 beta + ... = 0."""
    beta = f.known(Label.BETA)
    square = mul(beta, beta)
    difference = [*coordinates(ref.ONE, beta, square, sub(ref.ZERO, mul(square, beta))), 1]
    return tuples_case([1, 2, 3, 4], [(x + d) % P for x, d in zip([1, 2, 3, 4], difference, strict=True)])


def known_bus_challenges(f: Forger) -> Case:
    """A square that the lookup table does not have, and requests that make up for it: both bus challenges at once."""
    honest = squares_case(6)
    total = honest.witness[1].copy()
    total[0, 9] += np.uint64(1)
    total[1, 9:] += np.uint64(1)
    alpha, beta = f.known(Label.ALPHA), f.known(Label.BETA)
    square = mul(beta, beta)

    def fraction(n: int, s: int) -> Ext:
        return inverse(sub(sub(alpha, base(2)), add(mul(beta, base(n)), mul(square, base(s)))))

    n, s = int(honest.fixed[1][0, 9]), int(total[0, 9])
    extra = coordinates(*(fraction(k, k * k) for k in (1, 2, 3)), sub(fraction(n, s), fraction(n, s - 1)))
    requests = honest.witness[0].copy()
    requests[0, 1:4] = [(int(m) + x) % P for m, x in zip(requests[0, 1:4], extra, strict=True)]
    return honest._replace(witness={0: requests, 1: total}, output=word(int(total[1, -1])))


# ---------------------------------------------------------------- constraints

WRONG_OUTPUT = word(1) + word(1) + word(7)


def wrong_fibonacci(log: int) -> Case:
    """Another last number."""
    return fibonacci_case(log)._replace(output=WRONG_OUTPUT)


def known_constraint(f: Forger) -> Case:
    """Both steps and both first numbers are wrong in row 0, by k with k0 + k1 c + k2 c^2 + k3 c^3 = 0."""
    c = f.known(Label.CONSTRAINT)
    square = mul(c, c)
    step_a, step_b, first_a = coordinates(ref.ONE, c, square, sub(ref.ZERO, mul(square, c)))
    a, b = 1 + first_a, 1 + 1
    rows = [(a % P, b)]
    a, b = (b + step_a) % P, (a + b + step_b) % P
    for _ in range(31):
        rows.append((a, b))
        a, b = b, (a + b) % P
    return Case(fibonacci(), word(1) + word(1) + word(rows[-1][1]), {0: column_words(*zip(*rows, strict=True))})


def free_output(f: Forger) -> Case:
    """Public words chosen when all challenges are known: with no quotient, three equations for three words.

    The trace is noise, so the claim is that a Fibonacci sequence has three random numbers.
    """
    noise = np.random.RandomState(1).randint(0, P, (2, 32), dtype=np.uint64)
    case = fibonacci_case(5)._replace(witness={0: noise})

    def none(job: Any, instances: Any, quotients: list[Any]) -> None:
        quotients[0].rows[:] = quotients[0].extended[:] = 0

    f.on_quotients(none)
    first = Replaying(f.channel.frozen)
    prove(case, first)
    run = f._replace(channel=first).judge(case, [], first.given[Label.ZETA][0])
    gaps = []
    for run.output_words in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]):
        gaps.append(run.gap(5))
    units = [sub(g, gaps[0]) for g in gaps[1:]]
    return case._replace(output=b"".join(map(word, coordinates(*units, sub(ref.ZERO, gaps[0])))))


def known_zeta(f: Forger) -> Case:
    """A quotient that is right at zeta, and nowhere else: a constant makes up for what is missing there."""
    case, zeta = wrong_fibonacci(5), f.known(Label.ZETA)

    def change(job: Any, instances: Any, quotients: list[Any]) -> None:
        values = open_at(job, instances, quotients, zeta).values
        lack = lacking(f.judge(case, values, zeta, [0] * 4), 5)
        for columns in (quotients[0].rows, quotients[0].extended):
            shift(columns, 0, [lack] * columns.shape[1])

    f.on_quotients(change)
    return case


def known_batching(f: Forger) -> Case:
    """Wrong values of q0 and q1, which satisfy the constraints and whose errors cancel in the batch."""
    case = wrong_fibonacci(5)

    def change(values: list[Ext], zeta: Ext) -> None:
        q0, q1 = weights(f.old[Label.BATCHING], len(values))[-2:]
        ratio = mul(q0, inverse(q1))
        scale = inverse(sub(ref.ONE, mul(power(zeta, 32), ratio)))
        error = mul(lacking(f.judge(case, values, zeta), 5), scale)
        values[-2] = add(values[-2], error)
        values[-1] = sub(values[-1], mul(error, ratio))

    f.on_values(change)
    return case


# ---------------------------------------------------------------- low degree


def point(log_size: int, i: int) -> int:
    """The point of FRI's domain, u = x / 7."""
    return pow(ref.root(log_size), i, P)


def from_zeta(log_size: int, i: int, zeta: Ext) -> Ext:
    """x - zeta."""
    return sub(base(GENERATOR * point(log_size, i)), zeta)


def known_fri_beta(f: Forger) -> Case:
    """A word far from every codeword that folds to nothing: (u - beta) s(u^2), for any s.

    It is put into q0, whose claimed value is the one that the constraints demand.
    """
    case, zeta, beta = wrong_fibonacci(6), f.known(Label.ZETA), f.known(Label.FRI_BETA)
    rng, lie = random.Random(1), list[Ext]()

    def commit(job: Any, instances: Any, quotients: list[Any]) -> None:
        values = open_at(job, instances, quotients, zeta).values
        lie.append(lacking(f.judge(case, values, zeta, [0] * 4), 6))
        weight = inverse(weights(f.old[Label.BATCHING], len(values))[-2])
        s = [base(rng.randrange(P)) for _ in range(64)]
        far = [mul(mul(sub(base(point(7, i)), beta), s[i % 64]), weight) for i in range(128)]
        f.commit_shifted(quotients[0], [add(mul(x, from_zeta(7, i, zeta)), lie[0]) for i, x in enumerate(far)], zeta)

    def claim(values: list[Ext], _zeta: Ext) -> None:
        values[-2] = add(values[-2], lie[0])

    f.on_quotients(commit)
    f.on_values(claim)
    return case


def twice_received() -> Case:
    """One message is received twice and sent twice, which a selector forbids, at the smaller of two heights."""
    case = permutation_case(6, [5], 20)
    sent, got = case.witness[0].copy(), case.witness[1].copy()
    got[0, 0] = 2
    sent[:, 20] = 1, got[2, 0]
    return case._replace(witness={0: sent, 1: got})


def known_fri_lambda(f: Forger) -> Case:
    """The smaller height's wrong value of q0 is made up for by a far word in the larger one's, times -lambda."""
    case, zeta, factor = twice_received(), f.known(Label.ZETA), f.known(Label.FRI_LAMBDA)
    lie = list[Ext]()

    def commit(job: Any, instances: Any, quotients: list[Any]) -> None:
        values = open_at(job, instances, quotients, zeta).values
        lie.append(lacking(f.judge(case, values, zeta, [0] * 4), 5))
        high, _, low, _ = weights(f.old[Label.BATCHING], len(values))[-4:]
        scale = mul(mul(mul(factor, lie[0]), low), inverse(high))
        word_low = [mul(scale, inverse(from_zeta(6, j, zeta))) for j in range(64)]
        f.commit_shifted(quotients[0], [mul(word_low[i % 64], from_zeta(7, i, zeta)) for i in range(128)], zeta)

    def claim(values: list[Ext], _zeta: Ext) -> None:
        values[-2] = add(values[-2], lie[0])

    f.on_quotients(commit)
    f.on_values(claim)
    return case


def demanded(f: Forger, case: Case) -> None:
    """Claim the value of q0 that the constraints demand, so that the codeword is far from the code."""
    def claim(values: list[Ext], zeta: Ext) -> None:
        values[-2] = add(values[-2], lacking(f.judge(case, values, zeta), 5))

    f.on_values(claim)


def known_index(f: Forger) -> Case:
    """A final polynomial through the queried points of a word that is far from the code, and no others."""
    case, asked = wrong_fibonacci(5), sorted(set(f.old[Label.INDEX]))
    demanded(f, case)
    f.on_final(lambda _, codeword: flat(through([point(6, i) for i in asked], [codeword[i] for i in asked])))
    return case


def known_pow_seed(f: Forger) -> Case:
    """Final polynomials that are right at half of the points, until all queries fall there: one nonce does for all."""
    case = wrong_fibonacci(5)
    demanded(f, case)

    def search(channel: Replaying, codeword: list[Ext]) -> list[int]:
        good = range(31)
        points = [point(6, i) for i in good]
        start, step = flat(through(points, [codeword[i] for i in good])), reduce(times, points, [1])
        for k in range(1 << 14):
            final = start.copy()
            final[::3] = [(a + k * b) % P for a, b in zip(final[::3], step, strict=True)]
            if all(q in good for q in queries(channel, final, f.nonce, 6)):
                return final
        raise AssertionError("no final polynomial is right at all queries")

    f.on_final(search)
    return case


def queries(channel: Replaying, final: Sequence[int], nonce: int, log_size: int) -> list[int]:
    """The indices that would be drawn after a final polynomial."""
    t = channel.t.copy()
    library.absorb_words(t, np.array(final, dtype=np.uint64))
    library.squeeze(t)
    library.absorb_words(t, np.array([nonce], dtype=np.uint64))
    return [int(library.sample_below(t, 1 << log_size)) for _ in range(preset("fast").num_queries)]


# ---------------------------------------------------------------- all of them

ATTACKS: dict[str, Attack] = {
    "statement": Attack(Label.OUTPUT, (), fibonacci_case(5), free_output, "constraints"),
    "alpha": Attack(Label.ALPHA, (), offers_case([0] * 4), known_alpha, "constraints"),
    "beta": Attack(Label.BETA, (), tuples_case([1, 2, 3, 4], [1, 2, 3, 4]), known_beta, "constraints"),
    "alpha and beta": Attack(Label.ALPHA, (Label.BETA,), squares_case(6), known_bus_challenges, "constraints"),
    "constraint": Attack(Label.CONSTRAINT, (), fibonacci_case(5), known_constraint, "constraints"),
    "zeta": Attack(Label.ZETA, (), fibonacci_case(5), known_zeta, "constraints"),
    "batching": Attack(Label.BATCHING, (), fibonacci_case(5), known_batching, "fri"),
    "fri beta": Attack(Label.FRI_BETA, (Label.ZETA, Label.BATCHING), fibonacci_case(6), known_fri_beta, "constraints"),
    "fri lambda": Attack(Label.FRI_LAMBDA, (Label.ZETA, Label.BATCHING), permutation_case(6, [5], 20),
                         known_fri_lambda, "constraints"),
    "proof of work": Attack(Label.POW_SEED, (), fibonacci_case(5), known_pow_seed, "work"),
    "index": Attack(Label.INDEX, (), fibonacci_case(5), known_index, "opening"),
}


class Outcome(NamedTuple):
    """Both proofs of an attack, the forged one's case and channel, and what was frozen."""

    honest: Made
    case: Case
    forged: Made
    channel: Replaying
    frozen: Drawn


def attempt(attack: Attack, patch: Any, live: Sequence[Label] = ()) -> Outcome:
    """Make the honest proof, then forge with its challenges, of which those in ``live`` are drawn afresh after all."""
    first = Replaying()
    honest = prove(attack.honest, first)
    frozen = {label: first.given[label] for label in (attack.label, *attack.others) if label not in live}
    channel = Replaying(frozen)
    with patch.context() as inner:
        case = attack.forge(Forger(first.given, first.sent[Label.NONCE][0], channel, inner))
        forged = prove(case, channel)
    return Outcome(honest, case, forged, channel, frozen)
