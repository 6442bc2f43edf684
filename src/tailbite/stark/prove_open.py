"""Out-of-domain values: every column at zeta, and at w_n zeta where the following row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..field import ExtInts, P, add_ints, mul_ints, power_ints, root_of_unity, scale_ints
from .job import Instance, Job, addresses, inverse_differences, powers
from .kernels import PIECE, library
from .prove_quotient import Quotient

W: ExtInts = (0, 1, 0)
W2: ExtInts = (0, 0, 1)


@dataclass
class Term:
    """One opened value: its height, point, and the base columns that make it up, on the trace domain."""

    log: int
    following: bool
    columns: Sequence[Any]


@dataclass
class HeightTerms:
    """Base columns of one height with their weights, at zeta and at the following row, and the claimed sums."""

    here: list[tuple[Any, ExtInts]]
    following: list[tuple[Any, ExtInts]]
    claim_here: ExtInts
    claim_following: ExtInts


@dataclass
class DeepTerms:
    """All opened values in proof order."""

    terms: list[Term]
    values: list[ExtInts]

    @property
    def logs(self) -> list[int]:
        return sorted({t.log for t in self.terms}, reverse=True)

    def at(self, log: int, weights: list[ExtInts]) -> HeightTerms:
        """What belongs to the height 2^log."""
        out = HeightTerms([], [], (0, 0, 0), (0, 0, 0))
        for term, value, w in zip(self.terms, self.values, weights, strict=True):
            if term.log != log:
                continue
            parts = [w, mul_ints(w, W), mul_ints(w, W2)]
            target = out.following if term.following else out.here
            target += list(zip(term.columns, parts[: len(term.columns)], strict=True))
            product = mul_ints(w, value)
            if term.following:
                out.claim_following = add_ints(out.claim_following, product)
            else:
                out.claim_here = add_ints(out.claim_here, product)
        return out


def open_at(job: Job, instances: Sequence[Instance], quotients: Sequence[Quotient], zeta: ExtInts) -> DeepTerms:
    """Evaluate everything, in the order of ``view.number_terms``."""
    terms: list[Term] = []
    for tree in (1, 2):
        for t in instances:
            if t.program.fixed_in == tree:
                terms += [Term(t.log, False, [c]) for c in t.fixed]
    for t in instances:
        terms += [Term(t.log, False, [c]) for c in t.main]
        terms += [Term(t.log, True, [t.main[c - t.program.fixed_count]]) for c in t.program.following]
    for t in instances:
        if t.program.pairs:
            terms += [Term(t.log, False, t.logup[3 * k:3 * k + 3]) for k in range(t.program.pairs)]
            terms.append(Term(t.log, True, t.logup[-3:]))
    for q in quotients:
        terms += [Term(q.log, False, q.rows[k:k + 3]) for k in (0, 3)]
    values: list[ExtInts] = [(0, 0, 0)] * len(terms)
    for log in sorted({t.log for t in terms}):
        _evaluate(job, terms, values, [k for k, t in enumerate(terms) if t.log == log], log, zeta)
    return DeepTerms(terms, values)


def _evaluate(job: Job, terms: list[Term], values: list[ExtInts], chosen: list[int], log: int, zeta: ExtInts) -> None:
    """Barycentric evaluation on the subgroup: f(z) = (z^n - 1)/n * sum of f(w^i) w^i / (z - w^i)."""
    n = 1 << log
    xs = powers(root_of_unity(log), n)
    # weights 1 / (w^i - z), with the last one repeated in front for the following row's shifted use
    inverses = inverse_differences(job, xs, zeta, 8)
    stride = n + 8
    scale = scale_ints(add_ints(power_ints(zeta, n), (P - 1, 0, 0)), P - pow(n, -1, P))
    shifted = np.concatenate([xs[-1:], xs])
    for following in (False, True):
        mine = [k for k in chosen if terms[k].following == following]
        # for w z in place of z: w^i / (w z - w^i) = w^(i-1) / (z - w^(i-1))
        source = inverses.reshape(-1)[7 if following else 8:]
        points = np.ascontiguousarray(shifted[:n]) if following else xs
        sums = iter(_dot(job, [c for k in mine for c in terms[k].columns], source, stride, points, n))
        for k in mine:
            total: ExtInts = (0, 0, 0)
            for part in range(len(terms[k].columns)):
                total = add_ints(total, mul_ints(mul_ints(next(sums), scale), ((1, 0, 0), W, W2)[part]))
            values[k] = total


def _dot(job: Job, columns: list[Any], weights: Any, stride: int, points: Any, n: int) -> list[ExtInts]:
    """Sum over rows of column * point * weight, for each column."""
    table = addresses(columns)

    def work(bounds: tuple[int, int]) -> Any:
        acc = np.zeros(24 * len(columns), dtype=np.uint64)
        split = np.empty(6 * PIECE, dtype=np.uint64)
        library.dot_range(table, len(columns), weights, stride, points, split, acc, *bounds)
        return acc.reshape(len(columns), 3, 8)

    if not columns:
        return []
    job.watch.account(8 * n * len(columns))
    parts = job.map(work, job.ranges(n, PIECE))
    total = sum(p.astype(object).sum(axis=2) for p in parts)
    return [(int(a) % P, int(b) % P, int(c) % P) for a, b, c in total]


__all__ = ["DeepTerms", "HeightTerms", "open_at"]
