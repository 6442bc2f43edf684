"""The prover's low-degree test: batched quotients, FRI layers, proof of work and openings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..channel import Label, Writer
from ..field import GENERATOR, ExtInts, P, root_of_unity
from ..hash import merkle
from .job import Job, addresses, inverse_differences, powers, split_weight, words
from .kernels import library
from .ntt import interpolate
from .params import FINAL_LOG_DEGREE, fold_schedule
from .prove_open import HeightTerms
from .system import extend_columns
from .verify_queries import POW_TAG

NONCES = 1 << 16  # tried in one compiled call


def codeword(job: Job, terms: HeightTerms, log: int, zeta: ExtInts) -> Any:
    """Batched quotient of one height on its extended domain, shape (3, size)."""
    size, log_size = job.blowup << log, log + job.params.log_blowup
    here, following = _weighted(job, terms.here, log), _weighted(job, terms.following, log)
    xs = powers(root_of_unity(log_size), size, GENERATOR)
    inverses = inverse_differences(job, xs, zeta, 64)
    claims = words([*terms.claim_here, *terms.claim_following, pow(root_of_unity(log), -1, P)])
    out = np.empty((3, size), dtype=np.uint64)
    job.map(lambda r: library.batch_quotients(here, following, inverses, claims, out, size, job.blowup, *r),
            job.ranges(size, 64))
    return out


def _weighted(job: Job, columns: list[tuple[Any, ExtInts]], log: int) -> Any:
    """Sum of weight * column, added up on the trace domain and then extended; shape (3, size)."""
    n = 1 << log
    out = np.zeros((3, n), dtype=np.uint64)
    job.watch.account(8 * n * len(columns))
    if columns:
        table = addresses([c for c, _ in columns])
        weights = words([x for _, w in columns for x in split_weight(w)])
        job.map(lambda r: library.weighted_sum(table, len(columns), weights, out, n, *r), job.ranges(n, 64))
    return extend_columns(out, job.params.log_blowup, job.pool)


def commit_phase(job: Job, ch: Writer, codewords: dict[int, Any]) -> list[merkle.Tree]:
    """Commit and fold, adding each height's codeword when its size is reached; then send the final polynomial."""
    size = max(codewords)
    current = codewords[size]
    layers = []
    for step in fold_schedule(list(codewords), job.params.log_blowup):
        m, rows = 1 << step.log_from, 1 << step.log_to
        arity = m // rows
        columns = [current[c, t * rows:(t + 1) * rows] for t in range(arity) for c in range(3)]
        tree = merkle.commit({rows: columns}, job.pool)
        layers.append(tree)
        ch.message(Label.FRI_ROOT, tree.root)
        beta = words(ch.challenge(Label.FRI_BETA))
        inverse_points = powers(pow(root_of_unity(step.log_from), -1, P), rows)
        folded = np.empty((3, rows), dtype=np.uint64)
        fold = getattr(library, f"fold{arity}")
        source = current
        job.map(lambda r, a=source, b=folded, f=fold, n=m, x=inverse_points, z=beta: f(a, n, x, z, b, *r),
                job.ranges(rows, 64))
        current = folded
        if step.joins:
            factor = words(ch.challenge(Label.FRI_LAMBDA))
            joining = codewords[step.log_to]
            job.map(lambda r, a=current, b=joining, f=factor, n=rows: library.add_scaled(a, b, f, n, *r),
                    job.ranges(rows, 64))
    final = np.stack([interpolate(np.ascontiguousarray(c), 1)[: 1 << FINAL_LOG_DEGREE] for c in current], axis=1)
    ch.message(Label.FINAL, final)
    return layers


def grind(job: Job, seed: Sequence[int], bits: int) -> int:
    """Smallest nonce that reaches the difficulty."""
    block = words([POW_TAG, *seed, bits])
    first = 0
    while True:
        batch = [first + k * NONCES for k in range(2 * job.threads)]
        found = job.map(lambda a: int(library.find_nonce(block, bits, a, NONCES)), batch)
        good = [x for x in found if x != (1 << 64) - 1]
        if good:
            return min(good)
        first = batch[-1] + NONCES


def open_tree(ch: Writer, tree: merkle.Tree, queries: Sequence[int]) -> None:
    """Send rows and siblings; one record event for each row and layer, as the verifier reads them."""
    for rows in tree.rows(queries):
        for row in rows:
            ch.hint(Label.ROWS, row)
    for siblings in tree.siblings(queries):
        ch.hint(Label.SIBLINGS, siblings)
