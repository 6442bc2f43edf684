"""Faults in witnesses: one thing in an honest run is made wrong, and the rest follows where it can.

A fault has a level:

* "run": the executor's state is changed at one step, and the run goes on from there; tables are filled from what it
  did, so that everything after the fault agrees with it. The public output is what the wrong run commits.
* "cell": one cell of a filled table. "repaired": then broken constraints of the row are solved for other columns.
* "row": a row is dropped, repeated, or gets another selector.
* "output": the claim is changed on purpose, and CBYTE is made to say the same, more or less deeply.

Then the witness is settled: final rows take the tokens left over, multiplicities are what is asked for.

What may be accepted. A statement (program, output) is true if and only if some private input gives that output; the
guests but those of kind "input" take none, so their true output is unique. A proof also claims to know the input: INPUT
holds it. So an accepted witness is true if the independent machine (``rv_oracle``) with the input of the witness halts
with the output of the claim; else it is a *miss*. A true one is *harmless*, and :func:`explain` must say why the cells
that differ are free; else it is *unexplained*, which is an error too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from attacks import TIMES
from fault_check import Case, Cell, Columns, Difference, lowered, names_of, slot_of
from fault_guests import DATA, RESULT, guest, index_of
from rv_oracle import run_elf

from tailbite.field import P
from tailbite.program import Program
from tailbite.vm import core
from tailbite.vm.chip import Rows, limbs32
from tailbite.vm.core import Status
from tailbite.vm.executor import Execution, ExecutionError, _log, _Run, execute
from tailbite.vm.machine import machine
from tailbite.vm.memory import PAGE_BITS
from tailbite.vm.ops import (
    BRANCHES,
    LOADS,
    OPS_OF_TABLE,
    READS_RS1,
    READS_RS2,
    REGISTERS,
    STORES,
    TABLES_OF_OP,
    WIDTH,
    WRITES_RD,
    Op,
    Table,
)
from tailbite.vm.tables.kround import ROUNDS, _round

M64 = 2**64 - 1
CALL_TABLES = tuple(t.value for t in TABLES_OF_OP[Op.ECALL])
CALL_READS = {"HALT": (17, 10), "COMMIT": (17, 10, 11, 12), "PRINT": (17,), "CYCLES": (17,), "KCALL": (17, 10)}
CLASSES: dict[str, tuple[Op, ...]] = {
    "add and subtract": (Op.ADD, Op.SUB, Op.ADDI), "word add and subtract": (Op.ADDW, Op.SUBW, Op.ADDIW),
    "moves and constants": (Op.MV, Op.SL32, Op.SR32, Op.CONST), "jumps": (Op.JALR,), "branches": tuple(BRANCHES),
    "comparisons": (Op.SLT, Op.SLTU), "logic": OPS_OF_TABLE[Table.LOGIC] + OPS_OF_TABLE[Table.LOGICI],
    "shifts": OPS_OF_TABLE[Table.SHI1] + OPS_OF_TABLE[Table.SHI2] + OPS_OF_TABLE[Table.SHR],
    "multiply": OPS_OF_TABLE[Table.MUL] + OPS_OF_TABLE[Table.MULH], "divide": OPS_OF_TABLE[Table.DIVREM],
    "loads": tuple(LOADS), "stores": tuple(STORES),
}
OF_TABLE = {
    "MLOAD": "misaligned loads", "MSTORE": "misaligned stores", "HALT": "halt", "COMMIT": "commit", "CBYTE": "commit",
    "PRINT": "print", "CYCLES": "cycles", "KCALL": "keccak", "KROUND": "keccak", "KRC": "keccak", "INPUT": "input",
    "REG": "registers", "REFRESH": "registers", "FIN": "memory", "IMAGE": "memory", "ROM": "program", "LUT": "lookups",
    "POW": "lookups",
}


class NoFault(Exception):
    """The change changes nothing, or the wrong run does not halt with success, so that there is no witness."""


@dataclass
class Fault:
    """A faulty witness for the program of ``case``, attributed to a table and, if there is one, an operation."""

    case: Case
    level: str
    kind: str
    table: str
    op: str
    columns: Columns
    output: bytes
    keep: frozenset[Cell] = field(default_factory=frozenset)

    @property
    def claims_other_output(self) -> bool:
        return self.output != self.case.output

    @property
    def opcode_class(self) -> str:
        """"padding" for rows of instruction tables that prove no instruction."""
        if self.table in OF_TABLE:
            return OF_TABLE[self.table]
        return next((c for c, ops in CLASSES.items() if self.op in [o.name for o in ops]), "padding")


# ---------------------------------------------------------------- runs that go wrong

Action = Callable[[_Run], None]


def run_with(case: Case, actions: Iterable[tuple[int, Action]]) -> Execution:
    """The run, in which the state is changed before the cycles that begin at given times."""
    limit, todo = 2 * case.execution.cycles + 64, sorted(actions, key=lambda x: x[0])
    try:
        first = _advanced(_Run(case.image, case.guest.private_input, None), todo, limit)
        second = _Run(case.image, case.guest.private_input, None, first)
        second.records = second.records._replace(refreshes=np.zeros(core.REFRESH << 16, np.uint64))
        _advanced(second, todo, limit)
    except ExecutionError as e:
        raise NoFault from e
    return Execution(first.output, first.cycles, int(first.state[core.INSTRUCTIONS]), (),
                     first.code.hits[:len(case.image.rom)], case.image.rom, {}, 0, 0, _log(second))


def _advanced(run: _Run, actions: list[tuple[int, Action]], limit: int) -> _Run:
    status = Status.RUNNING
    for at, action in actions:
        while int(run.state[core.TS]) < at and status is not Status.HALTED:
            status = Status(run.library.run(run.state, run.code, run.registers, run.memory, run.records,
                                            run.output_buffer, at))
            run.attend(status)
        if status is Status.HALTED:
            return run
        action(run)
    run.finish(limit, None, None)
    return run


def place(run: _Run, address: int) -> int:
    """Where the dword that holds ``address`` is kept."""
    index = address >> 3
    slots = np.flatnonzero(run.memory.page[:int(run.memory.used[0])] == np.uint64(index >> PAGE_BITS))
    if not len(slots):
        raise NoFault
    return int(slots[0]) << PAGE_BITS | index & 63


def poke(address: int, data: bytes) -> Action:
    """Bytes of memory become others, at no time."""
    def act(run: _Run) -> None:
        for k, b in enumerate(data):
            at, shift = place(run, address + k & M64), 8 * ((address + k) % 8)
            run.memory.data[at] = int(run.memory.data[at]) & ~(255 << shift) & M64 | b << shift

    return act


def set_register(r: int, value: int) -> Action:
    def act(run: _Run) -> None:
        run.registers.x[r] = value

    return act


def set_row(row: int) -> Action:
    def act(run: _Run) -> None:
        run.state[core.ROW] = row

    return act


def log_result(n: int, value: int) -> Action:
    """The record of instruction ``n`` says that this was its result."""
    def act(run: _Run) -> None:
        if int(run.records.capacity):
            run.records.words[int(run.records.capacity) * core.R + n] = value

    return act


class Step:
    """Instruction ``n`` of an honest run."""

    def __init__(self, case: Case, n: int) -> None:
        log, rom = case.execution.log, case.execution.rom
        assert log is not None
        self.case, self.n, self.row = case, n, int(log.ix[n])
        self.op = Op(int(rom.op[self.row]))
        self.rd, self.s1, self.s2 = (int(x[self.row]) for x in (rom.rd, rom.s1, rom.s2))
        self.imm = int(rom.i0[self.row]) | int(rom.i1[self.row]) << 32
        self.ts, self.a, self.b, self.r = (int(x[n]) for x in (log.ts, log.a, log.b, log.r))
        self.table = tables_by_time(case)[self.ts]
        self.address = self.a + self.imm & M64

    @property
    def reads(self) -> list[int]:
        """Registers that are read."""
        if self.op == Op.ECALL:
            return list(CALL_READS[self.table])
        return [self.s1] * (self.op in READS_RS1) + [self.s2] * (self.op in READS_RS2)


@cache
def tables_by_time(case: Case) -> dict[int, str]:
    """The table that proves the instruction of each time."""
    out = {}
    for slot, main in case.columns.items():
        names = names_of(slot)
        if "pc" in names and "ts" in names:
            ts = main[names.index("ts")]
            out |= {int(t): lowered(slot).name for t in ts[ts > 0]}
    return out


def other_value(rng: random.Random, x: int, bits: int = 64) -> int:
    """Another number of that many bits, near or far."""
    y = rng.choice([x ^ 1 << rng.randrange(bits), x ^ 1, x + 1, x - 1, rng.getrandbits(bits), ~x, x ^ 1 << bits - 1, 0])
    if (y - x) % (1 << bits) == 0:
        raise NoFault
    return y % (1 << bits)


def wrong_result(rng: random.Random, s: Step) -> list[tuple[int, Action]]:
    """The instruction yields another value, stores another, or branches the other way; its own row says so too."""
    after = s.ts + 4
    if s.op in BRANCHES:
        nexts = int(core.predecode(s.case.image.rom, s.case.image.entry)[0].next[s.row])
        return [(after, log_result(s.n, s.r ^ 1)), (after, set_row(nexts & 2**32 - 1 if s.r else nexts >> 32))]
    if s.op in STORES:
        value = other_value(rng, s.r & (1 << 8 * WIDTH[s.op]) - 1, 8 * WIDTH[s.op])
        return [(after, log_result(s.n, s.r >> 8 * WIDTH[s.op] << 8 * WIDTH[s.op] | value)),
                (after, poke(s.address, value.to_bytes(WIDTH[s.op], "little")))]
    if s.op not in WRITES_RD:
        if s.table != "CYCLES":
            raise NoFault
        return [(after, set_register(10, other_value(rng, (s.ts - 4) // 4)))]
    value = other_value(rng, s.r)
    return [(after, log_result(s.n, value)), (after, set_register(s.rd, value))]


def wrong_operand(rng: random.Random, s: Step) -> list[tuple[int, Action]]:
    """The instruction alone sees another value in a register that it reads, and computes with that."""
    if not s.reads:
        raise NoFault
    r, seed = rng.choice(s.reads), rng.random()
    kept: list[int] = []

    def before(run: _Run) -> None:
        own = random.Random(seed)  # the same change in the run that measures and in the one that records
        x = int(run.registers.x[r])
        if s.op == Op.ECALL:
            value = own.choice([1, 64, 93, M64 - 31, M64 - 1, 0, 2, 8, DATA, RESULT, x + 1, x - 1, x + 8])
        elif s.op == Op.JALR or (s.op in LOADS | STORES and r == s.s1):
            value = x + own.choice([-8, -4, -1, 1, 4, 8, 12, 1 << 32])
        else:
            value = other_value(own, x)
        if (value - x) & M64 == 0:
            raise NoFault
        kept[:] = [x]
        run.registers.x[r] = value & M64

    def after(run: _Run) -> None:
        written = 10 if s.table in ("COMMIT", "CYCLES") else s.rd if s.op in WRITES_RD else -1
        if r != written:
            run.registers.x[r] = kept[0]

    return [(s.ts, before), (s.ts + 4, after)]


def wrong_memory_operand(rng: random.Random, s: Step) -> list[tuple[int, Action]]:
    """A load alone sees another byte; a store finds another one in a dword that it changes."""
    if s.op not in LOADS | STORES:
        raise NoFault
    address = s.address + rng.randrange(WIDTH[s.op]) if s.op in LOADS else s.address & ~7 | rng.randrange(8)
    flip, kept = rng.randrange(1, 256), {}

    def before(run: _Run) -> None:
        at = place(run, address)
        kept[0] = int(run.memory.data[at])
        run.memory.data[at] = kept[0] ^ flip << 8 * (address % 8)

    def after(run: _Run) -> None:
        run.memory.data[place(run, address)] = kept[0]

    return [(s.ts, before), (s.ts + 4, after)] if s.op in LOADS else [(s.ts, before)]


def wrong_time(rng: random.Random, s: Step) -> list[tuple[int, Action]]:
    """Time jumps before the instruction."""
    by = rng.choice([4, 8, 4 * rng.randrange(1, 1 << 14), 1, 2, -4, -1, 1 << 18])

    def act(run: _Run) -> None:
        run.state[core.TS] = int(run.state[core.TS]) + by

    return [(s.ts, act)]


def wrong_old_time(rng: random.Random, s: Step) -> list[tuple[int, Action]]:
    """The last access to something that the instruction accesses was at another time."""
    registers = s.reads + [s.rd] * (s.op in WRITES_RD)
    memory = s.op in LOADS | STORES and rng.random() < 0.5
    if not registers:
        raise NoFault
    r, shift = rng.choice(registers), rng.choice([1, -1, 4, -4, 16, -16, 1 << 16, rng.randrange(1, 1000)])

    def act(run: _Run) -> None:
        times = run.memory.when if memory else run.registers.last
        if len(times):  # the run that measures has no times of memory
            at = place(run, s.address) if memory else r
            t = int(times[at]) + shift
            if t < 0:
                raise NoFault
            times[at] = t

    return [(s.ts, act)]


def wrong_pc(rng: random.Random, s: Step) -> list[tuple[int, Action]]:
    """After the instruction the program goes on elsewhere."""
    if s.table == "HALT":
        raise NoFault
    step, last = rng.choice([-1, 0, 2, 3, rng.randrange(-50, 50)]), len(s.case.image.rom) - 1
    honest = Step(s.case, s.n + 1).row
    row = min(max(s.row + step, 0), last)
    if row == honest:
        raise NoFault
    at = Step(s.case, s.n + 1).ts  # after the bytes of a commit
    return [(at, set_row(row))]


INSTRUCTION_FAULTS = {"result": wrong_result, "operand": wrong_operand, "memory operand": wrong_memory_operand,
                      "timestamp": wrong_time, "old time": wrong_old_time, "pc": wrong_pc}


def instruction_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """A fault in the run at an instruction that ``table`` proves."""
    kind = rng.choice(list(INSTRUCTION_FAULTS))
    times = [t for t, name in tables_by_time(case).items() if name == table]
    if not times:
        raise NoFault
    assert case.execution.log is not None
    s = Step(case, int(np.searchsorted(case.execution.log.ts, rng.choice(times))))
    execution = run_with(case, INSTRUCTION_FAULTS[kind](rng, s))
    op = table if s.op == Op.ECALL else s.op.name
    columns = case.refill(execution, case.guest.private_input)
    if kind == "result" and rng.random() < 0.5:
        moved(rng, case, columns, table, s.ts)
        kind = "moved result"
    return Fault(case, "run", kind, table, op, columns, execution.output)


def moved(rng: random.Random, case: Case, columns: Columns, table: str, ts: int) -> None:
    """The lie in the row of time ``ts`` moves to other cells: filling chose one of several that could tell it."""
    for slot in instances(columns, table):
        for row in np.flatnonzero(columns[slot][names_of(slot).index("ts")] == ts).tolist():
            repaired(rng, case, slot, columns[slot], row)


def state_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """Between two instructions a register (REG), a dword of memory (FIN) or the pointer of a commit (CBYTE) changes."""
    log = case.execution.log
    assert log is not None
    at = int(rng.choice(log.ts.tolist()))
    if table == "REG":
        r, bit = rng.randrange(33), rng.randrange(64)

        def act(run: _Run) -> None:
            run.registers.x[r] = int(run.registers.x[r]) ^ 1 << bit
    elif table == "FIN":
        k = rng.randrange(len(log.memory.h))
        address = int(log.memory.h[k]) << 32 | int(log.memory.w[k]) << 3
        if rng.random() < 0.5:  # what is committed at the end
            address, at = RESULT + rng.randrange(96), int(log.commits.ts[-2])
        flip = rng.randrange(1, 256) << 8 * rng.randrange(8)

        def act(run: _Run) -> None:
            run.memory.data[place(run, address)] = int(run.memory.data[place(run, address)]) ^ flip
    else:
        at, by = int(rng.choice(log.bytes.ts.tolist())), rng.choice([1, -1, 8, 32, rng.randrange(2, 100)])

        def act(run: _Run) -> None:
            run.state[core.POINTER] = int(run.state[core.POINTER]) + by

    execution = run_with(case, [(at, act)])
    kind = {"REG": "register", "FIN": "memory cell"}.get(table, "pointer")
    return Fault(case, "run", kind, table, table, case.refill(execution, case.guest.private_input), execution.output)


def halt_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """Another call becomes a halt with exit code 0, so that the run ends early, with less output."""
    log = case.execution.log
    assert log is not None
    calls = np.flatnonzero(case.image.rom.op[log.ix] == np.uint64(Op.ECALL))[:-1]
    at = int(log.ts[rng.choice(calls.tolist())])
    execution = run_with(case, [(at, set_register(17, 93)), (at, set_register(10, 0))])
    return Fault(case, "run", "early halt", table, table, case.refill(execution, case.guest.private_input),
                 execution.output)


def world_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """The run of another program (ROM), on other data (IMAGE), or on other input than the tables say (INPUT)."""
    g, data = case.guest, case.guest.private_input
    if table == "INPUT":
        cut = rng.choice([0, 0, 1, rng.randrange(len(data) or 1)])
        at = rng.randrange(min(len(data), 24) or 1)
        data = bytes(b ^ (k == at) * rng.randrange(1, 256) for k, b in enumerate(data))[:len(data) - cut] or b"more"
        program = case.program
    elif table == "IMAGE":
        at = rng.randrange(len(g.data))
        changed = bytes(b ^ (k == at) * rng.randrange(1, 256) for k, b in enumerate(g.data))
        program = Program.from_elf(replace(g, data=changed).elf)
    else:
        k = index_of(int(rng.choice(case.image.rom.pc.tolist())))
        word = g.words[k] ^ 1 << rng.randrange(7, 32) if rng.random() < 0.7 else rng.choice(g.words)
        program = Program.from_elf(g.with_word(k, word).elf)
    try:
        execution = execute(program.image, data, 2 * case.execution.cycles)
    except ExecutionError as e:
        raise NoFault from e
    columns = case.refill(execution, g.private_input)
    columns[slot_of("ROM")] = case.columns[slot_of("ROM")]  # counted by settling
    kind = {"ROM": "other instruction", "IMAGE": "other data", "INPUT": "other input"}[table]
    return Fault(case, "run", kind, table, table, columns, execution.output)


def keccak_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """A round yields a wrong state; the rounds after it, the call's result and the run go on with that."""
    log = case.execution.log
    assert log is not None
    if not len(log.keccaks.ts):
        raise NoFault
    k, wrong = rng.randrange(len(log.keccaks.ts)), rng.randrange(1, ROUNDS + 1)
    states = [tuple(log.keccaks.state[k:k + 1, j] for j in range(25))]
    for r in range(ROUNDS):
        states.append(_round(states[-1], r))
        if r + 1 == wrong:
            lanes = list(states[-1])
            lanes[rng.randrange(25)] ^= np.uint64(1 << rng.randrange(64))
            states[-1] = tuple(lanes)
    after = b"".join(int(x[0]).to_bytes(8, "little") for x in states[-1])
    execution = run_with(case, [(int(log.keccaks.ts[k]) + 4, poke(int(log.keccaks.address[k]), after))])
    columns = case.refill(execution, case.guest.private_input)
    call, rounds = slot_of("KCALL"), slot_of("KROUND")
    b = names_of(call).index("b.0")
    columns[call][b:b + 50, k] = [int(x[0]) for lane in states[-1] for x in limbs32(lane)]
    chip = machine().tables[machine().index("KROUND")]
    state = np.stack([np.concatenate(s) for s in states[:ROUNDS]])
    rows = Rows(id=np.full(ROUNDS, log.keccaks.ts[k]), r=np.arange(ROUNDS), state=state)
    at = slice(ROUNDS * k, ROUNDS * (k + 1))
    columns[rounds][:, at] = chip.witness(rows, ROUNDS)
    if rng.random() < 0.5 or wrong == ROUNDS:  # the wrong round says so itself, instead of the next one
        out = names_of(rounds).index("out.0")
        columns[rounds][out:out + 50, ROUNDS * k + wrong - 1] = [int(x[0]) for v in states[wrong] for x in limbs32(v)]
    return Fault(case, "run", "round", table, table, columns, execution.output)


# ---------------------------------------------------------------- cells and rows


def instances(columns: Columns, table: str) -> list[int]:
    """Slots of a table that are there and have main columns."""
    k = machine().index(table)
    return [s for s, main in columns.items() if machine().slots[s][0] == k and len(main)]


def a_slot(rng: random.Random, case: Case, table: str) -> int:
    if not (slots := instances(case.columns, table)):
        raise NoFault
    return rng.choice(slots)


def used_rows(slot: int, main: Any) -> Any:
    """Which rows are in use: by a selector, in FIN by ``act``, in REG by number, and where a count is set."""
    table = machine().tables[machine().slots[slot][0]]
    if table.name == "REG":
        return np.arange(main.shape[1]) < REGISTERS
    names = names_of(slot)
    on = [names.index(c.name) for c in table.declared if c.kind == "selector"] or [
        names.index(x) for x in ("act", "m") if x in names] or list(range(len(main)))
    return main[on].any(axis=0)


def selector_of(slot: int, main: Any, row: int) -> str:
    """The operation that a row proves, or the table's name."""
    table = machine().tables[machine().slots[slot][0]]
    names = names_of(slot)
    for c in table.declared:
        if c.kind == "selector" and main[names.index(c.name)][row] == 1 and table.name not in CALL_TABLES:
            return Op(c.extra["op"]).name if c.extra["op"] else table.name
    return table.name


def kind_of_cell(slot: int, column: int, used: bool) -> str:
    table = machine().tables[machine().slots[slot][0]]
    kind, name = table.layout.kinds[table.layout.fixed_count + column], names_of(slot)[column].split(".")[0]
    if kind in ("selector", "free"):
        return {"selector": "selector", "free": "multiplicity"}[kind]
    if not used:
        return "padding"
    if name in ("pc", "pcn") or name in TIMES:
        return "pc" if name in ("pc", "pcn") else "timestamp"
    return {"bit": "carry or bit", "sign": "carry or bit", "rom": "instruction field", "token": "value",
            "derived": "derived"}.get(kind, "limb")


def repaired_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """One cell of a table; constraints that break are solved for other cells of the row."""
    return cell_fault(rng, case, table, repair=True)


def cell_fault(rng: random.Random, case: Case, table: str, repair: bool = False) -> Fault:
    """One cell of a table."""
    slot = a_slot(rng, case, table)
    main = case.columns[slot].copy()
    in_use = used_rows(slot, main)
    pad = not in_use.all() and rng.random() < 0.15
    row = int(rng.choice(np.flatnonzero(~in_use if pad else in_use).tolist()))
    column = rng.randrange(len(main))
    old = int(main[column, row])
    new = rng.choice([old + 1, old - 1, old ^ 1, old ^ 1 << rng.randrange(32), 0, 1, rng.randrange(P), old + 2**32,
                      old + 2**16, int(main[column, rng.randrange(main.shape[1])]), old * pow(2, -1, P), 1 - old]) % P
    if new == old:
        raise NoFault
    op = selector_of(slot, main, row)
    main[column, row] = new
    if repair:
        repaired(rng, case, slot, main, row, column)
    columns = case.columns | {slot: main}
    return Fault(case, "repaired" if repair else "cell", kind_of_cell(slot, column, not pad), table, op, columns,
                 case.output, frozenset({(slot, column, row)}))


def repaired(rng: random.Random, case: Case, slot: int, main: Any, row: int, keep: int = -1) -> None:
    """Solve constraints that the row breaks for columns in which they are linear, up to four times; derived columns
    rather than others, which more rows know of."""
    table, lay = lowered(slot), machine().tables[machine().slots[slot][0]].layout
    exprs, height = dict(lay.constraints), main.shape[1]
    for _ in range(4):
        values, following = case.row(slot, main, row), case.row(slot, main, row + 1)
        ends = row == 0, row == height - 1
        broken = table.broken(values, following, *ends)
        if not broken:
            return
        name = rng.choice(broken)
        zero = table.program.zeros[table.program.constraint_names.index(name)]
        choice = sorted(c for c, after in exprs[name].columns() if not after and c != keep + lay.fixed_count)
        derived = [c for c in choice if lay.kinds[c] == "derived"]
        if not choice:
            return
        c = rng.choice(derived if derived and rng.random() < 0.7 else choice)

        def at(x: int, c: int = c, zero: int = zero, values: list[int] = values, following: list[int] = following,
               ends: tuple[bool, bool] = ends) -> int:
            return table.slots([*values[:c], x, *values[c + 1:]], following, *ends)[zero]

        v0, v1, v2 = at(0), at(1), at(2)
        if (v1 - v0) % P and (v2 - 2 * v1 + v0) % P == 0:
            main[c - lay.fixed_count, row] = -v0 * pow(v1 - v0, -1, P) % P


def row_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """A row dropped, repeated in the padding, or under another selector."""
    slot = a_slot(rng, case, table)
    if table in ("ROM", "REG", "LUT", "POW", "KRC"):
        raise NoFault
    main, names = case.columns[slot].copy(), names_of(slot)
    in_use = used_rows(slot, main)
    row = int(rng.choice(np.flatnonzero(in_use).tolist()))
    op = selector_of(slot, main, row)
    kind = rng.choice(["dropped", "repeated", "selector"])
    if kind == "dropped":
        main[:, row] = 0
    elif kind == "repeated":
        if in_use.all():
            raise NoFault
        main[:, int(rng.choice(np.flatnonzero(~in_use).tolist()))] = main[:, row]
    else:
        chip = machine().tables[machine().slots[slot][0]]
        selectors = [names.index(c.name) for c in chip.declared if c.kind == "selector"]
        other = [c for c in selectors if not main[c, row]]
        if not other:
            raise NoFault
        main[selectors, row], main[rng.choice(other), row] = 0, 1
    return Fault(case, "row", kind, table, op, case.columns | {slot: main}, case.output)


def output_fault(rng: random.Random, case: Case, table: str) -> Fault:
    """A false output on purpose, and CBYTE that says the same as deeply as it can."""
    kind = rng.choice(["claim", "byte", "byte in memory", "offset", "index", "more", "fewer"])
    output, flip = bytearray(case.output), rng.randrange(1, 256)
    k = len(output) - 1 if kind == "fewer" else rng.randrange(len(output))
    at = {n: c for c, n in enumerate(names_of(slot_of("CBYTE")))}
    slot = next(s for s in instances(case.columns, "CBYTE")
                if k in case.columns[s][at["idx"], case.columns[s][at["byt"]] == 1])
    main = case.columns[slot].copy()
    row = int(np.flatnonzero((main[at["byt"]] == 1) & (main[at["idx"]] == k))[0])
    e = [int(main[at[f"e.{j}"], row]) for j in range(8)].index(1)
    if kind in ("claim", "byte", "byte in memory"):
        output[k] ^= flip
        if kind != "claim":
            main[at["ob"], row] = output[k]
        if kind == "byte in memory":
            main[at[f"v.{e}"], row] = output[k]
    elif kind == "offset":
        j = rng.randrange(8)
        main[at[f"e.{e}"], row], main[at[f"e.{j}"], row] = 0, 1
        main[at["ob"], row] = output[k] = int(main[at[f"v.{j}"], row])
    elif kind == "index":
        other = int(rng.choice(np.flatnonzero(main[at["byt"]] == 1).tolist()))
        j = int(main[at["idx"], other])
        output[k], output[j] = output[j], output[k]
        main[at["idx"], [row, other]] = main[at["idx"], [other, row]]
    elif kind == "more":
        free = np.flatnonzero(~used_rows(slot, main))
        if not len(free):
            raise NoFault
        main[:, free[0]] = main[:, row]
        main[at["idx"], free[0]] = len(output)
        output.append(int(main[at["ob"], row]))
    else:
        main[:, row] = 0
        output.pop()
    if bytes(output) == case.output:
        raise NoFault
    return Fault(case, "output", kind, table, table, case.columns | {slot: main}, bytes(output))


# ---------------------------------------------------------------- a fault for a table


@cache
def case_of(kind: str, seed: int) -> Case:
    """An honest case, whose output the independent machine confirms."""
    case = Case(guest(kind, seed))
    assert is_true(case, case.columns, case.output)
    return case


GUESTS = {"INPUT": ("input",), "KCALL": ("keccak",), "KROUND": ("keccak",), "KRC": ("keccak",),
          "REFRESH": ("split", "rest")}
Maker = Callable[[random.Random, Case, str], Fault]
RUNS: dict[str, Maker] = {
    "REG": state_fault, "FIN": state_fault, "CBYTE": state_fault, "ROM": world_fault, "IMAGE": world_fault,
    "INPUT": world_fault, "HALT": halt_fault, "KROUND": keccak_fault, "KCALL": keccak_fault,
}


def makers(table: str) -> list[tuple[Maker, int]]:
    """Ways to make a fault of a table, with weights."""
    out: list[tuple[Maker, int]] = [(RUNS[table], 4)] if table in RUNS else []
    if table in set(Table):
        out.append((instruction_fault, 8))
    if table == "CBYTE":
        out.append((output_fault, 4))
    if table not in ("ROM", "IMAGE", "REG", "LUT", "POW", "KRC"):
        out.append((row_fault, 1))
    if lowered(slot_of(table)).program.zeros and table != "KROUND":  # which takes long to solve
        out.append((repaired_fault, 3))
    return [*out, (cell_fault, 4)] if table != "IMAGE" else out


def draw(seed: int, table: str, index: int, guests: int) -> Fault:
    """Fault number ``index`` of a table, in one of ``guests`` guests of each kind; or :class:`NoFault`."""
    rng = random.Random(f"{seed} {table} {index}")
    case = case_of(rng.choice(GUESTS.get(table, ("plain", "plain", "input"))), rng.randrange(guests))
    ways, weights = zip(*makers(table), strict=True)
    maker: Maker = rng.choices(ways, weights)[0]
    return maker(rng, case, table)


def tables() -> list[str]:
    return [t.name for t in machine().tables]


# ---------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Judgement:
    """``verdict``: "refused", "undone" (settling made it honest again), "harmless", "unexplained" or "miss"."""

    verdict: str
    reasons: frozenset[str] = frozenset()
    why: str = ""


def judge(fault: Fault) -> tuple[Judgement, Difference]:
    d = Difference.of(fault.case, fault.columns, fault.output)
    d.settle(fault.keep)
    if reasons := d.reasons():
        return Judgement("refused", frozenset(reasons)), d
    settled = d.settled()
    if fault.output == fault.case.output and same(settled, fault.case.columns):
        return Judgement("undone"), d
    if not is_true(fault.case, settled, fault.output):
        return Judgement("miss"), d
    why = explain(fault, d)
    return Judgement("harmless" if why else "unexplained", why=why or cells(fault, settled)), d


def same(a: Columns, b: Columns) -> bool:
    return a.keys() == b.keys() and all(a[k] is b[k] or np.array_equal(a[k], b[k]) for k in a)


def changed(case: Case, settled: Columns) -> list[tuple[int, int, int, bool]]:
    """Cells that differ from the honest tables: slot, column, row, and whether the row was or is in use; with column
    -1 for a table of another height."""
    out = []
    for slot, main in settled.items():
        old = case.columns.get(slot)
        if old is None or old.shape != main.shape:
            out.append((slot, -1, 0, True))
        elif old is not main:
            used = used_rows(slot, old) | used_rows(slot, main)
            out += [(slot, int(c), int(r), bool(used[r])) for c, r in zip(*np.nonzero(old != main), strict=True)]
    return out


def cells(fault: Fault, settled: Columns) -> str:
    """Which columns differ, for a report."""
    names = {f"{lowered(slot).name}.{names_of(slot)[c] if c >= 0 else 'height'}{'' if used else ' (padding)'}"
             for slot, c, _, used in changed(fault.case, settled)}
    return f"{fault.op} {fault.level} {fault.kind}: {', '.join(sorted(names))}"


def input_of(columns: Columns) -> bytes:
    """The private input that INPUT holds."""
    slot = slot_of("INPUT")
    main, names = columns[slot], names_of(slot)
    v = main[[names.index(f"v.{j}") for j in range(8)]].T
    k = main[[names.index(f"k.{j}") for j in range(8)]].T
    return bytes(int(x) for x in v[k == 1])[4:]


def is_true(case: Case, columns: Columns, output: bytes) -> bool:
    """Does the program with the input of this witness halt with this output, on the independent machine?"""
    try:
        run = run_elf(case.guest.elf, input_of(columns))
    except Exception:  # it traps or does not halt
        return False
    return run.exit_code == 0 and run.output == output


class Free(NamedTuple):
    """Columns that a row in use leaves open when ``when`` holds of its cells; nothing that is sent depends on them."""

    table: str
    columns: tuple[str, ...]  # names, without the numbers of limbs
    when: Callable[[dict[str, int]], bool]
    why: str


SECOND = ("tm.1", "dm.1", "yy", *(f"v.{k}" for k in range(8, 16)))
FREE = (
    Free("SLT", ("xa", "xb"), lambda c: c["sltu"] == 1, "halves of the limbs with the signs, where there are no signs"),
    Free("LW", ("x1",), lambda c: c["lwu"] == 1, "upper half of the word, where it has no sign"),
    Free("SHR", ("xl", "xh"), lambda c: c["sra"] == 0, "halves of the limb with the sign, where the shift has none"),
    Free("BEQ", ("inv",), lambda c: c["eq"] == 1, "inverse of the difference 0"),
    Free("DIVREM", ("ca",), lambda c: c["sa"] == 0, "carry of a negation that is not made"),
    Free("DIVREM", ("cb",), lambda c: c["sb"] == 0, "carry of a negation that is not made"),
    Free("DIVREM", ("v0", "v1"), lambda c: c["n"] == 0, "carry of a negation that is not made"),
    Free("DIVREM", ("e",), lambda c: c["bz"] == 1, "comparison of the remainder with a divisor 0"),
    Free("MLOAD", SECOND, lambda c: c["c2"] == 0, "second dword, where it is not accessed"),
    Free("MSTORE", (*SECOND, "n.2", "n.3"), lambda c: c["c2"] == 0, "second dword, where it is not accessed"),
    Free("CBYTE", ("w", "tm", "dm", *(f"v.{k}" for k in range(8))), lambda c: c["end"] == 1,
         "the dword of a byte, in the row that ends a commit"),
)
OTHER_WITNESSES = {
    "padding": "cells of rows without selector: the row sends nothing, and its constraints hold",
    "equal rows": "KRC repeats round 0 in its spare rows, and the counts of equal rows add up",
    "other input": "bytes of the private input that the program does not read, and their last values in FIN",
    "listed dword": "FIN may list a dword that nothing accesses: it starts and ends as zero",
}


def explain(fault: Fault, d: Difference) -> str:
    """Why an accepted fault is harmless: names from FREE and OTHER_WITNESSES, or "" if they do not explain it."""
    settled, reasons = d.settled(), set()
    for slot, column, row, used in changed(fault.case, settled):
        table = lowered(slot).name
        name = names_of(slot)[column] if column >= 0 else "height"
        cell = dict(zip(names_of(slot), map(int, settled[slot][:, row]), strict=True))
        free = [f for f in FREE if f.table == table and name in f.columns and f.when(cell)]
        if kind_of_cell(slot, column, True) == "multiplicity":
            if (slot, column, row) in fault.keep:
                reasons.add("equal rows" if table == "KRC" else "")
        elif d.same_claims and (free or not used):
            reasons.add(f"{table}.{name.split('.')[0]}" if used else "padding")
        elif (table == "INPUT" and name.startswith("v.")) or (table == "FIN" and name.startswith("v.")):
            reasons.add("other input")
        elif table == "FIN" and name in ("act", "z") and cell["tf"] == cell["v.lo"] == cell["v.hi"] == 0:
            reasons.add("listed dword")
        else:
            return ""
    return "" if "" in reasons else ", ".join(sorted(reasons))
