"""Proofs by z3 that rows of the real tables are what RISC-V says, at full width; see ``smt`` for what a row assumes.

Each proof has a guard: rows on given operands exist, and the table's own evaluator accepts them. And each table has a
rule without which z3 finds a false row, so the proofs can fail. ``smt_proofs.py`` runs all amounts of shifts, the
long proofs and all rules.
"""

from __future__ import annotations

import random
from itertools import product

import harness as h
import pytest
import z3
from assembler import R_TYPE, asm
from rv_oracle import run_words
from smt import P, Row, nonresidue
from smt_calls import committed_byte, function, keccak_round
from smt_meaning import RESULT, TAKEN, decoded, division_of, quotient_result
from smt_meaning import Taken as Takes
from smt_proofs import (
    ARITHMETIC,
    LIMIT,
    Case,
    cases,
    false_row,
    flags,
    follows,
    inputs,
    prove,
    refusals,
    silent,
    solver,
    table_named,
    witness,
)

from tailbite.vm.decode import decode_word
from tailbite.vm.ops import OPS_OF_TABLE, TABLES_OF_OP, Op
from tailbite.vm.tables.kround import Kround

AMOUNTS = (0, 1, 15, 31, 32, 33, 63)  # of shifts; the others are in smt_proofs.py
LONG = (Op.DIV, Op.REM, Op.MULH)  # proved by smt_proofs.py too; a division with DIVU, REMW and so on, which are quicker
NAMES = [t.name for t in ARITHMETIC]
# for each table a rule that z3 must miss, and an operation and amount that show it
MISSED = {
    "ADDSUB": ("R16 14", Op.SUB, None), "ADDI": ("lo", Op.ADDI, None), "ADDW": ("MSB 13", Op.SUBW, None),
    "ADDIW": ("R16 9", Op.ADDIW, None), "MV": ("hi", Op.SL32, None), "JALR": ("lsb.bit", Op.JALR, None),
    "BEQ": ("npc", Op.BNE, None), "BLTU": ("d", Op.BGEU, None), "BLT": ("MSB 14", Op.BLT, None),
    "SLT": ("sa", Op.SLTU, None), "LOGIC": ("AND 5", Op.XOR, None), "LOGIC32": ("lo", Op.OR, None),
    "LOGICI": ("R16 11", Op.XORI, None), "SHI1": ("MSB 12", Op.SHI1_RW, 5), "SHI2": ("MSB 15", Op.SHI2_R, 9),
    "SHR": ("top.t1", Op.SRL, 5), "MUL": ("B2 26", Op.MUL, None), "MULH": ("k3", Op.MULHU, None),
    "DIVREM": ("mul.c5", Op.DIVU, None), "LD": ("ea.hi", Op.LD, None), "SD": ("ea.lo", Op.SD, None),
    "LW": ("x", Op.LWU, None), "SW": ("n.lo", Op.SW, None), "LBH": ("AND 0", Op.LB, None),
    "SBH": ("even", Op.SH, None), "MLOAD": ("cross", Op.LW, None), "MSTORE": ("n.2", Op.SD, None),
}


def test_constants_of_the_argument() -> None:
    assert nonresidue(7) and not nonresidue(4)  # BEQ: x x - 7 y y is 0 for x = y = 0 only


@pytest.mark.parametrize("name", NAMES)
def test_rows_say_what_riscv_says(name: str) -> None:
    table = table_named(name)
    silent(table)
    for case in cases(table, AMOUNTS):
        if case.op not in LONG:
            prove(case)
        witness(case, *inputs(case, random.Random(1)))


@pytest.mark.parametrize("name", MISSED)
def test_without_a_rule_a_false_row_is_found(name: str) -> None:
    rule, op, amount = MISSED[name]
    case = Case(table_named(name), op, amount)
    values = false_row(case, {rule}, 30_000)
    assert values is not None, f"{name} without {rule} is still right"
    assert refusals(case.table, values) == {rule}


def test_every_table_has_a_mutant() -> None:
    assert set(NAMES) - MISSED.keys() == {"CONST"}  # which has no rules beside its selector's


# ---------------------------------------------------------------- division


def test_quotients_are_unique() -> None:
    """Q B + R = Q' B + R' with R, R' < B: so Q = Q' and R = R', over the integers."""
    q, r, q2, r2, b = z3.Ints("q r q2 r2 b")
    both = [q * b + r == q2 * b + r2, r >= 0, r < b, r2 >= 0, r2 < b]
    s = z3.Solver()
    s.set("timeout", LIMIT)
    s.add(*both, q >= q2 + 1, (q - q2 - 1) * b >= 0)  # the last: a product of two numbers that are not negative
    assert s.check() == z3.unsat
    s = z3.Solver()
    s.add(*both, q == q2, r != r2)
    assert s.check() == z3.unsat
    s = z3.Solver()
    s.add(*both, b == 7, q == 3, r == 6)
    assert s.check() == z3.sat


def test_meanings_agree_with_another_machine() -> None:
    """The formulas on constants, against QEMU's processor core."""
    rng = random.Random(3)
    for name in R_TYPE:
        op = Op[name.upper()]
        for a, b in [(a, b) for a in h.EDGE[::9] for b in h.EDGE[::8]] + [(h.number(rng), h.number(rng))] * 3:
            x, y = z3.BitVecVal(a, 64), z3.BitVecVal(b, 64)
            if op in RESULT:
                mine = RESULT[op](x, y, z3.BitVecVal(0, 64), x)
            elif op >= Op.DIVU:
                d = division_of(op, x, y)
                mine = quotient_result(d, z3.UDiv(d.a, d.b), z3.URem(d.a, d.b), d.b == 0)
            else:
                continue  # products are told by the integers' distributive law
            assert z3.simplify(mine).as_long() == run_words([asm(name, 5, 6, 7)], {6: a, 7: b}).regs[5], (name, a, b)
    for op, taken in TAKEN.items():
        for a, b in product(h.EDGE[::5], h.EDGE[::6]):
            skipped = run_words([asm(op.name.lower(), 6, 7, 8), asm("addi", 5, 0, 1)], {6: a, 7: b}).regs[5] == 0
            assert z3.is_true(z3.simplify(taken(z3.BitVecVal(a, 64), z3.BitVecVal(b, 64)))) == skipped


# ---------------------------------------------------------------- what the proofs assume


def test_the_decoder_keeps_its_word() -> None:
    """What :func:`smt_meaning.decoded` assumes of ROM rows, and that their entries are in range."""
    rng = random.Random(4)
    seen = set()
    for _ in range(4000):
        opcode = rng.choice((0x13, 0x1B, 0x33, 0x3B, 0x03, 0x23, 0x63, 0x67, 0x37, 0x17, 0x6F))
        word = rng.getrandbits(32) & ~0x7F | opcode
        if word & 0x77 in (0x33, 0x13) and rng.random() < 0.8:
            word &= ~(0xBE << 24)  # upper bits that make an operation
        op, rd, s1, s2, i0, i1 = (int(x) for x in decode_word(0x10000, word))
        if not op:
            continue
        seen.add(Op(op))
        assert max(s1, i0, i1) < 1 << 32 and max(rd, s2) < 64
        b = z3.BitVecVal(0 if s2 == 0 else rng.getrandbits(64), 64)
        t = Takes(None, None, [], z3.BitVecVal(i0 | i1 << 32, 64), b, b)
        assert all(z3.is_true(z3.simplify(f)) for f in decoded(Op(op), t)), (hex(word), Op(op).name)
    assert seen >= {Op.SLT, Op.SLTU, Op.SRA, Op.SRAW, Op.SLL, Op.ADDI, Op.ANDI, Op.JALR, Op.LD, Op.SD, Op.BEQ}


@pytest.mark.parametrize("name", NAMES)
def test_formulas_say_what_the_evaluator_says(name: str) -> None:
    """On rows with all columns given: each formula holds where the rule does. Rows true, and with a column changed."""
    table, rng = table_named(name), random.Random(5)
    case = rng.choice(list(cases(table, (5, 33, 40))))
    honest = witness(case, *inputs(case, rng))
    columns = {c: honest.get(c, 0) for c in table.layout.columns}
    for c in [None, *rng.sample(list(columns), min(14, len(columns)))]:
        values = dict(columns)
        if c is not None:
            values[c] = (values[c] + rng.choice((1, -1, 1 << 16, 1 << 32, rng.getrandbits(64)))) % P
        row = Row(table, values)
        promised = {m.name for m in row.messages if m.bus in ("EXEC", "ROM", "REG", "RAM")}
        failed = {n for n, f in row.facts if not z3.is_true(z3.simplify(f))} - promised
        assert failed == refusals(table, values), f"{case}: {c}"


# ---------------------------------------------------------------- calls


@pytest.mark.parametrize("name", ["HALT", "PRINT", "CYCLES", "COMMIT", "KCALL", "CBYTE"])
def test_calls_are_functions_of_what_they_take(name: str) -> None:
    table = table_named(name)
    silent(table)
    selectors = [c.name for c in table.declared if c.kind == "selector"]
    for chosen in selectors:
        known = function(table, {s: int(s == chosen) for s in selectors})
        assert solver(*known).check() == z3.sat


def test_a_cycle_count_is_a_quarter_of_the_time() -> None:
    row = Row(table_named("CYCLES"), {"f": 1})
    ts, c = row.entries(row.said("EXEC", -1)[0])[1], row.entries(row.said("REG", 1)[1])[2:]
    count = (c[0] + c[1].times(1 << 32)).times(4)
    follows(row.everything, (ts - count).equals(4), "cyc", LIMIT)
    with pytest.raises(Exception, match="cyc"):
        follows([f for n, f in row.facts if n != "cyc"], (ts - count).equals(4), "cyc", LIMIT)


def test_a_committed_byte_is_that_at_the_pointer() -> None:
    given = {"byt": 1, "end": 0}
    row = Row(table_named("CBYTE"), given)
    goal = committed_byte(row)
    follows(row.everything, goal, "byte", LIMIT)
    assert solver(*row.everything, goal).check() == z3.sat
    other = Row(table_named("CBYTE"), given, {"ptr"})
    goal = committed_byte(other)
    assert solver(*other.everything, z3.Not(goal)).check() == z3.sat


# ---------------------------------------------------------------- Keccak


def test_a_row_of_kround_is_a_round() -> None:
    table = Kround()
    row = Row(table, {"f": 1})
    steps = keccak_round(row)
    state = row.entries(row.said("KST", -1)[0])
    some = solver(*row.everything, row.bits("a", state[9], 32) == 0xDEADBEEF, row.bits("r", state[1], 5) == 17)
    assert some.check() == z3.sat
    for name, facts, goal in steps:
        follows(facts, goal, name, LIMIT)


def test_flags_are_determined() -> None:
    """One setting of a table's flags fetches an operation."""
    for name in NAMES:
        for op in OPS_OF_TABLE[name]:  # type: ignore[index]
            assert flags(table_named(name), op) and name in TABLES_OF_OP[op]


