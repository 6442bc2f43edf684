"""SHI1, SHI2 and SHR against the RISC-V definition, and the ways to cheat them."""

from __future__ import annotations

import random

import harness as h
import numpy as np
import pytest

from tailbite.air.check import check_constraints
from tailbite.field import P
from tailbite.vm.ops import Op
from tailbite.vm.tables.shi1 import Shi1
from tailbite.vm.tables.shi2 import Shi2
from tailbite.vm.tables.shr import Shr

SHI1, SHI2, SHR = Shi1(), Shi2(), Shr()
MULTIPLIER = {
    Op.SHI1_LW: lambda k: 2**k, Op.SHI1_RW: lambda k: 2 ** (32 - k), Op.SHI1_LH: lambda k: 2 ** (k - 32),
    Op.SHI1_RH: lambda k: 2 ** (64 - k), Op.SHI2_L: lambda k: 2**k, Op.SHI2_R: lambda k: 2 ** (32 - k),
}
BY_CONSTANT = {
    Op.SHI1_LW: lambda a, k: h.word32(a << k), Op.SHI1_RW: lambda a, k: h.word32((a & h.M32) >> k),
    Op.SHI1_LH: lambda a, k: h.unsigned(a << k), Op.SHI1_RH: lambda a, k: a >> k,
    Op.SHI2_L: lambda a, k: h.unsigned(a << k), Op.SHI2_R: lambda a, k: a >> k,
}
BY_REGISTER = {
    Op.SLL: lambda a, k: h.unsigned(a << (k & 63)), Op.SLLW: lambda a, k: h.word32(a << (k & 31)),
    Op.SRL: lambda a, k: a >> (k & 63), Op.SRLW: lambda a, k: h.word32((a & h.M32) >> (k & 31)),
    Op.SRA: lambda a, k: h.unsigned(h.signed(a) >> (k & 63)),
    Op.SRAW: lambda a, k: h.word32(h.signed(a, 32) >> (k & 31)),
}


def by_constant(op: Op, values: list[int]) -> h.Rows:
    """All values shifted by all amounts that the decoder gives to ``op``."""
    amounts = range(33, 64) if op in (Op.SHI1_LH, Op.SHI1_RH) else range(1, 32)
    both = [(a, k) for a in values for k in amounts]
    return h.make_rows(op, [a for a, _ in both], r=[BY_CONSTANT[op](a, k) for a, k in both],
                       imm=[MULTIPLIER[op](k) for _, k in both])


def shi(table: h.Chip, values: list[int]) -> h.Rows:
    return h.join(*(by_constant(Op(op), values) for op in h.ops_of(table)))


def by_register(op: Op, a: list[int], b: list[int]) -> h.Rows:
    return h.make_rows(op, a, b, [BY_REGISTER[op](x, k) for x, k in zip(a, b, strict=True)])


def shr(a: list[int], b: list[int]) -> h.Rows:
    """Every operation on the pairs; and srai, sraiw by every amount, which read x0."""
    rows = [by_register(op, a, b) for op in BY_REGISTER]
    for op, top in ((Op.SRA, 64), (Op.SRAW, 32)):
        both = [(x, k) for x in a[::31] for k in range(1, top)]
        rows.append(h.make_rows(op, [x for x, _ in both], r=[BY_REGISTER[op](x, k) for x, k in both],
                                imm=[k for _, k in both]))
    return h.join(*rows)


def values(count: int) -> list[int]:
    rng = random.Random(count)
    return h.EDGE + [h.number(rng) for _ in range(count)]


def every_amount() -> tuple[list[int], list[int]]:
    """Edge values by all amounts below 128 and by edge values."""
    both = [(a, k) for a in h.EDGE for k in (*range(128), *h.EDGE)]
    return [a for a, _ in both], [k for _, k in both]


# ---------------------------------------------------------------- what is accepted


@pytest.mark.parametrize(("table", "main", "interactions"), [(SHI1, 22, 13), (SHI2, 23, 17), (SHR, 46, 26)])
def test_shape(table: h.Chip, main: int, interactions: int) -> None:
    h.check_shape(table, main, interactions)
    h.check_padding(table)


@pytest.mark.parametrize("table", [SHI1, SHI2])
def test_by_constant(table: h.Chip) -> None:
    rows = shi(table, values(40))
    h.check_honest(table, rows, h.Effect(result=rows.r))


def test_by_register() -> None:
    for a, b in (every_amount(), h.pairs()):
        rows = shr(a, b)
        h.check_honest(SHR, rows, h.Effect(result=rows.r, reads=2))


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("table", [SHI1, SHI2])
def test_by_constant_forged(table: h.Chip) -> None:
    h.check_forged(table, shi(table, values(10)))
    h.check_columns(table, shi(table, h.EDGE[::4]))


def test_by_register_forged() -> None:
    h.check_forged(SHR, shr(*h.pairs()))
    h.check_columns(SHR, shr(*h.few_pairs(20)))


@pytest.mark.parametrize("table", [SHI1, SHI2])
def test_split_of_product_plus_p(table: h.Chip) -> None:
    """t + p = (t + 1) + 2^32 (2^32 - 1) has limbs too; only the bound on the top limb excludes it."""
    rows = shi(table, [0, 1, 2**32 + 1, 2**33])
    low = h.u64([(int(a) * int(m)) % 2**64 for a, m in zip(rows.a & np.uint64(h.M32), rows.i0, strict=True)])
    trace = h.trace_of(table, rows)
    small = (low < h.M32) & (rows.op != Op.SHI1_RH)
    half = {"p00": low + 1 & 0xFFFF, "p01": low + 1 >> 16, "p10": 0xFFFF, "p11": 0xFFFF, "s": low + 1 >> 31}
    if table is SHI2:
        half = dict(zip(("p.0", "p.1", "p.2", "top.0"), list(half.values())[:4], strict=True))
    forged = h.overwrite(trace, small, **half)
    q0 = np.where(small, low + 1, 0), np.where(small, np.uint64(h.M32), 0)
    forged = h.overwrite(forged, small, **results(rows, trace, *q0))
    assert not check_constraints(forged)
    assert h.refused(forged)[:len(rows)][small].all()
    assert small.any() and (h.messages(forged)[1] != h.messages(trace)[1])[:len(rows)][small].any(axis=1).all()


def results(rows: h.Rows, trace: h.Trace, p0: np.ndarray, p1: np.ndarray) -> dict[str, np.ndarray]:
    """Result limbs that follow from a split of the low product into p0 and p1."""
    n, op = len(rows), rows.op
    if trace.table is SHI1:
        lo = np.where(op == Op.SHI1_LW, p0, np.where(op == Op.SHI1_LH, 0, p1))
        hi = np.where(op == Op.SHI1_LW, h.M32 * (p0 >> 31), np.where(op == Op.SHI1_LH, p0, 0))
        return {"r.lo": lo, "r.hi": hi}
    right = op == Op.SHI2_R
    p2, p3 = (h.values_of(trace, x)[:n] + (h.values_of(trace, y)[:n] << 16)
              for x, y in (("p.3", "p.4"), ("p.5", "top.1")))
    return {"r.lo": np.where(right, p1 + p2, p0), "r.hi": np.where(right, p3, p1 + p2)}


def test_register_split_plus_p() -> None:
    """As above for left shifts by a register: top.q0 is what refuses Q0 = 2^32 - 1."""
    rows = by_register(Op.SLL, [0, 1, 5], [3, 0, 31])
    t = h.u64([0, 1, 5 << 31])
    small = t < h.M32
    forged = h.overwrite(h.trace_of(SHR, rows), small, **{
        "low.0": t + 1, "low.1": 0xFFFF, "q0h": 0xFFFF, "mq0": 1, "u.lo": t + 1, "u.hi": h.M32, "r.lo": t + 1,
        "r.hi": h.M32})
    assert h.refusals(forged, 0) == h.refusals(forged, 1) == {"top.q0"} and h.refusals(forged, 2) == set()


def test_register_split_not_reduced() -> None:
    """Right shifts: 2^31 moved from 2^31 Q to T keeps the sum; top.t0 refuses it."""
    rows = by_register(Op.SRLW, [0x12345678], [0])
    trace = h.trace_of(SHR, rows)
    x = 0x12345678 - 1
    forged = h.overwrite(trace, np.ones(1, bool), **{
        "low.1": x & 0xFFFF, "t0h": 0x8000, "mt0": 1, "u.lo": x, "r.lo": x})
    assert h.refusals(forged, 0) == {"top.t0"}


def test_amount_not_reduced() -> None:
    """Amount 64 shifts by 0, and 32 in a word form: no other k has both lookups."""
    for op, amount, k in ((Op.SLL, 64, 64), (Op.SLLW, 32, 32), (Op.SRA, 65, 65)):
        rows = by_register(op, [0x8123456789ABCDEF], [amount])
        forged = h.overwrite(h.trace_of(SHR, rows), np.ones(1, bool), k=k, pw=2 ** (k % 32), b5=k >> 5)
        assert any(name.startswith("AND") for name in h.refusals(forged, 0))


def test_fractional_multiplier() -> None:
    """m is 2^31 / pw in the field and pw comes from POW: half of it is not on offer."""
    rows = by_register(Op.SRL, [0x8123456789ABCDEF], [1])
    forged = h.overwrite(h.trace_of(SHR, rows), np.ones(1, bool), m=(2**31 * pow(3, -1, P)) % P, pw=3)
    assert any(name.startswith("POW") for name in h.refusals(forged, 0))


def test_sign_of_other_shifts_is_zero() -> None:
    """srl with sx = 1 would shift in ones."""
    rows = by_register(Op.SRL, [1 << 63], [4])
    ones = 0xF0000000
    forged = h.overwrite(h.trace_of(SHR, rows), np.ones(1, bool), **{
        "sx": 1, "ones": ones, "u.hi": 0x08000000 + ones, "r.hi": 0x08000000 + ones})
    assert h.refusals(forged, 0) == {"sx"}
