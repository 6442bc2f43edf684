"""LD, SD, LW, SW, LBH, SBH, MLOAD, MSTORE."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness import (
    M32,
    M64,
    Effect,
    as_trace,
    changed,
    check_columns,
    check_forged,
    check_honest,
    check_padding,
    check_selectors,
    check_shape,
    check_times,
    complaints,
    forgeries,
    join,
    make_rows,
    ops_of,
    refused,
    signed,
    trace_of,
    u64,
    unsigned,
    with_fields,
)

from tailbite.air.check import tuples
from tailbite.field import P
from tailbite.vm.buses import RAM
from tailbite.vm.chip import Chip, Rows
from tailbite.vm.ops import LOADS, WIDTH, Op
from tailbite.vm.tables.lbh import Lbh
from tailbite.vm.tables.ld import Ld
from tailbite.vm.tables.lw import Lw
from tailbite.vm.tables.mload import Mload
from tailbite.vm.tables.mstore import Mstore
from tailbite.vm.tables.sbh import Sbh
from tailbite.vm.tables.sd import Sd
from tailbite.vm.tables.sw import Sw

SHAPES = {Ld: (19, 13), Sd: (19, 13), Lw: (24, 15), Sw: (22, 13), Lbh: (33, 16), Sbh: (34, 17), Mload: (53, 26),
          Mstore: (57, 29)}
ANY_ALIGNMENT = (Mload, Mstore)
SIGNED = {Op.LB, Op.LH, Op.LW}
# every corner of the two limbs of an address, its dword below and its dword above
BASES = [0, 8, 0x1000, 0xFF000000, 2**32 - 16, 2**32 - 8, 2**32, 2**63 - 8, 2**63, 2**64 - 2**32 - 8, 2**64 - 16,
         2**64 - 8]
IMMEDIATES = [0, 1, -1, 7, -8, 2047, -2048]
DWORDS = [0, M64, 0x8000000080000000, 0x7F80FF0100017F80, 0x0102030405060708, 2**63, 0xFFFFFFFF, 0xFFFFFFFF00000000]


# ---------------------------------------------------------------- the definition, in Python integers


def crosses(op: int, address: int) -> bool:
    return address % 8 + WIDTH[Op(op)] > 8


def loaded(op: int, address: int, m0: int, m1: int) -> int:
    """What a load puts in rd; memory from the dword of the address on is m0, m1."""
    size = 8 * WIDTH[Op(op)]
    value = (m0 | m1 << 64) >> 8 * (address % 8) & ((1 << size) - 1)
    return unsigned(signed(value, size)) if Op(op) in SIGNED else value


def stored(op: int, address: int, m0: int, m1: int, b: int) -> tuple[int, int]:
    """The two dwords after a store of b."""
    memory = bytearray((m0 | m1 << 64).to_bytes(16, "little"))
    at, size = address % 8, WIDTH[Op(op)]
    memory[at:at + size] = b.to_bytes(8, "little")[:size]
    whole = int.from_bytes(memory, "little")
    return whole & M64, whole >> 64


# ---------------------------------------------------------------- rows


def addresses(table: type[Chip], op: int, rng: random.Random, count: int) -> list[int]:
    """Edge addresses at all offsets that the table takes, and random ones."""
    size = WIDTH[Op(op)]
    step = 1 if table in ANY_ALIGNMENT else size
    edge = [base + offset for base in BASES for offset in range(0, 8, step)]
    more = [rng.getrandbits(64) >> rng.choice((0, 16, 32)) & ~(step - 1) for _ in range(count)]
    return [x for x in edge + more if x + size <= 1 << 64]


def accesses(table: type[Chip], op: int, count: int = 60, seed: int = 7) -> tuple[Rows, Effect]:
    """Loads or stores, and their effect."""
    rng = random.Random(seed + op)
    where = addresses(table, op, rng, count)
    imm = [rng.choice(IMMEDIATES) for _ in where]
    old = [[rng.choice((rng.getrandbits(64), rng.choice(DWORDS))) for _ in where] for _ in range(2)]
    old[1] = [m if crosses(op, x) else 0 for m, x in zip(old[1], where, strict=True)]
    b = [rng.choice((rng.getrandbits(64), rng.choice(DWORDS))) for _ in where]
    load = op in LOADS
    r = [loaded(op, *x) for x in zip(where, *old, strict=True)] if load else b
    rows = make_rows(op, [x - i for x, i in zip(where, imm, strict=True)], None if load else b, r, imm, seed,
                     m0=u64(old[0]), m1=u64(old[1]))
    rows.rd = rows.rd if load else 0 * rows.rd
    for name in ("tm0", "tm1"):  # gaps from 1 to 2^32
        gaps = [min(rng.choice((0, 1, 2**16 - 1, 2**16, M32, rng.getrandbits(32))), int(t)) for t in rows.ts]
        setattr(rows, name, rows.ts + np.uint64(1) - u64(gaps))
    return rows, effect(op, rows, where, old, b)


def effect(op: int, rows: Rows, where: Sequence[int], old: Sequence[Sequence[int]], b: Sequence[int]) -> Effect:
    load = op in LOADS
    new = old if load else list(zip(*(stored(op, *x) for x in zip(where, *old, b, strict=True)), strict=True))
    memory: list[tuple[Any, ...]] = []
    for k in range(2):
        key = [unsigned((x & ~7) + 8 * k) for x in where]
        memory.append(([x >> 32 for x in key], [(x & M32) >> 3 for x in key], getattr(rows, f"tm{k}"), old[k], new[k]))
    memory[1] += (np.array([crosses(op, x) for x in where]),)
    return Effect(result=[int(x) for x in rows.r] if load else None, reads=1 if load else 2, memory=memory)


def cases(table: type[Chip]) -> list[tuple[Rows, Effect]]:
    """For each operation rows and effect; the effect of aligned tables has one access."""
    out = [accesses(table, op) for op in ops_of(table())]
    if table not in ANY_ALIGNMENT:
        for _, e in out:
            e.memory = e.memory[:1]
    return out


def some(table: type[Chip]) -> Rows:
    """Rows of all operations of a table."""
    return join(*(rows for rows, _ in cases(table)))


@pytest.fixture(params=SHAPES, ids=lambda t: t.name)
def table(request: pytest.FixtureRequest) -> Any:
    return request.param


# ---------------------------------------------------------------- each table


def test_shape(table: type[Chip]) -> None:
    check_shape(table(), *SHAPES[table])


def test_honest_rows_do_what_riscv_says(table: type[Chip]) -> None:
    for rows, e in cases(table):
        check_honest(table(), rows, e)


def test_padding(table: type[Chip]) -> None:
    check_padding(table())


def test_every_column_matters(table: type[Chip]) -> None:
    rows = some(table)
    crossing = np.array([crosses(int(op), int(x)) for op, x in zip(rows.op, rows.address, strict=True)])
    second = {"yy", "tm.1", "dm.1"} | {f"v.{k}" for k in range(8, 16) if table is Mload}

    def idle(name: str) -> Any:
        if table is Lw and name == "x1":
            return rows.op == Op.LWU
        return ~crossing if table in ANY_ALIGNMENT and name in second else False

    check_columns(table(), rows, idle)


def test_wrong_result_is_refused(table: type[Chip]) -> None:
    if table is Sd:
        return  # its row holds no result: what it stores is the register's value
    rows = some(table)
    results = forgeries(rows.r)
    if int(rows.op[0]) not in LOADS:  # only the bytes that are stored matter
        mask = u64((1 << 8 * WIDTH[Op(int(op))]) - 1 for op in rows.op)
        results = [rows.r & ~mask | r & mask for r in results]
    check_forged(table(), rows, results)


# ---------------------------------------------------------------- attacks


def columns(t: Chip, main: Any) -> dict[str, Any]:
    return dict(zip(t.layout.columns, main, strict=True))


def key_exists(t: Chip, main: Any) -> Any:
    """Mask of rows all of whose memory keys are canonical, as FIN demands."""
    trace, ok = as_trace(t, main), np.ones(main.shape[1], bool)
    for i in t.layout.interactions:
        if i.bus == RAM:
            e, m = tuples(trace, i)
            ok &= (m == 0) | (e[:, 0] <= M32) & (e[:, 1] < 1 << 29)
    return ok


@pytest.mark.parametrize("kind", [Lw, Sw])
def test_half_is_a_bit(kind: type[Chip]) -> None:
    """A fractional half would move the access from 0x1004 to the dword at 0x1800."""
    t = kind()
    rows = make_rows(ops_of(t)[0], [0x1004], [7], [0 if kind is Lw else 7])
    main = trace_of(t, rows).main.copy()
    at = columns(t, main)
    at["w"][0], at["hf"][0] = 0x1800 // 8, (0x1004 - 0x1800) * pow(4, -1, P) % P
    assert "hf.bit" in complaints(as_trace(t, main))
    assert not {"ea.lo", "ea.hi"} & set(complaints(as_trace(t, main)))


@pytest.mark.parametrize("kind", [Ld, Sd, Lw, Sw, Lbh, Sbh, Mload, Mstore], ids=lambda k: k.name)
def test_other_offsets_have_no_key(kind: type[Chip]) -> None:
    """For a false offset the equations give one w, and it is no key of memory."""
    t = kind()
    for op in ops_of(t):
        for offset in range(8):
            for claimed in range(8):
                if not takes(kind, op, claimed) or claimed == offset:
                    continue
                lo = 0x2000 + offset
                main = trace_of(t, make_rows(op, [0x2000 + claimed], [1], [0 if op in LOADS else 1])).main.copy()
                at = columns(t, main)
                at["a.lo"][0], at["w"][0] = lo, (lo - claimed) * pow(8, -1, P) % P
                assert not {"ea.lo", "ea.hi"} & set(complaints(as_trace(t, main)))
                assert not key_exists(t, main)[0]


def takes(kind: type[Chip], op: int, offset: int) -> bool:
    return kind in ANY_ALIGNMENT or offset % WIDTH[Op(op)] == 0


@pytest.mark.parametrize("kind", ANY_ALIGNMENT, ids=lambda k: k.name)
def test_crossing_needs_the_second_dword(kind: type[Chip]) -> None:
    rows = some(kind)
    t = kind()
    main = trace_of(t, rows).main.copy()
    at = columns(t, main)
    crossing = at["c2"].copy()
    at["c2"][:] = 0
    found = complaints(as_trace(t, main))
    assert set(found) == {"cross"} and np.array_equal(found["cross"], crossing == 1)


@pytest.mark.parametrize("kind", ANY_ALIGNMENT, ids=lambda k: k.name)
def test_the_second_dword_may_be_accessed_in_vain(kind: type[Chip]) -> None:
    """c2 = 1 without need reads and puts back the next dword: accepted, and without effect."""
    t = kind()
    rows = make_rows(ops_of(t)[0], [0x1000], [0x1234], [0 if kind is Mload else 0x1234], m1=[77])
    main = trace_of(t, rows).main.copy()
    columns(t, main)["c2"][0] = 1
    assert not complaints(as_trace(t, main))
    second = [tuples(as_trace(t, main), i)[0][0] for i in t.layout.interactions if i.bus == RAM][2:]
    assert [list(map(int, e[3:])) for e in second] == [[77, 0], [77, 0]]


@pytest.mark.parametrize("kind", ANY_ALIGNMENT, ids=lambda k: k.name)
def test_wrong_second_key_does_not_exist(kind: type[Chip]) -> None:
    rows = some(kind)
    t = kind()
    main = trace_of(t, rows).main.copy()
    at = columns(t, main)
    assert key_exists(t, main).all()
    at["yy"][:] ^= np.uint64(1)
    crossing = at["c2"] == 1
    assert crossing.any() and not key_exists(t, main)[crossing].any()


@pytest.mark.parametrize("op", [Op.SH, Op.SW, Op.SD, Op.LW])
def test_an_access_across_the_end_of_memory_has_no_key(op: Op) -> None:
    t = Mload() if op in LOADS else Mstore()
    rows = make_rows(op, [M64], [5], [0 if op in LOADS else 5])
    trace = trace_of(t, rows)
    assert not complaints(trace) and not key_exists(t, trace.main)[0]
    columns(t, trace.main)["yy"][0] = 0
    assert not key_exists(t, trace.main)[0]


def test_old_bytes_are_tied_to_memory() -> None:
    """With a free byte x0 = 5 the store of 5 over 0 would change nothing."""
    t = Sbh()
    main = trace_of(t, make_rows(Op.SB, [0x1000], [5], [5])).main.copy()
    at = columns(t, main)
    at["x.0"][0], at["y"][0], at["n.lo"][0] = 5, 5, 0
    assert set(complaints(as_trace(t, main))) == {"x"}


def test_halves_lie_at_even_addresses() -> None:
    for t, op in ((Lbh(), Op.LH), (Lbh(), Op.LHU), (Sbh(), Op.SH)):
        rows = make_rows(op, [0x1001], [9], [0])
        assert "even" in complaints(trace_of(t, rows))


def test_sign_is_the_top_bit() -> None:
    """A false sign, with the result that goes with it."""
    for t in (Lw(), Lbh(), Mload()):
        rows = some(type(t))
        at = columns(t, trace_of(t, rows).main)
        s = [int(x) for x in at["s"][:len(rows)]]
        false: dict[str, list[int]] = {"s": [1 - x for x in s]}
        if isinstance(t, Mload):
            halves = [op in (Op.LH, Op.LHU) for op in rows.op]
            rest = [(1 - 2 * x) * (2**32 - 2**16) * half for x, half in zip(s, halves, strict=True)]
            false["r__lo"] = [int(x) + y for x, y in zip(at["r.lo"], rest, strict=False)]
            false["r__hi"] = [int(x) + (1 - 2 * y) * M32 for x, y in zip(at["r.hi"], s, strict=False)]
        forged = changed(t, rows, **false)
        assert refused(forged)[:len(rows)].all()
        if isinstance(t, Mload):
            assert {k.split()[0] for k in complaints(forged)} == {"AND", "unsigned"}


def test_selectors(table: type[Chip]) -> None:
    check_selectors(table(), some(table))


def test_times(table: type[Chip]) -> None:
    check_times(table(), some(table))


@pytest.mark.parametrize("kind", ANY_ALIGNMENT, ids=lambda k: k.name)
def test_times_of_the_second_dword(kind: type[Chip]) -> None:
    t, rows = kind(), some(kind)
    crossing = columns(t, trace_of(t, rows).main)["c2"][:len(rows)] == 1
    for offset in (0, 1, 2**16, 2**32, -1 - 2**32):
        times = np.array([(int(ts) + 2 + offset) % P for ts in rows.ts], dtype=np.uint64)
        assert refused(trace_of(t, with_fields(rows, tm1=times)))[:len(rows)][crossing].all()
