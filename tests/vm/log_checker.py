"""Replays a log in plain Python: each access must find the value and the time that the access before it left.

It follows the rules of the argument about registers and memory (distinct times, gaps, refreshes, one initial and one
final token for each key), not the executor.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from rv_oracle import keccak_f1600

from tailbite.vm.elf import Image
from tailbite.vm.executor import Execution
from tailbite.vm.ops import BRANCHES, LOADS, READS_RS1, READS_RS2, STORES, WIDTH, WRITES_RD, Call, Op

M64 = (1 << 64) - 1
INPUT = 0xFF000000


def as_list(rows: Any) -> list[Any]:
    """Structure of arrays to a list of plain records."""
    names = rows._fields if hasattr(rows, "_fields") else [
        n for n in ("ix", "ts", "a", "b", "r", "o", "ta", "tb", "td", "m0", "m1", "tm0", "tm1")]
    columns = [getattr(rows, n).tolist() for n in names]
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


class Checker:
    """State of the replay: time and value of each register and dword."""

    def __init__(self, image: Image, private_input: bytes, run: Execution) -> None:
        self.run, self.log, self.rom = run, run.log, [tuple(map(int, r)) for r in zip(
            run.rom.pc, run.rom.op, run.rom.rd, run.rom.s1, run.rom.s2, run.rom.i0, run.rom.i1, strict=True)]
        self.registers = {r: (0, 0) for r in range(34)} | {2: (0, M64 - 15)}
        self.memory: dict[int, tuple[int, int]] = {}
        for h, w, lo, hi in zip(*(c.tolist() for c in image.dwords), strict=True):
            self.memory[h << 29 | w] = (0, lo | hi << 32)
        region = len(private_input).to_bytes(4, "little") + private_input
        for k in range(0, len(region), 8):
            self.memory[(INPUT + k) // 8] = (0, int.from_bytes(region[k:k + 8], "little"))
        self.initial = set(self.memory)
        self.refreshes: dict[int, list[Any]] = {}
        for f in as_list(self.log.refreshes):
            self.refreshes.setdefault(f.r, []).append(f)
        self.pc, self.ts, self.output = image.entry, 4, bytearray()

    # -- accesses

    def register(self, r: int, now: int, t: int, value: int, new: int | None = None) -> None:
        """Register ``r`` is accessed at ``now``; the log says that it held ``value`` since ``t``."""
        waiting = self.refreshes.get(r, [])
        while waiting and waiting[0].new < now:
            f = waiting.pop(0)
            assert self.registers[r] == (f.t, f.value) and 0 <= f.new - f.t - 1 < 1 << 32
            assert now - f.t > 1 << 16, "a refresh that nothing needs"
            self.registers[r] = (f.new, f.value)
        assert self.registers[r] == (t, value), (r, now, t, value)
        assert 0 <= now - t - 1 < 1 << 16
        self.registers[r] = (now, value if new is None else new)

    def dword(self, index: int, now: int, t: int, value: int, new: int | None = None) -> None:
        assert 0 <= index < 1 << 61 and self.memory.get(index, (0, 0)) == (t, value), (hex(8 * index), now, t, value)
        assert 0 <= now - t - 1 < 1 << 32
        self.memory[index] = (now, value if new is None else new)

    # -- rows

    def check(self) -> None:
        calls = sorted((c for kind, rows in ((Call.HALT, self.log.halts), (Call.COMMIT, self.log.commits),
                                             (Call.PRINT, self.log.prints), (Call.CYCLES, self.log.cycle_reads),
                                             (Call.KECCAK, self.log.keccaks)) for c in map(
                                                 lambda x, k=kind: (x.ts, k, x), as_list(rows))),
                       key=lambda c: c[0])
        committed = as_list(self.log.bytes)
        for e in as_list(self.log):
            pc, op, rd, s1, s2, i0, i1 = self.rom[e.ix]
            assert (pc, e.ts) == (self.pc, self.ts)
            self.ts += 4
            if op == Op.ECALL:
                ts, kind, record = calls.pop(0)
                assert ts == e.ts and record.pc == pc
                assert not any((e.a, e.b, e.r, e.o, e.ta, e.tb, e.td, e.m0, e.m1, e.tm0, e.tm1))
                self.call(kind, record, committed)
                self.pc = pc + 4
            else:
                self.instruction(Op(op), rd, s1, s2, i0 | i1 << 32, e)
        self.end(calls, committed)

    def instruction(self, op: Op, rd: int, s1: int, s2: int, imm: int, e: Any) -> None:
        self.pc = self.next_pc(op, s1, imm, e)
        if op in READS_RS1:
            self.register(s1, e.ts, e.ta, e.a)
        if op in READS_RS2:
            self.register(s2, e.ts + 1, e.tb, e.b)
        assert op in READS_RS1 or e.a == e.ta == 0
        assert op in READS_RS2 or e.b == e.tb == 0
        if op in WIDTH:
            self.transfer(op, e.a + imm & M64, e)
        else:
            assert e.m0 == e.m1 == e.tm0 == e.tm1 == 0
        if op in WRITES_RD:
            self.register(rd, e.ts + 3, e.td, e.o, e.r)
        else:
            assert e.o == e.td == 0

    def next_pc(self, op: Op, s1: int, imm: int, e: Any) -> int:
        if op is Op.JALR:
            return e.a + imm & M64 - 1
        if op is Op.CONST:
            return s1
        return imm if op in BRANCHES and e.r else self.pc + 4

    def transfer(self, op: Op, address: int, e: Any) -> None:
        """The two dwords as one number of 16 bytes."""
        index, at, width = address >> 3, 8 * (address & 7), 8 * WIDTH[op]
        crosses = at + width > 64
        assert crosses or e.m1 == e.tm1 == 0
        window, mask = e.m0 | e.m1 << 64, (1 << width) - 1
        if op in LOADS:
            value = window >> at & mask
            if op in (Op.LB, Op.LH, Op.LW):
                value -= (value >> (width - 1)) << width
            assert e.r == value & M64
        if op in STORES:
            assert e.r == e.b
            window = window & ~(mask << at) | (e.b & mask) << at
        self.dword(index, e.ts + 2, e.tm0, e.m0, window & M64)
        if crosses:
            self.dword(index + 1, e.ts + 2, e.tm1, e.m1, window >> 64)

    def call(self, kind: Call, c: Any, committed: list[Any]) -> None:
        self.register(17, c.ts, c.t17, int(kind))
        if kind is Call.HALT:
            self.register(10, c.ts + 1, c.t10, 0)
        elif kind is Call.CYCLES:
            self.register(10, c.ts + 3, c.t10, c.old, (c.ts - 4) // 4)
        elif kind is Call.KECCAK:
            self.register(10, c.ts + 1, c.t10, c.address)
            assert c.address % 8 == 0 and c.address % 2**32 + 200 <= 2**32
            after = keccak_f1600(c.state)
            for k in range(25):
                self.dword(c.address // 8 + k, c.ts + 2, c.tm[k], c.state[k], after[k])
        elif kind is Call.COMMIT:
            self.register(11, c.ts + 1, c.t11, c.address)
            self.register(12, c.ts + 2, c.t12, c.length)
            self.register(10, c.ts + 3, c.t10, 1, c.length)
            self.register(33, c.ts + 3, c.t33, c.idx, c.idx + c.length)
            for k in range(c.length):
                self.byte(committed.pop(0), c, k)

    def byte(self, y: Any, c: Any, k: int) -> None:
        assert (y.ts, y.address, y.rem, y.idx, y.pcn) == (self.ts, c.address + k, c.length - k, c.idx + k, c.pc + 4)
        self.dword(y.address >> 3, y.ts + 2, y.tm, y.value)
        assert y.byte == y.value >> 8 * (y.address & 7) & 255
        self.output.append(y.byte)
        self.ts += 4

    def end(self, calls: list[Any], committed: list[Any]) -> None:
        assert not calls and not committed and not any(self.refreshes.values())
        assert len(self.log.halts.ts) == 1 and int(self.log.halts.ts[0]) == self.ts - 4
        assert self.run.cycles == (self.ts - 4) // 4 == len(self.log) + len(self.output)
        assert self.run.instructions == len(self.log)
        assert self.run.output == bytes(self.output)
        assert [tuple(x) for x in zip(*(c.tolist() for c in self.log.registers), strict=True)] == [
            self.registers[r] for r in range(34)]
        want = [(i >> 29, i & (1 << 29) - 1, *self.memory[i], i not in self.initial) for i in sorted(self.memory)]
        assert [tuple(x) for x in zip(*(c.tolist() for c in self.log.memory), strict=True)] == want
        hits = [0] * len(self.rom)
        for ix in self.log.ix.tolist():
            hits[ix] += 1
        assert self.run.hits.tolist() == hits


def check_log(image: Image, run: Execution, private_input: bytes = b"") -> None:
    """AssertionError unless the log of ``run`` is consistent."""
    Checker(image, private_input, run).check()
