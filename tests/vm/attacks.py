"""Whole runs to tamper with: filled tables that an attacker changes, and keeps consistent wherever that is possible.

A :class:`Sample` is a program with labels on some instructions; ``sample.honest()`` the filled tables of its run, of
which ``witness.copy()`` may be changed. :meth:`Witness.settle` then does what any attacker would: it lets REG and FIN
take the tokens that are left over, and counts lookups and executions anew. So what :meth:`Witness.reasons` still finds
is what truly stops the attack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from assembler import BASE, elf

from tailbite.air.check import Trace, check, tuples
from tailbite.air.table import Bus, Table
from tailbite.field import P
from tailbite.program import Program
from tailbite.proof import Proof, VerificationError, verify
from tailbite.stark.params import preset
from tailbite.stark.prove import prove as prove_words
from tailbite.vm.buses import AND, B2, KRC, MSB, POW, R16, RAM, REG, ROM
from tailbite.vm.chip import Rows
from tailbite.vm.executor import Execution, execute
from tailbite.vm.machine import machine, verifier_terms
from tailbite.vm.tables.krc import Krc
from tailbite.vm.tables.lut import Lut
from tailbite.vm.tables.pow import Pow
from tailbite.vm.trace import Filled, LogRows, fill

M32, M64 = 2**32 - 1, 2**64 - 1
FIELDS = ("pc", "op", "rd", "s1", "s2", "i0", "i1", "ts", "a", "b", "r", "o", "ta", "tb", "td", "m0", "m1", "tm0",
          "tm1")
TIMES = {"ts", "ta", "tb", "td", "tm", "tf", "t", "t10", "t11", "t12", "t17", "t33", "id"}
FAST = preset("fast")


class Part:
    """The main columns of one table instance, by name."""

    def __init__(self, table: Table, main: Any) -> None:
        self.table, self.main = table, main

    def __getitem__(self, label: str) -> Any:
        return self.main[self.table.column_index(label) - self.table.layout.fixed_count]

    def row(self, **where: int) -> int:
        """The first row in use with these values."""
        used = sum(self[c.name] for c in self.table.declared if c.kind == "selector") != 0
        for label, value in where.items():
            used = used & (self[label] == value)
        return int(np.flatnonzero(used)[0])

    def free_row(self) -> int:
        """The first row of padding."""
        used = sum(self[c.name] for c in self.table.declared if c.kind == "selector")
        return int(np.flatnonzero(used == 0)[0])

    def put(self, row: Any, **values: Any) -> None:
        """Change a row: a number, of a word a 64-bit number, of a list its items; of any sign, taken mod p.

        A single limb or item is named ``a__lo`` or ``r__0``.
        """
        shapes = {c.name: c.shape for c in self.table.declared}
        for name, value in values.items():
            if shapes.get(name) == "word":
                items = {f"{name}.lo": value & M32, f"{name}.hi": value >> 32}
            elif shapes.get(name) == "list":
                items = {f"{name}.{k}": x for k, x in enumerate(value)}
            else:
                items = {name.replace("__", "."): value}
            for label, x in items.items():
                self[label][row] = int(x) % P


class Witness:
    """Filled tables for a program and an output, true or not."""

    def __init__(self, sample: Sample, program: Program, execution: Execution, columns: dict[int, Any]) -> None:
        self.sample, self.program, self.execution, self.columns = sample, program, execution, columns
        self.output = execution.output

    def copy(self) -> Witness:
        return Witness(self.sample, self.program, self.execution, {k: c.copy() for k, c in self.columns.items()})

    # ------------------------------------------------------------ tables

    def slot(self, name: str) -> int:
        system = machine()
        return system.slots.index((system.index(name), 0))

    def __getitem__(self, name: str) -> Part:
        """The first instance of a table, of zeros if it was absent."""
        table = machine().tables[machine().index(name)]
        main = self.columns.setdefault(self.slot(name), np.zeros((table.layout.main_count, 32), np.uint64))
        self.columns = dict(sorted(self.columns.items()))
        return Part(table, main)

    def parts(self) -> list[Part]:
        system = machine()
        return [Part(system.tables[system.slots[s][0]], c) for s, c in self.columns.items()]

    # ------------------------------------------------------------ instructions

    def at(self, label: str) -> tuple[Part, int]:
        """Table and row that prove the instruction at ``label``."""
        pc = self.sample.labels[label]
        for part in self.parts():
            if "pc" in part.table.layout.columns and part.table.fixed_in == "" and (part["pc"] == pc).any():
                return part, part.row(pc=pc)
        raise KeyError(label)

    def ts(self, label: str) -> int:
        part, row = self.at(label)
        return int(part["ts"][row])

    def logged(self, label: str) -> dict[str, Any]:
        """What the run recorded of the instruction."""
        log, rom = self.execution.log, self.execution.rom
        assert log is not None
        rows = LogRows(log, rom, np.flatnonzero(rom.pc[log.ix] == self.sample.labels[label])[:1])
        return {k: getattr(rows, k) for k in FIELDS}

    def rewrite(self, label: str, table: str = "", **fields: int) -> tuple[Part, int]:
        """Fill the row anew as if the run had recorded other ``fields``, in another ``table`` if one is named."""
        part, row = self.at(label)
        rows = Rows(**self.logged(label) | {k: np.array([v & M64], np.uint64) for k, v in fields.items()})
        if table:
            part.main[:, row] = 0
            part = self[table]
            row = part.free_row()
        part.main[:, row] = part.table.witness(rows, 32)[:, 0]
        return part, row

    def drop(self, label: str) -> None:
        """Without this instruction."""
        part, row = self.at(label)
        part.main[:, row] = 0

    def shift(self, after: int, by: int) -> None:
        """All times beyond ``after`` change by ``by``."""
        for part in self.parts():
            for label in part.table.layout.columns[part.table.layout.fixed_count:]:
                if label.split(".")[0] in TIMES:
                    late = part[label] > after
                    part[label][late] = [(int(x) + by) % P for x in part[label][late]]

    def touch(self, add: Iterable[tuple[int, int, int]] = (), remove: Iterable[tuple[int, int]] = ()) -> None:
        """FIN with more keys (h, w, zero at first?) and fewer."""
        fin = self["FIN"]
        gone = set(remove)
        keys = [(h, w, z) for h, w, z, act in zip(*(map(int, fin[c]) for c in ("h", "w", "z", "act")), strict=True)
                if act and (h, w) not in gone]
        h, w, z = (np.array(c, np.uint64) for c in zip(*sorted([*keys, *add]), strict=True))
        rows = Rows(h=h, w=w, z=z, act=0 * h + 1, tf=0 * h, v=0 * h)
        self.columns[self.slot("FIN")] = fin.table.witness(rows, max(32, 1 << (len(h) - 1).bit_length()))

    # ------------------------------------------------------------ consistency

    def _traces(self) -> Any:
        return Filled(self.columns, {}).traces(self.program.image)

    def _left(self, bus: Bus) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
        """Messages on a bus that are sent and not received, final rows aside, by key: all fields before the time."""
        left: Counter[tuple[int, ...]] = Counter()
        for t in self._traces():
            for i in t.table.layout.interactions:
                final = t.table.name in ("REG", "FIN") and i.multiplicity.words()[-1] == P - 1
                if i.bus == bus and not final:
                    e, m = tuples(t, i)
                    for k in np.flatnonzero(m):
                        left[tuple(map(int, e[k]))] += int(m[k])
        by_key: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for message, count in sorted(left.items()):
            if count % P == 1:
                by_key.setdefault(message[:len(bus.fields) - 3], []).append(message[-3:])
        return by_key

    def settle(self) -> None:
        """Finals, executions and lookups as the other tables want them."""
        for bus, part in ((REG, self["REG"]), (RAM, self["FIN"])):
            left = self._left(bus)
            for row in range(part.main.shape[1]):
                key = (row,) if bus == REG else (int(part["h"][row]), int(part["w"][row]))
                if left.get(key) and (bus == REG or part["act"][row]):
                    t, lo, hi = left[key].pop()
                    part.put(row, tf=t, v__lo=lo, v__hi=hi)
        self._count_executions()
        for (name, label), counts in lookups(self._traces()).items():
            if counts.any() or self.slot(name) in self.columns:
                self[name][label][:] = counts

    def _count_executions(self) -> None:
        rom = self.program.image.rom
        row_of = {tuple(map(int, r)): k for k, r in enumerate(zip(
            rom.pc, rom.op, rom.rd, rom.s1, rom.s2, rom.i0, rom.i1, strict=True))}
        self["ROM"]["m"][:] = 0
        for t in self._traces():
            for i in t.table.layout.interactions:
                if i.bus == ROM and not i.lookup_table:
                    e, m = tuples(t, i)
                    for k in np.flatnonzero(m):
                        if (row := row_of.get(tuple(map(int, e[k])))) is not None:
                            self["ROM"].put(row, m=int(self["ROM"]["m"][row]) - int(m[k]))

    # ------------------------------------------------------------ verdicts

    def reasons(self) -> set[str]:
        """Constraints ("TABLE.name") and buses that fail."""
        terms = verifier_terms(self.program.image.entry, self.output)
        return {f.name.split()[1] if f.name.startswith("bus ") else f"{f.table}.{f.name}"
                for f in check(self._traces(), (), terms)}

    def proof(self) -> Any:
        """Words of the proof that an honest prover makes of these tables."""
        keyed, fixed, key = self.program.keyed(FAST)
        return prove_words(keyed, key, fixed, self.output, self.columns)[0]

    def verdict(self) -> str:
        """"" if the proof is accepted, else the category of the error."""
        return verdict(self.proof(), self.program)


OFFERS = {AND: (Lut, "m_and"), B2: (Lut, "m_b2"), R16: (Lut, "m_r16"), MSB: (Lut, "m_msb"), POW: (Pow, "m"),
          KRC: (Krc, "m")}


def lookups(traces: Iterable[Trace]) -> dict[tuple[str, str], Any]:
    """How often the rows of each lookup table are asked for, by table and column; fractions of requests add up."""
    out = {}
    for bus, (table, label) in OFFERS.items():
        counts = [0] * table.fixed_columns().shape[1]
        for t in traces:
            for i in t.table.layout.interactions:
                if i.bus == bus and not i.lookup_table:
                    e, m = tuples(t, i)
                    for row, request in zip(table.row_of(bus, e.T), m, strict=True):
                        if row >= 0:
                            counts[row] -= int(request)
        out[table.name, label] = np.array([c % P for c in counts], np.uint64)
    return out


def verdict(words: Any, program: Program | bytes) -> str:
    """"" if the proof is accepted, else the category of the error."""
    try:
        verify(Proof(words), program, allow_insecure=True)
    except VerificationError as e:
        return e.category
    return ""


class Sample:
    """A program: words, lists of words, and (label, words), one after another."""

    def __init__(self, *parts: Any, data: dict[int, bytes] | None = None, private_input: bytes = b"") -> None:
        self.words: list[int] = []
        self.labels: dict[str, int] = {}
        self.data, self.private_input = data or {}, private_input
        for part in parts:
            if isinstance(part, tuple):
                self.labels[part[0]] = BASE + 4 * len(self.words)
                part = part[1]
            self.words += [part] if isinstance(part, int) else part

    def program(self, **patch: int) -> Program:
        """The program, with other words at some labels."""
        words = list(self.words)
        for label, word in patch.items():
            words[(self.labels[label] - BASE) // 4] = word
        return Program.from_elf(elf(words, self.data))

    @cache  # noqa: B019
    def honest(self) -> Witness:
        """The run, checked and proved."""
        program = self.program()
        execution = execute(program.image, self.private_input)
        w = Witness(self, program, execution, fill(execution, program.image, self.private_input).columns)
        assert not w.reasons() and w.verdict() == ""
        return w


class Attack(NamedTuple):
    sample: Sample
    reasons: frozenset[str]
    tamper: Callable[[Witness], None]


class Attacks(dict[str, Attack]):
    """Attacks by name. A function that tampers with a witness is entered by a decorator."""

    def on(self, sample: Sample, *reasons: str) -> Callable[[Callable[[Witness], None]], Callable[[Witness], None]]:
        """Exactly ``reasons`` must be what stops the attack; with "..." there may be others."""
        def enter(tamper: Callable[[Witness], None]) -> Callable[[Witness], None]:
            self[tamper.__name__] = Attack(sample, frozenset(reasons), tamper)
            return tamper

        return enter

    def run(self, name: str) -> None:
        """The honest twin is accepted; the attack is found by the trace check, and its proof refused."""
        attack = self[name]
        w = attack.sample.honest().copy()
        attack.tamper(w)
        w.settle()
        found, expected = w.reasons(), attack.reasons - {"..."}
        assert expected <= found if "..." in attack.reasons else expected == found, found
        assert w.verdict() in ("constraints", "balance")


def limbs(x: int, count: int = 4, bits: int = 16) -> Sequence[int]:
    """Limbs of a number, lowest first."""
    return [x >> bits * k & (1 << bits) - 1 for k in range(count)]

