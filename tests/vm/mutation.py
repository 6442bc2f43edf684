"""Is every rule needed? For each constraint and bus message, look for a witness that it alone refuses.

If one is found, a system without the rule would accept that witness, and so the battery would notice the loss. The
search is that of an attacker: begin with an honest row; change a column, move a carry, mix selectors, or fill the row
for other operands; then repair: solve a broken constraint for a column, or look a tuple up again.

A row is judged by the constraints and range lookups of its table, and by what it receives: that must be what the
honest row receives, but for times and keys of memory. What it sends is its claim, which may be false. Sends need no
search: without one the honest run does not balance, if only some row in it sends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from assembler import BRANCHES, R_TYPE, SHIFTS, asm, call, elf, halt, li
from attacks import FIELDS, M64, TIMES
from tables.harness import _lookup_holds
from test_attacks import ARITHMETIC
from test_attacks_machine import CALLS, KECCAK, MEMORY
from test_machine import everything

from tailbite import columns as col
from tailbite.air.check import Trace, _evaluate, tuples
from tailbite.air.expr import Expr
from tailbite.air.table import Bus, Interaction
from tailbite.field import P
from tailbite.program import Program
from tailbite.vm.buses import RAM, RANGE_BUSES, REG, ROM
from tailbite.vm.chip import Chip, Rows
from tailbite.vm.executor import Execution, execute
from tailbite.vm.isa import compute
from tailbite.vm.machine import machine
from tailbite.vm.ops import LOADS, OPS_OF_TABLE, STORES, WIDTH, Op, Table
from tailbite.vm.trace import LogRows, fill

DELTAS = (1, -1, 2, 1 << 8, 1 << 16, -(1 << 16), 1 << 32, -(1 << 32), pow(2, -1, P), pow(8, -1, P), pow(1 << 32, -1, P))
CALL_TABLES = {Table.HALT, Table.COMMIT, Table.PRINT, Table.CYCLES, Table.KCALL}
HALF = pow(2, -1, P)
DEPTH, BREADTH, ROOTS = 5, 1500, 60


# ---------------------------------------------------------------- honest rows


def mixed() -> Program:
    """Operations on operands that agree in one limb, are small, or have signs; accesses at all offsets; REFRESH."""
    data = bytes((37 * k + 129) % 256 for k in range(64))
    words = [*li(8, 0x20000), *li(9, (-0x1234567) & M64), *li(14, 3), *li(15, 5), *li(16, (7 << 32) + 3),
             *li(12, 9000), asm("addi", 12, 12, -1), asm("bne", 12, 0, -4)]
    for k in range(9):
        words += [asm(n, 5, 8, k) for n in ("lb", "lbu", "lh", "lhu", "lw", "lwu", "ld")]
        words += [asm(n, 9, 8, 16 + k) for n in ("sb", "sh", "sw", "sd")]
        words += [asm(n, x, y, 4) for n in BRANCHES for x, y in ((9, 5), (5, 9), (16, 14), (14, 15), (5, 5))]
        for x, y in ((9, 5), (14, 15), (5, 14), (16, 14), (9, 9)):
            words += [asm(n, 6, x, y) for n in R_TYPE]
        words += [asm(n, 6, 9, 77 * k - 300) for n in ("addi", "addiw", "slti", "sltiu", "andi", "ori", "xori")]
        words += [asm(n, 6, 9, 3 * k + 1) for n in SHIFTS]
    return Program.from_elf(elf([*words, *call(64, 1, 0x20001, 13), *halt()], {0x20000: data}))


@cache
def honest() -> list[tuple[Trace, dict[str, Any]]]:
    """Tables of some runs, and what those of instructions recorded of their rows in use."""
    out = []
    samples = [s.honest() for s in (ARITHMETIC, MEMORY, CALLS, KECCAK)]
    runs = [(w.execution, w._traces()) for w in samples]
    for p in (everything(), mixed()):
        run = execute(p.image)
        runs.append((run, fill(run, p.image, b"").traces(p.image)))
    for run, traces in runs:
        out += [(t, recorded(run, t)) for t in traces]
    return out


def recorded(run: Execution, t: Trace) -> dict[str, Any]:
    """Fields of the log for the rows of a table, shape (rows,)."""
    if t.table.name not in set(Table) - CALL_TABLES:
        return {}
    ts = t.main[t.table.column_index("ts")]
    rows = LogRows(run.log, run.rom, np.minimum(np.searchsorted(run.log.ts, ts), len(run.log) - 1))
    return {k: getattr(rows, k) for k in FIELDS}


def rows_of(table: Chip, count: int = 48) -> tuple[Any, dict[str, Any]]:
    """Columns of rows in use, varied, and then one row of padding, shape (columns, rows); and what was recorded."""
    parts = [(t.main, r) for t, r in honest() if t.table is table]
    main = np.concatenate([m for m, _ in parts], axis=1)
    log = {k: np.concatenate([r[k] for _, r in parts]) for k in parts[0][1]}
    names = [c.name for c in table.declared if c.kind == "selector"]
    chosen = [np.flatnonzero(main[table.column_index(n)] == 1) for n in names]
    each = max(6, count // len(names))
    index = np.unique(np.concatenate([c[np.linspace(0, len(c) - 1, min(each, len(c))).astype(int)] for c in chosen]))
    padding = np.zeros((len(main), 1), np.uint64)
    return np.concatenate([main[:, index], padding], axis=1), {k: v[index] for k, v in log.items()}


def misplaced(table: Chip) -> Any:
    """Rows of the general table for misaligned accesses, filled in the table for aligned ones."""
    other, names = {"LBH": ("MLOAD", ("LH", "LHU")), "SBH": ("MSTORE", ("SH",))}.get(table.name, ("", ()))
    if not other:
        return np.zeros((table.layout.main_count, 0), np.uint64)
    _, log = rows_of(next(t for t in machine().tables if t.name == other))
    which = np.isin(log["op"], [int(Op[n]) for n in names])
    return table.witness(Rows(**{k: v[which] for k, v in log.items()}), int(which.sum()))


def result(op: int, a: int, b: int, imm: int, m0: int, m1: int) -> int:
    """What an instruction yields on these operands and dwords of memory."""
    if op in STORES:
        return b
    if op in LOADS:
        bits = 8 * WIDTH[Op(op)]
        x = (m0 | m1 << 64) >> 8 * (a + imm & 7) & (1 << bits) - 1
        return (x - (x >> bits - 1 << bits) if op in (Op.LB, Op.LH, Op.LW) else x) & M64
    return int(compute(op, a, b, imm)) if op != Op.JALR else 0


def root(x: int) -> int | None:
    """A square root mod p (Tonelli and Shanks)."""
    if x == 0 or pow(x, (P - 1) // 2, P) != 1:
        return 0 if x == 0 else None
    odd, m = (P - 1) >> 32, 32
    c, t, r = pow(7, odd, P), pow(x, odd, P), pow(x, (odd + 1) // 2, P)
    while t != 1:
        i = next(i for i in range(1, m) if pow(t, 1 << i, P) == 1)
        b = pow(c, 1 << m - i - 1, P)
        m, c, t, r = i, b * b % P, t * b * b % P, r * b % P
    return r


def roots(a: int, b: int, c: int) -> list[int]:
    """Zeros of a x^2 + b x + c."""
    r, scale = root((b * b - 4 * a * c) % P), pow(2 * a, -1, P)
    return [] if r is None else [(-b + s * r) * scale % P for s in (1, -1)]


# ---------------------------------------------------------------- judging


def _available(bus: Bus, e: Any, honest: Any) -> Any:
    """May a row that receives ``honest`` receive ``e`` instead, as far as others can tell?

    The time of a token is the row's claim, which only the gap lookup can refute. A key of memory is one too: any
    canonical one may exist, and hold any word.
    """
    if bus not in (REG, RAM):
        return (e == honest).all(axis=1)
    at = len(bus.fields) - 3
    same = np.delete(e == honest, at, axis=1).all(axis=1)
    if bus == REG:
        return same
    other = (e[:, :2] != honest[:, :2]).any(axis=1)
    fits = (e[:, 0] < 1 << 32) & (e[:, 1] < 1 << 29) & (e[:, 3:] < 1 << 32).all(axis=1)
    return same | other & fits


@dataclass
class Search:
    """Candidates are columns of arrays (columns, n); ``base`` says which honest row each comes from."""

    table: Chip
    rows: Any
    log: dict[str, Any]
    found: set[str] = field(default_factory=set)
    rng: Any = field(default_factory=lambda: np.random.default_rng(1))

    def trace(self, main: Any) -> Trace:
        extra = -main.shape[1] % 8
        padded = np.concatenate([main, np.zeros((len(main), extra), np.uint64)], axis=1)
        return Trace(self.table, np.zeros((0, padded.shape[1]), np.uint64), np.ascontiguousarray(padded))

    @property
    def lookups(self) -> list[tuple[str, Interaction]]:
        return [(f"{i.bus.name} {k}", i) for k, i in enumerate(self.table.layout.interactions)
                if i.bus.name in RANGE_BUSES]

    @property
    def received(self) -> list[tuple[str, Interaction]]:
        return [(f"{i.bus.name} {k}", i) for k, i in enumerate(self.table.layout.interactions)
                if i.bus.name not in RANGE_BUSES and min(i.multiplicity.terms.values()) > P // 2]

    def rules(self) -> list[str]:
        return [*(n for n, _ in self.table.layout.constraints), *(n for n, _ in (*self.lookups, *self.received))]

    def broken(self, main: Any, base: Any) -> Any:
        """Which rules each candidate breaks; shape (rules, n)."""
        n, trace, honest_trace = main.shape[1], self.trace(main), self.trace(self.rows[:, base])
        values: dict[int, Any] = {}
        out = [np.broadcast_to(_evaluate(trace, e, (), values), (trace.height,))[:n] != 0
               for _, e in self.table.layout.constraints]
        for _, i in self.lookups:
            e, m = tuples(trace, i)
            out.append(((m != 0) & ~_lookup_holds(i.bus.name, e))[:n])
        for _, i in self.received:
            (e, m), (e0, m0) = tuples(trace, i), tuples(honest_trace, i)
            out.append(((m != m0) | ((m != 0) & ~_available(i.bus, e, e0)))[:n])
        return np.stack(out)

    # ------------------------------------------------------------ moves

    def starts(self) -> Iterator[tuple[Any, Any]]:
        """(candidates, base)."""
        n, table = self.rows.shape[1], self.table
        everywhere = np.arange(n)
        for k in range(len(self.rows)):
            for delta in DELTAS:
                main = self.rows.copy()
                main[k] = col.add_(main[k], delta % P)
                yield main, everywhere
            for value in (0, 1, 2):
                main = self.rows.copy()
                main[k] = value
                yield main, everywhere
        yield from self.carries()
        yield from self.mixtures()
        late = self.rows.copy()
        for k, name in enumerate(table.layout.columns):
            if name.split(".")[0] in TIMES:
                late[k] = col.add_(late[k], 4)
        yield late, everywhere
        yield from self.one_hots()
        yield from self.as_if()
        selectors = [table.column_index(c.name) for c in table.declared if c.kind == "selector"]
        bits = selectors + [k for k, kind in enumerate(table.layout.kinds) if kind == "bit"]
        for x in selectors:
            for y in bits:
                if x != y:
                    main = self.rows.copy()
                    main[[x, y]] = main[[y, x]]
                    yield main, everywhere

    def carries(self) -> Iterator[tuple[Any, Any]]:
        """A unit of one column becomes 2^8, 2^16 or 2^32 of another, or the other way round."""
        n = len(self.table.layout.columns)
        for x, y in itertools.permutations(range(n), 2):
            if abs(x - y) > 8:
                continue
            for weight in (1 << 8, 1 << 16, 1 << 32):
                for unit in (1, -1, pow(weight, -1, P), -pow(weight, -1, P)):
                    main = self.rows.copy()
                    main[x], main[y] = col.add_(main[x], unit * weight % P), col.add_(main[y], -unit % P)
                    yield main, np.arange(main.shape[1])

    def one_hots(self) -> Iterator[tuple[Any, Any]]:
        """Units 1, 1, -1 in the place of a single one."""
        for c in self.table.declared:
            if c.kind == "bit" and c.count == 8:
                at = self.table.column_index(f"{c.name}.0")
                for i, j, k in itertools.product(range(8), repeat=3):
                    if i < j and k not in (i, j):
                        main = self.rows.copy()
                        main[at:at + 8] = 0
                        main[[at + i, at + j, at + k]] = np.array([[1], [1], [P - 1]], np.uint64)
                        yield main, np.arange(main.shape[1])

    def as_if(self) -> Iterator[tuple[Any, Any]]:
        """Rows of other operations or operands than those of the program and the registers."""
        if not self.log:
            return
        n = len(self.log["ts"])
        changes = [{"op": np.full(n, int(op), np.uint64)} for op in OPS_OF_TABLE[Table(self.table.name)]]
        changes += [{k: self.log[k] ^ np.uint64(1 << x)} for k in ("a", "b", "i0", "i1") for x in (0, 20, 31)]
        for change in changes:
            log = self.log | change
            operands = (log["op"], log["a"], log["b"], log["i0"] | log["i1"] << np.uint64(32), log["m0"], log["m1"])
            r = [result(*map(int, x)) for x in zip(*operands, strict=True)]
            yield self.table.witness(Rows(**log | {"r": np.array(r, np.uint64)}), n), np.arange(n)

    def mixtures(self) -> Iterator[tuple[Any, Any]]:
        """Selectors and bits that are none, but give the same operation number and sum."""
        lay = self.table.layout
        form = next((i.entries[1] for i in lay.interactions if i.bus == ROM), None)
        weights = [] if form is None else [(k, w, int(lay.kinds[k] == "selector")) for k, w in form.terms.items()]
        for (i, a, x), (j, b, y), (k, c, z) in itertools.combinations(weights, 3):
            change = (b * z - c * y, c * x - a * z, a * y - b * x)
            common = math.gcd(*change)
            for sign in (1, -1):
                main = self.rows.copy()
                for at, d in zip((i, j, k), change, strict=True):
                    main[at] = col.add_(main[at], sign * d // max(common, 1) % P)
                yield main, np.arange(main.shape[1])

    def repairs(self, main: Any, base: Any, broken: Any) -> Iterator[tuple[Any, Any]]:
        for r, (_, e) in enumerate(self.table.layout.constraints):
            bad = np.flatnonzero(broken[r])
            if len(bad):
                for k, following in e.columns():
                    if not following:
                        yield from self.solved(main[:, bad], base[bad], e, k)
        for r, (_, i) in enumerate(self.lookups, len(self.table.layout.constraints)):
            bad = np.flatnonzero(broken[r])
            if len(bad) and i.bus.name in ("MSB", "AND", "POW"):
                yield from self.looked_up(main[:, bad], base[bad], i)

    def solved(self, main: Any, base: Any, e: Expr, k: int) -> Iterator[tuple[Any, Any]]:
        """Column k such that the constraint holds, where it is linear or, for some candidates, quadratic in k."""
        def at(x: Any) -> Any:
            other = main.copy()
            other[k] = x
            trace = self.trace(other)
            return np.broadcast_to(_evaluate(trace, e, (), {}), (trace.height,))[:main.shape[1]]

        zero, one, two = (at(np.uint64(v)) for v in range(3))
        slope = col.sub_(one, zero)
        bend = col.sub_(col.sub_(two, one), slope)
        for c in self.rng.permutation(np.flatnonzero(bend))[:ROOTS]:  # a x^2 + b x + zero, where 2 a = bend
            a = int(bend[c]) * HALF % P
            for x in roots(a, int(slope[c]) - a, int(zero[c])):
                other = main[:, [c]].copy()
                other[k] = x
                yield other, base[[c]]
        linear = (slope != 0) & (bend == 0)
        if linear.any():
            other = main[:, linear].copy()
            other[k] = col.mul_(col.sub_(0, zero), col.inverse(slope))[linear]
            yield other, base[linear]

    def looked_up(self, main: Any, base: Any, i: Interaction) -> Iterator[tuple[Any, Any]]:
        """The later entries as the first ones demand, if they are columns."""
        e, _ = tuples(self.trace(main), i)
        v = [e[:main.shape[1], k] for k in range(e.shape[1])]
        power = np.uint64(1) << (v[0] & np.uint64(31))
        wanted = {"MSB": {1: v[0] >> np.uint64(15)}, "AND": {2: v[0] & v[1]} if len(v) > 2 else {},
                  "POW": {1: power, 2: v[0] >> np.uint64(5)}}[i.bus.name]
        other = main.copy()
        for entry, value in wanted.items():
            form = i.entries[entry]
            if len(form.terms) == 1:
                ((k, w),) = form.terms.items()
                other[k] = col.mul_(col.sub_(value % P, form.constant), pow(w, -1, P))
        yield other, base

    # ------------------------------------------------------------ search

    def run(self, without: set[str], depth: int = DEPTH) -> set[str]:
        """Rules that no candidate breaks alone; those ``without`` need not be looked for."""
        todo = list(self.starts())
        seen: set[bytes] = set()
        for _ in range(depth + 1):
            main, base = (np.concatenate(x, axis=-1) for x in zip(*todo, strict=True))
            broken = self.broken(main, base)
            count = broken.sum(axis=0)
            self.found |= {self.rules()[r] for r in np.argmax(broken[:, count == 1], axis=0)}
            missing = np.array([r not in self.found | without for r in self.rules()])
            hopeful = np.flatnonzero((count >= 1) & (count <= 7))
            useless = ~broken[missing][:, hopeful].any(axis=0)
            order = np.lexsort((self.rng.random(len(hopeful)), count[hopeful], useless))
            fresh = [c for c in hopeful[order] if (key := main[:, c].tobytes()) not in seen and not seen.add(key)]
            index = np.array(fresh[:BREADTH], dtype=np.int64)
            todo = list(self.repairs(main[:, index], base[index], broken[:, index])) if missing.any() else []
            if not todo:
                break
        return set(self.rules()) - self.found


def selectors(table: Chip) -> set[str]:
    """Their rules break no row alone: a row that counts twice, or half, receives twice, or half, what it should. They
    make multiplicities counts; see the attack with two half rows."""
    return {"flag.sum", *(f"{c.name}.bit" for c in table.declared if c.kind == "selector")}


# What the search cannot show row by row, and where it is shown.
ELSEWHERE = {
    # constants that a call receives: test_attacks_machine, a25 and a31
    "HALT": {"ROM 1", "REG 2", "REG 5"}, "PRINT": {"ROM 2", "REG 3"}, "CYCLES": {"ROM 2", "REG 3"},
    "COMMIT": {"ROM 1", "REG 2", "REG 11"},
    "KCALL": {"ROM 2", "REG 3", "EXEC 0"},  # its time stands in KST too
    "CBYTE": {"end"},  # test_attacks_machine, a33
    # test_attacks_machine, a07 and a37; c2 is a multiplicity, as selectors are
    "MLOAD": {"cross", "second", "c2.bit"}, "MSTORE": {"cross", "second", "c2.bit"},
    "SHR": {"w.bit", *(f"top.{x}" for x in ("q0", "q1", "t0", "t1"))},  # test_attacks, a06; test_small_field
    "DIVREM": {*(f"mul.c{k}" for k in (4, 5, 6)), *(f"bz.q{k}" for k in range(4))},  # test_small_field
}


def survivors(table: Chip) -> set[str]:
    """Rules of a table whose loss would not be noticed, here or where :data:`ELSEWHERE` says."""
    rows, log = rows_of(table)
    without = selectors(table) | ELSEWHERE.get(table.name, set())
    return Search(table, np.concatenate([rows, misplaced(table)], axis=1), log).run(without) - without


def searched() -> list[Chip]:
    """Tables whose rows stand alone. Lookup tables have no rules; FIN, INPUT and KROUND have tests of their own."""
    return [t for t in machine().tables if not t.layout.fixed_count and t.name not in ("FIN", "INPUT", "KROUND")]
