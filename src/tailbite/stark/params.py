"""Protocol parameters: the closed list of presets, and the FRI schedule that shapes and parameters imply.

A proof names its preset by number and nothing else, so free parameters cannot be expressed in a proof.
`Params` are data; what they are worth is computed by `tailbite.stark.soundness`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple

from ..errors import ParameterError

MIN_LOG_HEIGHT = 5
"""log2 of the shortest table: below it the final polynomial would not fit."""
MAX_LOG_HEIGHT = 26
"""log2 of the tallest table."""
FINAL_LOG_DEGREE = 5
"""log2 of the number of coefficients of the final FRI polynomial."""
MAX_LOG_FOLD = 3
"""log2 of the largest FRI folding factor."""
MAX_FOLD = 1 << MAX_LOG_FOLD
"""The largest FRI folding factor."""

Regime = Literal["unique", "johnson"]
REGIMES: tuple[Regime, ...] = ("unique", "johnson")
"""Decoding regimes in which soundness may be proven; the position is the number used in `Params.words`."""


@dataclass(frozen=True)
class Params:
    """One parameter set.

    number:       how a proof names it
    name:         how people name it
    log_blowup:   log2 of the inverse rate of the Reed-Solomon codes
    num_queries:  FRI queries, drawn with replacement
    grinding_bits: leading zero bits of the proof of work before the queries; 0 means none
    regime:       decoding regime of the soundness proof
    gap:          distance kept from the Johnson radius, 1 - sqrt(rate) - theta; 0 in the unique regime
    aim_bits:     proven bits promised at every allowed shape; 0 if nothing is promised
    secure:       whether a verifier accepts it without being told to
    """

    number: int
    name: str
    log_blowup: int
    num_queries: int
    grinding_bits: int
    regime: Regime
    gap: Fraction
    aim_bits: int
    secure: bool

    def __post_init__(self) -> None:
        if not 0 <= self.grinding_bits <= 64:  # the verifier looks at one word, and a shift by more wraps
            raise ParameterError(f"{self.grinding_bits} bits of proof of work: at most 64 are checked")

    def words(self) -> list[int]:
        """Every value but the name, in the order of the fields, for the digest that identifies a machine."""
        return [
            self.number,
            self.log_blowup,
            self.num_queries,
            self.grinding_bits,
            REGIMES.index(self.regime),
            self.gap.numerator,
            self.gap.denominator,
            self.aim_bits,
            int(self.secure),
        ]


# The query counts are the least that reach the aim with 20 bits of grinding. A smaller gap makes a query
# worth more and every algebraic round worth less (the error grows with gap^-5): at 1/203 both stay above
# 128 bits at all three rates, and at 1/1000 every algebraic round of `standard` stays above 116.
# `min` is a diagnostic, one query; `fast` is for tests, every step of the protocol with little work.
PRESETS: tuple[Params, ...] = (
    Params(1, "standard", 1, 161, 20, "johnson", Fraction(1, 1000), 100, secure=True),
    Params(2, "strong", 2, 110, 20, "johnson", Fraction(1, 203), 128, secure=True),
    Params(3, "strong2", 1, 221, 20, "johnson", Fraction(1, 203), 128, secure=True),
    Params(4, "strong8", 3, 73, 20, "johnson", Fraction(1, 203), 128, secure=True),
    Params(5, "min", 1, 1, 0, "johnson", Fraction(1, 203), 0, secure=False),
    Params(6, "fast", 1, 8, 4, "johnson", Fraction(1, 203), 0, secure=False),
)
"""The closed list, in the order of the numbers."""


def preset(key: str | int) -> Params:
    """The preset of this name or number; ParameterError if there is none."""
    for params in PRESETS:
        if key == params.name or (type(key) is int and key == params.number):
            return params
    known = ", ".join(f"{params.name} ({params.number})" for params in PRESETS)
    raise ParameterError(f"unknown preset {key!r}: choose one of {known}")


class FoldStep(NamedTuple):
    """One FRI fold, from a codeword of 2^log_from values to one of 2^log_to.

    `joins` says that a table's codeword has that size and is added with a challenge of its own.
    """

    log_from: int
    log_to: int
    joins: bool


def fold_schedule(log_sizes: Iterable[int], log_blowup: int) -> list[FoldStep]:
    """The folds that FRI makes for codewords of sizes 2^log_sizes (each log height + log_blowup).

    A fold goes down by at most MAX_FOLD, stops at every size that is present, and the last one ends at the
    size whose polynomial is sent. No step is needed if that is the largest size. ParameterError if no size
    is given, or one is below the final size.
    """
    present = set(log_sizes)
    final = FINAL_LOG_DEGREE + log_blowup
    if not present or min(present) < final:
        raise ParameterError(f"codeword sizes {sorted(present)}: at least one, none below 2^{final}")
    stops = sorted(present | {final}, reverse=True)
    steps = []
    for size, stop in pairwise(stops):
        while size > stop:
            target = max(size - MAX_LOG_FOLD, stop)
            steps.append(FoldStep(size, target, target in present))
            size = target
    return steps
