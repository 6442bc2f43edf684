"""Sums, moves, jumps, branches, comparisons and logic (vm-tables 4.1 to 4.13)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from harness import (
    EDGE,
    Effect,
    changed,
    check_columns,
    check_forged,
    check_honest,
    check_padding,
    check_selectors,
    check_shape,
    check_times,
    complaints,
    few_pairs,
    join,
    make_rows,
    messages,
    pairs,
    refused,
    signed,
    trace_of,
    u64,
    unsigned,
    with_fields,
    word32,
)

from tailbite.air.check import Trace
from tailbite.field import P
from tailbite.vm.chip import Chip, Rows
from tailbite.vm.ops import Op
from tailbite.vm.tables.addi import Addi
from tailbite.vm.tables.addiw import AddiW
from tailbite.vm.tables.addsub import AddSub
from tailbite.vm.tables.addw import AddW
from tailbite.vm.tables.beq import Beq
from tailbite.vm.tables.blt import Blt
from tailbite.vm.tables.bltu import Bltu
from tailbite.vm.tables.const import Const
from tailbite.vm.tables.jalr import Jalr
from tailbite.vm.tables.logic import Logic
from tailbite.vm.tables.logic32 import Logic32
from tailbite.vm.tables.logici import LogicI
from tailbite.vm.tables.mv import Mv
from tailbite.vm.tables.slt import Slt

M = 2**32 - 1
IMMEDIATES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FF, -1, -2, -0x80, -0x81, -0x7FF, -0x800]


class Spec(NamedTuple):
    """A table that computes one register from registers ``a`` and ``b`` (or an immediate, or nothing)."""

    table: type[Chip]
    main: int
    interactions: int
    results: dict[Op, Callable[[int, int], int]]
    second: str = "register"


SPECS = {s.table.name: s for s in (
    Spec(AddSub, 20, 16, {Op.ADD: lambda a, b: a + b, Op.SUB: lambda a, b: a - b}),
    Spec(Addi, 17, 13, {Op.ADDI: lambda a, b: a + b}, "immediate"),
    Spec(AddW, 19, 14, {Op.ADDW: lambda a, b: word32(a + b), Op.SUBW: lambda a, b: word32(a - b)}),
    Spec(AddiW, 15, 11, {Op.ADDIW: lambda a, b: word32(a + b)}, "low immediate"),
    Spec(Mv, 15, 9, {Op.MV: lambda a, b: a, Op.SL32: lambda a, b: a << 32, Op.SR32: lambda a, b: a >> 32}, "none"),
    Spec(Slt, 26, 18, {Op.SLT: lambda a, b: int(signed(a) < signed(b)), Op.SLTU: lambda a, b: int(a < b)}, "either"),
    Spec(Logic, 39, 20, {Op.AND: lambda a, b: a & b, Op.OR: lambda a, b: a | b, Op.XOR: lambda a, b: a ^ b}),
    Spec(Logic32, 29, 16, {Op.AND: lambda a, b: a & b, Op.OR: lambda a, b: a | b, Op.XOR: lambda a, b: a ^ b},
         "narrow"),
    Spec(LogicI, 22, 12, {Op.ANDI: lambda a, b: a & b, Op.ORI: lambda a, b: a | b, Op.XORI: lambda a, b: a ^ b},
         "immediate"),
)}
BRANCHES = {
    Beq: (16, 9, {Op.BEQ: lambda a, b: a == b, Op.BNE: lambda a, b: a != b}),
    Bltu: (18, 11, {Op.BLTU: lambda a, b: a < b, Op.BGEU: lambda a, b: a >= b}),
    Blt: (22, 15, {Op.BLT: lambda a, b: signed(a) < signed(b), Op.BGE: lambda a, b: signed(a) >= signed(b)}),
}


# ---------------------------------------------------------------- rows of each kind


def register_rows(spec: Spec, op: Op, a: list[int], b: list[int]) -> Rows:
    """Rows with their true result; operands as the table's ROM entries have them."""
    f = spec.results[op]
    if spec.second == "either":  # a register and immediate 0, or x0 and an immediate
        half = len(a) // 2
        small = [signed(x, 12) for x in b[half:]]
        return join(make_rows(op, a[:half], b[:half], [f(*p) for p in zip(a[:half], b[:half], strict=True)]),
                    make_rows(op, a[half:], [0] * len(small),
                              [f(x, unsigned(y)) for x, y in zip(a[half:], small, strict=True)], imm=small, seed=6))
    if "immediate" in spec.second:
        b = [unsigned(signed(y, 12)) for y in b]
        r = [unsigned(f(x, y)) for x, y in zip(a, b, strict=True)]
        return make_rows(op, a, None, r, imm=[y & M for y in b] if spec.second == "low immediate" else b)
    if spec.second == "none":
        return make_rows(op, a, None, [unsigned(f(x, 0)) for x in a])
    if spec.second == "narrow":
        rng = random.Random(7)
        a, b = ([x & M | rng.choice((0, M << 32)) for x in v] for v in (a, b))
    return make_rows(op, a, b, [unsigned(f(x, y)) for x, y in zip(a, b, strict=True)])


def all_rows(spec: Spec, few: bool = False) -> Rows:
    a, b = few_pairs() if few else pairs()
    if "immediate" in spec.second or spec.second == "either":
        b = [y if k % 2 else IMMEDIATES[k // 2 % len(IMMEDIATES)] for k, y in enumerate(b)]
        b = b if spec.second != "either" else [unsigned(y) for y in b]
    return join(*(register_rows(spec, op, a, b) for op in spec.results))


def branch_rows(table: type[Chip], few: bool = False) -> Rows:
    a, b = few_pairs() if few else pairs()
    rng = random.Random(8)
    parts = []
    for op, f in BRANCHES[table][2].items():
        target = [4 * rng.randrange(1 << 30) for _ in a]
        taken = [int(f(x, y)) for x, y in zip(a, b, strict=True)]
        parts.append(make_rows(op, a, b, taken, imm=target, rd=[0] * len(a)))
    return join(*parts)


def next_pc(rows: Rows) -> list[int]:
    return [int(t if r else pc + 4) for r, t, pc in zip(rows.r, rows.i0, rows.pc, strict=True)]


def jalr_rows(few: bool = False) -> Rows:
    """Targets on both sides of every carry: a + i below 2^32, i of either sign."""
    rng = random.Random(9)
    targets = [0, 4, 8, 0x7FC, 0x800, 0x10000, 2**31, 2**32 - 4, *(4 * rng.randrange(1 << 30) for _ in range(20))]
    cases = [(t, i, low) for t in targets for i in IMMEDIATES for low in (0, 1)]
    cases = cases[::5] if few else cases
    rows = make_rows(Op.JALR, [unsigned(t + low - i) for t, i, low in cases], imm=[i for _, i, _ in cases])
    return with_fields(rows, r=rows.pc + np.uint64(4))


def const_rows() -> Rows:
    rng = random.Random(10)
    target = u64(4 * rng.randrange(1 << 30) for _ in EDGE)
    return make_rows(Op.CONST, [0] * len(EDGE), None, EDGE, imm=EDGE, s1=target)


# ---------------------------------------------------------------- honest rows


@pytest.mark.parametrize("name", SPECS)
def test_register_tables(name: str) -> None:
    spec = SPECS[name]
    table = spec.table()
    check_shape(table, spec.main, spec.interactions)
    check_padding(table)
    rows = all_rows(spec)
    reads = 2 if spec.second in ("register", "either", "narrow") else 1
    check_honest(table, rows, Effect(result=rows.r, reads=reads))


@pytest.mark.parametrize("table", BRANCHES)
def test_branches(table: type[Chip]) -> None:
    main, interactions, _ = BRANCHES[table]
    check_shape(table(), main, interactions)
    check_padding(table())
    rows = branch_rows(table)
    assert 0 < rows.r.sum() < len(rows)
    check_honest(table(), rows, Effect(npc=next_pc(rows), reads=2))


def test_jalr() -> None:
    check_shape(Jalr(), 15, 9)
    check_padding(Jalr())
    rows = jalr_rows()
    npc = [unsigned(int(a) + (int(i1) << 32 | int(i0))) & ~1
           for a, i0, i1 in zip(rows.a, rows.i0, rows.i1, strict=True)]
    check_honest(Jalr(), rows, Effect(npc=npc, result=[int(p) + 4 for p in rows.pc]))


def test_const() -> None:
    check_shape(Const(), 10, 6)
    check_padding(Const())
    rows = const_rows()
    check_honest(Const(), rows, Effect(npc=rows.s1, result=rows.r, reads=0))


# ---------------------------------------------------------------- wrong results and changed columns


@pytest.mark.parametrize("name", SPECS)
def test_wrong_results_are_caught(name: str) -> None:
    check_forged(SPECS[name].table(), all_rows(SPECS[name]))


@pytest.mark.parametrize("table", BRANCHES)
def test_wrong_branches_are_caught(table: type[Chip]) -> None:
    rows = branch_rows(table)
    check_forged(table(), rows, [1 - rows.r])


def test_wrong_constants_are_caught() -> None:
    check_forged(Const(), const_rows())


@pytest.mark.parametrize("name", SPECS)
def test_every_column_matters(name: str) -> None:
    rows = all_rows(SPECS[name], few=True)
    # the halves of the high limbs serve signed comparisons only
    check_selectors(SPECS[name].table(), rows)
    check_times(SPECS[name].table(), rows)
    check_columns(SPECS[name].table(), rows, lambda column: column in ("xa", "xb") and rows.op == Op.SLTU)


@pytest.mark.parametrize("table", BRANCHES)
def test_every_column_of_branches_matters(table: type[Chip]) -> None:
    rows = branch_rows(table, few=True)
    check_selectors(table(), rows)
    check_times(table(), rows)
    # the inverse of 0 may be anything
    check_columns(table(), rows, lambda column: (column == "inv") & (rows.a == rows.b))


@pytest.mark.parametrize("table", (Jalr, Const))
def test_every_column_of_jumps_matters(table: type[Chip]) -> None:
    rows = jalr_rows(few=True) if table is Jalr else const_rows()
    check_selectors(table(), rows)
    check_times(table(), rows)
    check_columns(table(), rows)


# ---------------------------------------------------------------- attacks by name


@pytest.mark.parametrize("table,op", [(AddSub, Op.ADD), (AddSub, Op.SUB), (Addi, Op.ADDI)])
def test_a_sum_has_one_result(table: type[Chip], op: Op) -> None:
    """Every choice of carries that fits the equations, whatever result it takes: one has 16-bit limbs."""
    a, b = pairs(100)
    rows = make_rows(op, a, None, imm=b) if table is Addi else make_rows(op, a, b)
    sign = -1 if op == Op.SUB else 1
    accepted = np.zeros(len(a), int)
    for carries in itertools.product((0, 1), repeat=2):
        limbs: dict[str, list[int]] = {f"r__{k}": [] for k in range(4)}
        for x, y in zip(a, b, strict=True):
            lo = (x & M) + sign * ((y & M) - (carries[0] << 32))
            hi = (x >> 32) + sign * ((y >> 32) + carries[0] - (carries[1] << 32))
            for k, half in enumerate((lo, hi)):
                limbs[f"r__{2 * k}"].append(half & 0xFFFF)
                limbs[f"r__{2 * k + 1}"].append(half >> 16)
        trace = changed(table(), rows, **limbs)
        assert not {"lo", "hi"} & complaints(trace).keys()
        good = ~refused(trace)[:len(a)]
        wanted = [unsigned(x + sign * y) for x, y in zip(a, b, strict=True)]
        result = sum(trace.main[trace.table.column_index(f"r.{k}")][:len(a)] << 16 * k for k in range(4))
        assert (result[good] == u64(wanted)[good]).all()
        accepted += good
    assert (accepted == 1).all()


@pytest.mark.parametrize("name", ("ADDSUB", "ADDI"))
def test_limbs_cannot_borrow(name: str) -> None:
    """2^16 moved from one limb of the result into the limb below leaves only that one's lookup to complain."""
    table, rows = SPECS[name].table(), all_rows(SPECS[name], few=True)
    for k in (0, 2):
        low, high = ((rows.r >> 16 * j & 0xFFFF).astype(object) for j in (k, k + 1))
        lie = changed(table, rows, **{f"r__{k}": low + 2**16, f"r__{k + 1}": high - 1})
        assert refused(lie)[:len(rows)].all()
        complaining = np.sum(list(complaints(lie).values()), axis=0)[:len(rows)]
        assert (complaining[high > 0] == 1).all()


def compared(table: Chip, rows: Rows, e: int, lt: int, signs: tuple[int, int], other: bool) -> Trace:
    """Trace with the answer ``lt`` decided by the low limbs (e = 1) or the high ones, and d as ``d`` demands.

    A lie about a sign, or a d out of range, can go to either of two lookups; ``other`` chooses.
    """
    second = rows.b + (rows.i0 | rows.i1 << 32) if isinstance(table, Slt) else rows.b
    d = []
    for x, y in zip(map(int, rows.a), map(int, second), strict=True):
        u = (x & M) - (y & M) if e else (x >> 32) - (y >> 32) - (signs[0] - signs[1] << 32)
        d.append((-u - 1 if lt else u - (1 - e)) % P)
    low = [v if other and v >> 32 else v & 0xFFFF for v in d]
    n = len(rows)
    columns: dict[str, Any] = {"e": [e] * n, "lt": [lt] * n, "d__0": low,
                               "d__1": [(v - x) >> 16 for v, x in zip(d, low, strict=True)]}
    if not isinstance(table, Bltu):
        columns |= {"sa": [signs[0]] * n, "sb": [signs[1]] * n}
        if other:
            columns |= {"xa": [int(x) >> 48 & 0x7FFF | signs[0] << 15 for x in rows.a],
                        "xb": [int(y) >> 48 & 0x7FFF | signs[1] << 15 for y in second]}
    return changed(table, with_fields(rows, r=np.full(n, lt, np.uint64)), **columns)


@pytest.mark.parametrize("table,op", [(Bltu, Op.BLTU), (Blt, Op.BLT), (Slt, Op.SLT), (Slt, Op.SLTU)])
def test_a_comparison_has_one_answer(table: type[Chip], op: Op) -> None:
    """All choices of e, lt and signs (e = 0 on equal high limbs, e = 1 on different ones): one is accepted."""
    a, b = pairs(100)
    rows = make_rows(op, a, b, imm=[0] * len(a))
    truth = np.array([signed(x) < signed(y) if op in (Op.BLT, Op.SLT) else x < y for x, y in zip(a, b, strict=True)])
    signs = [(0, 0)] if table is Bltu else list(itertools.product((0, 1), repeat=2))
    for other in (False, True):
        accepted = np.zeros(len(a), int)
        for e, lt, sign in itertools.product((0, 1), (0, 1), signs):
            trace = compared(table(), rows, e, lt, sign, other)
            assert "d" not in complaints(trace)
            good = ~refused(trace)[:len(a)]
            assert (truth[good] == bool(lt)).all()
            accepted += good
        assert (accepted == 1).all()


@pytest.mark.parametrize("table,op", [(Bltu, Op.BLTU), (Blt, Op.BLT), (Slt, Op.SLT)])
def test_a_comparison_answers_by_bits(table: type[Chip], op: Op) -> None:
    """Fractions in place of e or lt, chosen so that everything else holds."""
    rows = make_rows(op, [5], [9], [1], imm=[0])
    half = pow(2, -1, P)  # lt = 1/2 makes d = -1/2 (e = 1), whatever u is
    minus_half = -half % P
    trace = changed(table(), rows, lt=[half], d__0=[minus_half & 0xFFFF], d__1=[minus_half >> 16])
    assert "lt.bit" in complaints(trace)
    u = 5 - 9
    for e in (2, -1, half):  # equal high limbs: e = anything passes `e`
        d = (-e * u - 1) % P
        trace = changed(table(), rows, e=[e], d__0=[d & 0xFFFF], d__1=[d >> 16])
        assert "e.bit" in complaints(trace)
        assert "d" not in complaints(trace)


@pytest.mark.parametrize("op", BRANCHES[Beq][2])
def test_equality_has_one_answer(op: Op) -> None:
    """eq = 0 on equal operands needs an inverse of 0; eq = 1 on others is refused limb by limb."""
    a, b = pairs(100)
    same = np.array([x == y for x, y in zip(a, b, strict=True)])
    zero = [0] * len(a)
    for eq in (0, 1):
        taken = [eq ^ (op == Op.BNE)] * len(a)
        rows = make_rows(op, a, b, taken, imm=zero, rd=zero)
        bad = refused(trace_of(Beq(), rows))[:len(a)]
        assert (bad == (same != bool(eq))).all()
    rows = make_rows(op, a, a, [int(op == Op.BNE)] * len(a), imm=zero, rd=zero)
    for inv in (1, P - 1, 2**32, pow(7, -1, P)):
        assert "neq" in complaints(changed(Beq(), rows, inv=[inv] * len(a)))
    assert complaints(changed(Beq(), rows, eq=[2] * len(a))).keys() >= {"neq"}


def test_seven_is_no_square() -> None:
    """Else dl^2 = 7 dh^2 would have solutions other than 0, and unequal operands norm 0."""
    assert pow(7, (P - 1) // 2, P) == P - 1


def test_jalr_cannot_leave_the_low_4_gib() -> None:
    """A target of 2^32 or more is refused: by ``hi`` if npc is its low limb, by ``lo`` if it is the target mod p."""
    far = [2**32, 2**32 + 4, 2**33, 2**63, 2**64 - 4, 0xFFFFFFFF00000000, P + 4, P + 8]
    rows = make_rows(Op.JALR, far, imm=[0] * len(far))
    assert complaints(trace_of(Jalr(), rows))["hi"][:len(far)].all()
    folded = complaints(changed(Jalr(), rows, npc=far, lsb=[0] * len(far)))
    assert "hi" not in folded
    assert folded["lo"][:len(far)].all()


def test_jalr_target_is_one_instruction() -> None:
    """Whatever npc and lsb pass are named by the sum: no other multiple of 4 below 2^32 does."""
    rows = jalr_rows(few=True)
    npc = trace_of(Jalr(), rows).main[Jalr().column_index("npc")][:len(rows)]
    for lsb in (0, 1):
        for shift in (-8, -4, 4, 8, 2**31, -2**31, 2**32 - 4, 4 - 2**32):
            moved = [(int(x) + shift) % 2**32 for x in npc]
            trace = changed(Jalr(), rows, npc=moved, lsb=[lsb] * len(rows))
            assert refused(trace)[:len(rows)].all()
    skipped = changed(Jalr(), rows, npc=[int(x) + 4 for x in npc], lsb=[int(r) % 2 - 4 for r in rows.a + rows.i0])
    assert complaints(skipped).keys() == {"lsb.bit"}  # only that it is a bit ties the target down


@pytest.mark.parametrize("op", SPECS["LOGIC32"].results)
def test_logic32_needs_plain_high_limbs(op: Op) -> None:
    """An operand whose high limb is neither 0 nor M is refused, or shows in what is read."""
    table, f = Logic32(), SPECS["LOGIC32"].results[op]
    a, b = pairs(100)
    rows = make_rows(op, a, b, [f(x, y) for x, y in zip(a, b, strict=True)])
    fits = Logic32.fits(rows)
    assert fits.tolist() == [x >> 32 in (0, M) and y >> 32 in (0, M) for x, y in zip(a, b, strict=True)]
    assert (refused(trace_of(table, rows))[:len(a)] == ~fits).all()
    for sa, sb in itertools.product((0, 1), repeat=2):  # bits in their place are not the values that rows read
        lie = changed(table, rows, sa=[sa] * len(a), sb=[sb] * len(a))
        other = (messages(lie)[0] != messages(trace_of(table, rows))[0]).any(axis=1)[:len(a)]
        assert other[~fits].all()


def test_logic32_multiplies_only_bits() -> None:
    """High limbs 2 and 2 as fractions of M, with their product as ``sr`` demands, are refused as no bits only."""
    two = 2 << 32
    rows = make_rows(Op.AND, [two], [two], [two])
    fraction = 2 * pow(M, -1, P)
    bad = complaints(changed(Logic32(), rows, sr=[fraction * fraction]))
    assert bad.keys() == {"sa.bit", "sb.bit"}


@pytest.mark.parametrize("spec", (SPECS["LOGIC"], SPECS["LOGIC32"], SPECS["LOGICI"]), ids=lambda s: s.table.name)
def test_bytes_that_are_none(spec: Spec) -> None:
    """Borrowing 256 between bytes leaves the operand as it was; the lookup sees it."""
    table, rows = spec.table(), all_rows(spec, few=True)
    main = trace_of(table, rows).main
    honest = messages(trace_of(table, rows))[0]
    for first in ("x", "i" if isinstance(table, LogicI) else "y"):
        x0, x1 = (main[table.column_index(f"{first}.{k}")][:len(rows)].astype(object) for k in (0, 1))
        lie = changed(table, rows, **{f"{first}__0": x0 + 256, f"{first}__1": x1 - 1})
        assert (messages(lie)[0] == honest).all()
        assert refused(lie)[:len(rows)].all()


@pytest.mark.parametrize("name", ("LOGIC", "LOGIC32", "LOGICI"))
def test_conjunctions_are_looked_up(name: str) -> None:
    """A wrong byte of x & y, in a result that agrees, leaves one lookup to complain."""
    table = SPECS[name].table()
    op, f = next(iter(SPECS[name].results.items()))
    a, b = 0x12345678, 0x5A
    reads = dict(b=None, imm=[b]) if name == "LOGICI" else dict(b=[b])
    rows = make_rows(op, [a], r=[f(a, b)], **reads)
    low = "r" if name == "LOGIC32" else "r__lo"
    count = len(table.n)
    for k in range(count):
        n, limb = ((a & b) >> 8 * k & 255) + 1, 256 ** (k % 4)
        result = {"r__hi": [limb]} if k > 3 else {low: [(a & b) + limb]}
        assert complaints(changed(table, rows, **{f"n__{k}": [n]}, **result)).keys() == {f"AND {k}"}


def test_logici_cannot_move_a_fraction() -> None:
    """A wrong low byte is made up for by a fraction in the next limb, which is no 16-bit number."""
    table, a = LogicI(), 0x12345678
    rows = make_rows(Op.ANDI, [a], None, [a & 0xFFFFFFFFFFFFFFFF], imm=[-1])
    xr = (a >> 16) - pow(2**16, -1, P)
    lie = changed(table, rows, x__0=[0x79], n__0=[0x79], xr=[xr])
    assert (messages(lie)[0] == messages(trace_of(table, rows))[0]).all()
    assert complaints(lie).keys() == {"R16 11"}


@pytest.mark.parametrize("table,op", [(AddW, Op.ADDW), (AddiW, Op.ADDIW)])
def test_a_sign_cannot_be_borrowed_away(table: type[Chip], op: Op) -> None:
    """0x8000_0000 as 2^16 + 2^16 * 0x7fff would be positive."""
    rows = make_rows(op, [2**31 - 1], [1], [word32(2**31)], imm=[1 if op == Op.ADDIW else 0])
    lie = complaints(changed(table(), rows, r0=[2**16], r1=[0x7FFF], s=[0]))
    assert len(lie) == 1 and next(iter(lie)).startswith("R16")


def test_immediate_of_logici_is_the_rom_entry() -> None:
    """Its sign flipped, or moved into the bytes, changes the ROM tuple or leaves the bytes' range."""
    spec = SPECS["LOGICI"]
    table, rows = LogicI(), all_rows(spec, few=True)
    honest = messages(trace_of(table, rows))[0]
    si = trace_of(table, rows).main[table.column_index("si")][:len(rows)].astype(object)
    flipped = changed(table, rows, si=1 - si)
    assert (messages(flipped)[0] != honest).any(axis=1)[:len(rows)].all()
