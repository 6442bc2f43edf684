"""A set of tables with its buses, as the data that prover and verifier work from.

The *key* is the word form of everything that the verifier must know about the tables. ``vm_id`` is its digest with
the preset's values; ``program_id`` adds what is particular to one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..air.lint import lint
from ..air.program import Program, compile_table
from ..air.table import AirError, Bus, Table
from ..hash import merkle
from ..hash.keccak import keccak256
from .ntt import extension
from .params import MAX_LOG_HEIGHT, MIN_LOG_HEIGHT, Params

PROTOCOL_VERSION = 3
MAGIC = int.from_bytes(b"tailbite", "little")
KEY_HEADER = 10  # words before the first table
MAX_INSTANCES = 3


@dataclass(frozen=True)
class FixedTree:
    """Committed preprocessed columns: evaluations, their extensions and the tree, by table index."""

    columns: dict[int, Any]
    extended: dict[int, Any]
    tree: merkle.Tree | None
    log_heights: dict[int, int]

    @property
    def root(self) -> list[int]:
        """Root as 4 words, zeros if there is nothing to commit."""
        return self.tree.root if self.tree is not None else [0, 0, 0, 0]


def commit_fixed(columns: dict[int, Any], log_blowup: int, pool: Any = None) -> FixedTree:
    """Extend and commit preprocessed columns ``{table index: array (columns, height)}``."""
    extended: dict[int, Any] = {}
    heights: dict[int, list[Any]] = {}
    logs: dict[int, int] = {}
    for k, cols in sorted(columns.items()):
        logs[k] = int(cols.shape[1]).bit_length() - 1
        extended[k] = extend_columns(cols, log_blowup, pool)
        heights.setdefault(cols.shape[1] << log_blowup, []).extend(extended[k])
    tree = merkle.commit(heights, pool) if heights else None
    return FixedTree(columns, extended, tree, logs)


def extend_columns(columns: Any, log_blowup: int, pool: Any = None) -> Any:
    """Low-degree extension of each row of an array (columns, height) to the coset of the blown-up size."""
    count, n = columns.shape
    out = np.empty((count, n << log_blowup), dtype=np.uint64)
    ext = extension(n.bit_length() - 1, log_blowup)
    jobs = range(count)

    def one(c: int) -> None:
        ext.extend(columns[c], out[c])

    if pool is None or n < 1 << 10:
        for c in jobs:
            one(c)
    else:
        list(pool.map(one, jobs))
    return out


@dataclass
class System:
    """Tables in list order, and how the statement enters the buses.

    ``start_bus`` receives (entry, 4) from the verifier; ``output_bus`` gives it (i, byte i of the public output).
    ``universal`` holds the preprocessed columns of tables that are the same for all programs.
    """

    name: str
    tables: Sequence[Table]
    buses: Sequence[Bus]
    universal: dict[str, Any] = field(default_factory=dict)
    start_bus: Bus | None = None
    output_bus: Bus | None = None

    def __post_init__(self) -> None:
        lint(self.tables, self.buses)
        for p in self.programs:
            self._check_table(p)
        for bus in (self.start_bus, self.output_bus):
            if bus is not None and (bus not in self.buses or len(bus.fields) != 2):
                raise AirError(f"{self.name}: the verifier puts pairs on a registered bus, which {bus.name} is not")
        if self.output_bus is not None and self.public_words:
            raise AirError(f"{self.name}: the public output goes to a bus, so no constraint can read its words")

    def _check_table(self, p: Program) -> None:
        """What the verifier takes for granted about a table; raises :class:`AirError`."""
        if not MIN_LOG_HEIGHT <= p.min_log <= p.max_log <= MAX_LOG_HEIGHT:
            raise AirError(f"{p.name}: log heights {p.min_log} to {p.max_log} are not within "
                           f"{MIN_LOG_HEIGHT} to {MAX_LOG_HEIGHT}")
        if (p.fixed_in != 0) != (p.fixed_count != 0):
            raise AirError(f"{p.name}: preprocessed columns and their tree ('fixed_in') go together")
        if not 1 <= p.instances <= (1 if p.fixed_in else MAX_INSTANCES):
            raise AirError(f"{p.name}: {p.instances} instances; allowed are {MAX_INSTANCES}, or 1 with preprocessed "
                           f"columns")
        if any(c < p.fixed_count for c in p.following):
            raise AirError(f"{p.name}: a preprocessed column has no following row")
        given = np.shape(self.universal[p.name]) if p.name in self.universal else None
        if given != ((p.fixed_count, 1 << p.max_log) if p.fixed_in == 1 else None):
            raise AirError(f"{p.name}: universal columns of shape {given} for {p.fixed_count} of 2^{p.max_log} rows")
        if p.fixed_in == 1 and p.min_log != p.max_log:
            raise AirError(f"{p.name}: universal columns have one height, so min_log is max_log")

    @cached_property
    def programs(self) -> list[Program]:
        return [compile_table(t) for t in self.tables]

    @cached_property
    def slots(self) -> list[tuple[int, int]]:
        """(table index, instance) in the order of the table list of a proof."""
        return [(k, i) for k, p in enumerate(self.programs) for i in range(p.instances)]

    def index(self, name: str) -> int:
        """Position of the table named ``name``."""
        return next(k for k, p in enumerate(self.programs) if p.name == name)

    @property
    def public_words(self) -> int:
        """Words of the public output that constraints use."""
        return max((i + 1 for p in self.programs for i in p.publics), default=0)

    @property
    def program_tables(self) -> list[int]:
        """Tables whose preprocessed columns belong to the program."""
        return [k for k, p in enumerate(self.programs) if p.fixed_in == 2]

    def keyed(self, params: Params, pool: Any = None) -> Keyed:
        """The system under one preset; cached."""
        cache: dict[int, Keyed] = self.__dict__.setdefault("_keyed", {})
        if params.number not in cache:
            cache[params.number] = Keyed(self, params, pool)
        return cache[params.number]


class Keyed:
    """A system under one preset: universal commitment, key words and ``vm_id``."""

    def __init__(self, system: System, params: Params, pool: Any = None) -> None:
        self.system, self.params = system, params
        columns = {system.index(n): c for n, c in system.universal.items()}
        self.universal = commit_fixed(columns, params.log_blowup, pool)

    @cached_property
    def words(self) -> Any:
        """The key as words; see view.py for how they are read."""
        s = self.system
        out = [PROTOCOL_VERSION, len(s.programs), len(s.slots), s.start_bus.id if s.start_bus else 0,
               s.output_bus.id if s.output_bus else 0, s.public_words, *self.universal.root]
        assert len(out) == KEY_HEADER
        for p in s.programs:
            out += p.words()
        return np.array(out, dtype=np.uint64)

    @cached_property
    def params_words(self) -> Any:
        """What the verifier needs of the preset: log blowup, queries, grinding bits, preset number."""
        p = self.params
        return np.array([p.log_blowup, p.num_queries, p.grinding_bits, p.number], dtype=np.uint64)

    @cached_property
    def vm_id(self) -> bytes:
        """Identity of tables and preset, 32 bytes."""
        preset = np.array(self.params.words(), dtype="<u8").tobytes()
        names = "\0".join(f"{b.id}:{b.name}({','.join(b.fields)})" for b in self.system.buses).encode()
        parts = [self.system.name.encode(), preset, self.words.astype("<u8").tobytes(), names,
                 *(p.names() for p in self.system.programs)]
        body = b"".join(len(x).to_bytes(8, "little") + x for x in parts)
        return keccak256(b"tailbite vm id".ljust(16, b"\0") + PROTOCOL_VERSION.to_bytes(8, "little") + body)

    @cached_property
    def vm_words(self) -> Any:
        return np.frombuffer(self.vm_id, dtype="<u8").astype(np.uint64)


@dataclass(frozen=True)
class ProgramKey:
    """What identifies a program to the verifier: entry, heights and root of its preprocessed tables."""

    entry: int
    log_heights: tuple[int, ...]
    root: tuple[int, int, int, int]

    def words(self) -> list[int]:
        return [self.entry, *self.log_heights, *self.root]

    def id(self, keyed: Keyed) -> bytes:
        """``program_id``, 32 bytes."""
        body = np.array([PROGRAM_TAG, *map(int, keyed.vm_words), *self.words()], dtype="<u8").tobytes()
        return keccak256(body)


PROGRAM_TAG = int.from_bytes(b"tb prog\0", "little")


def program_key(keyed: Keyed, entry: int, fixed: FixedTree) -> ProgramKey:
    """Key of a program from its committed preprocessed tables; an absent table has log height 0."""
    logs = tuple(fixed.log_heights.get(k, 0) for k in keyed.system.program_tables)
    r = fixed.root
    return ProgramKey(entry, logs, (r[0], r[1], r[2], r[3]))
