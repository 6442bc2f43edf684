"""LogUp columns: each pair of a table's messages as one extension column, the last one a running sum."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..air.expr import Affine
from ..air.program import Program
from ..field import ExtInts, P, add_ints, mul_ints, scale_ints
from .job import Instance, Job, addresses, split_weight, words
from .kernels import BLOCK, CHUNK, library

ANY, SAME, OPPOSITE = 0, 1, 2  # of the multiplicities of a pair


def multiplicity_forms(program: Program) -> list[Affine]:
    """The table's distinct multiplicities."""
    return list({tuple(i.multiplicity.words()): i.multiplicity for i in program.interactions}.values())


def prepared(program: Program, alpha: ExtInts, beta: ExtInts) -> Any:
    """The table's messages for ``constraint_rows`` and ``logup_rows``: fingerprints as weighted sums of columns.

    Fingerprint = alpha - (bus + beta x1 + beta^2 x2 + ...), each x affine in the columns.
    """
    forms = multiplicity_forms(program)
    out = [len(forms)]
    for m in forms:
        out += [len(m.terms), m.constant, *(x for term in m.terms.items() for x in term)]
    known = [m.words() for m in forms]
    for k, i in enumerate(program.interactions):
        constant = add_ints(alpha, (P - i.bus.id, 0, 0))
        terms: dict[int, ExtInts] = {}
        power = beta
        for form in i.entries:
            constant = add_ints(constant, scale_ints(power, P - form.constant))
            for column, c in form.terms.items():
                terms[column] = add_ints(terms.get(column, (0, 0, 0)), scale_ints(power, P - c))
            power = mul_ints(power, beta)
        relation = ANY
        if k % 2:
            before, own = program.interactions[k - 1].multiplicity, i.multiplicity
            relation = SAME if own.words() == before.words() else OPPOSITE if own.words() == before.times(
                P - 1).words() else ANY
        out += [len(terms), known.index(i.multiplicity.words()), relation, *constant]
        for column, w in terms.items():
            out += [column, *split_weight(w)]
    return words(out)


def fill(job: Job, t: Instance, alpha: ExtInts, beta: ExtInts) -> None:
    """Compute ``t.logup``, shape (3 * pairs, height), and the claimed sum ``t.sigma``."""
    p, n = t.program, t.height
    messages = prepared(p, alpha, beta)
    columns = [*t.fixed, *t.main]
    t.logup = np.empty((3 * p.pairs, n), dtype=np.uint64)
    job.watch.account(t.main.nbytes + t.logup.nbytes)
    inputs, outputs = addresses(columns), addresses(list(t.logup))
    shifts = np.zeros(max(len(columns), 1), dtype=np.uint64)
    slots = len(columns) + len(multiplicity_forms(p))
    local = threading.local()

    def work(bounds: tuple[int, int]) -> None:
        if not hasattr(local, "block"):
            local.block = np.empty(BLOCK * slots, dtype=np.uint64)
            local.chunk = np.empty(6 * p.pairs * CHUNK, dtype=np.uint64)
            local.scratch = np.empty(2 * p.pairs * CHUNK + 32, dtype=np.uint64)
        library.logup_range(inputs, shifts, len(columns), messages, len(p.interactions), local.block, local.chunk,
                            local.scratch, outputs, *bounds)

    job.map(work, job.ranges(n, CHUNK))
    last = t.logup[-3:]
    sigma = [int(library.sum_column(c, n)) for c in last]
    scale = pow(n, -1, P)
    library.running_sum(*last, n, np.zeros(3, dtype=np.uint64), words([c * scale % P for c in sigma]))
    t.sigma = (sigma[0], sigma[1], sigma[2])
