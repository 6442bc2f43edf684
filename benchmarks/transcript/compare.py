"""What it costs to draw challenges by ChaCha20 rather than from the squeeze itself.

    python benchmarks/transcript/compare.py [--preset min --preset strong] [--program fib16|empty] [--statements 9]

Proves the same runs with each variant of the transcript, verifies each proof natively and on the machine, and prints a
table for each preset. All variants draw other challenges, so at a real preset their proofs open other rows, and
proof size and total cycles vary by chance; so each figure is the mean over several statements (private inputs that the
program doesn't read), with the spread of the totals. Cycles within the sampling functions do not vary like this.
Verify times are taken in turns, forwards and backwards. docs/transcript-comparison.md keeps a run and reads it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from prove import describe_machine
from variant import DIRECT, SEED, VARIANTS, Variant, VariantProof, guest

from tailbite import Program, Proof
from tailbite.lang import function, riscv
from tailbite.program import Run
from tailbite.vm.machine import machine
from tailbite.vm.ops import TABLES_OF_OP

GUEST_COMMITS, HALTS = 3, 1  # ECALLs of the recursion guest that are no Keccak call
SEED_CLAIM = "the seed's claim: 43,608,950 to 41,974,211 guest cycles (-3.75 %), 3025 Keccak calls in both"


@function
def nothing() -> None:
    """The least program."""
    return


PROGRAMS: dict[str, Callable[[], Program]] = {
    "empty": lambda: Program.from_elf(riscv.link(nothing)),
    "fib16": lambda: Program.from_elf(Path(__file__).parents[1] / "guests" / "fib_loop_16.elf"),
}


@dataclass(frozen=True)
class Cost:
    """One proof and its verification on the machine. ``proof`` in bytes; ``cells`` of the rows that a proof needs."""

    cycles: int
    sampling: int
    keccak: int
    squeezes: int
    cells: int
    proof: int


def cost(variant: Variant, proof: VariantProof, params: str) -> Cost:
    """Verify on the machine, and count."""
    run = guest(variant, params).run(proof.guest_input)
    names = {f.name for f in variant.functions}
    sampling = sum(n for name, n in run.profile() if name in names)
    keccak = run.counts["ECALL"] - GUEST_COMMITS - HALTS
    return Cost(run.cycles, sampling, keccak, calls(run, "squeeze"), cells(run, keccak), 8 * len(proof.words))


def calls(run: Run, name: str) -> int:
    """How often a function was entered."""
    image = run.program.image
    return sum(n for pc, n in zip(image.rom.pc.tolist(), run.execution.hits.tolist(), strict=True)
               if n and image.symbol_at(pc) == name)


def cells(run: Run, keccak: int) -> int:
    """Committed cells of the rows of a run, each operation in its usual table, heights not rounded up."""
    row = {p.name: p.main_count + 3 * p.pairs for p in machine().programs}
    rows = sum(n * row[TABLES_OF_OP[op][0].name] for op, n in run.execution.counts.items() if op.name != "ECALL")
    return rows + keccak * (row["KCALL"] + 24 * row["KROUND"])


def verify_times(proofs: dict[Variant, list[VariantProof]], params: str, rounds: int) -> dict[Variant, list[float]]:
    """Seconds of native verifications; each proof by each variant in turn, forwards then backwards."""
    times: dict[Variant, list[float]] = {v: [] for v in VARIANTS}
    for k in range(len(proofs[DIRECT])):
        for v in VARIANTS * 2:
            v.check(proofs[v][k], params)  # warm
        for v in (*VARIANTS, *reversed(VARIANTS)) * rounds:
            began = time.perf_counter()
            v.check(proofs[v][k], params)
            times[v].append(time.perf_counter() - began)
    return times


def compare(program: Program, name: str, params: str, statements: int, rounds: int) -> None:
    """Measure one preset and print its table."""
    proofs = {v: [v.prove(program, params, k.to_bytes(8, "little")) for k in range(statements)] for v in VARIANTS}
    costs = {v: [cost(v, p, params) for p in proofs[v]] for v in VARIANTS}
    times = verify_times(proofs, params, rounds)
    first = proofs[DIRECT][0]
    sound = Proof(first.words).soundness.total
    print(f"\n## {name} at {params} ({sound:g} proven bits): {first.draws(3)} elements, {first.draws(1)} indices; "
          f"mean of {statements} statements\n")
    print("| | " + " | ".join(v.title for v in VARIANTS) + " |")
    print("|---" * (1 + len(VARIANTS)) + "|")

    def line(title: str, of: Callable[[Variant], str]) -> None:
        print(f"| {title} | " + " | ".join(of(v) for v in VARIANTS) + " |")

    def mean(v: Variant, part: Callable[[Cost], float]) -> float:
        return statistics.fmean(part(c) for c in costs[v])

    def spread(v: Variant) -> str:
        return f"{min(c.cycles for c in costs[v]):,} to {max(c.cycles for c in costs[v]):,}"

    def change(v: Variant, part: Callable[[Cost], float]) -> str:
        return f"{mean(v, part) / mean(DIRECT, part) - 1:+.2%}" if v is not DIRECT else ""

    def saved(v: Variant) -> str:
        return f"{-saving(costs[DIRECT], costs[v])[1]:+.2%}" if v is not DIRECT else ""

    line("guest cycles", lambda v: f"{mean(v, lambda c: c.cycles):,.0f}")
    line("least to most", spread)
    line("against direct", lambda v: change(v, lambda c: c.cycles))
    line("cycles that draw challenges", lambda v: f"{mean(v, lambda c: c.sampling):,.0f}")
    line("their share", lambda v: f"{mean(v, lambda c: c.sampling) / mean(v, lambda c: c.cycles):.2%}")
    line("all cycles, if challenges were drawn directly instead", saved)
    line("Keccak calls", lambda v: f"{mean(v, lambda c: c.keccak):,.0f}")
    line("of these squeezes", lambda v: f"{mean(v, lambda c: c.squeezes):,.0f}")
    line("cells of all rows, millions", lambda v: f"{mean(v, lambda c: c.cells) / 1e6:,.1f}")
    line("native verification, median", lambda v: f"{1000 * statistics.median(times[v]):.2f} ms")
    line("against direct, median of pairs", lambda v: paired(times[v], times[DIRECT]) if v is not DIRECT else "")
    line("proof", lambda v: f"{mean(v, lambda c: c.proof) / 1024:.1f} KiB")
    read(costs[DIRECT], costs[SEED])


def paired(times: Sequence[float], base: Sequence[float]) -> str:
    """Median of the ratios of neighbouring measurements, as a change."""
    return f"{statistics.median(a / b for a, b in zip(times, base, strict=True)) - 1:+.1%}"


def saving(direct: Sequence[Cost], other: Sequence[Cost]) -> tuple[float, float]:
    """Cycles that direct squeezes save in the sampling functions, and their share of all, without chance elsewhere."""
    cycles = statistics.fmean(b.sampling - a.sampling for a, b in zip(direct, other, strict=True))
    return cycles, cycles / (statistics.fmean(a.cycles for a in direct) + cycles)


def read(direct: Sequence[Cost], seed: Sequence[Cost]) -> None:
    """The difference that the change of samplers makes, beside the seed's claim."""
    saved, share = saving(direct, seed)
    squeezes = statistics.fmean(b.squeezes - a.squeezes for a, b in zip(direct, seed, strict=True))
    print(f"\nFrom ChaCha20 as the seed had it to direct squeezes: -{saved:,.0f} cycles (-{share:.2%}), "
          f"{-squeezes:+,.0f} Keccak calls.\n({SEED_CLAIM}.)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", action="append", help="repeatable; min and strong unless given")
    parser.add_argument("--program", choices=PROGRAMS, default="fib16")
    parser.add_argument("--statements", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=5, help="of verify times, forwards and backwards, a statement")
    options = parser.parse_args()
    print("# ChaCha20 against direct squeeze\n")
    print(describe_machine())
    for params in options.preset or ["min", "strong"]:
        compare(PROGRAMS[options.program](), options.program, params, options.statements, options.rounds)


if __name__ == "__main__":
    main()
