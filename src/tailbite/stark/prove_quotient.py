"""Quotients: for each height, the combination of all constraints divided by the vanishing polynomial."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..field import GENERATOR, ExtInts, P, mul_ints, root_of_unity, scale_ints
from .job import Instance, Job, addresses, inverse_differences, powers, split_weight, words
from .kernels import BLOCK, library
from .ntt import extension
from .prove_logup import multiplicity_forms, prepared

ROOTS: tuple[ExtInts, ...] = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


@dataclass
class Quotient:
    """q = q0 + x^n q1 of one height: six base columns, coordinates of q0 then of q1."""

    log: int
    rows: Any
    extended: Any


def quotients(job: Job, instances: Sequence[Instance], challenge: ExtInts, alpha: ExtInts, beta: ExtInts,
              publics: list[int]) -> list[Quotient]:
    """Quotients by descending height."""
    return [_quotient(job, [t for t in instances if t.log == log], log, challenge, alpha, beta, publics)
            for log in sorted({t.log for t in instances}, reverse=True)]


def _quotient(job: Job, tables: list[Instance], log: int, challenge: ExtInts, alpha: ExtInts, beta: ExtInts,
              publics: list[int]) -> Quotient:
    n = 1 << log
    values = np.zeros((3, 2 * n), dtype=np.uint64)
    for part in _parts(job, log, values):
        power: ExtInts = (1, 0, 0)
        for t in tables:
            coefficients = []
            for _ in range(t.program.constraint_count):
                coefficients.append(power)
                power = mul_ints(power, challenge)
            add_table(job, t, part, coefficients, alpha, beta, publics)
        if part.out is not values:
            values[:, part.coset::2] = part.out
    # on the coset x^n = 7^n (-1)^i
    g = pow(GENERATOR, n, P)
    factors = words([pow(g - 1, -1, P), pow(-g - 1, -1, P)] * 4)
    job.map(lambda r: library.scale_alternating(values, 2 * n, factors, *r), job.ranges(2 * n, 64))
    rows = np.empty((6, n), dtype=np.uint64)
    job.map(lambda c: extension(log, job.params.log_blowup).split(values[c], rows[c], rows[3 + c]), range(3))
    return Quotient(log, rows, job.extend(rows))


@dataclass
class Part:
    """Points on which constraints are evaluated: the quotient domain, or one of its two cosets of the trace domain.

    ``stride`` is the step from point to point in the columns that belong to it, and ``size`` their length.
    """

    log: int
    coset: int
    stride: int
    size: int
    out: Any
    _selectors: list[Any] = field(default_factory=list)

    @property
    def shift(self) -> int:
        """The first point."""
        return GENERATOR * pow(root_of_unity(self.log + 1), self.coset, P) % P

    def columns(self, job: Job, values: Any, extended: Any) -> list[Any]:
        """Columns on these points; made from ``values`` if their extension is not kept."""
        if job.keep:
            return list(extended)
        made = np.empty((len(values), self.size), dtype=np.uint64)
        job.map(lambda c: extension(self.log, 0, self.shift).extend(values[c], made[c]), range(len(values)))
        return list(made)

    def selectors(self, job: Job) -> list[Any]:
        """Lagrange polynomials of the first and last row, as columns of this part; made once.

        L_first(x) = (x^n - 1) / (n (x - 1)), where x^n has a short period, and L_last(x) = L_first(w_n x).
        """
        if not self._selectors:
            n = 1 << self.log
            period = self.size // n
            root = root_of_unity(self.log + period.bit_length() - 1)
            xs = powers(root, self.size, self.shift)
            first = inverse_differences(job, xs, (1, 0, 0), 0)
            cycle = [(pow(self.shift * pow(root, i, P), n, P) - 1) * pow(n, -1, P) % P for i in range(period)]
            factors = words(cycle * (8 // period))
            job.map(lambda r: library.scale_alternating(first, self.size, factors, *r), job.ranges(self.size, 64))
            self._selectors += [first[0], np.roll(first[0], -period)]
        return self._selectors


def _parts(job: Job, log: int, values: Any) -> Iterator[Part]:
    """The quotient domain lies in kept extensions; else it is taken in two halves, which need less memory."""
    n = 1 << log
    if job.keep:
        yield Part(log, 0, job.blowup // 2, n * job.blowup, values)
    else:
        yield from (Part(log, coset, 1, n, np.zeros((3, n), dtype=np.uint64)) for coset in range(2))


def add_table(job: Job, t: Instance, part: Part, coefficients: list[ExtInts], alpha: ExtInts, beta: ExtInts,
              publics: list[int]) -> None:
    """Add the table's constraints, weighted, to the numerator on the points of ``part``."""
    p = t.program
    points, following = part.out.shape[1], part.size >> part.log  # the step to the following row
    here = [*part.columns(job, t.fixed, t.fixed_ext), *part.columns(job, t.main, t.main_ext)]
    selectors = part.selectors(job) if p.uses_selectors else [np.zeros(part.size, dtype=np.uint64)] * 2
    inputs = [*here, *(here[c] for c in p.following), *selectors]
    extra = []
    if p.pairs:
        logup = part.columns(job, t.logup, t.logup_ext)
        extra = [*logup, *logup[-3:]]
    columns = addresses([*inputs, *extra])
    job.watch.account(8 * points * (len(here) + len(extra[:-3])))
    shifts = np.zeros(len(inputs) + len(extra) + 1, dtype=np.uint64)
    shifts[len(here):len(here) + len(p.following)] = following
    if p.pairs:
        shifts[len(inputs) + len(extra) - 3:len(inputs) + len(extra)] = following
    constants = words([*(publics[i] for i in p.publics), *p.constants])
    ops, outputs = words([x for op in p.ops for x in op]), words(p.zeros)
    weights = words([x for w in coefficients[: len(p.zeros)] for x in split_weight(w)])
    messages = prepared(p, alpha, beta)
    logup_weights = words([x for w in coefficients[len(p.zeros):] for c in ROOTS for x in split_weight(mul_ints(w, c))])
    sigma = words(scale_ints(t.sigma, pow(t.height, -1, P)))
    slots = p.slot_count + len(extra) + len(multiplicity_forms(p))
    local = threading.local()

    def work(bounds: tuple[int, int]) -> None:
        if not hasattr(local, "block"):
            local.block = np.empty(BLOCK * slots, dtype=np.uint64)
        library.constraint_rows(columns, shifts, len(inputs), part.stride, part.size - 1, constants,
                                len(p.publics) + len(p.constants), ops, len(p.ops), outputs, len(p.zeros), weights,
                                messages, len(p.interactions), logup_weights, sigma, p.slot_count, local.block,
                                part.out, points, *bounds)

    job.map(work, job.ranges(points, BLOCK, slots))
