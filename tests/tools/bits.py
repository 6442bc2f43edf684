"""Proven bits of every preset at the smallest and largest shape, and at a Fibonacci loop of 2^20 cycles.

    python tests/tools/bits.py           prints the table of docs/soundness.md
    python tests/tools/bits.py --rounds  the loop's rounds at every secure preset

The smallest shape has the tables that every proof has, at their least heights, and no output. The largest is more than
any proof: every table at every height that occurs, each table's columns, all constraints at one height, longest output.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from pathlib import Path

from tailbite import Program
from tailbite.proof import MAX_OUTPUT_BYTES, shape_of
from tailbite.stark.params import MAX_LOG_HEIGHT, MIN_LOG_HEIGHT, PRESETS, Params
from tailbite.stark.soundness import Shape, soundness
from tailbite.vm.executor import execute
from tailbite.vm.machine import machine
from tailbite.vm.trace import fill

ELF = Path(__file__).parent.parent.parent / "benchmarks" / "guests" / "fib_loop_20.elf"


def live(logs: list[int], output_bytes: int) -> Shape:
    """The shape of a proof of the machine with these log heights."""
    return shape_of(machine().keyed(PRESETS[0]), tuple(logs), output_bytes)


def smallest() -> Shape:
    tables = [(machine().programs[k], instance) for k, instance in machine().slots]
    return live([p.min_log if instance == 0 and p.required else 0 for p, instance in tables], 0)


def largest() -> Shape:
    """An upper bound of every allowed shape, in each number."""
    full = live([machine().programs[k].max_log for k, _ in machine().slots], MAX_OUTPUT_BYTES)
    heights = tuple(range(MIN_LOG_HEIGHT, MAX_LOG_HEIGHT + 1))
    every = 2 * (len(heights) - len(set(full.log_heights)))  # a quotient for each height more
    constraints = sum(p.constraint_count * p.instances for p in machine().programs)
    return replace(full, log_heights=heights, batch_terms=full.batch_terms + every, constraints=constraints)


@functools.cache
def fibonacci() -> Shape:
    """The loop of benchmarks/prove.py."""
    image = Program.from_elf(ELF).image
    execution = execute(image, b"")
    columns = fill(execution, image, b"").columns
    heights = {}
    for slot, main in columns.items():
        k, _ = machine().slots[slot]
        p = machine().programs[k]
        heights[slot] = p.max_log if main is None else int(main.shape[1]).bit_length() - 1
    return live([heights.get(slot, 0) for slot in range(len(machine().slots))], len(execution.output))


def algebraic(params: Params, shape: Shape) -> str:
    """The weakest round besides the queries and the hash."""
    rounds = [r for r in soundness(params, shape).rounds if r.name not in ("queries", "hash collisions")]
    weakest = min(rounds, key=lambda r: r.bits)
    return f"{weakest.bits:.2f} {weakest.name}"


def table() -> str:
    """Bits by preset: all, and the weakest round that depends on the shape."""
    shapes = [smallest(), largest(), fibonacci()]
    lines = ["| preset | queries round | smallest shape | largest shape | Fibonacci 2^20 |", "|---|---|---|---|---|"]
    for params in PRESETS:
        queries = next(r.bits for r in soundness(params, shapes[0]).rounds if r.name == "queries")
        cells = [f"**{soundness(params, s).total:.2f}** ({algebraic(params, s)})" for s in shapes]
        lines.append(f"| `{params.name}` | {queries:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rounds() -> str:
    """The loop's rounds at the secure presets, whose schedules differ by the blowup."""
    lines = []
    for params in PRESETS:
        if params.secure:
            lines += [params.name, *(f"  {r.bits:7.2f}  {r.name}" for r in soundness(params, fibonacci()).rounds)]
    return "\n".join(lines)


if __name__ == "__main__":
    print(rounds() if "--rounds" in sys.argv else table())
    print(f"\nsmallest: {smallest()}\nlargest: {largest()}\nFibonacci 2^20: {fibonacci()}")
