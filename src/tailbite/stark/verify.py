"""The verifier: the protocol in the order in which it happens (docs/protocol.md). Typed Python.

One source, run natively, as a guest, and by the interpreter. Every way to refuse is an assertion whose message
begins with a category; :mod:`.verifier` turns it into a typed error.
"""

from __future__ import annotations

from ..channel import Label, Reader, absorb, challenge, field_message, message
from ..field import Ext
from ..hash.keccak import keccak256_words
from ..lang import Array, Slice, function, length, u64, unroll
from ..lang.riscv import mark
from ..transcript import STATE_WORDS, start
from .phases import Phase
from .system import MAGIC, PROGRAM_TAG, PROTOCOL_VERSION
from .verify_constraints import Claim, check_balance, check_constraints
from .verify_queries import (
    Roots,
    batching_weights,
    check_queries,
    check_work,
    draw_queries,
    read_folding,
)
from .view import (
    KEY_OUTPUT_BUS,
    KEY_PUBLIC_WORDS,
    KEY_TABLES,
    KEY_UNIVERSAL_ROOT,
    PROGRAM,
    Scratch,
    count_logup,
    number_terms,
    read_shape,
    reserve,
    table_at,
    total_of_present,
)

MAX_OUTPUT_BYTES = 1 << 20
HEADER_WORDS = 3


@function
def verify(key: Slice[u64], params: Slice[u64], vm_id: Slice[u64], program_id: Slice[u64], proof: Slice[u64],
           memory: Slice[u64], log: Slice[u64]) -> None:
    """Return if the proof is good; trap with the reason otherwise.

    ``key`` and ``params`` are those of ``Keyed``; ``program_id`` is what the caller trusts. ``memory`` is working
    space (see ``verifier.working_words``); ``log`` records events, or is empty.
    """
    ch = Reader(proof, Array[u64, 1](), Array[u64, STATE_WORDS](), log)
    s = Scratch(memory, Array[u64, 1]())
    start(ch.t)

    # statement
    mark(Phase.STATEMENT)
    check_header(ch, params)
    absorb(ch, u64(int(Label.DOMAIN)), vm_id)
    programs = count_programs(key)
    program = message(ch, u64(int(Label.PROGRAM)), 5 + programs)
    check_program_id(vm_id, program, program_id, s)
    absorb(ch, u64(int(Label.PROGRAM_ID)), program_id)
    output_bytes = message(ch, u64(int(Label.OUTPUT)), u64(1))[0]
    assert output_bytes <= MAX_OUTPUT_BYTES, "statement: the public output is too long"
    output = message(ch, u64(int(Label.OUTPUT)), (output_bytes + 7) >> 3)
    check_output(key, output, output_bytes)
    logs = message(ch, u64(int(Label.TABLES)), key[2])
    program_logs = program[1:1 + programs]
    shape = read_shape(key, logs, program_logs, params[0], s)
    terms = number_terms(shape)

    # commitments
    mark(Phase.TRANSCRIPT)
    none = proof[0:0]
    main_root, logup_root, sigmas = none, none, none
    if total_of_present(shape, shape.main) != 0:
        main_root = message(ch, u64(int(Label.MAIN_ROOT)), u64(4))
    alpha, beta = Ext(u64(0), u64(0), u64(0)), Ext(u64(0), u64(0), u64(0))
    with_messages = count_logup(shape)
    if with_messages != 0:
        alpha = challenge(ch, u64(int(Label.ALPHA)))
        beta = challenge(ch, u64(int(Label.BETA)))
        logup_root = message(ch, u64(int(Label.LOGUP_ROOT)), u64(4))
        sigmas = field_message(ch, u64(int(Label.SIGMA)), 3 * with_messages)
    combination = challenge(ch, u64(int(Label.CONSTRAINT)))
    quotient_root = message(ch, u64(int(Label.QUOTIENT_ROOT)), u64(4))
    zeta = challenge(ch, u64(int(Label.ZETA)))
    while zeta.c1 == 0 and zeta.c2 == 0:
        zeta = challenge(ch, u64(int(Label.ZETA)))

    # out-of-domain values
    values = field_message(ch, u64(int(Label.VALUES)), 3 * terms)
    mark(Phase.CONSTRAINTS)
    claim = Claim(values, sigmas, output, alpha, beta, combination, zeta)
    check_balance(key, claim, with_messages, program[0], output_bytes)
    check_constraints(key, shape, claim, s)

    # low degree
    weights = batching_weights(ch, terms, s)
    mark(Phase.TRANSCRIPT)
    folding = read_folding(ch, shape, s)
    check_work(ch, params[2])
    queries = draw_queries(ch, params[1], shape.top + shape.blowup, s)
    roots = Roots(key[KEY_UNIVERSAL_ROOT:KEY_UNIVERSAL_ROOT + 4], program[1 + programs:5 + programs], main_root,
                  logup_root, quotient_root)
    check_queries(ch, key, shape, claim, weights, roots, folding, queries, s)
    mark(Phase.REST)
    assert ch.at[0] == length(proof), "extended: the proof has words that nothing reads"


@function
def check_header(ch: Reader, params: Slice[u64]) -> None:
    """Magic, protocol version and preset number."""
    header = message(ch, u64(int(Label.DOMAIN)), u64(HEADER_WORDS))
    assert header[0] == MAGIC, "header: this is not a Tailbite proof"
    assert header[1] == PROTOCOL_VERSION, "header: another protocol version"
    assert header[2] == params[3], "header: another preset"


@function
def count_programs(key: Slice[u64]) -> u64:
    """Number of tables with preprocessed columns of the program."""
    n = u64(0)
    at = u64(KEY_TABLES)
    for _t in range(key[1]):
        if table_at(key, at).fixed_in == PROGRAM:
            n += 1
        at += 1 + key[at]
    return n


@function
def check_program_id(vm_id: Slice[u64], program: Slice[u64], program_id: Slice[u64], s: Scratch) -> None:
    """The proof's program key must have the id that the caller trusts."""
    block = reserve(s, 5 + length(program))
    block[0] = u64(PROGRAM_TAG)
    for k in unroll(range(4)):
        block[1 + k] = vm_id[k]
    for i in range(length(program)):
        block[5 + i] = program[i]
    digest = Array[u64, 4]()
    keccak256_words(block, digest)
    for k in unroll(range(4)):
        assert digest[k] == program_id[k], "program: the proof is about another program"


@function
def check_output(key: Slice[u64], output: Slice[u64], output_bytes: u64) -> None:
    """Zero padding, and the length that the tables read."""
    if output_bytes & 7 != 0:
        last = output[length(output) - 1]
        assert last >> ((output_bytes & 7) << 3) == 0, "encoding: the padding of the public output is not zero"
    if key[KEY_OUTPUT_BUS] == 0:
        assert output_bytes == key[KEY_PUBLIC_WORDS] << 3, "statement: the public output has another length"
        for i in range(length(output)):
            assert output[i] < 0xFFFFFFFF00000001, "encoding: a public word is not canonical"


__all__ = ["HEADER_WORDS", "MAX_OUTPUT_BYTES", "verify"]
