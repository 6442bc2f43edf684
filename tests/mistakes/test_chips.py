"""Kinds of mistakes 1-15: what the rules of a table let a row claim.

Most tests go through all tables, columns or operations of the machine. A *said* message is one that a row receives or
sends on a state bus, or receives from ROM: a row is caught if it breaks a rule of its table or receives something that
the honest row does not, because nobody sends that.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import harness as h
import numpy as np
import pytest
import rv_oracle
from assembler import BRANCHES, R_TYPE, STORES, asm, call, elf, halt, li
from attacks import Part, Sample, Witness
from cases import Case, make, permutation_case
from mutation import honest as honest_tables
from mutation import rows_of, searched
from test_attacks_machine import KECCAK, MEMORY

from tailbite import columns as col
from tailbite.air.check import Trace, _evaluate, check_buses, tuples
from tailbite.air.lint import lint
from tailbite.air.program import compile_table
from tailbite.air.table import AirError, Table
from tailbite.field import P, root_of_unity
from tailbite.hash.keccak import keccak256
from tailbite.program import Program
from tailbite.stark import prove_logup
from tailbite.vm.buses import BUSES, KRC, RANGE_BUSES, ROM
from tailbite.vm.chip import Chip
from tailbite.vm.decode import decode
from tailbite.vm.executor import UnsupportedCall, execute
from tailbite.vm.isa import compute
from tailbite.vm.machine import TABLES, machine
from tailbite.vm.ops import OPS_OF_TABLE, TABLES_OF_OP, Call, Op
from tailbite.vm.ops import STORES as STORE_OPS
from tailbite.vm.tables.divrem import DivRem
from tailbite.vm.tables.kround import _round
from tailbite.vm.tables.mul import Mul
from tailbite.vm.tables.mulh import Mulh

M32, M64 = 2**32 - 1, 2**64 - 1
MIN = 1 << 63
NO_BITS = (2, P - 1, pow(2, -1, P))
SHIFTS_OF_A_LIMB = (1 << 8, 1 << 16, 1 << 31, 1 << 32, P - (1 << 16), P - (1 << 32), pow(1 << 16, -1, P))
LIMBS = {"u16": 1 << 16, "msb16": 1 << 16, "u15": 1 << 15, "byte": 1 << 8}


# ---------------------------------------------------------------- rows of a table, many variants at once


@cache
def used(table: Chip) -> Any:
    """Main columns of honest rows in use, shape (columns, rows)."""
    if not any(c.kind == "selector" for c in table.declared):  # FIN, all of whose rows are checked
        return next(t.main[:, :16] for t, _ in honest_tables() if t.table is table)
    return in_eights(rows_of(table, 16)[0][:, :-1])


def in_eights(rows: Any) -> Any:
    """Some again, so that there are a multiple of 8, as vectors want."""
    n = rows.shape[1]
    return np.ascontiguousarray(rows[:, np.arange(-(-n // 8) * 8) % n])


def variants(table: Chip, changes: Iterable[tuple[int, Any]]) -> tuple[Trace, Trace, list[tuple[int, Any]]]:
    """Honest rows, once for each change of a column, and the same with the change; what each column is a variant of.

    A change is (column, function of its values).
    """
    rows, every = used(table), list(changes)
    honest = np.tile(rows, len(every))
    other = honest.copy()
    n = rows.shape[1]
    for k, (c, change) in enumerate(every):
        other[c, k * n:(k + 1) * n] = change(rows[c])
    return h.as_trace(table, honest), h.as_trace(table, other), [x for x in every for _ in range(n)]


def missed(honest: Trace, other: Trace) -> Any:
    """Rows that are not caught, and send something else than the honest row."""
    (received, sent), (received_, sent_) = h.messages(honest), h.messages(other)
    return ~h.refused(other) & (received == received_).all(axis=1) & (sent != sent_).any(axis=1)


def plus(delta: int) -> Any:
    return lambda x: col.add_(x, delta % P)


def tables_with_rows() -> list[Chip]:
    return [t for t in machine().tables if not t.layout.fixed_count]


# ---------------------------------------------------------------- 1: one register read twice

A, B, ROOM = 0x9234567887654321, 0xFEDCBA9800000007, 0x1000
PATTERNS = {"distinct": (9, 6, 7), "rd=rs1": (6, 6, 7), "rd=rs2": (7, 6, 7), "rs1=rs2": (9, 6, 6), "all": (6, 6, 6)}


def equal_registers() -> Sample:
    """Each operation with each pattern of equal registers; each result is stored, and at the end all are output."""
    parts: list[Any] = [li(8, 0x400), li(5, ROOM)]
    for name, (kind, (rd, rs1, rs2)) in itertools.product(R_TYPE, PATTERNS.items()):
        parts += [asm("ld", 6, 8, 0), asm("ld", 7, 8, 8), (f"{name} {kind}", asm(name, rd, rs1, rs2)),
                  asm("sd", rd, 5, 0), asm("addi", 5, 5, 8)]
    parts += [asm("addi", 10, 5, 0), *((f"{name} rs1=rs2", asm(name, 10, 10, 0)) for name in STORES)]
    parts += [(f"{name} rs1=rs2", asm(name, 6, 6, 4)) for name in BRANCHES]
    return Sample(*parts, call(64, 1, ROOM, 8 * len(R_TYPE) * len(PATTERNS)), halt(),
                  data={0x400: A.to_bytes(8, "little") + B.to_bytes(8, "little")})


EQUAL = equal_registers()
TWICE = [label for label in EQUAL.labels if label.endswith(("rs1=rs2", "all"))]


def test_01_equal_registers() -> None:
    """The honest twin: the results are those of another implementation."""
    w = EQUAL.honest()
    assert len(w.output) == 8 * len(R_TYPE) * len(PATTERNS)
    assert w.output == rv_oracle.run_elf(w.program.elf).output


def read_twice(label: str) -> tuple[Witness, Part, int]:
    """The second read gives another value than the first, and the row agrees with itself."""
    w = EQUAL.honest().copy()
    f = {k: int(v[0]) for k, v in w.logged(label).items()}
    b = f["b"] ^ 8
    part, row = w.rewrite(label, b=b, r=b if f["op"] in STORE_OPS else int(compute(f["op"], f["a"], b, 0)))
    return w, part, row


def test_01_second_read_of_a_register() -> None:
    """For every operation: no rule of the table refuses the row, and what it receives from REG was never sent."""
    for label in TWICE:
        w, part, row = read_twice(label)
        old = EQUAL.honest().at(label)[0].main
        honest, other = (h.as_trace(part.table, in_eights(x[:, [row]])) for x in (old, part.main))
        assert not h.refused(other)[0] and not h.refused(honest)[0], label
        assert (h.messages(honest)[0] != h.messages(other)[0]).any(), label
        if label in ("add rs1=rs2", "mulh all", "sd rs1=rs2", "beq rs1=rs2"):  # and in the whole machine
            w.settle()
            assert "REG" in w.reasons(), label


# ---------------------------------------------------------------- 2: results that are not determined

DIVISIONS = {  # RISC-V unprivileged specification, table "Semantics for division by zero and division overflow"
    (Op.DIVU, 7, 0): M64, (Op.REMU, 7, 0): 7, (Op.DIV, 7, 0): M64, (Op.REM, 7, 0): 7,
    (Op.DIVU, 0, 0): M64, (Op.REMU, 0, 0): 0, (Op.DIV, 0, 0): M64, (Op.REM, 0, 0): 0,
    (Op.DIV, M64, 0): M64, (Op.REM, M64, 0): M64, (Op.DIV, MIN, 0): M64, (Op.REM, MIN, 0): MIN,
    (Op.DIV, MIN, M64): MIN, (Op.REM, MIN, M64): 0, (Op.DIVU, MIN, M64): 0, (Op.REMU, MIN, M64): MIN,
    (Op.DIV, M64, MIN): 0, (Op.REM, M64, MIN): M64, (Op.DIV, MIN, MIN): 1, (Op.REM, MIN, MIN): 0,
    (Op.DIV, M64, M64): 1, (Op.REM, M64, M64): 0, (Op.DIV, 0, M64): 0, (Op.DIV, 7, M64): -7 & M64,
    (Op.DIVW, 1 << 31, M32): -(1 << 31) & M64, (Op.REMW, 1 << 31, M32): 0, (Op.DIVW, 7, 1 << 32): M64,
    (Op.REMW, M32, 0): M64, (Op.DIVUW, M32, 0): M64, (Op.REMUW, 1 << 31, 0): -(1 << 31) & M64,
    (Op.DIVUW, 1 << 31, M32): 0, (Op.DIVUW, 1 << 31, 1): -(1 << 31) & M64, (Op.REMUW, M32, M32): 0,
}


def test_02_division_has_one_result() -> None:
    """At 0, -1 and the least number, in full width; small_field searches all witnesses of a narrow one."""
    table = DivRem()
    rows = h.join(*(h.make_rows(op, [a], [b], [r]) for (op, a, b), r in DIVISIONS.items()))
    h.check_honest(table, rows, h.Effect(result=list(DIVISIONS.values()), reads=2))
    others = (0, 1, 7, -7, M64, MIN, MIN - 1, MIN + 1, M32, 1 << 31, -(1 << 31), 1 << 32)
    h.check_forged(table, rows, [*h.forgeries(rows.r), *(np.full(len(rows), x & M64, np.uint64) for x in others)])


# ---------------------------------------------------------------- 3: a limb without a range check


def active(table: Chip, label: str, trace: Trace) -> Any:
    """Rows in which the lookup of a limb is made, as its declaration says."""
    c = next(c for c in table.declared if label in c.labels())
    when = c.extra["when"]
    if when in ("real", "one"):
        return np.ones(trace.height, bool)
    return h.values_of(trace, when) == 1


@pytest.mark.parametrize("table", [t for t in tables_with_rows() if LIMBS.keys() & set(t.layout.kinds)],
                         ids=lambda t: t.name)
def test_03_every_limb_is_in_range(table: Chip) -> None:
    """Each limb, in each row, plus 2^8 (of bytes), 2^16, ... is refused; the honest limb is not."""
    limbs = [k for k, kind in enumerate(table.layout.kinds) if kind in LIMBS]
    for k in limbs:
        label, top = table.layout.columns[k], LIMBS[table.layout.kinds[k]]
        deltas = [d for d in SHIFTS_OF_A_LIMB if d >= top]
        honest, other, _ = variants(table, ((k, plus(d)) for d in deltas))
        lookups = [(i, tuples(other, i)) for i in table.layout.interactions
                   if i.bus.name in RANGE_BUSES and any(k in e.terms for e in i.entries)]
        bad = np.zeros(other.height, bool)
        for i, (e, m) in lookups:
            bad |= (m != 0) & ~h._lookup_holds(i.bus.name, e)
            e, m = tuples(honest, i)
            assert not ((m != 0) & ~h._lookup_holds(i.bus.name, e)).any()
        assert bad[active(table, label, other)].all(), label


# ---------------------------------------------------------------- 4: immediates

IMMEDIATES = {name: (lambda k, n=name: asm(n, 5, 6, k)) for name in
              ("addi", "slti", "sltiu", "xori", "ori", "andi", "addiw", "jalr", "lb", "lh", "lw", "ld", "lbu", "lhu",
               "lwu", "sb", "sh", "sw", "sd")}


@pytest.mark.parametrize("table", [t for t in searched() if any(i.bus == ROM for i in t.layout.interactions)],
                         ids=lambda t: t.name)
def test_04_every_operand_of_the_program_is_looked_up(table: Chip) -> None:
    """Limb, sign or register number: whatever the row changes of it is not what it receives from ROM."""
    columns = [k for k, kind in enumerate(table.layout.kinds) if kind == "rom"]
    (rom,) = [i for i in table.layout.interactions if i.bus == ROM]
    changes = [plus(1), plus(-1), plus(1 << 31), plus(1 << 32), lambda x: col.sub_(M32, x), lambda x: col.sub_(0, x)]
    for k in columns:
        honest, other, _ = variants(table, ((k, c) for c in changes))
        different = (honest.main[k] != other.main[k])
        assert different.any() or not columns
        (e, m), (e_, m_) = tuples(honest, rom), tuples(other, rom)
        assert np.array_equal(m, m_) and (m != 0).all()
        assert ((e != e_).any(axis=1) == different).all(), table.layout.columns[k]


@pytest.mark.parametrize("name", IMMEDIATES)
def test_04_signs_of_immediates(name: str) -> None:
    """The decoder extends the sign over both limbs."""
    values = (-2048, -1025, -2, -1, 1, 2, 1025, 2047)
    words = np.array([IMMEDIATES[name](k) for k in values], np.uint32)
    rom = decode(4 * np.arange(len(values), dtype=np.uint64), words)
    assert rom.i0.tolist() == [k & M32 for k in values]
    if name != "addiw":  # its table reads the low limb
        assert rom.i1.tolist() == [k >> 32 & M32 for k in values]


# ---------------------------------------------------------------- 5: selectors and bits


@pytest.mark.parametrize("table", tables_with_rows(), ids=lambda t: t.name)
def test_05_selectors_and_bits(table: Chip) -> None:
    """Each has its constraint, in used and unused rows alike; two selectors are not set at once."""
    lay = table.layout
    rules = dict(lay.constraints)
    bits = [label for label, kind in zip(lay.columns, lay.kinds, strict=True) if kind in ("bit", "selector")]
    for value in (0, 1, *NO_BITS):
        trace = h.as_trace(table, np.full((lay.main_count, 1), value, np.uint64))
        for label in bits:
            assert (_evaluate(trace, rules[f"{label}.bit"], (), {})[0] != 0) == (value in NO_BITS), label
    selectors = [k for k, kind in enumerate(lay.kinds) if kind == "selector"]
    for pair in [(x, y) for x, y in itertools.combinations(selectors, 2)] + [(x,) for x in selectors[1:]]:
        main = np.zeros((lay.main_count, 1), np.uint64)
        main[list(pair)] = 1
        assert (_evaluate(h.as_trace(table, main), rules["flag.sum"], (), {})[0] != 0) == (len(pair) == 2)


# ---------------------------------------------------------------- 6: rows of padding


def net(trace: Trace) -> list[dict[Any, int]]:
    """What each row adds to the balance of the buses, requests to range lookups aside: those an attacker can meet."""
    total: list[Counter[Any]] = [Counter() for _ in range(trace.height)]
    for i in trace.table.layout.interactions:
        if i.bus.name not in RANGE_BUSES:
            e, m = tuples(trace, i)
            for row in np.flatnonzero(m):
                total[row][i.bus.name, *map(int, e[row])] += int(m[row])
    return [{k: v for k, v in t.items() if v % P} for t in total]


@pytest.mark.parametrize("table", [t for t in tables_with_rows() if t.name not in ("FIN", "INPUT")],
                         ids=lambda t: t.name)
def test_06_padding_is_silent(table: Chip) -> None:
    """Zeros, and garbage with the counts at zero, add nothing to any bus. A selector that is set to 1 or -1 is refused,
    or puts the row in use, with a message that it must receive; any other count breaks a constraint where no selector
    is set. (Lookups alone would not do: they can be met by other columns of the row.)"""
    lay = table.layout
    counts = sorted({c for i in lay.interactions if i.bus.name not in RANGE_BUSES for c in i.multiplicity.terms})
    rows_in_use = [k for k in counts if lay.kinds[k] == "selector"]
    zero = np.zeros((lay.main_count, 64), np.uint64)
    noise = np.random.default_rng(6).integers(0, P, zero.shape, dtype=np.uint64)
    noise[counts] = 0
    tries = list(itertools.product(counts, (1, P - 1)))
    for main in (zero, noise):
        assert not any(net(h.as_trace(table, main)))
        for n, (k, value) in enumerate(tries):
            main[k, 2 * n + 1] = value
        trace = h.as_trace(table, main)
        broken = np.zeros(64, bool)
        for name, bad in h.complaints(trace).items():
            broken |= bad & (" " not in name)  # names of lookups have one
        added = net(trace)
        for n, (k, _) in enumerate(tries):
            fine = k in rows_in_use and bool(added[2 * n + 1])
            assert broken[2 * n:2 * n + 2].any() or fine, lay.columns[k]


def test_06_padding_of_fin_and_input() -> None:
    """Their rows follow from one another, so those of a run are taken: a row not in use may start no dword."""
    w = MEMORY.honest()
    for name, used_by, changes in (
            ("FIN", "act", {"z": 1}), ("FIN", "act", {"z": P - 1}), ("FIN", "act", {"act": P - 1}),
            ("INPUT", "f", {"f": 1}), ("INPUT", "f", {"f": P - 1})):
        other = w.copy()
        part = other[name]
        rows = np.flatnonzero(part[used_by] == 0)
        part.put(rows[-2], **changes)
        broken = {f for f in h.complaints(h.as_trace(part.table, part.main)) if " " not in f}
        assert broken and not h.complaints(h.as_trace(part.table, w[name].main)), changes


def test_06_honest_rows_say_something() -> None:
    """The twin: rows in use are not refused, and add to the balance what others take."""
    for table in searched():
        trace = h.as_trace(table, used(table))
        assert not h.refused(trace).any() and all(net(trace)), table.name


# ---------------------------------------------------------------- 7: a rule that is written and not registered


@pytest.mark.parametrize("table", [t for t in TABLES if t.constraint_count], ids=lambda t: t.name)
def test_07_no_rule_is_left_out(table: type[Chip]) -> None:
    """All declared constraints reach the words that the verifier executes; with one fewer there is no machine."""
    whole = table()
    names = [n for n, _ in whole.layout.constraints]
    lint([whole], BUSES)
    p = compile_table(whole)
    assert len(p.zeros) == len(names) == whole.constraint_count and p.constraint_names == tuple(names)
    for left_out in {names[0], names[-1]}:
        def zero(self: Any, name: str, e: Any, left_out: str = left_out) -> None:
            if name != left_out:
                Table.zero(self, name, e)

        partial = type(table.__name__, (table,), {"zero": zero, "name": table.name})()
        with pytest.raises(AirError, match=f"{table.name} declares {len(names)} constraints and registers"):
            lint([partial], BUSES)


# ---------------------------------------------------------------- 8: the first row of the running sum


def with_running_sum(monkeypatch: Any, case: Case, change: Any) -> str:
    """The refusal of a proof whose LogUp columns and claimed sums ``change`` tampers with."""
    honest = prove_logup.fill

    def lying(job: Any, t: Any, alpha: Any, beta: Any) -> None:
        honest(job, t, alpha, beta)
        change(t)

    monkeypatch.setattr(prove_logup, "fill", lying)
    try:
        return make(case).refusal()
    finally:
        monkeypatch.setattr(prove_logup, "fill", honest)


@pytest.mark.parametrize("row", [0, 1, 30, 31])
def test_08_running_sum_is_bound_in_every_row(row: int, monkeypatch: Any) -> None:
    """Also in the first and the last; a sum that begins elsewhere all along is the same sum."""
    case = permutation_case(5, [5], 20)

    def jump(t: Any) -> None:
        t.logup[-3, row] = col.add_(t.logup[-3, row:row + 1], 5)[0]

    def shift(t: Any) -> None:
        t.logup[-3] = col.add_(t.logup[-3], 5)

    assert with_running_sum(monkeypatch, case, jump) == "constraints"
    assert with_running_sum(monkeypatch, case, shift) == ""


def test_08_random_running_sum_with_the_right_end(monkeypatch: Any) -> None:
    def scramble(t: Any) -> None:
        t.logup[-3:, :-1] = np.random.default_rng(8).integers(0, P, t.logup[-3:, :-1].shape, dtype=np.uint64)

    assert with_running_sum(monkeypatch, permutation_case(5, [5], 20), scramble) == "constraints"
    assert with_running_sum(monkeypatch, permutation_case(5, [5], 20), lambda t: None) == ""


@pytest.mark.parametrize("row", [0, 13, 31])
def test_08_sum_that_hides_an_imbalance_in_one_row(row: int, monkeypatch: Any) -> None:
    """A value is received that nobody sent; the receiver claims the sum of the sender, and its running sum jumps."""
    case = permutation_case(5, [5], 20)
    false = case._replace(witness={0: case.witness[0], 1: case.witness[1].copy()})
    false.witness[1][2, 0] = col.add_(false.witness[1][2, :1], 1)[0]
    sums: list[Any] = []

    def hide(t: Any) -> None:
        sums.append(t.sigma)
        if len(sums) == 2:
            n, wanted = t.height, [(P - x) % P for x in sums[0]]
            for c, (new, old) in enumerate(zip(wanted, t.sigma, strict=True)):
                step = (old - new) * pow(n, -1, P)  # each row subtracts sigma / n; all the rest falls into one row
                drift = np.array([(step * ((k - row - 1) % n)) % P for k in range(n)], np.uint64)
                t.logup[-3 + c] = col.add_(t.logup[-3 + c], drift)
            t.sigma = tuple(wanted)

    assert make(false).refusal() == "balance" and make(case).refusal() == ""
    assert with_running_sum(monkeypatch, false, hide) == "constraints"


# ---------------------------------------------------------------- 9: limbs that are not tied to the value

#: another gap is another refresh, which is as good
FREE_TO_CHOOSE = {"REFRESH"}


@pytest.mark.parametrize("table", [t for t in searched() if t.name not in FREE_TO_CHOOSE], ids=lambda t: t.name)
def test_09_no_column_stands_for_itself(table: Chip) -> None:
    """One column changed, within its range or not: the row is caught, or says what it said before."""
    deltas = (1, -1, 2, 1 << 8, 1 << 16, -(1 << 16), 1 << 32, -(1 << 32), pow(2, -1, P), pow(1 << 32, -1, P))
    columns = range(len(table.layout.columns))
    honest, other, which = variants(table, ((k, plus(d)) for k in columns for d in deltas))
    assert not h.refused(honest).any()
    bad = np.flatnonzero(missed(honest, other))
    assert not len(bad), table.layout.columns[which[bad[0]][0]]
    assert {which[k][0] for k in np.flatnonzero(h.caught(honest, other))} == set(columns)


# ---------------------------------------------------------------- 10: Keccak in a table of 2^k rows


def keccak_run(calls: int) -> Witness:
    """Some calls on one state, in tables."""
    sample = Sample(li(10, 0x20000), li(5, calls), ("call", li(17, -2)), 0x73, asm("addi", 5, 5, -1),
                    asm("bne", 5, 0, -8), halt(), data={0x20000: bytes(range(200))})
    return sample.honest()


def unbalanced(w: Witness) -> bool:
    """Does the bus of states fail to balance?"""
    traces = [h.as_trace(p.table, p.main) for p in w.parts() if p.table.name in ("KROUND", "KCALL")]
    return any(f.name.startswith("bus KST") for f in check_buses(traces))


@pytest.mark.parametrize("calls", [1, 3])
def test_10_rounds_may_lie_anywhere(calls: int) -> None:
    """24 divides no power of two: rows are found by (call, round), not by their place."""
    w = keccak_run(calls).copy()
    for part in w.parts():
        if part.table.name == "KROUND":
            part.main[:] = np.roll(part.main, 17, axis=1)
            part.main[:] = part.main[:, ::-1]
    assert not w.reasons()


@pytest.mark.parametrize("rounds", range(24))
def test_10_no_permutation_of_fewer_rounds(rounds: int) -> None:
    """The last rows of the table are left out, and the call takes what there is as its result."""
    w = KECCAK.honest().copy()
    part = w["KROUND"]
    state = [int(part[f"a.{k}"][part.row(r=rounds)]) for k in range(50)]
    part.main[:, [part.row(r=r) for r in range(rounds, 24)]] = 0
    w["KCALL"].put(0, b=state)
    assert unbalanced(w) and not unbalanced(KECCAK.honest())


# ---------------------------------------------------------------- 11: rows of preprocessed tables


def keccak_constant(r: int) -> int:
    """Round constant by the shift register of FIPS 202, algorithms 5 and 6."""
    def rc(t: int) -> int:
        x = [1, 0, 0, 0, 0, 0, 0, 0]
        for _ in range(t % 255):
            x = [0, *x]
            for k in (0, 4, 5, 6):
                x[k] ^= x[8]
            x = x[:8]
        return x[0]

    return sum(rc(j + 7 * r) << (1 << j) - 1 for j in range(7))


DEFINED = {
    "AND": lambda: {(x, y, x & y) for x in range(256) for y in range(256)},
    "B2": lambda: {(x, y) for x in range(256) for y in range(256)},
    "R16": lambda: {(v,) for v in range(1 << 16)},
    "MSB": lambda: {(v, v >= 1 << 15) for v in range(1 << 16)},
    "POW": lambda: {(k, 2 ** (k % 32), k // 32) for k in range(64)},
    "KRC": lambda: {(r, *(keccak_constant(r) >> (1 << j) - 1 & 1 for j in range(7))) for r in range(24)},
}


def test_11_lookup_tables_hold_what_is_defined() -> None:
    """Each tuple once (KRC fills its spare rows with round 0), and no other."""
    system, seen = machine(), set()
    for t in system.tables:
        if t.name in system.universal:
            fixed = system.universal[t.name]
            trace = Trace(t, fixed, np.zeros((t.layout.main_count, fixed.shape[1]), np.uint64))
            for i in (i for i in t.layout.interactions if i.lookup_table):
                rows = [tuple(e) for e in tuples(trace, i)[0].tolist()]
                seen.add(i.bus.name)
                assert set(rows) == DEFINED[i.bus.name]()
                assert i.bus == KRC or len(set(rows)) == len(rows)
    assert seen == set(DEFINED)


def test_11_a_program_has_one_row_for_each_pc_and_dword() -> None:
    image = EQUAL.program().image
    assert len(set(image.rom.pc.tolist())) == len(image.rom)
    keys = list(zip(image.dwords.h.tolist(), image.dwords.w.tolist(), strict=True))
    assert len(set(keys)) == len(keys) and keys == sorted(keys)


# ---------------------------------------------------------------- 12: carries


def carried(table: Chip) -> Iterable[tuple[int, int, int, int]]:
    """(column, what it gains, another column, what it loses): units that a carry could move."""
    n = len(table.layout.columns)
    for x, y in itertools.permutations(range(n), 2):
        if abs(x - y) <= 12 and table.layout.kinds[x] not in ("rom", "selector"):
            for weight, sign in itertools.product((1 << 8, 1 << 16, 1 << 32), (1, -1)):
                yield x, sign, y, -sign * weight
                yield x, sign, y, sign * pow(weight, -1, P)


@pytest.mark.parametrize("table", [t for t in searched() if t.name not in {*FREE_TO_CHOOSE, "KCALL"}],
                         ids=lambda t: t.name)
def test_12_carries_move_nothing(table: Chip) -> None:
    """A carry one more or less, with the limb beside it made up for that; and every bit flipped alone. (That p is
    added to a carry cannot be written: cells are field elements, and openings are canonical.)"""
    rows = used(table)[:, ::max(1, used(table).shape[1] // 8)][:, :8]
    rows = in_eights(rows)
    n = rows.shape[1]
    moves = list(carried(table))
    honest = np.tile(rows, len(moves))
    other = honest.copy()
    for k, (x, gain, y, loss) in enumerate(moves):
        at = slice(k * n, (k + 1) * n)
        other[x, at], other[y, at] = col.add_(rows[x], gain % P), col.add_(rows[y], loss % P)
    bad = np.flatnonzero(missed(h.as_trace(table, honest), h.as_trace(table, other)))
    assert not len(bad), [table.layout.columns[c] for c in moves[bad[0] // n][::2]]

    bits = [k for k, kind in enumerate(table.layout.kinds) if kind in ("bit", "sign")]
    if bits:
        flipped = variants(table, ((k, lambda x: col.sub_(1, x)) for k in bits))
        assert not missed(*flipped[:2]).any()


# ---------------------------------------------------------------- 13: numbers of operations


def test_13_every_table_fetches_its_operations_and_no_others() -> None:
    """For every setting of the bits in its ROM tuple. 0, the number of padding rows of ROM, is none of them."""
    fetched: dict[int, set[str]] = {}
    for t in machine().tables:
        if any(i.bus == ROM and not i.lookup_table for i in t.layout.interactions):
            ops = set(h.ops_of(t))
            assert ops == set(map(int, OPS_OF_TABLE[t.name])), t.name
            for op in ops:
                fetched.setdefault(op, set()).add(t.name)
    assert fetched == {int(op): set(TABLES_OF_OP[op]) for op in Op} and 0 not in fetched


# ---------------------------------------------------------------- 14: constants of curves and fields


def test_14_no_curve_and_right_constants() -> None:
    """No call is about a curve, and an unknown call ends the run. What there is: a field, its cubic extension, its
    roots of unity, and Keccak."""
    assert {c.name for c in Call} == {"PRINT", "PANIC", "COMMIT", "HALT", "CYCLES", "KECCAK"}
    for number in (-3 & M64, 0, 3, 65, 94, MIN):
        with pytest.raises(UnsupportedCall):
            execute(Program.from_elf(elf([*call(number), *halt()])).image)
    assert execute(Program.from_elf(elf([*call(-32 & M64), *halt()])).image).output == b""

    assert P == 2**64 - 2**32 + 1 and pow(7, (P - 1) // 2, P) == P - 1  # 7 is no square, so zero is not the only root
    assert P % 3 == 1 and pow(2, (P - 1) // 3, P) != 1  # 2 is no cube: w^3 - 2 is irreducible
    for k in range(33):
        w = root_of_unity(k)
        assert pow(w, 1 << k, P) == 1 and (k == 0 or pow(w, 1 << k - 1, P) == P - 1)
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    state = tuple(np.zeros(1, np.uint64) for _ in range(25))
    for r in range(24):
        state = _round(state, r)
    assert int(state[0][0]) == 0xF1258F7940E1DDE7  # keccak.team, KeccakF-1600-IntermediateValues.txt


# ---------------------------------------------------------------- 15: high and low words, alignment of stores

PRODUCTS = [(Mul(), (Op.MUL, Op.MULW)), (Mulh(), (Op.MULH, Op.MULHSU, Op.MULHU)),
            (DivRem(), tuple(Op(Op.DIVU + k) for k in range(8)))]


@pytest.mark.parametrize(("table", "op"), [(t, op) for t, ops in PRODUCTS for op in ops],
                         ids=lambda x: getattr(x, "name", x))
def test_15_every_bit_of_a_product_or_quotient(table: Chip, op: Op) -> None:
    """Each of 64 bits flipped, the rest of the witness made to fit."""
    a, b = (x[::3] for x in h.few_pairs(10))
    r = [int(compute(op, x, y, 0)) for x, y in zip(a, b, strict=True)]
    rows = h.make_rows(op, a, b, r)
    h.check_honest(table, rows, h.Effect(result=r, reads=2))
    h.check_forged(table, rows, [rows.r ^ np.uint64(1 << k) for k in range(64)])


def test_15_misaligned_stores() -> None:
    """Each width at each offset, over two dwords, whose bytes are then output: as another implementation has it."""
    words, at = [*li(6, A)], 0x20000
    for name, k in itertools.product(STORES, range(16)):
        words += [*li(5, at + k), asm(name, 6, 5, 0)]
        at += 32
    program = Program.from_elf(elf([*words, *call(64, 1, 0x20000, at - 0x20000), *halt()],
                                   {0x20000: bytes((7 * k + 1) % 256 for k in range(at - 0x20000))}))
    run, failures = program.check()
    assert not failures and run.output == rv_oracle.run_elf(program.elf).output


@pytest.mark.parametrize("name", ["SW", "SBH", "MSTORE"])
def test_15_high_bits_are_not_stored(name: str) -> None:
    """A narrow store that writes more bits of rs2 than it has."""
    table = next(t for t in machine().tables if t.name == name)
    words = [k for k, label in enumerate(table.layout.columns) if label.startswith("n.")]
    high = [1 << 16, 1 << 24, 1 << 31, 1 << 8, M32 - 0xFF, M32 - 0xFFFF]
    honest, other, _ = variants(table, ((k, plus(d)) for k in words for d in high))
    assert h.refused(other).all() and not h.refused(honest).any()
