"""Out-of-domain values: every column at zeta, and at w_n zeta where the following row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..field import GENERATOR, ExtInts, P, add_ints, mul_ints, power_ints, root_of_unity, scale_ints
from .job import Instance, Job, addresses, inverse_differences, powers
from .kernels import BLOCK, library
from .prove_quotient import Quotient

BATCH = 16  # terms that are evaluated together, which bounds the copies of columns that were let go
PIECE = 8 * BLOCK  # rows whose weights are split at a time
W: ExtInts = (0, 1, 0)
W2: ExtInts = (0, 0, 1)


@dataclass
class Term:
    """One opened value: its height, point, the base columns that make it up (None: let go) and their extensions."""

    log: int
    following: bool
    rows: Sequence[Any] | None
    extended: Sequence[Any]


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
            target += list(zip(term.extended, parts[: len(term.extended)], strict=True))
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
                terms += [Term(t.log, False, [a], [b]) for a, b in zip(t.fixed, t.fixed_ext, strict=True)]
    for t in instances:
        columns = [c - t.program.fixed_count for c in t.program.following]
        for following, chosen in ((False, range(t.program.main_count)), (True, columns)):
            terms += [Term(t.log, following, None if t.main is None else [t.main[c]], [t.main_ext[c]]) for c in chosen]
    for t in instances:
        if t.program.pairs:
            cuts = [slice(3 * k, 3 * k + 3) for k in range(t.program.pairs)]
            parts = [(None if t.logup is None else t.logup[c], t.logup_ext[c]) for c in cuts]
            terms += [Term(t.log, False, *part) for part in parts]
            terms.append(Term(t.log, True, *parts[-1]))
    for q in quotients:
        terms += [Term(q.log, False, q.rows[k:k + 3], q.extended[k:k + 3]) for k in (0, 3)]
    values: list[ExtInts] = [(0, 0, 0)] * len(terms)
    for log in sorted({t.log for t in terms}):
        here = [k for k, t in enumerate(terms) if t.log == log]
        _evaluate(job, terms, values, [k for k in here if terms[k].rows is not None], log, zeta)
        # what was let go is read from the coset 7 <w_n>: f(7 y) at y = zeta / 7
        gone = [k for k in here if terms[k].rows is None]
        _evaluate(job, terms, values, gone, log, scale_ints(zeta, pow(GENERATOR, -1, P)))
    return DeepTerms(terms, values)


def _evaluate(job: Job, terms: list[Term], values: list[ExtInts], chosen: list[int], log: int, zeta: ExtInts) -> None:
    """Barycentric evaluation on the subgroup: f(z) = (z^n - 1)/n * sum of f(w^i) w^i / (z - w^i)."""
    if not chosen:
        return
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
        for at in range(0, len(mine), BATCH):
            batch = mine[at:at + BATCH]
            sums = iter(_dot(job, [c for k in batch for c in _rows(job, terms[k])], source, stride, points, n))
            for k in batch:
                total: ExtInts = (0, 0, 0)
                for part in range(len(terms[k].extended)):
                    total = add_ints(total, mul_ints(mul_ints(next(sums), scale), ((1, 0, 0), W, W2)[part]))
                values[k] = total


def _rows(job: Job, term: Term) -> list[Any]:
    """The term's columns on the subgroup, or on its coset."""
    if term.rows is not None:
        return list(term.rows)
    return [np.ascontiguousarray(c[::job.blowup]) for c in term.extended]


def _dot(job: Job, columns: list[Any], weights: Any, stride: int, points: Any, n: int) -> list[ExtInts]:
    """Sum over rows of column * point * weight, for each column."""
    table = addresses(columns)

    def work(bounds: tuple[int, int]) -> Any:
        acc = np.zeros(24 * len(columns), dtype=np.uint64)
        split = np.empty(6 * PIECE, dtype=np.uint64)
        for lo in range(*bounds, PIECE):
            rows = min(PIECE, bounds[1] - lo)
            library.split_weights(weights, stride, points, split, lo, rows)
            library.dot_rows(table, len(columns), split, acc, lo, rows)
        return acc.reshape(len(columns), 3, 8)

    parts = job.map(work, job.ranges(n, PIECE))
    total = sum(p.astype(object).sum(axis=2) for p in parts)
    return [(int(a) % P, int(b) % P, int(c) % P) for a, b, c in total]


__all__ = ["DeepTerms", "HeightTerms", "open_at"]
