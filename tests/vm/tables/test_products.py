"""MUL, MULH and DIVREM against the RISC-V definition, and the ways to cheat them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import harness as h
import numpy as np
import pytest

from tailbite import columns as col
from tailbite.air.check import check_constraints
from tailbite.field import P
from tailbite.vm.ops import Op
from tailbite.vm.tables.divrem import DivRem
from tailbite.vm.tables.mul import Mul
from tailbite.vm.tables.mulh import Mulh

MUL, MULH, DIVREM = Mul(), Mulh(), DivRem()


def divide(remainder: bool, signed: bool, word: bool) -> Callable[[int, int], int]:
    """Quotient rounded towards zero, or remainder; by zero: all ones, or the dividend."""
    bits = 32 if word else 64

    def result(a: int, b: int) -> int:
        x, y = (h.signed(v, bits) if signed else v % 2**bits for v in (a, b))
        q = -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        v = x - q * y if remainder and y else x if remainder else q
        return h.word32(v) if word else h.unsigned(v)

    return result


DEFINITION: dict[Op, Callable[[int, int], int]] = {
    Op.MUL: lambda a, b: h.unsigned(a * b), Op.MULW: lambda a, b: h.word32(a * b),
    Op.MULH: lambda a, b: h.unsigned(h.signed(a) * h.signed(b) >> 64),
    Op.MULHSU: lambda a, b: h.unsigned(h.signed(a) * b >> 64), Op.MULHU: lambda a, b: a * b >> 64,
    Op.DIVU: divide(False, False, False), Op.REMU: divide(True, False, False),
    Op.DIV: divide(False, True, False), Op.REM: divide(True, True, False),
    Op.DIVUW: divide(False, False, True), Op.REMUW: divide(True, False, True),
    Op.DIVW: divide(False, True, True), Op.REMW: divide(True, True, True),
}


def one(op: Op, a: list[int], b: list[int]) -> h.Rows:
    return h.make_rows(op, a, b, [DEFINITION[op](x, y) for x, y in zip(a, b, strict=True)])


def every(table: h.Chip, a: list[int], b: list[int]) -> h.Rows:
    """All operations of the table on all pairs."""
    return h.join(*(one(Op(op), a, b) for op in h.ops_of(table)))


@pytest.mark.parametrize(("table", "main", "interactions"), [(MUL, 30, 27), (MULH, 40, 33), (DIVREM, 62, 36)])
def test_shape(table: h.Chip, main: int, interactions: int) -> None:
    h.check_shape(table, main, interactions)
    h.check_padding(table)


@pytest.mark.parametrize("table", [MUL, MULH, DIVREM])
def test_definition(table: h.Chip) -> None:
    rows = every(table, *h.pairs(2000))
    h.check_honest(table, rows, h.Effect(result=rows.r, reads=2))


@pytest.mark.parametrize("table", [MUL, MULH, DIVREM])
def test_forged(table: h.Chip) -> None:
    h.check_forged(table, every(table, *h.pairs(100)))
    rows = every(table, *h.few_pairs(20))
    h.check_columns(table, rows, idle(rows) if table is DIVREM else None)


def idle(rows: h.Rows) -> Callable[[str], Any]:
    """Where DIVREM negates nothing, the carry of the negation is not used."""
    trace = h.trace_of(DIVREM, rows)
    negates = {"ca": "sa", "cb": "sb", "v0": "n", "v1": "n"}
    return lambda name: h.values_of(trace, negates[name])[:len(rows)] == 0 if name in negates else False


# ---------------------------------------------------------------- carries


@pytest.mark.parametrize("word", [0, 1])
def test_carry_out_of_range(word: int) -> None:
    """A wrong word has a carry in the field that solves the equation; only the carry's range refuses it."""
    rows = one(Op.MUL, *h.pairs(100))
    n = len(rows)
    trace = h.trace_of(MUL, rows)
    names = [f"r{2 * word}", f"kl.{word}", f"kh.{word}", f"kl.{1 - word}", f"kh.{1 - word}", "oh"]
    limb, kl, kh, other_l, other_h, oh = (h.values_of(trace, c)[:n] for c in names)
    for change in (1, 2, 255, 256, 2**15):
        less = col.sub_(limb, limb ^ np.uint64(change))  # what the word loses, the carry gains
        gain = col.mul_(less, pow(2**32, -1, P))
        k = col.add_(kl + (kh << 16), gain)
        changed = {names[0]: limb ^ np.uint64(change), names[1]: k & 0xFFFF, names[2]: k >> 16}
        if word == 0:  # and the next word passes it on
            k1 = col.add_(other_l + (other_h << 16), col.mul_(gain, pow(2**32, -1, P)))
            changed |= {names[3]: k1 & 0xFFFF, names[4]: k1 >> 16}
        else:
            changed["oh"] = col.sub_(oh, less)
        forged = h.overwrite(trace, np.ones(n, bool), **changed)
        assert not check_constraints(forged)
        assert h.refused(forged)[:n].all()


def test_mulh_sign_denied() -> None:
    """mulh that calls negative operands positive computes mulhu; the MSB lookups refuse it."""
    a, b = h.pairs()
    rows = one(Op.MULH, a, b)
    unsigned = h.with_fields(rows, op=np.full(len(a), Op.MULHU, np.uint64), r=one(Op.MULHU, a, b).r)
    trace = h.trace_of(MULH, unsigned)
    forged = h.overwrite(trace, np.ones(len(a), bool), mulh=1, mulhu=0, sa=0, sb=0)
    assert not check_constraints(forged)
    negative = np.array([x >> 63 or y >> 63 for x, y in zip(a, b, strict=True)], bool)
    assert np.array_equal(h.refused(forged)[:len(a)], negative)


def test_mulh_last_carry() -> None:
    """With k3 off by one the top word is off by 2^32: no limbs for it."""
    rows = one(Op.MULH, *h.few_pairs())
    trace = h.trace_of(MULH, rows)
    r7, k3 = (h.values_of(trace, c)[:len(rows)] for c in ("r.7", "k3"))
    up = h.overwrite(trace, np.ones(len(rows), bool), **{"r.7": r7 + np.uint64(2**16), "k3": h.plus(k3, -1)})
    assert h.refused(up)[:len(rows)].all()


# ---------------------------------------------------------------- division


class Forger(DivRem):
    """DIVREM whose witness claims another quotient and remainder."""

    def __init__(self, change: Callable[..., tuple[np.ndarray, np.ndarray]]) -> None:
        super().__init__()
        self.change = change

    def quotient(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.change(a, b, *super().quotient(a, b))


def claim(op: Op, a: int, b: int, q: int, r: int) -> int:
    """The result that the magnitudes q and r give."""
    rem, signed, word = (op - Op.DIVU) & 1, (op - Op.DIVU) & 2, (op - Op.DIVU) & 4
    top = 31 if word else 63
    sa, sb = (signed and v >> top & 1 for v in (a, b))
    negative = sa if rem else (sa != sb and b % (2 << top) != 0)
    x = r if rem else q
    x = h.unsigned(-x if negative else x)
    return h.word32(x) if word else x


CHANGES = {
    "quotient less": lambda a, b, q, r: (q - 1, r + b),
    "quotient more": lambda a, b, q, r: (q + 1, r - b),
    "no division": lambda a, b, q, r: (q * 0, a),
    "wrapped": lambda a, b, q, r: (q + (1 << 63) + (1 << 33), a - (q + (1 << 63) + (1 << 33)) * b),
    "inverse mod 2^64": lambda a, b, q, r: (odd_inverse(b | 1) * a, a - odd_inverse(b | 1) * a * b),
    "remainder only": lambda a, b, q, r: (q, r + 1),
}


def odd_inverse(b: np.ndarray) -> np.ndarray:
    """1 / b mod 2^64 by Newton."""
    x = b.copy()
    for _ in range(6):
        x = x * (2 - b * x)
    return x


@pytest.mark.parametrize("change", CHANGES)
def test_other_quotient(change: str) -> None:
    """Whatever Q and R are claimed, with the result that follows, only Euclid's are accepted."""
    forger = Forger(CHANGES[change])
    a, b = h.pairs()
    for op in h.ops_of(DIVREM):
        rows = one(Op(op), a, b)
        trace = h.trace_of(forger, rows)
        q, r = (sum(h.values_of(trace, f"{c}.{k}") << 16 * k for k in range(4)).tolist() for c in "qr")
        rows = h.with_fields(rows, r=h.u64(claim(Op(op), *v) for v in zip(a, b, q, r, strict=False)))
        honest = h.trace_of(DIVREM, one(Op(op), a, b))
        trace = h.trace_of(forger, rows)
        moved = (trace.main != honest.main).any(axis=0)
        assert moved[:len(a)].any()
        assert h.refused(trace)[moved].all()


def test_division_by_zero_is_not_free() -> None:
    """b = 0: bz.q forces the quotient, and bz = 0 would need R < 0."""
    rows = one(Op.DIVU, [7, 0, 2**64 - 1], [0, 0, 0])
    everywhere = np.ones(3, bool)
    forger = Forger(lambda a, b, q, r: (q - 5, r))
    trace = h.trace_of(forger, h.with_fields(rows, r=rows.r - np.uint64(5)))
    assert all(h.refusals(trace, k) == {"bz.q0"} for k in range(3))
    trace = h.overwrite(trace, everywhere, bz=0)
    assert all("lt" in h.refusals(trace, k) for k in range(3))
    d = [(int(b) - int(a) - 1) % P for a, b in ((7, 0), (0, 0), (2**32 - 1, 0))]
    trace = h.overwrite(trace, everywhere, **{"d.0": h.u64(x & 0xFFFF for x in d), "d.1": h.u64(x >> 16 for x in d)})
    assert h.refused(trace)[:3].all()


def test_nonzero_divisor_called_zero() -> None:
    rows = one(Op.DIV, [7, 2**64 - 7], [3, 2**63])
    forged = h.overwrite(h.trace_of(DIVREM, rows), np.ones(2, bool), bz=1)
    assert all("bz.q0" in h.refusals(forged, k) for k in range(2))
    ones = np.uint64(2**64 - 1)  # with Q all ones the product is too large
    rows = h.with_fields(one(Op.DIVU, [7], [3]), r=np.array([ones]))
    trace = h.trace_of(Forger(lambda a, b, q, r: (q | ones, a - ones * b)), rows)
    forged = h.overwrite(trace, np.ones(1, bool), **{"bz": 1, "d.0": 0, "d.1": 0})
    assert h.refusals(forged, 0) & {"mul.c4", "mul.c5", "mul.c6", "mul.lo", "mul.hi"}


def test_least_by_minus_one() -> None:
    """The one overflow: the quotient is the dividend, and nothing else is accepted."""
    for op, least in ((Op.DIV, 2**63), (Op.DIVW, 2**64 - 2**31)):
        rows = one(op, [least] * 64, [2**64 - 1] * 64)
        assert (rows.r == np.uint64(least)).all()
        r = rows.r ^ np.uint64(1) << np.arange(64, dtype=np.uint64)
        assert h.refused(h.trace_of(DIVREM, h.with_fields(rows, r=r)))[:64].all()
        assert (one(Op(op + 1), [least], [2**64 - 1]).r == 0).all()


def test_odd_split_of_magnitude() -> None:
    """|a| may be split with the other carry: the integer is the same, and so is what the row says."""
    rows = one(Op.REM, [2**64 - 7, 2**63 + 5], [2**64 - 3, 10])
    trace = h.trace_of(DIVREM, rows)
    lo, hi, kl = (h.values_of(trace, c)[:2] for c in ("mag_a.lo", "mag_a.hi", "kl"))
    odd = h.overwrite(trace, np.ones(2, bool), **{
        "ca": 0, "mag_a.lo": h.plus(lo, -2**32), "mag_a.hi": h.plus(hi, 1), "kl": kl + np.uint64(1)})
    assert not h.complaints(odd)
    assert all(np.array_equal(x, y) for x, y in zip(h.messages(odd), h.messages(trace), strict=True))


def test_comparison_flag() -> None:
    """e = 0 on equal high limbs compares nothing; e = 1 on different ones is refused."""
    rows = one(Op.DIVU, [7, 7, 2**40], [3, 2**40, 3 * 2**32])
    trace = h.trace_of(DIVREM, rows)
    e = h.values_of(trace, "e")[:3]
    assert e.tolist() == [1, 0, 0]
    forged = h.overwrite(trace, np.ones(3, bool), **{"e": 1 - e, "d.0": [P - 1, 0, 0], "d.1": 0})
    assert any(name.startswith("R16") for name in h.refusals(forged, 0))
    assert "e" in h.refusals(forged, 1) and "e" in h.refusals(forged, 2)
