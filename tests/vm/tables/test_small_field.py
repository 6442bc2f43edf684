"""Exhaustive search in the small field: each row admits one result, and every rule is needed for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import harness as h
import numpy as np
import pytest
from small_field import B, Search, results

from tailbite.air.table import Table
from tailbite.vm.ops import Op
from tailbite.vm.tables.divrem import DivRem
from tailbite.vm.tables.mul import Mul
from tailbite.vm.tables.mulh import Mulh
from tailbite.vm.tables.shi1 import Shi1
from tailbite.vm.tables.shi2 import Shi2
from tailbite.vm.tables.shr import Shr

EDGES = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 120, 127, 128, 129, 135, 136, 143, 240, 241, 248, 254, 255]


def s8(x: int) -> int:
    return h.signed(x, 8)


def s4(x: int) -> int:
    return h.signed(x, 4)


def divide(remainder: int, signed: int, word: int) -> Callable[[int, int], int]:
    def result(a: int, b: int) -> int:
        x, y = ((s4(v) if word else s8(v)) if signed else v % (16 if word else 256) for v in (a, b))
        q = -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        v = x - q * y if remainder and y else x if remainder else q
        return s4(v) if word else v

    return result


DEFINITION: dict[Op, Callable[[int, int], int]] = {
    Op.SHI1_LW: lambda a, k: s4(a << k), Op.SHI1_RW: lambda a, k: (a & 15) >> k, Op.SHI1_LH: lambda a, k: a << k,
    Op.SHI1_RH: lambda a, k: a >> k, Op.SHI2_L: lambda a, k: a << k, Op.SHI2_R: lambda a, k: a >> k,
    Op.SLL: lambda a, k: a << k, Op.SRL: lambda a, k: a >> k, Op.SRA: lambda a, k: s8(a) >> k,
    Op.SLLW: lambda a, k: s4(a << k), Op.SRLW: lambda a, k: s4((a & 15) >> k), Op.SRAW: lambda a, k: s4(a) >> k,
    Op.MUL: lambda a, b: a * b, Op.MULW: lambda a, b: s4(a * b), Op.MULH: lambda a, b: s8(a) * s8(b) >> 8,
    Op.MULHSU: lambda a, b: s8(a) * b >> 8, Op.MULHU: lambda a, b: a * b >> 8,
    **{Op(Op.DIVU + n): divide(n & 1, n >> 1 & 1, n >> 2) for n in range(8)},
}
MULTIPLIER = {
    Op.SHI1_LW: lambda k: 2**k, Op.SHI1_RW: lambda k: 2 ** (4 - k), Op.SHI1_LH: lambda k: 2 ** (k - 4),
    Op.SHI1_RH: lambda k: 2 ** (8 - k), Op.SHI2_L: lambda k: 2**k, Op.SHI2_R: lambda k: 2 ** (4 - k),
}


def case(table: Table, op: Op, a: Any, b: Any) -> tuple[dict[str, Any], list[str]]:
    """Columns that are given (flags and operands; of a shift the amount), and columns that are left out."""
    given: dict[str, Any] = {c.name: int(c.extra["op"] == op) for c in table.declared if c.kind == "selector"}
    skip = []
    limbs = {f"{x}{dot}{k}": v >> 2 * k & 3 for x, v in (("a", a), ("b", b)) for k in range(4) for dot in (".", "")}
    words = {"a.lo": a % B, "a.hi": a // B, "b.lo": b % B, "b.hi": b // B}
    if isinstance(table, DivRem):
        n = op - Op.DIVU
        given |= {"f": 1, "rem": n & 1, "sg": n >> 1 & 1, "w": n >> 2}
    elif isinstance(table, Shr):
        n = op - Op.SLL
        given |= {"sll": int(n < 2), "srl": int(n >> 1 == 1), "sra": int(n >> 1 == 2), "w": n & 1}
        given |= {"k": b, "pw": 2 ** (b % 4), "b5": b // 4}
        skip = ["y.lo", "i", "b0", "b1", "bh"] + ([] if given["sra"] else ["xl", "xh"])
    elif isinstance(table, Shi1 | Shi2):
        given |= {"m": np.array([MULTIPLIER[op](k) for k in b.tolist()])}
    return given | {c: v for c, v in (limbs | words).items() if c in table.layout.columns}, skip


def amounts(op: Op) -> range:
    """Those that the decoder or the amount's lookups let through."""
    if op in (Op.SHI1_LH, Op.SHI1_RH):
        return range(5, 8)
    if op in (Op.SLL, Op.SRL, Op.SRA):
        return range(8)
    return range(4) if op in (Op.SLLW, Op.SRLW, Op.SRAW) else range(1, 4)


def operands(table: Table, op: Op, first: Iterable[int]) -> tuple[Any, Any]:
    first = list(first)
    second = amounts(op) if isinstance(table, Shi1 | Shi2 | Shr) else first
    both = np.array([(a, b) for a in first for b in second])
    return both[:, 0], both[:, 1]


# what a division's columns depend on comes first
ORDER = ["bz", "xla", "xha", "xlb", "xhb", "sa", "sb", "cb", *(f"mag_b.{k}" for k in range(4)),
         "q.3", "q.2", "q.1", "q.0", "ca", "mag_a.lo", "mag_a.hi", "kh", "kl", *(f"r.{k}" for k in range(4)), "e",
         "d.1", "d.0"]


def check(table: Table, op: Op, a: Any, b: Any, drop: tuple[str, ...] = ()) -> bool:
    """Does each case admit the right result and no other?"""
    given, skip = case(table, op, a, b)
    right = [DEFINITION[op](x, y) % 256 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    order = ORDER if isinstance(table, DivRem) else ()
    return results(table, given, skip, drop, order) == [{(r % B, r // B)} for r in right]


TABLES = [Shi1(), Shi2(), Shr(), Mul(), Mulh(), DivRem()]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_one_result(table: Table) -> None:
    """All pairs of operands have been run; these are the extreme ones."""
    for op in map(Op, h.ops_of(table)):
        assert check(table, op, *operands(table, op, EDGES[::4] if isinstance(table, DivRem) else EDGES))


# The top limb of |B| follows from the others and the high limb, with or without a range. Its lookup is there to be
# read, not to be needed.
NOT_NEEDED = {"R16 19"}
# divisions that show most soon what is missing
DIVISIONS = [(Op.REMU, 200, 129), (Op.REM, 200, 129), (Op.DIVU, 7, 0), (Op.REMU, 33, 255), (Op.DIV, 40, 253),
             (Op.DIV, 64, 240), (Op.REM, 1, 15), (Op.REM, 0, 3)]


def cases(table: Table) -> list[tuple[Op, Any, Any]]:
    """A few operands at a time, in an order that leaves out nothing for long."""
    if isinstance(table, DivRem):
        return [(op, np.array([a]), np.array([b])) for op, a, b in DIVISIONS]
    rng, batches = np.random.default_rng(1), []
    for op in map(Op, h.ops_of(table)):
        a, b = operands(table, op, EDGES[::2])
        order = rng.permutation(len(a))
        batches += [(op, a[order[k::32]], b[order[k::32]]) for k in range(32)]
    return [batches[k] for k in rng.permutation(len(batches))]


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.name)
def test_every_rule_is_needed(table: Table) -> None:
    """Without any one constraint or range lookup some case admits another result."""
    some = cases(table)
    rules = {name: None for op, a, b in some for name in Search(table, *case(table, op, a, b)).used}
    if isinstance(table, DivRem):
        assert rules.keys() >= NOT_NEEDED
        rules = {name: None for name in rules if name not in NOT_NEEDED}
    for name in rules:
        assert not all(check(table, op, a, b, (name,)) for op, a, b in some), f"{table.name}: {name} is not needed"
