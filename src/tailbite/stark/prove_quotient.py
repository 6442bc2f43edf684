"""Quotients: for each height, the combination of all constraints divided by the vanishing polynomial."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..field import GENERATOR, ExtInts, P, mul_ints, root_of_unity, scale_ints
from .job import Instance, Job, addresses, powers, split_weight, words
from .kernels import BLOCK, library
from .ntt import extension
from .prove_logup import prepared
from .system import extend_columns


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
    power: ExtInts = (1, 0, 0)
    selectors: list[Any] | None = None
    for t in tables:
        coefficients = []
        for _ in range(t.program.constraint_count):
            coefficients.append(power)
            power = mul_ints(power, challenge)
        if t.program.uses_selectors and selectors is None:
            selectors = row_selectors(job, log)
        add_table(job, t, values, coefficients, alpha, beta, publics, selectors)
    # on the coset x^n = 7^n (-1)^i
    g = pow(GENERATOR, n, P)
    factors = words([pow(g - 1, -1, P), pow(-g - 1, -1, P)] * 4)
    job.map(lambda r: library.scale_alternating(values, 2 * n, factors, *r), job.ranges(2 * n, 64))
    rows = np.empty((6, n), dtype=np.uint64)
    job.map(lambda c: extension(log, job.params.log_blowup).split(values[c], rows[c], rows[3 + c]), range(3))
    return Quotient(log, rows, extend_columns(rows, job.params.log_blowup, job.pool))


def add_table(job: Job, t: Instance, values: Any, coefficients: list[ExtInts], alpha: ExtInts, beta: ExtInts,
              publics: list[int], selectors: list[Any] | None) -> None:
    """Add the table's constraints, weighted, to the numerator on the quotient domain."""
    p, n = t.program, t.height
    size = n * job.blowup
    zeros = np.zeros(size, dtype=np.uint64)
    here = [*t.fixed_ext, *t.main_ext]
    inputs = [*here, *(here[c] for c in p.following), *(selectors or [zeros, zeros])]
    extra = []
    if p.pairs:
        extra = [*t.logup_ext, *t.logup_ext[-3:]]
    columns = addresses([*inputs, *extra])
    shifts = np.zeros(len(inputs) + len(extra) + 1, dtype=np.uint64)
    shifts[len(here):len(here) + len(p.following)] = job.blowup
    if p.pairs:
        shifts[len(inputs) + len(extra) - 3:len(inputs) + len(extra)] = job.blowup
    constants = words([*(publics[i] for i in p.publics), *p.constants])
    ops, outputs = words([x for op in p.ops for x in op]), words(p.zeros)
    weights = words([x for w in coefficients[: len(p.zeros)] for x in split_weight(w)])
    messages = prepared(p, alpha, beta)
    logup_powers = words([x for w in coefficients[len(p.zeros):] for x in w])
    sigma = words(scale_ints(t.sigma, pow(n, -1, P)))
    slots = p.slot_count + len(extra)
    local = threading.local()

    def work(bounds: tuple[int, int]) -> None:
        if not hasattr(local, "block"):
            local.block = np.empty(BLOCK * slots, dtype=np.uint64)
        library.constraint_rows(columns, shifts, len(inputs), job.blowup // 2, size - 1, constants,
                                len(p.publics) + len(p.constants), ops, len(p.ops), outputs, len(p.zeros), weights,
                                messages, len(p.interactions), logup_powers, sigma, p.slot_count, local.block,
                                values, 2 * n, *bounds)

    job.map(work, job.ranges(2 * n, BLOCK))


def row_selectors(job: Job, log: int) -> list[Any]:
    """Lagrange polynomials of the first and last row on the extended domain."""
    n, size = 1 << log, job.blowup << log
    log_size = log + job.params.log_blowup
    xs = powers(root_of_unity(log_size), size, GENERATOR)
    # x^n repeats with period blowup
    cycle = [(pow(GENERATOR * pow(root_of_unity(log_size), i, P), n, P) - 1) * pow(n, -1, P) % P
             for i in range(job.blowup)]
    vanishing = np.tile(words(cycle), size // job.blowup)
    from .. import columns as col

    last = pow(root_of_unity(log), -1, P)
    first_row = col.mul_(vanishing, col.inverse(col.sub_(xs, np.uint64(1))))
    last_row = col.mul_(col.mul_(vanishing, np.uint64(last)), col.inverse(col.sub_(xs, np.uint64(last))))
    return [first_row, last_row]
