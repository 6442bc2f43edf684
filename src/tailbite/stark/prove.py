"""The prover: the same protocol as verify.py, in the same order, from filled tables.

The witness is trusted by nobody: the prover never fails on a wrong one, it makes a proof that is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..channel import Label, Writer
from ..field import ExtInts, mul_ints
from . import prove_fri, prove_logup, prove_quotient
from .job import Instance, Job, Progress, Stopwatch
from .prove_open import DeepTerms, open_at
from .system import MAGIC, PROTOCOL_VERSION, FixedTree, Keyed, ProgramKey


def prove(keyed: Keyed, program: ProgramKey, fixed: FixedTree, output: bytes, witness: dict[int, Any],
          threads: int = 1, progress: Progress | None = None, channel: Writer | None = None,
          keep: bool = True, watch: Stopwatch | None = None) -> tuple[Any, Writer]:
    """Proof words for the statement, and the channel with its record.

    ``witness`` maps slots (see ``System.slots``) to main columns, shape (columns, height). ``channel`` is a new one
    unless it is given. With ``keep`` the columns' extensions stay in memory; without, they are made again for each of
    their three uses, which takes longer. ``watch`` notes what each phase costs. Same statement, same words, whatever
    the other arguments.
    """
    job = Job(keyed.params, threads, progress, keep, watch)
    try:
        return _prove(job, channel or Writer(), keyed, program, fixed, output, witness)
    finally:
        job.close()


def _prove(job: Job, ch: Writer, keyed: Keyed, program: ProgramKey, fixed: FixedTree, output: bytes,
           witness: dict[int, Any]) -> tuple[Any, Writer]:
    instances = _instances(keyed, fixed, witness)
    logs = [0] * len(keyed.system.slots)
    for t in instances:
        logs[t.slot] = t.log
    _statement(ch, keyed, program, output, logs)
    publics = [int(w) for w in _words(output)[: keyed.system.public_words]]

    job.tell("main columns", 0.0)
    for t in instances:
        t.main_ext = job.extend(t.main)
    job.tell("main commitment", 0.2)
    main = job.commit([(t.main, t.main_ext) for t in instances])
    if main is not None:
        ch.message(Label.MAIN_ROOT, main.root)

    alpha = beta = (0, 0, 0)
    logup = None
    talking = [t for t in instances if t.program.interactions]
    if talking:
        alpha, beta = ch.challenge(Label.ALPHA), ch.challenge(Label.BETA)
        job.tell("bus columns", 0.3)
        for t in talking:
            prove_logup.fill(job, t, alpha, beta)
            t.logup_ext = job.extend(t.logup)
        job.tell("bus commitment", 0.45)
        logup = job.commit([(t.logup, t.logup_ext) for t in talking])
        assert logup is not None
        ch.message(Label.LOGUP_ROOT, logup.root)
        ch.message(Label.SIGMA, [c for t in talking for c in t.sigma])

    combination = ch.challenge(Label.CONSTRAINT)
    job.tell("constraints", 0.55)
    quotients = prove_quotient.quotients(job, instances, combination, alpha, beta, publics)
    quotient = job.commit([(q.rows, q.extended) for q in quotients])
    assert quotient is not None
    ch.message(Label.QUOTIENT_ROOT, quotient.root)
    zeta = ch.challenge(Label.ZETA)
    while zeta[1] == 0 and zeta[2] == 0:
        zeta = ch.challenge(Label.ZETA)

    job.tell("openings", 0.75)
    terms = open_at(job, instances, quotients, zeta)
    ch.message(Label.VALUES, [c for v in terms.values for c in v])
    weights = _batching(ch, len(terms.values))
    job.tell("low degree", 0.85)
    layers = prove_fri.commit_phase(job, ch, _codewords(job, terms, weights, zeta))

    nonce_bits = job.params.grinding_bits
    if nonce_bits:
        job.tell("proof of work", 0.95)
        ch.message(Label.NONCE, [prove_fri.grind(job, ch.pow_seed(), nonce_bits)])
    top = max(t.log for t in instances) + job.params.log_blowup
    queries = [ch.challenge_below(Label.INDEX, 1 << top) for _ in range(job.params.num_queries)]
    for tree in (keyed.universal.tree, fixed.tree, main, logup, quotient):
        if tree is not None:
            prove_fri.open_tree(ch, tree, queries)
    for layer in layers:
        prove_fri.open_tree(ch, layer, queries)
    job.tell("done", 1.0)
    return ch.words(), ch


def _instances(keyed: Keyed, fixed: FixedTree, witness: dict[int, Any]) -> list[Instance]:
    """Tables of the proof in slot order; columns made contiguous."""
    out = []
    for slot in sorted(witness):
        k, _ = keyed.system.slots[slot]
        p = keyed.system.programs[k]
        source = keyed.universal if p.fixed_in == 1 else fixed
        height = witness[slot].shape[1] if p.main_count else source.columns[k].shape[1]
        empty = np.zeros((0, height), dtype=np.uint64)
        out.append(Instance(slot, k, p, source.columns[k] if p.fixed_in else empty,
                            source.extended[k] if p.fixed_in else np.zeros((0, 0), dtype=np.uint64),
                            np.ascontiguousarray(witness[slot], dtype=np.uint64) if p.main_count else empty))
    return out


def _words(data: bytes) -> Any:
    return np.frombuffer(data + bytes(-len(data) % 8), dtype="<u8").astype(np.uint64)


def _statement(ch: Writer, keyed: Keyed, program: ProgramKey, output: bytes, logs: list[int]) -> None:
    ch.message(Label.DOMAIN, [MAGIC, PROTOCOL_VERSION, keyed.params.number])
    ch.absorb(Label.DOMAIN, keyed.vm_words)
    ch.message(Label.PROGRAM, program.words())
    ch.absorb(Label.PROGRAM_ID, np.frombuffer(program.id(keyed), dtype="<u8"))
    ch.message(Label.OUTPUT, [len(output)])
    ch.message(Label.OUTPUT, _words(output))
    ch.message(Label.TABLES, logs)


def _batching(ch: Writer, terms: int) -> list[ExtInts]:
    """Weights of all opened values: products of challenges over the bits of their number."""
    weights: list[ExtInts] = [(1, 0, 0)]
    while len(weights) < terms:
        r = ch.challenge(Label.BATCHING)
        weights += [mul_ints(w, r) for w in weights]
    return weights[:terms]


def _codewords(job: Job, terms: DeepTerms, weights: list[ExtInts], zeta: ExtInts) -> dict[int, Any]:
    """Batched quotients by log size of the extended domain, each shape (3, size)."""
    return {log + job.params.log_blowup: prove_fri.codeword(job, terms.at(log, weights), log, zeta)
            for log in terms.logs}
