"""The cost report: what a run takes, in exact counts that are the same on every machine.

``costs`` counts the run, ``table_costs`` the tables that prove it, ``CallTree`` (:mod:`.vm.calltree`) cycles by call
stack and phase. A profile is written as folded stacks (https://github.com/brendangregg/FlameGraph: frames, outermost
first, joined by ";", a space and a count) or for https://www.speedscope.app (its file-format-spec.ts), one sample a
cycle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .errors import ParameterError
from .program import Program
from .vm.calltree import CallTree
from .vm.executor import MAX_CYCLES, Execution, execute
from .vm.machine import machine
from .vm.trace import fill

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
QUOTIENT = "quotient"


def costs(e: Execution) -> dict[str, int]:
    """Counts of a run, under names that stay.

    A cycle is an instruction or a committed byte. ``unaligned``: loads and stores at an address that is not a multiple
    of their width; ``unaligned.crossing``: those of them that reach into a second dword.
    """
    calls = {f"calls.{kind.name.lower()}": n for kind, n in sorted(e.calls.items(), key=lambda kv: kv[0].name)}
    return {"cycles": e.cycles, "instructions": e.instructions, **calls, "committed_bytes": len(e.output),
            "unaligned": e.unaligned, "unaligned.crossing": e.crossing}


class TableCost(NamedTuple):
    """A table in a proof, all instances together: rows in use, rows with padding, committed base cells."""

    rows: int
    height: int
    cells: int


def table_costs(program: Program, private_input: bytes = b"", max_cycles: int = MAX_CYCLES) -> dict[str, TableCost]:
    """Cost of each table that takes part in a proof, in the machine's order, and of the quotients, which come last.

    Cells are field elements committed for the proof, before extension: main columns, and three for each LogUp and
    quotient column. They do not depend on the preset. Raises :class:`NotProvable`.
    """
    filled = fill(execute(program.image, private_input, max_cycles, True), program.image, private_input)
    system, out = machine(), dict[str, TableCost]()
    for slot, columns in filled.columns.items():
        p, height = system.programs[system.slots[slot][0]], columns.shape[1]
        before = out.get(p.name, TableCost(0, 0, 0))
        out[p.name] = TableCost(0, before.height + height, before.cells + (p.main_count + 3 * p.pairs) * height)
    out = {name: t._replace(rows=filled.rows.get(name, t.height)) for name, t in out.items()}
    heights = sum({columns.shape[1] for columns in filled.columns.values()})
    return out | {QUOTIENT: TableCost(heights, heights, 6 * heights)}


# ---------------------------------------------------------------- report


def report(e: Execution, counts: bool = True, phases: bool = False,
           tables: dict[str, TableCost] | None = None) -> tuple[dict[str, Any], list[str]]:
    """The parts asked for, as JSON values and as lines; phases need a profiled run."""
    values, lines = dict[str, Any](), list[str]()
    if counts:
        values["cost"] = costs(e)
        lines += cost_lines(values["cost"])
    if phases and e.tree is not None:
        by_phase = e.tree.by_phase()
        values["phases"] = {name: {"cycles": n, "keccak": k} for name, (n, k) in by_phase.items()}
        lines += phase_lines(by_phase)
    if tables is not None:
        values["tables"] = {name: t._asdict() for name, t in tables.items()}
        values["cells"] = sum(t.cells for t in tables.values())
        values["cells_per_cycle"] = round(values["cells"] / e.cycles, 2)
        lines += table_lines(tables, e.cycles)
    return values, lines


def cost_lines(counts: dict[str, int]) -> Iterator[str]:
    """A line for each count: its name and value."""
    for name, n in counts.items():
        yield f"{name:24}{n:14}"


def table_lines(tables: dict[str, TableCost], cycles: int) -> Iterator[str]:
    """Rows and cells of each table, then the totals."""
    for name, t in tables.items():
        if name != QUOTIENT:
            yield f"{f'rows.{name}':24}{t.rows:14}"
    for name, t in tables.items():
        yield f"{f'cells.{name}':24}{t.cells:14}"
    total = sum(t.cells for t in tables.values())
    yield f"{'cells':24}{total:14}"
    yield f"{'cells_per_cycle':24}{total / cycles:14.2f}"


def phase_lines(phases: dict[str, tuple[int, int]]) -> Iterator[str]:
    """Cycles of each phase, their share and its Keccak permutations."""
    total = sum(cycles for cycles, _ in phases.values())
    for name, (cycles, permutations) in phases.items():
        yield f"{f'phase.{name}':24}{cycles:14}{100 * cycles / total:8.2f} %{permutations:8} keccak"


# ---------------------------------------------------------------- profiles


def write_profile(tree: CallTree, path: str, name: str) -> None:
    """Write a profile; the suffix of ``path``, ``.folded`` or ``.speedscope.json``, is its format."""
    import json

    if profile_format(path) == "folded":
        text = "".join(f"{line}\n" for line in folded(tree))
    else:
        text = json.dumps(speedscope(tree, name)) + "\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def profile_format(path: str) -> str:
    """``folded`` or ``speedscope``; ParameterError for another suffix."""
    for suffix, kind in ((".folded", "folded"), (".speedscope.json", "speedscope")):
        if path.endswith(suffix):
            return kind
    raise ParameterError(f"a profile is a file *.folded or *.speedscope.json, not {path}")


def folded(tree: CallTree) -> list[str]:
    """One line for each call stack, sorted; the counts add up to the cycles of the run."""
    return [f"{';'.join(frames)} {n}" for frames, n in sorted(_by_stack(tree).items())]


def speedscope(tree: CallTree, name: str) -> dict[str, Any]:
    """The profile as speedscope reads it: every call stack once, weighted by its cycles."""
    stacks = _by_stack(tree)
    numbers = {f: k for k, f in enumerate(sorted({f for frames in stacks for f in frames}))}
    total = sum(stacks.values())
    profile = {"type": "sampled", "name": f"{name}: cycles", "unit": "none", "startValue": 0, "endValue": total,
               "samples": [[numbers[f] for f in frames] for frames in stacks], "weights": list(stacks.values())}
    return {"$schema": SPEEDSCOPE_SCHEMA, "shared": {"frames": [{"name": f} for f in numbers]}, "profiles": [profile],
            "name": name, "activeProfileIndex": 0, "exporter": "tailbite"}


def _by_stack(tree: CallTree) -> dict[tuple[str, ...], int]:
    """Cycles of each call stack over all phases; names may not contain what separates them in folded lines."""
    totals: dict[tuple[str, ...], int] = {}
    for stack in tree.stacks():
        frames = tuple(f.replace(";", ":").replace(" ", "_") for f in stack.functions)
        totals[frames] = totals.get(frames, 0) + stack.cycles
    return totals


__all__ = ["TableCost", "cost_lines", "costs", "folded", "phase_lines", "profile_format", "report", "speedscope",
           "table_costs", "table_lines", "write_profile"]
