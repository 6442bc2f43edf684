"""HALT, COMMIT, CBYTE, PRINT, CYCLES and REFRESH."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from harness import (
    DELTAS,
    M32,
    as_trace,
    caught,
    check_padding,
    complaints,
    messages,
    plus,
    refused,
    u64,
)

from tailbite.air import lint
from tailbite.air.check import Trace, check_buses, check_constraints, tuples
from tailbite.field import P
from tailbite.vm.buses import BUSES, COM, EXEC, OUT, RAM, RANGE_BUSES, REG, ROM
from tailbite.vm.chip import Chip, Rows
from tailbite.vm.executor import Commits, CommittedBytes, CycleReads, Halts, Prints, Refreshes
from tailbite.vm.ops import Op
from tailbite.vm.tables.cbyte import Cbyte
from tailbite.vm.tables.commit import Commit
from tailbite.vm.tables.cycles import Cycles
from tailbite.vm.tables.halt import Halt
from tailbite.vm.tables.print import Print
from tailbite.vm.tables.refresh import Refresh

HALT, COMMIT, CBYTE, PRINT, CYCLES, REFRESH = Halt(), Commit(), Cbyte(), Print(), Cycles(), Refresh()
SHAPES = {HALT: (5, 8, 1), COMMIT: (12, 18, 1), CBYTE: (28, 12, 2), PRINT: (4, 6, 1), CYCLES: (10, 12, 1),
          REFRESH: (7, 4, 2)}
A0, A1, A2, A7, COUNTER = 10, 11, 12, 17, 33
Message = tuple[str, int, tuple[int, ...]]


def ids(table: Chip) -> str:
    return table.name


# ---------------------------------------------------------------- logs of a run that only calls


class Calls:
    """Calls one after another, at times and from places that a run could have, and the messages they stand for."""

    def __init__(self, seed: int = 1, ts: int = 2**18) -> None:
        self.rng = random.Random(seed)
        self.ts = ts
        self.logs: dict[str, list[Any]] = {name: [] for name in ("halts", "commits", "prints", "cycle_reads", "bytes",
                                                                "refreshes")}
        self.messages: list[Message] = []
        self.idx = 0

    def old(self, slot: int) -> int:
        """An old time of a register, at most 2^16 ago."""
        return self.ts + slot - 1 - self.rng.choice((0, 2**16 - 1, self.rng.randrange(2**16)))

    def start(self) -> int:
        pc = 4 * self.rng.randrange(2**28)
        self.receive(EXEC, pc, self.ts)
        self.receive(ROM, pc, Op.ECALL, 0, 0, 0, 0, 0)
        return pc

    def receive(self, bus: Any, *entries: int) -> None:
        self.messages.append((bus.name, -1, entries))

    def send(self, bus: Any, *entries: int) -> None:
        self.messages.append((bus.name, 1, entries))

    def register(self, r: int, slot: int, old: int, new: int) -> int:
        """An access; returns its old time."""
        t = self.old(slot)
        self.receive(REG, r, t, old & M32, old >> 32)
        self.send(REG, r, self.ts + slot, new & M32, new >> 32)
        return t

    def halt(self) -> None:
        pc = self.start()
        self.logs["halts"].append((self.ts, pc, self.register(A7, 0, 93, 93), self.register(A0, 1, 0, 0)))

    def print(self) -> None:
        pc = self.start()
        self.logs["prints"].append((self.ts, pc, self.register(A7, 0, 1, 1)))
        self.finish(pc)

    def cycles(self) -> None:
        pc, old = self.start(), self.rng.getrandbits(64)
        number, count = 2**64 - 32, self.ts // 4 - 1
        t17, t10 = self.register(A7, 0, number, number), self.register(A0, 3, old, count)
        self.logs["cycle_reads"].append((self.ts, pc, t17, t10, old))
        self.finish(pc)

    def finish(self, pc: int) -> None:
        self.ts += 4
        self.send(EXEC, pc + 4, self.ts)

    def commit(self, data: bytes, address: int) -> None:
        pc, n, idx, ts = self.start(), len(data), self.idx, self.ts
        times = (self.register(A7, 0, 64, 64), self.register(A1, 1, address, address), self.register(A2, 2, n, n),
                 self.register(A0, 3, 1, n), self.register(COUNTER, 3, idx, idx + n))
        self.logs["commits"].append((ts, pc, address, n, idx, *times))
        lo, hi = address & M32, address >> 32
        memory = bytearray(self.rng.randbytes(address % 8 + n + 8))
        memory[address % 8:address % 8 + n] = data
        for j in range(n + 1):
            self.ts += 4
            self.send(COM, pc + 4, self.ts, lo + j, hi, n - j, idx + j)
            self.receive(COM, pc + 4, self.ts, lo + j, hi, n - j, idx + j)
            if j < n:
                self.byte(address + j, memory, (address + j) // 8 - address // 8, data[j], n - j, idx + j, pc + 4)
        self.send(EXEC, pc + 4, self.ts)
        self.idx += n

    def byte(self, at: int, memory: bytes, dword: int, b: int, rem: int, idx: int, pcn: int) -> None:
        value = int.from_bytes(memory[8 * dword:8 * dword + 8], "little")
        tm = self.ts + 1 - min(self.rng.choice((0, 3, 2**16 - 1, 2**16, M32)), self.ts + 1)
        key = (at >> 32, (at & M32) >> 3)
        self.receive(RAM, *key, tm, value & M32, value >> 32)
        self.send(RAM, *key, self.ts + 2, value & M32, value >> 32)
        self.send(OUT, idx, b)
        self.logs["bytes"].append((self.ts, at, value, tm, b, rem, idx, pcn))

    def refresh(self, r: int, value: int, gap: int) -> None:
        t = self.rng.randrange(2**35)
        self.receive(REG, r, t, value & M32, value >> 32)
        self.send(REG, r, t + gap, value & M32, value >> 32)
        self.logs["refreshes"].append((r, value, t, t + gap))

    @property
    def log(self) -> Any:
        kinds: dict[str, Any] = {"halts": Halts, "commits": Commits, "prints": Prints, "cycle_reads": CycleReads,
                                 "bytes": CommittedBytes, "refreshes": Refreshes}
        return SimpleNamespace(**{
            name: kind(*(u64(x) for x in zip(*self.logs[name], strict=True))) if self.logs[name]
            else kind(*(u64(()) for _ in kind._fields)) for name, kind in kinds.items()})


def many_calls(seed: int = 2) -> Calls:
    run = Calls(seed)
    for k in range(12):
        run.print()
        run.cycles()
        address = run.rng.choice((0x1000 + k, 2**64 - 2**32 + 8 * k, 2**32 - k, 0xFF000003))
        run.commit(run.rng.randbytes(k if k != 5 else 0), address)
        run.refresh(run.rng.randrange(34), run.rng.getrandbits(64), run.rng.choice((1, 2, 2**16, 2**16 + 1, 2**32)))
    run.halt()
    return run


def traces(run: Calls, tables: Sequence[Chip] = tuple(SHAPES)) -> dict[str, Trace]:
    """The tables' traces of a run."""
    out = {}
    for table in tables:
        rows: Rows = table.rows(run.log)  # type: ignore[attr-defined]
        out[table.name] = as_trace(table, table.witness(rows, max(32, 1 << len(rows).bit_length())))
    return out


def said(traces: Sequence[Trace]) -> list[Message]:
    """All messages on other than range buses."""
    out = []
    for trace in traces:
        for i in trace.table.layout.interactions:
            if i.bus.name not in RANGE_BUSES:
                e, m = tuples(trace, i)
                out += [(i.bus.name, 1 if m[k] == 1 else -1, tuple(map(int, e[k]))) for k in np.nonzero(m)[0]]
    return sorted(out)


# ---------------------------------------------------------------- shape, honest rows, padding


@pytest.mark.parametrize("table", SHAPES, ids=ids)
def test_shape(table: Chip) -> None:
    lint([table], BUSES)
    lay = table.layout
    assert (lay.main_count, len(lay.interactions), table.instances) == SHAPES[table]
    assert lay.fixed_count == 0 and table.required == (table is HALT)


def test_a_run_says_what_calls_mean() -> None:
    run = many_calls()
    found = traces(run)
    for trace in found.values():
        assert not check_constraints(trace) and not complaints(trace)
    assert said(list(found.values())) == sorted(run.messages)


@pytest.mark.parametrize("table", SHAPES, ids=ids)
def test_padding(table: Chip) -> None:
    check_padding(table)


@pytest.mark.parametrize("table", SHAPES, ids=ids)
def test_every_column_matters(table: Chip) -> None:
    """But for those of the memory access on CBYTE rows that end a call. Another gap of REFRESH is another refresh,
    and shows in what it sends."""
    trace = traces(many_calls(), [table])[table.name]
    real = messages(trace)[0].any(axis=1)
    assert real.any()
    end = trace.column(table.column_index("end")) == 1 if table is CBYTE else np.zeros(trace.height, bool)
    idle = {"w", "tm", "dm", *(f"v.{k}" for k in range(8))}
    for k, name in enumerate(table.layout.columns):
        for delta in DELTAS:
            main = trace.main.copy()
            main[k] = plus(main[k], delta)
            other = as_trace(table, main)
            free = end & (name in idle)
            seen = caught(trace, other)
            if table is REFRESH and name in ("g.0", "g.1"):
                seen |= (messages(trace)[1] != messages(other)[1]).any(axis=1)
            assert (seen | ~real | free).all(), name
            assert not (messages(other)[0] != messages(trace)[0])[free].any()


# ---------------------------------------------------------------- attacks


def changed(trace: Trace, **columns: Any) -> Trace:
    """With columns replaced on the rows in use."""
    main, real = trace.main.copy(), messages(trace)[0].any(axis=1)
    for name, value in columns.items():
        main[trace.table.column_index(name.replace("__", "."))][real] = value
    return as_trace(trace.table, main)


@pytest.mark.parametrize("table", [HALT, COMMIT, PRINT, CYCLES], ids=ids)
def test_calls_are_constants(table: Chip) -> None:
    """Whatever a row holds, x17 is the call's number; HALT has exit code 0, COMMIT x10 = 1 and a length below 2^32."""
    noise = np.random.default_rng(1).integers(0, P, (table.layout.main_count, 32), dtype=np.uint64)
    noise[0] = 1
    received = {}
    for i in table.layout.interactions:
        e, m = tuples(as_trace(table, noise), i)
        if i.bus == REG and m[0] != 1:
            received[int(e[0, 0])] = e
    number = {HALT: 93, COMMIT: 64, PRINT: 1, CYCLES: 2**64 - 32}[table]
    constants = {A7: (number & M32, number >> 32)}
    constants |= {A0: (0, 0)} if table is HALT else {A0: (1, 0)} if table is COMMIT else {}
    for r, (lo, hi) in constants.items():
        assert (received[r][:, 2] == lo).all() and (received[r][:, 3] == hi).all()
    if table is COMMIT:
        assert not received[A2][:, 3].any() and not received[COUNTER][:, 3].any()


def test_halt_ends_the_run() -> None:
    assert not any(i.bus == EXEC and 1 in i.multiplicity.terms.values() for i in HALT.layout.interactions)


def test_halt_cannot_move_time() -> None:
    trace = traces(many_calls(), [HALT])["HALT"]
    for t in ("t17", "t10"):
        ts = trace.column(HALT.column_index("ts"))[0]
        for late in (0, 1, 2, 2**16, 2**32):
            assert refused(changed(trace, **{t: ts + np.uint64(1 + late)}))[0]
        assert refused(changed(trace, **{t: ts - np.uint64(2**16 + 1)}))[0]


def test_cycle_count_is_unique() -> None:
    """The count + p in limbs, and fractions that the time is a multiple of."""
    trace = traces(many_calls(), [CYCLES])["CYCLES"]
    real = messages(trace)[0].any(axis=1)
    ts = trace.column(CYCLES.column_index("ts"))[real]
    for k in range(1, 4):
        count = [(int(t) - 4) // 4 + k * P for t in ts]
        limbs = [u64(c & 0xFFFF for c in count), u64(c >> 16 & 0xFFFF for c in count), u64(c >> 32 for c in count)]
        forged = changed(trace, **{f"c__{j}": x for j, x in enumerate(limbs)})
        assert "cyc" not in complaints(forged) and refused(forged)[real].all()
    for delta in (1, 2, 3):
        assert refused(changed(trace, ts=ts + np.uint64(delta)))[real].all()


def committed(data: bytes, address: int = 0x1003) -> tuple[Calls, dict[str, Trace]]:
    run = Calls(3)
    run.commit(data, address)
    return run, traces(run, [COMMIT, CBYTE])


def unbalanced(found: dict[str, Trace], output: bytes) -> set[str]:
    """State buses between COMMIT, CBYTE and the public output that do not balance."""
    terms = [(OUT.id, (i, b), -1) for i, b in enumerate(output)]
    failures = [f.name for f in check_buses(list(found.values()), terms)]
    return {name.split()[1] for name in failures if name.split()[1] in ("COM", "OUT")}


def test_public_output_is_what_was_committed() -> None:
    _, found = committed(b"hello, world")
    assert not unbalanced(found, b"hello, world")
    for other in (b"hello, worle", b"hello, worl", b"hello, world\0", b"ehllo, world", b""):
        assert unbalanced(found, other) == {"OUT"}


def test_bytes_come_from_memory() -> None:
    _, found = committed(b"hello")
    trace = found["CBYTE"]
    byt = trace.column(CBYTE.column_index("byt")) == 1
    forged = changed(trace, ob=[(b + 1) % 256 for b in b"hello"] + [0])
    assert np.array_equal(complaints(forged)["ob"][byt], [True] * 5)
    for offset in range(8):  # another place in the dword
        e = {f"e__{j}": int(j == offset) for j in range(8)}
        here = trace.column(CBYTE.column_index(f"e.{offset}"))[byt] == 1
        assert np.array_equal(complaints(changed(trace, **e)).get("ptr", np.zeros(32, bool))[byt], ~here)
    for j, k in ((0, 1), (3, 4), (6, 7)):
        both = changed(trace, **{f"e__{n}": int(n in (j, k)) for n in range(8)})
        assert complaints(both)["one"][byt].all()


def test_false_offset_of_a_byte_has_no_key() -> None:
    _, found = committed(b"x", 0x1003)
    for offset in range(8):
        e = {f"e__{j}": u64([j == offset, 0]) for j in range(8)}  # the second row ends the call
        w = (0x1003 - offset) * pow(8, -1, P) % P
        forged = changed(found["CBYTE"], w=np.array([w, 0], np.uint64), **e)
        assert not {"ptr", "one"} & set(complaints(forged))
        assert (w < 2**29) == (offset == 3)


def test_a_call_ends_when_nothing_is_left() -> None:
    """Not before, not after, and not in the row that outputs a byte."""
    run, found = committed(b"abc")
    trace = found["CBYTE"]
    for row in range(3):
        main = trace.main.copy()
        main[0, row], main[1, row] = 0, 1
        main[[CBYTE.column_index(f"e.{j}") for j in range(8)], row] = 0
        assert refused(as_trace(CBYTE, main))[row]
        main = trace.main.copy()
        main[1, row] = 1
        assert complaints(as_trace(CBYTE, main))["flag.sum"][row]
    # a byte after the last one: the token comes back with rem = -1 and only bytes can follow
    run.logs["bytes"].append((run.ts, 0x1006, 0, 0, 0, 0, 3, run.logs["commits"][0][1] + 4))
    longer = traces(run, [COMMIT, CBYTE])
    assert unbalanced(longer, b"abc\0") >= {"COM"}
    main = longer["CBYTE"].main.copy()
    last = int(np.nonzero(main[1])[0][0])
    main[CBYTE.column_index("rem"), last] = P - 1
    assert "end" in complaints(as_trace(CBYTE, main))


def test_a_buffer_may_end_at_2_to_32_and_not_cross_it() -> None:
    run = Calls(4)
    run.commit(b"abcd", 2**32 - 4)
    found = traces(run, [COMMIT, CBYTE])
    assert not complaints(found["CBYTE"]) and not unbalanced(found, b"abcd")
    # one byte further the dword is number 2^29, which does not exist
    run.logs["bytes"].append((run.ts, 2**32, 0, 0, 0, 1, 4, 4))
    rows = CBYTE.rows(run.log)
    rows.plo[4] = 2**32
    w = as_trace(CBYTE, CBYTE.witness(rows, 32)).column(CBYTE.column_index("w"))
    assert w[4] == 2**29


def test_refresh_only_moves_forward() -> None:
    """No gap that the limbs can hold leads to the same or an earlier time, and 2^32 is the longest."""
    trace = traces(many_calls(), [REFRESH])["REFRESH"]
    real = messages(trace)[0].any(axis=1)
    for gap in (0, -1, -(2**16), 2**32 + 1, 2**33, P - 1):
        low, high = (gap - 1) % P % 2**16, (gap - 1) % P >> 16
        forged = changed(trace, g__0=low, g__1=high)
        assert refused(forged)[real].all()
    for gap in (1, 2**16, 2**32):
        forged = changed(trace, g__0=(gap - 1) % 2**16, g__1=(gap - 1) >> 16)
        assert not refused(forged).any()
        sent = messages(forged)[1][real]
        assert np.array_equal(sent[:, 1], trace.column(REFRESH.column_index("t"))[real] + np.uint64(gap))


def test_refresh_keeps_register_and_value() -> None:
    """Receive and send name the same columns, whatever is in them."""
    receive, send = (i for i in REFRESH.layout.interactions if i.bus == REG)
    for k in (0, 2, 3):
        assert receive.entries[k].words() == send.entries[k].words()
