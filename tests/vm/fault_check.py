"""The trace check by differences: what a changed witness breaks, compared with an honest one that breaks nothing.

Rows that are equal in both satisfy their constraints, as long as the following row is equal too, and send and receive
the same. So it is enough to evaluate the constraints in the changed rows and in those before them, and to balance the
messages that changed: a bus balances if and only if (faulty messages) - (honest messages) does. The constraints are
evaluated from the compiled program of the table, which prover and verifier execute, in integers, and not from the
expression graph of ``air.check``; test_faults.py compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from attacks import Witness
from fault_guests import Guest

from tailbite.air.program import OP_ADD, OP_SUB, Program
from tailbite.air.table import Bus, Interaction
from tailbite.field import P
from tailbite.program import Program as Guarded
from tailbite.vm.buses import AND, B2, KRC, MSB, OUT, POW, R16, RAM, REG, ROM
from tailbite.vm.chip import Rows
from tailbite.vm.executor import Execution, execute
from tailbite.vm.machine import machine, program_columns
from tailbite.vm.tables.krc import Krc
from tailbite.vm.tables.lut import Lut
from tailbite.vm.tables.pow import Pow
from tailbite.vm.tables.refresh import Refresh
from tailbite.vm.trace import _dealt, _instances, _program_tables, fill

Message = tuple[Bus, tuple[int, ...]]
Columns = dict[int, Any]  # main columns by slot
Cell = tuple[int, int, int]  # slot, main column, row
OFFERS = {AND: (Lut, "m_and"), B2: (Lut, "m_b2"), R16: (Lut, "m_r16"), MSB: (Lut, "m_msb"), POW: (Pow, "m"),
          KRC: (Krc, "m")}


# ---------------------------------------------------------------- one row


class Lowered:
    """A compiled table, evaluated row by row in integers. A row is a list of its preprocessed and main columns."""

    def __init__(self, program: Program) -> None:
        self.program, self.name = program, program.name
        self.messages_of = [self._form(i) for i in program.interactions]

    @staticmethod
    def _form(i: Interaction) -> tuple[Bus, Any, list[Any]]:
        return i.bus, (i.multiplicity.constant, list(i.multiplicity.terms.items())), [
            (e.constant, list(e.terms.items())) for e in i.entries]

    def slots(self, row: list[int], following: list[int], first: bool, last: bool) -> list[int]:
        p = self.program
        s = [*row, *(following[c] for c in p.following), int(first), int(last), *p.constants]
        for kind, a, b in p.ops:
            x, y = s[a], s[b]
            s.append((x + y if kind == OP_ADD else x - y if kind == OP_SUB else x * y) % P)
        return s

    def broken(self, row: list[int], following: list[int], first: bool, last: bool) -> list[str]:
        """Constraints that do not vanish."""
        s = self.slots(row, following, first, last)
        return [n for n, z in zip(self.program.constraint_names, self.program.zeros, strict=True) if s[z]]

    def messages(self, row: list[int]) -> Iterator[tuple[Message, int]]:
        """What the row sends, and with a negative count receives."""
        for bus, (constant, terms), entries in self.messages_of:
            m = constant
            for c, w in terms:
                m += w * row[c]
            if m % P:
                yield (bus, tuple((c0 + sum(w * row[c] for c, w in ts)) % P for c0, ts in entries)), m % P


@cache
def lowered(slot: int) -> Lowered:
    return Lowered(machine().programs[machine().slots[slot][0]])


def slot_of(name: str, instance: int = 0) -> int:
    return machine().slots.index((machine().index(name), instance))


# ---------------------------------------------------------------- honest runs


class Case:
    """A guest, its honest run, and filled tables that were checked in full."""

    def __init__(self, guest: Guest) -> None:
        self.guest, self.program = guest, Guarded.from_elf(guest.elf)
        image = self.image = self.program.image
        self.execution = execute(image, guest.private_input)
        self.output = self.execution.output
        self.columns = fill(self.execution, image, guest.private_input).columns
        if guest.kind == "split":
            split_reads(self)
        self.fixed = {slot_of(machine().tables[k].name): c for k, c in program_columns(image).items()}
        self.fixed |= {slot_of(n): c for n, c in machine().universal.items()}
        self.rom_row = {tuple(map(int, c)): k for k, c in enumerate(self.fixed[slot_of("ROM")].T) if c[1]}
        assert not self.witness(self.columns, self.output).reasons()

    def witness(self, columns: Columns, output: bytes) -> Witness:
        """For the full check, proof and verification."""
        w = Witness(None, self.program, self.execution, dict(sorted(columns.items())))  # type: ignore[arg-type]
        w.output = output
        return w

    def row(self, slot: int, main: Any, k: int) -> list[int]:
        k %= main.shape[1]
        fixed = self.fixed.get(slot)
        return [*([] if fixed is None else fixed[:, k].tolist()), *main[:, k].tolist()]

    def refill(self, execution: Execution, private_input: bytes) -> Columns:
        """Tables of another run. Lookups are not counted: see :meth:`Difference.settle`."""
        log = execution.log
        assert log is not None
        columns: Columns = {}
        for name, rows in _dealt(execution, log, private_input):
            for slot, table, part, height in _instances(name, rows):
                columns[slot] = table.witness(part, height)
        _program_tables(columns, self.image)
        return columns | {s: self.columns[s] for s in map(slot_of, ("LUT", "POW", "KRC")) if s in self.columns}


def split_reads(case: Case) -> None:
    """REFRESH rows that no gap needs, a choice that the prover has: some reads of rs1 in ADDSUB and SLT."""
    taken: list[tuple[int, ...]] = []
    for name in ("ADDSUB", "SLT"):
        part = case.witness(case.columns, b"")[name]
        used = np.flatnonzero(sum(part[c.name] for c in part.table.declared if c.kind == "selector"))
        for row in used:
            ts, ta = int(part["ts"][row]), int(part["ta"][row])
            if ts - ta > 2:
                new = ta + 1 + (ts - ta) // 3
                value = int(part["a.lo"][row]) | int(part["a.hi"][row]) << 32
                taken.append((int(part["rs1"][row]), value, ta, new))
                part.put(row, ta=new)
    log = case.execution.log
    assert log is not None
    rows = Refresh.rows(log)
    more = np.array(taken, np.uint64).reshape(-1, 4).T
    rows = Rows(**{k: np.append(getattr(rows, k), v) for k, v in zip(("r", "value", "t", "new"), more, strict=True)})
    table = machine().tables[machine().index("REFRESH")]
    case.columns[slot_of("REFRESH")] = table.witness(rows, max(32, 1 << (len(rows) - 1).bit_length()))
    w = case.witness(case.columns, case.output)
    w.settle()
    case.columns = w.columns


# ---------------------------------------------------------------- differences


@dataclass
class Difference:
    """What is broken in ``columns`` with the claim ``output``, against the honest case."""

    case: Case
    columns: Columns
    output: bytes
    constraints: set[str] = field(default_factory=set)
    messages: Counter[Message] = field(default_factory=Counter)
    edits: dict[Cell, int] = field(default_factory=dict)  # what settling changed, not yet in the columns
    rows: list[tuple[int, int]] = field(default_factory=list)  # changed (slot, row)
    same_claims: bool = True  # do all changed rows send and receive the same but for range lookups?

    @classmethod
    def of(cls, case: Case, columns: Columns, output: bytes) -> Difference:
        d = cls(case, columns, output)
        for slot in sorted({*case.columns, *columns}):
            old, new = case.columns.get(slot), columns.get(slot)
            if old is not new:
                d._compare(slot, old, new)
        for sign, out in ((1, case.output), (-1, output)):
            if output != case.output:
                for i, b in enumerate(out):
                    d.messages[OUT, (i, b)] += sign
        return d

    def _compare(self, slot: int, old: Any, new: Any) -> None:
        table = lowered(slot)
        if old is not None and new is not None and old.shape == new.shape:
            before = after = np.flatnonzero((old != new).any(axis=0))
        else:
            before, after = (np.arange(0 if x is None else x.shape[1]) for x in (old, new))
        claims: list[Counter[Message]] = []
        for main, rows, sign in ((old, before, -1), (new, after, 1)):
            claim: Counter[Message] = Counter()
            for k in rows:
                for message, m in table.messages(self.case.row(slot, main, int(k))):
                    self.messages[message] += sign * m
                    if message[0] not in OFFERS:
                        claim[message] += m
            claims.append(claim)
        self.same_claims = self.same_claims and claims[0] == claims[1]
        self.rows += [(slot, int(k)) for k in after]
        if new is None or not table.program.zeros:
            return
        height = new.shape[1]
        to_check = set(map(int, after))
        if table.program.following:
            to_check |= {(k - 1) % height for k in to_check}
        for k in to_check:
            row, following = self.case.row(slot, new, k), self.case.row(slot, new, k + 1)
            self.constraints |= {f"{table.name}.{n}" for n in table.broken(row, following, k == 0, k == height - 1)}

    def left(self) -> dict[Message, int]:
        """Messages that do not balance, with their counts between -p/2 and p/2."""
        out = {}
        for message, m in self.messages.items():
            if m := m % P:
                out[message] = m - P if m > P // 2 else m
        return out

    def reasons(self) -> set[str]:
        """The same as ``Witness.reasons`` of the settled columns."""
        return self.constraints | {bus.name for bus, _ in self.left()}

    # ------------------------------------------------------------ settling

    def settle(self, keep: frozenset[Cell] = frozenset()) -> None:
        """What any attacker would do: final rows take the tokens left over, and counts are as asked for; but cells
        to ``keep`` are the fault itself."""
        for bus, name in ((REG, "REG"), (RAM, "FIN")):
            self._settle_finals(bus, slot_of(name), keep)
        for message, count in self.left().items():
            cell = self._count_of(message, keep)
            if cell is not None:
                self.edits[cell] = self.edits.get(cell, 0) - count
                self.messages[message] = 0

    def _settle_finals(self, bus: Bus, slot: int, keep: frozenset[Cell]) -> None:
        """A final row whose token is missing takes one that is left over, if the key is the same."""
        surplus: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        missing: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for (b, token), count in self.left().items():
            if b == bus and count in (1, -1):
                (surplus if count == 1 else missing).setdefault(token[:-3], []).append(token)
        main, program = self.columns[slot], lowered(slot).program
        if not surplus or not missing:
            return
        at = [program.column_names.index(x) - program.fixed_count for x in ("tf", "v.lo", "v.hi")]
        key_at = [0] if bus == REG else [program.column_names.index(x) for x in ("h", "w")]
        for key in surplus.keys() & missing.keys():
            rows = [key[0]] if bus == REG else np.flatnonzero((main[key_at[0]] == key[0]) & (main[key_at[1]] == key[1]))
            for row in map(int, rows[:1]):
                if row >= main.shape[1]:
                    continue
                final = (*key, *(int(main[c][row]) for c in at))
                if final in missing[key] and not any((slot, c, row) in keep for c in at):
                    token = max(surplus[key])
                    self.messages[bus, token] -= 1
                    self.messages[bus, final] += 1
                    for c, x in zip(at, token[-3:], strict=True):
                        self.edits[slot, c, row] = x - int(main[c][row])

    def _count_of(self, message: Message, keep: frozenset[Cell]) -> Cell | None:
        """The multiplicity of the row that offers a message of a lookup bus."""
        bus, entries = message
        if bus == ROM:
            row = self.case.rom_row.get(entries, -1)
            cell = slot_of("ROM"), 0, row
        elif bus in OFFERS:
            table, label = OFFERS[bus]
            row = int(table.row_of(bus, np.array([entries], np.uint64).T)[0])
            cell = slot_of(table.name), _column(table.name, label), row
        else:
            return None
        return None if row < 0 or cell in keep else cell

    def settled(self) -> Columns:
        """The columns with the edits made."""
        out = dict(self.columns)
        copied = set()
        for (slot, column, row), change in self.edits.items():
            if slot not in out:
                table = lowered(slot).program
                out[slot] = np.zeros((table.main_count, 1 << table.min_log), np.uint64)
                copied.add(slot)
            if slot not in copied:
                out[slot] = out[slot].copy()
                copied.add(slot)
            out[slot][column, row] = (int(out[slot][column, row]) + change) % P
        return out

    def witness(self) -> Witness:
        return self.case.witness(self.settled(), self.output)


@cache
def _column(name: str, label: str) -> int:
    program = lowered(slot_of(name)).program
    return program.column_names.index(label) - program.fixed_count


def names_of(slot: int) -> Sequence[str]:
    """Names of the main columns."""
    program = lowered(slot).program
    return program.column_names[program.fixed_count:]
