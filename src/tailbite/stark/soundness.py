"""Proven soundness, round by round.

`soundness(params, shape)` bounds, for every move of the verifier, the probability that a false statement
survives it, and reports -log2 of each bound. The claim is the least of them. It holds for the interactive
protocol with round-by-round soundness; the Fiat-Shamir step adds the assumption that the hash is a random
oracle, and nothing here rests on a conjecture about Reed-Solomon codes.

Sources
    [BCHKS25]  Ben-Sasson, Carmon, Haboeck, Kopparty, Saraf, eprint 2025/2055: Theorems 4.2 and 4.6, (mutual)
               correlated agreement up to the Johnson radius. The printed multiplicity lacks a factor 2 in the
               denominator, a slip confirmed by the authors; Theorem 1.5 has it.
    [BCIKS20]  eprint 2020/654, Theorem 4.1: correlated agreement in the unique-decoding regime.
    [Hab22]    Haboeck, eprint 2022/1216, Theorem 8: DEEP-ALI in the list-decoding regime.
    [LogUp]    Haboeck, eprint 2022/1530.
    soundcalc  github.com/ethereum/soundcalc at 809896f, the public calculator; the tests compare with it.

Where this protocol differs from the calculator's model
    * One list for all heights. A query index i selects row i mod h in every table, so all codewords may be
      read on the largest domain, where two different tuples of them agree on at most a `rate` fraction: the
      Johnson bound for one code bounds the list of tuples. Every (column, point) term is tested on its own,
      which leaves one spare degree per column; that too keeps the agreement of two codewords at `rate`, so
      the bound holds for the shortest tables as well.
    * Batching with a tensor of k challenges costs k times the error of a line (soundcalc's "multilinear"
      batching; it holds for interleaved codes), and once for each height, because each has its own codeword.
    * The challenges of a fold and of the roll-in after it come in one move: their errors add.
    * LogUp errors count once for every candidate in the list.
    * The unique regime charges the classical n / |F| for a line, which holds up to the edge of the regime;
      the calculator has (theta n + 1) / |F|. No preset depends on it.
    * No claim exceeds the collision resistance of the hash.

Folds keep the agreement set: by mutual correlated agreement the queries that pass lie inside the agreement
set of every earlier layer, so no weights are needed and an index that passes at all layers counts once.

All arithmetic is exact, with square roots rounded up, so that a bound is never too small; bits are rounded
down to 1/100.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt

from ..errors import ParameterError
from ..field import P
from .params import MAX_LOG_HEIGHT, MIN_LOG_HEIGHT, FoldStep, Params, fold_schedule

FIELD = P**3
"""Size of the field of the challenges."""
HASH_BITS = 128
"""Collision resistance of Keccak-256: no claim exceeds it."""


@dataclass(frozen=True)
class Shape:
    """What soundness depends on besides the parameters.

    log_heights:   log2 of the height of every table that is present; repetitions do not matter
    batch_terms:   opened (column, point) terms of all heights together
    constraints:   largest number of constraints combined at one height
    max_degree:    largest degree of a constraint in the columns: 2 or 3, as the quotient has two pieces
    opening_points: largest number of points at which a column is opened
    logup_denominators: fractions summed over all rows of all tables, and by the verifier; 0 without buses
    logup_tuple_len: longest tuple on a bus, with the bus number
    """

    log_heights: tuple[int, ...]
    batch_terms: int
    constraints: int
    max_degree: int = 3
    opening_points: int = 2
    logup_denominators: int = 0
    logup_tuple_len: int = 1


@dataclass(frozen=True)
class Round:
    """One move of the verifier and the proven bits of it, rounded down to 1/100."""

    name: str
    bits: float


@dataclass(frozen=True)
class Soundness:
    """Proven bits of a protocol run: of each round in protocol order, and of the whole."""

    regime: str
    rounds: tuple[Round, ...]

    @property
    def weakest(self) -> Round:
        """The round that limits the claim."""
        return min(self.rounds, key=lambda entry: entry.bits)

    @property
    def total(self) -> float:
        """Proven bits of the whole: the least over the rounds."""
        return self.weakest.bits


def soundness(params: Params, shape: Shape) -> Soundness:
    """Proven bits of `params` at `shape`; ParameterError if the theorems do not apply to them."""
    check_shape_conditions(params, shape)
    rounds = tuple(Round(name, bits(error)) for name, error in _errors(params, shape))
    return Soundness(params.regime, rounds)


def check_shape_conditions(params: Params, shape: Shape) -> None:
    """ParameterError, naming the condition, unless the soundness theorems apply.

    Besides plain ranges this is the condition of multi-point openings [Hab22, 4.1.3], which at every height H
    demands H + points < (1 - theta) n. It fails at H = 4 and blowup 2, and holds for every preset at all
    allowed heights.
    """
    if not shape.log_heights:
        raise ParameterError("a proof needs at least one table")
    low, high = min(shape.log_heights), max(shape.log_heights)
    if low < MIN_LOG_HEIGHT or high > MAX_LOG_HEIGHT:
        raise ParameterError(f"log heights {low} to {high}: allowed are {MIN_LOG_HEIGHT} to {MAX_LOG_HEIGHT}")
    if not 2 <= shape.max_degree <= 3:
        raise ParameterError(f"constraint degree {shape.max_degree}: allowed are 2 and 3")
    if min(shape.batch_terms, shape.constraints, shape.opening_points, shape.logup_tuple_len) < 1:
        raise ParameterError(f"counts of a shape are at least 1: {shape}")
    if shape.logup_denominators < 0:
        raise ParameterError(f"number of LogUp denominators {shape.logup_denominators} is negative")
    if not 0 < agreement(params) < 1 or (params.regime == "johnson" and params.gap <= 0):
        raise ParameterError(f"gap {params.gap} is out of range at blowup {1 << params.log_blowup}")
    if (1 << low) + shape.opening_points >= agreement(params) * (1 << low + params.log_blowup):
        raise ParameterError(f"height 2^{low} is too short to open {shape.opening_points} points")


def bits(error: Fraction) -> float:
    """-log2 of a probability > 0, rounded down to 1/100 and not below 0. Exact but for that rounding."""
    scale = max(64 + error.denominator.bit_length() - error.numerator.bit_length(), 0)
    mantissa = ceil(error * (1 << scale))  # error <= mantissa / 2^scale, closer than 2^-62
    return max(100 * scale - (mantissa**100 - 1).bit_length(), 0) / 100


def _errors(params: Params, shape: Shape) -> Iterator[tuple[str, Fraction]]:
    """Name and error of every round, in protocol order."""
    log_sizes = {height + params.log_blowup for height in shape.log_heights}
    if shape.logup_denominators:
        yield "LogUp", logup_error(params, shape)
    yield "constraints", constraints_error(params, shape)
    yield "out-of-domain point", deep_error(params, shape)
    if shape.batch_terms > 1:
        yield "batching", batching_error(params, shape)
    for step in fold_schedule(log_sizes, params.log_blowup):
        roll_in = " with roll-in" if step.joins else ""
        yield f"fold 2^{step.log_from} to 2^{step.log_to}{roll_in}", fold_error(params, step)
    yield "queries", query_error(params)
    yield "hash collisions", Fraction(1, 1 << HASH_BITS)


# --- the code: rate 2^-log_blowup, n = 2^log_size, proximity parameter theta


def agreement(params: Params) -> Fraction:
    """1 - theta, rounded up: the queries catch words that agree with no codeword on a larger fraction."""
    rate = Fraction(1, 1 << params.log_blowup)
    if params.regime == "unique":
        return (1 + rate) / 2
    return _sqrt_up(rate) + params.gap


def list_size(params: Params) -> Fraction:
    """Largest number of codeword tuples within theta of a word; Johnson bound 1 / (2 gap sqrt(rate))."""
    if params.regime == "unique":
        return Fraction(1)
    return _sqrt_up(Fraction(1 << params.log_blowup)) / (2 * params.gap)


def multiplicity(params: Params) -> int:
    """The Guruswami-Sudan multiplicity m = max(ceil(sqrt(rate) / (2 gap)), 3) of [BCHKS25]."""
    squared = ceil(Fraction(1, 1 << params.log_blowup) / (4 * params.gap**2))
    return max(isqrt(squared - 1) + 1, 3)


def line_error(params: Params, log_size: int) -> Fraction:
    """Probability that a random point of a line hides a disagreement, for codewords of 2^log_size values.

    [BCHKS25, Theorem 4.6], or n / |F| in the unique regime [BCIKS20, Theorem 4.1]. The paper's rate is the
    largest degree over n, (H - 1) / n here; its theta in the lower-order term is replaced by 1.
    """
    size = 1 << log_size
    if params.regime == "unique":
        return Fraction(size, FIELD)
    inverse_rate = Fraction(size, (size >> params.log_blowup) - 1)
    m = multiplicity(params) + Fraction(1, 2)
    root = _sqrt_up(inverse_rate)
    return ((2 * m**5 * inverse_rate + 3 * m) / 3 * root * size + m * root) / FIELD


def _sqrt_up(value: Fraction) -> Fraction:
    """Square root of a positive number, rounded up to a multiple of 2^-64."""
    return Fraction(isqrt(ceil(value * (1 << 128)) - 1) + 1, 1 << 64)


# --- the rounds


def logup_error(params: Params, shape: Shape) -> Fraction:
    """Bus challenges hide an unbalanced bus: for each candidate, a root of a polynomial in both challenges.

    Cleared of its denominators, the sum of fractions has degree below denominators * tuple length; where a
    denominator vanishes and the constraints can still be met, that polynomial vanishes too.
    """
    return list_size(params) * shape.logup_denominators * shape.logup_tuple_len / FIELD


def constraints_error(params: Params, shape: Shape) -> Fraction:
    """Powers of the challenge cancel the violated constraints of some candidate [Hab22, Theorem 8]."""
    return list_size(params) * shape.constraints / FIELD


def deep_error(params: Params, shape: Shape) -> Fraction:
    """The quotient identity holds by chance at a point drawn outside the base field [Hab22, Theorem 8]."""
    height = 1 << max(shape.log_heights)
    degree = shape.max_degree * (height + shape.opening_points - 1) + height - 1
    return list_size(params) * degree / (FIELD - P)


def batching_error(params: Params, shape: Shape) -> Fraction:
    """The tensor of ceil(log2 batch_terms) challenges hides a bad term at some height."""
    challenges = (shape.batch_terms - 1).bit_length()
    lines = (line_error(params, height + params.log_blowup) for height in set(shape.log_heights))
    return challenges * sum(lines, Fraction(0))


def fold_error(params: Params, step: FoldStep) -> Fraction:
    """Powers of beta hide a bad coset word (factor - 1), or lambda a bad codeword that joins (one more)."""
    factor = 1 << step.log_from - step.log_to
    return line_error(params, step.log_to) * (factor - 1 + step.joins)


def query_error(params: Params) -> Fraction:
    """Every query falls into the agreement set, after a proof of work."""
    return agreement(params) ** params.num_queries / (1 << params.grinding_bits)
