"""Tailbite beside its peers, in one run: ``python benchmarks/peers/peers.py [--pairs 6] [--log 19] [TASK ...]``.

Builds the peers with cargo (native SIMD on), then runs both sides alternately, A B B A, each run a process of its own
that proves three times; the figure of a run is the median of all but the first. Prints times, ratios with their
intervals, proof sizes, peak memory, and proven bits by the same calculator.

fibonacci  Plonky3: 16 pairs of Fibonacci sequences, the same columns and constraints on both sides
keccak     Plonky3's Keccak AIR against a Tailbite guest that makes as many calls: its proof covers a whole machine
loop       Miden VM: a Fibonacci loop of as many cycles on either machine

Same blowup, number of queries, proof of work and hash for Plonky3; but its challenges come from the quadratic
extension, as it has no cubic one for this field, which proves fewer bits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np

from tailbite.bench.pairs import Sample, check_pairs, interleave, measure
from tailbite.bench.statistics import compare, percent
from tailbite.field import P
from tailbite.program import default_threads
from tailbite.stark import soundness as calculator
from tailbite.stark.params import Params, preset

HERE = Path(__file__).parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
PROOFS = 3
PRESET = "standard"


def machine() -> str:
    """One line: CPU, threads, Python, commit; as the other benchmarks have it."""
    sys.path.insert(0, str(HERE.parent))
    from prove import describe_machine

    return describe_machine()


def build(peer: str) -> Path:
    """The peer's program. It is an error if it cannot be built."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "RUSTFLAGS": "-C target-cpu=native"}
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=HERE / peer, env=environment, check=True)
    return TARGET / "release" / f"tailbite-peer-{peer}"


def figures(command: list[str]) -> tuple[dict[str, float], Sample]:
    """Medians of a run, without its first proof, and what the process took."""
    sample = measure(command, environment={**os.environ, "RAYON_NUM_THREADS": str(default_threads())})
    lines = [json.loads(line) for line in sample.stdout.splitlines()][1:]
    return {k: statistics.median(line[k] for line in lines) for k in lines[0]}, sample


def peer_bits(shape: calculator.Shape, p: Params) -> float:
    """Proven bits of the peer's parameters over the quadratic extension: the best of both regimes and many gaps."""
    gaps = [Fraction(1, g) for g in (3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500, 1000)]
    candidates = [Params(p.number, p.name, p.log_blowup, p.num_queries, p.grinding_bits, regime, gap, 0, secure=True)
                  for regime, gap in [("unique", p.gap), *(("johnson", g) for g in gaps)]]
    best = 0.0
    with mock.patch.object(calculator, "FIELD", P**2):
        for c in candidates:
            try:
                best = max(best, calculator.soundness(c, shape).total)
            except calculator.ParameterError:
                continue
    return best


def versus(title: str, ours: list[str], theirs: list[str], pairs: int, their_bits: Callable[[], float] | None) -> None:
    """Run both and print the comparison."""
    print(f"\n{title}")
    commands = {"A": [sys.executable, str(HERE / "tailbite_task.py"), *ours], "B": theirs}
    runs = interleave(pairs, lambda k: figures(commands[k]),
                      lambda done, total: print(f"  {done} of {total}", end="\r", file=sys.stderr))
    for k, name in (("A", "Tailbite"), ("B", "peer")):
        got = [r[0] for r in runs[k]]
        bits = got[0].get("bits") or (their_bits() if their_bits else None)
        print(f"  {name:9} prove {1e3 * statistics.median(g['prove'] for g in got):8.0f} ms   "
              f"verify {1e3 * statistics.median(g['verify'] for g in got):6.1f} ms   "
              f"{got[0]['bytes'] / 1024:8.0f} KiB   peak {np.median([r[1].peak for r in runs[k]]) / 2**20:6.0f} MiB   "
              + (f"{bits:.1f} proven bits" if bits is not None else ""))
    s = compare([r[0]["prove"] for r in runs["A"]], [r[0]["prove"] for r in runs["B"]])
    print(f"  prove time, Tailbite / peer: {1 + s.mean:.3f} ({1 + s.mean_low:.3f} to {1 + s.mean_high:.3f}, 95 %), "
          f"median shift {percent(s.shift)}; variation {100 * s.variation_a:.1f} %, {100 * s.variation_b:.1f} %: {s}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=["fibonacci", "keccak", "loop"])
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--log", type=int, default=19, help="rows of fibonacci")
    parser.add_argument("--loop", type=int, choices=(16, 20), default=16, help="cycles of loop")
    options = parser.parse_args()
    pairs, params = check_pairs(options.pairs), preset(PRESET)
    print(machine())
    print(f"preset {PRESET}: blowup {1 << params.log_blowup}, {params.num_queries} queries, {params.grinding_bits} "
          f"bits of proof of work; {default_threads()} threads")
    fri = [str(x) for x in (params.log_blowup, params.num_queries, params.grinding_bits, PROOFS)]
    if "fibonacci" in options.tasks:
        shape = calculator.Shape((options.log,), 66, 80, 2)
        versus(f"16 Fibonacci pairs, 2^{options.log} rows, against Plonky3",
               ["fibonacci", str(options.log), PRESET, str(PROOFS)],
               [str(build("plonky3")), "fibonacci", str(options.log), *fri], pairs, lambda: peer_bits(shape, params))
    if "keccak" in options.tasks:
        shape = calculator.Shape((15,), 2633 + 2633 + 2, 3200, 3)
        versus("1365 Keccak-f permutations, against Plonky3's Keccak AIR", ["keccak", "15", PRESET, str(PROOFS)],
               [str(build("plonky3")), "keccak", "15", *fri], pairs, lambda: peer_bits(shape, params))
    if "loop" in options.tasks:
        versus(f"a Fibonacci loop of 2^{options.loop} cycles, against Miden VM (96 bits, conjectured)",
               ["loop", str(options.loop), PRESET, str(PROOFS)],
               [str(build("miden")), str(options.loop), str(PROOFS)], pairs, None)


if __name__ == "__main__":
    main()
