"""A table as data: the words that prover and verifier execute, and that its identity hashes.

Constraints become straight-line code over *slots*: columns of this row (preprocessed, then main), columns of the
following row, the two row selectors, public words, constants, then one new slot for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass

from .expr import ADD, COLUMN, CONST, FIRST, LAST, MUL, PUBLIC, SUB, Expr
from .table import Interaction, Table

OP_ADD, OP_SUB, OP_MUL = 0, 1, 2
_OPS = {ADD: OP_ADD, SUB: OP_SUB, MUL: OP_MUL}
FIXED_IN = {"": 0, "universal": 1, "program": 2}


@dataclass(frozen=True)
class Program:
    """The lowered form of one table.

    ``following``: indices of the main columns that are read in the following row. ``ops``: (kind, a, b) triples;
    operation i defines slot ``first_op + i``. ``zeros``: the slots that must vanish.
    """

    name: str
    fixed_in: int
    required: bool
    instances: int
    min_log: int
    max_log: int
    fixed_count: int
    main_count: int
    following: tuple[int, ...]
    publics: tuple[int, ...]
    constants: tuple[int, ...]
    ops: tuple[tuple[int, int, int], ...]
    zeros: tuple[int, ...]
    interactions: tuple[Interaction, ...]
    constraint_names: tuple[str, ...]
    column_names: tuple[str, ...]

    @property
    def column_count(self) -> int:
        return self.fixed_count + self.main_count

    @property
    def first_next(self) -> int:
        return self.column_count

    @property
    def first_selector(self) -> int:
        return self.first_next + len(self.following)

    @property
    def first_public(self) -> int:
        return self.first_selector + 2

    @property
    def first_constant(self) -> int:
        return self.first_public + len(self.publics)

    @property
    def first_op(self) -> int:
        return self.first_constant + len(self.constants)

    @property
    def slot_count(self) -> int:
        return self.first_op + len(self.ops)

    @property
    def uses_selectors(self) -> bool:
        low = self.first_selector
        return any(low <= s < low + 2 for _, a, b in self.ops for s in (a, b)) or any(
            low <= z < low + 2 for z in self.zeros)

    @property
    def pairs(self) -> int:
        """Number of LogUp extension columns: two interactions share one."""
        return (len(self.interactions) + 1) // 2

    @property
    def constraint_count(self) -> int:
        """Constraints in the random combination: those of the rules, then one for each LogUp column."""
        return len(self.zeros) + self.pairs

    def words(self) -> list[int]:
        """Canonical serialisation, as the verifier reads it; begins with its own length."""
        name = self.name.encode().ljust(16, b"\0")
        if len(name) != 16:
            raise ValueError(f"table name {self.name} is longer than 16 bytes")
        out = [int.from_bytes(name[:8], "little"), int.from_bytes(name[8:], "little"), self.fixed_in,
               int(self.required), self.instances, self.min_log, self.max_log, self.fixed_count, self.main_count]
        for xs in (self.following, self.publics, self.constants):
            out += [len(xs), *xs]
        out += [len(self.ops), *(x for op in self.ops for x in op), len(self.zeros), *self.zeros]
        out += [len(self.interactions), *(w for i in self.interactions for w in i.words())]
        return [len(out), *out]

    def names(self) -> bytes:
        """What the words leave out of a table's identity: names of columns, constraints and buses."""
        parts = [*self.column_names, "|", *self.constraint_names, "|",
                 *(f"{i.bus.name}({','.join(i.bus.fields)})" for i in self.interactions)]
        return "\n".join(parts).encode()


def compile_table(table: Table) -> Program:
    """Lower the rules of ``table``."""
    lay = table.layout
    outputs = [e for _, e in lay.constraints]
    order = _topological(outputs)
    follow = sorted({e.args[0] for e in order if e.kind == COLUMN and e.args[1]})
    publics = sorted({e.args[0] for e in order if e.kind == PUBLIC})
    constants = sorted({e.args[0] for e in order if e.kind == CONST})
    n = len(lay.columns)
    first_selector = n + len(follow)
    first_public = first_selector + 2
    first_constant = first_public + len(publics)
    first_op = first_constant + len(constants)
    slot: dict[int, int] = {}
    ops: list[tuple[int, int, int]] = []
    for e in order:
        if e.kind == COLUMN:
            slot[e.id] = n + follow.index(e.args[0]) if e.args[1] else e.args[0]
        elif e.kind in (FIRST, LAST):
            slot[e.id] = first_selector + (e.kind == LAST)
        elif e.kind == PUBLIC:
            slot[e.id] = first_public + publics.index(e.args[0])
        elif e.kind == CONST:
            slot[e.id] = first_constant + constants.index(e.args[0])
        else:
            slot[e.id] = first_op + len(ops)
            ops.append((_OPS[e.kind], slot[e.args[0].id], slot[e.args[1].id]))
    return Program(
        table.name, FIXED_IN[table.fixed_in], table.required, table.instances, table.min_log, table.max_log,
        lay.fixed_count, lay.main_count, tuple(follow), tuple(publics), tuple(constants), tuple(ops),
        tuple(slot[e.id] for e in outputs), tuple(lay.interactions),
        tuple(n for n, _ in lay.constraints), tuple(lay.columns))


def _topological(outputs: list[Expr]) -> list[Expr]:
    """All nodes under ``outputs``, arguments first, in a fixed order."""
    done: dict[int, Expr] = {}
    for root in outputs:
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            e, ready = stack.pop()
            if e.id in done:
                continue
            if ready or e.kind not in _OPS:
                done[e.id] = e
            else:
                stack.append((e, True))
                stack += [(a, False) for a in reversed(e.args)]
    return list(done.values())
