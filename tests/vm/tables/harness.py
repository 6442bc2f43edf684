"""Rows by hand, and what a table must show and refuse about them.

A table of instructions is judged row by row: it *accepts* a row whose constraints vanish and whose range lookups ask
for tuples that exist; what it claims is what it then receives and sends on the other buses. So a good table sends
what the RISC-V definition says (:func:`check_honest`), and whatever else is written into a row is refused or shows in
what the row receives, where another table contradicts it (:func:`check_forged`, :func:`check_columns`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tailbite.air import lint
from tailbite.air.check import Trace, _evaluate, check_constraints, tuples
from tailbite.field import P
from tailbite.vm.buses import BUSES, EXEC, RAM, RANGE_BUSES, REG, ROM
from tailbite.vm.chip import Chip, Rows
from tailbite.vm.ops import OPS_OF_TABLE, Op, Table

M32, M64 = 2**32 - 1, 2**64 - 1
EDGE = [0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1,
        2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64 - 2, 2**64 - 2**31, 2**64 - 2**32, P, P - 1,
        P + 1, 0x80000000FFFFFFFF, 0x7FFFFFFF80000000]
DELTAS = (1, 2**16, 2**32)


# ---------------------------------------------------------------- integers of the RISC-V definition


def signed(x: int, bits: int = 64) -> int:
    """The low ``bits`` bits of x as a signed number."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def unsigned(x: int) -> int:
    """x mod 2^64."""
    return x & M64


def word32(x: int) -> int:
    """The low 32 bits of x, sign-extended to 64."""
    return unsigned(signed(x, 32))


def u64(values: Iterable[int]) -> Any:
    return np.array([v & M64 for v in values], dtype=np.uint64)


def number(rng: random.Random) -> int:
    """A random operand, often a short one."""
    return rng.getrandbits(64) >> rng.choice((0, 0, 8, 32, 33, 48, 60))


def pairs(count: int = 300, seed: int = 1) -> tuple[list[int], list[int]]:
    """All pairs of edge values, and ``count`` random pairs."""
    rng = random.Random(seed)
    both = [(a, b) for a in EDGE for b in EDGE] + [(number(rng), number(rng)) for _ in range(count)]
    return [a for a, _ in both], [b for _, b in both]


def few_pairs(count: int = 60, seed: int = 2) -> tuple[list[int], list[int]]:
    """Each edge value with itself and two others, and ``count`` random pairs."""
    rng = random.Random(seed)
    both = [(a, b) for a in EDGE for b in (a, *rng.sample(EDGE, 2))]
    both += [(number(rng), number(rng)) for _ in range(count)]
    return [a for a, _ in both], [b for _, b in both]


# ---------------------------------------------------------------- rows


def make_rows(op: int, a: Sequence[int], b: Sequence[int] | None = None, r: Sequence[int] | None = None,
              imm: Sequence[int] | None = None, seed: int = 3, **fields: Any) -> Rows:
    """The log of rows that execute ``op`` on the values a and b with result r; the rest is random but possible.

    ``imm`` gives both immediate limbs; further keywords set any field of the log.
    """
    n = len(a)
    rng = np.random.default_rng(seed)
    zero = np.zeros(n, np.uint64)
    immediate = zero if imm is None else u64(imm)
    ts = 4 * rng.integers(1 << 16, 1 << 33, n, dtype=np.uint64)

    def before(slot: int) -> Any:
        """Times at most 2^16 earlier, both extremes among them."""
        gap = rng.integers(0, 1 << 16, n, dtype=np.uint64)
        gap[::5], gap[1::5] = 0, (1 << 16) - 1
        return ts + np.uint64(slot) - np.uint64(1) - gap

    def register() -> Any:
        return rng.integers(1, 32, n, dtype=np.uint64)

    log: dict[str, Any] = {
        "pc": 4 * rng.integers(0, 0xFF000000 // 4, n, dtype=np.uint64), "ts": ts, "op": np.full(n, op, np.uint64),
        "rd": register(), "s1": register(), "s2": zero if b is None else register(),
        "i0": immediate & np.uint64(M32), "i1": immediate >> np.uint64(32),
        "a": u64(a), "b": zero if b is None else u64(b), "r": zero if r is None else u64(r),
        "o": rng.integers(0, 1 << 64, n, dtype=np.uint64), "ta": before(0), "tb": before(1), "td": before(3),
        "m0": zero, "m1": zero, "tm0": zero, "tm1": zero,
    }
    return Rows(**{**log, **fields})


def join(*rows: Rows) -> Rows:
    """One after the other."""
    names = [k for k in rows[0].__dict__ if k != "_length"]
    return Rows(**{k: np.concatenate([getattr(r, k) for r in rows]) for k in names})


def with_fields(rows: Rows, **fields: Any) -> Rows:
    """The same rows with some fields replaced."""
    kept = {k: v for k, v in rows.__dict__.items() if k != "_length"}
    return Rows(**{**kept, **fields})


def trace_of(table: Chip, rows: Rows) -> Trace:
    height = max(32, 1 << len(rows).bit_length())  # at least one row of padding
    main = table.witness(rows, height)
    assert (main < P).all(), f"{table.name}: values that are not canonical"
    return as_trace(table, main)


def as_trace(table: Chip, main: Any) -> Trace:
    return Trace(table, np.zeros((0, main.shape[1]), np.uint64), main)


# ---------------------------------------------------------------- what a row says


def _lookup_holds(bus: str, e: Any) -> Any:
    """Which of the tuples ``e`` (rows, arity) are in the lookup's table."""
    v = [e[:, k] for k in range(e.shape[1])]
    if bus == "R16":
        return v[0] < 1 << 16
    if bus == "MSB":
        return (v[0] < 1 << 16) & (v[1] == v[0] >> np.uint64(15))
    if bus == "AND":
        return (v[0] < 256) & (v[1] < 256) & (v[2] == v[0] & v[1])
    if bus == "B2":
        return (v[0] < 256) & (v[1] < 256)
    power = np.uint64(1) << (v[0] & np.uint64(31))
    return (v[0] < 64) & (v[1] == power) & (v[2] == v[0] >> np.uint64(5))


def complaints(trace: Trace) -> dict[str, Any]:
    """Mask of the rows in which each constraint or range lookup fails; only those that fail somewhere."""
    values: dict[int, Any] = {}
    lay = trace.table.layout
    found = {name: np.broadcast_to(_evaluate(trace, e, (), values), (trace.height,)) != 0
             for name, e in lay.constraints}
    for k, i in enumerate(lay.interactions):
        if i.bus.name in RANGE_BUSES:
            e, m = tuples(trace, i)
            found[f"{i.bus.name} {k}"] = (m != 0) & ~_lookup_holds(i.bus.name, e)
    return {name: bad for name, bad in found.items() if bad.any()}


def refused(trace: Trace) -> Any:
    """Mask of the rows that the table itself refuses."""
    out = np.zeros(trace.height, bool)
    for bad in complaints(trace).values():
        out |= bad
    return out


def messages(trace: Trace) -> tuple[Any, Any]:
    """What rows receive and what they send on state buses and from the ROM: one line of words for each row.

    A message that a row does not take part in is all zeros, whatever its entries are.
    """
    received, sent = [np.zeros((trace.height, 0), np.uint64)], [np.zeros((trace.height, 0), np.uint64)]
    for i in trace.table.layout.interactions:
        if i.bus.name not in RANGE_BUSES:
            e, m = tuples(trace, i)
            line = np.concatenate([e * (m != 0)[:, None].astype(np.uint64), m[:, None]], axis=1)
            (received if any(w > P // 2 for w in i.multiplicity.terms.values()) else sent).append(line)
    return np.concatenate(received, axis=1), np.concatenate(sent, axis=1)


# ---------------------------------------------------------------- what an instruction does


@dataclass
class Effect:
    """What the RISC-V definition says of rows, in Python integers.

    ``npc`` None means pc + 4; ``memory`` lists accesses (h, w, old time, old dword, new dword), each an array or, for
    an access that not every row makes, with a mask as a sixth entry.
    """

    npc: Sequence[int] | None = None
    result: Sequence[int] | None = None
    reads: int = 1
    memory: Sequence[tuple[Any, ...]] = ()


def _halves(x: Any) -> list[Any]:
    x = np.asarray(x, dtype=np.uint64)
    return [x & np.uint64(M32), x >> np.uint64(32)]


def expected_messages(rows: Rows, effect: Effect) -> dict[str, list[tuple[int, list[Any], Any]]]:
    """For each bus the (sign, entries, mask) that the rows must put on it, in the order of access."""
    npc = rows.pc + np.uint64(4) if effect.npc is None else u64(effect.npc)
    everywhere = np.ones(len(rows), bool)
    register: list[tuple[int, list[Any], Any]] = []
    ram: list[tuple[int, list[Any], Any]] = []

    def access(bus: list[Any], key: list[Any], before: Any, slot: int, old: Any, new: Any, mask: Any) -> None:
        bus.append((-1, [*key, before, *_halves(old)], mask))
        bus.append((1, [*key, rows.ts + np.uint64(slot), *_halves(new)], mask))

    if effect.reads:
        access(register, [rows.s1], rows.ta, 0, rows.a, rows.a, everywhere)
    if effect.reads > 1:
        access(register, [rows.s2], rows.tb, 1, rows.b, rows.b, everywhere)
    for h, w, before, old, new, *mask in effect.memory:
        access(ram, [u64(h), u64(w)], u64(before), 2, u64(old), u64(new), mask[0] if mask else everywhere)
    if effect.result is not None:
        access(register, [rows.rd], rows.td, 3, rows.o, u64(effect.result), everywhere)
    return {
        EXEC.name: [(-1, [rows.pc, rows.ts], everywhere), (1, [npc, rows.ts + np.uint64(4)], everywhere)],
        ROM.name: [(-1, [rows.pc, rows.op, rows.rd * np.uint64(effect.result is not None), rows.s1, rows.s2, rows.i0,
                         rows.i1], everywhere)],
        REG.name: register,
        RAM.name: ram,
    }


def check_messages(trace: Trace, rows: Rows, effect: Effect) -> None:
    """The rows put exactly the expected messages on state buses, and padding none."""
    expected = expected_messages(rows, effect)
    n = len(rows)
    for bus in (b for b in BUSES if b.name not in RANGE_BUSES):
        actual = [tuples(trace, i) for i in trace.table.layout.interactions if i.bus == bus]
        wanted = expected.get(bus.name, [])
        key = [(s, len(e)) for s, e, _ in wanted]
        assert len(actual) == len(wanted), f"{len(actual)} messages on {bus.name}, expected {key}"
        for (entries, count), (sign, values, mask) in zip(actual, wanted, strict=True):
            assert not count[n:].any(), f"padding takes part in {bus.name}"
            assert np.array_equal(count[:n], np.where(mask, np.uint64(sign % P), np.uint64(0))), bus.name
            line = np.stack(np.broadcast_arrays(*values), axis=1)
            wrong = np.nonzero((entries[:n] != line).any(axis=1) & mask)[0]
            assert not len(wrong), f"{bus.name}: {entries[wrong[0]]} instead of {line[wrong[0]]}"


# ---------------------------------------------------------------- checks


def check_shape(table: Chip, main: int, interactions: int) -> None:
    """The linter passes, the cost is the design's, and the operations are those declared for the table."""
    lint([table], BUSES)
    lay = table.layout
    assert (lay.fixed_count, lay.main_count, len(lay.interactions)) == (0, main, interactions)
    assert sorted(set(ops_of(table))) == sorted(OPS_OF_TABLE[Table(table.name)])


def ops_of(table: Chip) -> list[int]:
    """Numbers that the table can fetch: for each setting of the bits in its ROM tuple with one selector set."""
    lay = table.layout
    form = next(i for i in lay.interactions if i.bus == ROM).entries[1]
    settings = [dict(zip(form.terms, v, strict=True)) for v in product((0, 1), repeat=len(form.terms))]
    return [(form.constant + sum(w * s[c] for c, w in form.terms.items())) % P for s in settings
            if sum(v for c, v in s.items() if lay.kinds[c] == "selector") == 1]


def check_honest(table: Chip, rows: Rows, effect: Effect) -> None:
    """True rows are accepted and say what the definition says."""
    trace = trace_of(table, rows)
    failures = check_constraints(trace)
    assert not failures, failures[0]
    assert not complaints(trace)
    check_messages(trace, rows, effect)


def check_padding(table: Chip, seed: int = 4) -> None:
    """A row of zeros is accepted and silent; one of garbage with no selector set is silent too."""
    empty = as_trace(table, np.zeros((table.layout.main_count, 32), np.uint64))
    assert not complaints(empty)
    assert not any(m.any() for m in messages(empty))
    noise = np.random.default_rng(seed).integers(0, P, empty.main.shape, dtype=np.uint64)
    bits = [k for k, kind in enumerate(table.layout.kinds) if kind in ("selector", "bit")]
    noise[bits] = 0
    assert not any(m.any() for m in messages(as_trace(table, noise)))
    for k in (k for k, kind in enumerate(table.layout.kinds) if kind == "selector"):
        switched = np.zeros_like(empty.main)
        switched[k] = 1
        trace = as_trace(table, switched)
        assert (refused(trace) | messages(trace)[0].any(axis=1)).all()
        switched[k] = 2
        assert refused(as_trace(table, switched)).all()


def caught(honest: Trace, other: Trace) -> Any:
    """Mask of rows that are refused, or that receive something else than the honest row."""
    return refused(other) | (messages(honest)[0] != messages(other)[0]).any(axis=1)


def forgeries(r: Any, seed: int = 5) -> list[Any]:
    """Wrong results near and far from ``r``."""
    rng = np.random.default_rng(seed)
    one = np.uint64(1)
    flips = [np.uint64(1 << k) for k in (0, 7, 15, 16, 31, 32, 47, 63)]
    near = [r + one, r - one, *(r ^ f for f in flips), *(r + f for f in flips), r + np.uint64(P)]
    far = [~r, r << np.uint64(32), r >> np.uint64(32), r * 0, rng.integers(0, 1 << 64, len(r), dtype=np.uint64)]
    return near + far


def check_forged(table: Chip, rows: Rows, results: Iterable[Any] | None = None) -> None:
    """With a wrong result the best witness that ``fill`` finds is caught in every row."""
    honest = trace_of(table, rows)
    for r in forgeries(rows.r) if results is None else results:
        bad = caught(honest, trace_of(table, with_fields(rows, r=r)))[:len(rows)]
        missed = np.nonzero((r != rows.r) & ~bad)[0]
        assert not len(missed), describe(table, rows, missed[0], f"result {r[missed[0]]:#x} accepted")


def check_columns(table: Chip, rows: Rows, idle: Callable[[str], Any] | None = None) -> None:
    """Each column of each row matters: changing one is caught.

    ``idle`` gives, for a column's name, the mask of rows in which it is not used at all: there some change is
    accepted, and nothing that the row says may change with it.
    """
    honest = trace_of(table, rows)
    n = len(rows)
    for k, name in enumerate(table.layout.columns):
        unused = np.zeros(n, bool) if idle is None else np.broadcast_to(idle(name), (n,))
        accepted = np.zeros(n, bool)
        for delta in DELTAS:
            main = honest.main.copy()
            main[k] = plus(main[k], delta)
            other = as_trace(table, main)
            missed = np.nonzero(~caught(honest, other)[:n] & ~unused)[0]
            assert not len(missed), describe(table, rows, missed[0], f"{name} + {delta:#x} accepted")
            accepted |= ~refused(other)[:n]
            if unused.any():
                assert all((x == y)[:n][unused].all() for x, y in zip(messages(honest), messages(other), strict=True))
        assert accepted[unused].all(), f"{name} is used"


def overwrite(trace: Trace, where: Any, **columns: Any) -> Trace:
    """The trace with columns, given by their labels, replaced in the first rows where the mask ``where`` says so."""
    main = trace.main.copy()
    for name, value in columns.items():
        k = trace.table.column_index(name)
        main[k, :len(where)] = np.where(where, np.asarray(value, dtype=np.uint64), main[k, :len(where)])
    return as_trace(trace.table, main)


def refusals(trace: Trace, row: int) -> set[str]:
    """Names of what refuses a row: constraints, and lookups as "BUS number"."""
    return {name for name, bad in complaints(trace).items() if bad[row]}


def values_of(trace: Trace, name: str) -> Any:
    """The column with this label."""
    return trace.column(trace.table.column_index(name))


def changed(table: Chip, rows: Rows, **columns: Any) -> Trace:
    """The trace of ``rows`` with some main columns replaced; values of any sign or size, taken mod p.

    A column of a list or word is named ``x__0`` or ``a__lo``.
    """
    main = trace_of(table, rows).main.copy()
    for name, values in columns.items():
        main[table.column_index(name.replace("__", "."))][:len(rows)] = [int(v) % P for v in values]
    return as_trace(table, main)


def check_selectors(table: Chip, rows: Rows) -> None:
    """Selectors are bits, and no two are set."""
    n = len(rows)
    names = [c.name for c in table.declared if c.kind == "selector"]
    for value in (2, -1, pow(2, -1, P)):
        for f in names:
            assert complaints(changed(table, rows, **{f: [value] * n}))[f"{f}.bit"][:n].all()
    for f, g in itertools.combinations(names, 2):
        others = dict.fromkeys(names, [0] * n)
        assert complaints(changed(table, rows, **others | {f: [1] * n, g: [1] * n}))["flag.sum"][:n].all()
        mixed = complaints(changed(table, rows, **others | {f: [2] * n, g: [-1] * n}))
        assert "flag.sum" not in mixed
        assert mixed[f"{f}.bit"][:n].all()


def check_times(table: Chip, rows: Rows) -> None:
    """An old time that is not before the access, or too long before it, is refused."""
    labels = {c.split(".")[0] for c in table.layout.columns}
    reach = {"ta": (0, 16), "tb": (1, 16), "td": (3, 16), "tm0": (2, 32)}
    for field, (slot, bits) in reach.items():
        if field.rstrip("0") in labels:
            now = [int(ts) + slot for ts in rows.ts]
            for offset in (0, 1, 4, 1 << 16, 1 << 32, -1 - (1 << bits)):
                times = np.array([(t + offset) % P for t in now], dtype=np.uint64)
                bad = refused(trace_of(table, with_fields(rows, **{field: times})))[:len(rows)]
                assert bad.all(), f"{table.name}: {field} {offset:+} accepted"


def plus(column: Any, delta: int) -> Any:
    """column + delta mod p."""
    return np.array([(int(x) + delta) % P for x in column], dtype=np.uint64)


def describe(table: Chip, rows: Rows, k: int, what: str) -> str:
    values = f"a={rows.a[k]:#x} b={rows.b[k]:#x} r={rows.r[k]:#x} i={rows.i1[k]:#x}:{rows.i0[k]:#x}"
    return f"{table.name} {Op(int(rows.op[k])).name} {values}: {what}"
