"""What it costs to verify a proof inside the machine: ``python benchmarks/recursion.py [--presets P] [--programs N]``.

For each inner program and preset: the inner proof's size, the guest's cycles and Keccak permutations, the cycles of
each phase of the verifier (``tailbite.stark.phases``), which add up to all of them, and two figures derived from the
profile:

plumbing  Cycles around the Keccak precompile, for each permutation: all that is spent in the functions of PLUMBING, and
          in memset when one of them calls it. They absorb words, pad, walk up the trees and make the call. Reading the
          proof, checking that words are canonical, and all arithmetic are not plumbing.
marks     Share of the cycles that the phase marks themselves take.

The counts are exact and the same on every machine; only the times depend on this one.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from prove import describe_machine

from tailbite import Program, Proof
from tailbite.bench.comparisons import empty_program
from tailbite.program import MemoryLimit
from tailbite.recursion import recursion_program, verifier_input
from tailbite.vm.calltree import MARK, Stack

ROOT = Path(__file__).parents[1]
PRESETS = ("min", "strong2", "strong", "strong8")
PLUMBING = ("absorb", "absorb_words", "finish", "squeeze", "keccak256_words", "hash_node", "climb",
            "permute_by_call", "tb_ecall")
HELPERS = ("memset", "memcpy")


PROGRAMS = {
    "empty": (empty_program, b""),
    "fib16": (lambda: (ROOT / "benchmarks/guests/fib_loop_16.elf").read_bytes(), b""),
    "fib20": (lambda: (ROOT / "benchmarks/guests/fib_loop_20.elf").read_bytes(), b""),
    "sha64k": (lambda: (ROOT / "examples/c/elf/sha256.gcc.elf").read_bytes(), bytes(1 << 16)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", nargs="+", choices=PRESETS, default=PRESETS, help="of the inner proof")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS), help="inner programs")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="also print the N largest functions")
    options = parser.parse_args()
    print(describe_machine())
    for preset in options.presets:
        guest = recursion_program(preset)
        print(f"\ninner preset {preset}: guest of {len(guest.elf)} bytes, sha256 {guest.sha256[:16]}")
        for name in options.programs:
            elf, data = PROGRAMS[name]
            began = time.perf_counter()
            try:
                inner = Program.from_elf(elf()).prove(data, preset, allow_insecure=True, max_memory=available())
            except MemoryLimit as e:
                print(f"  {name}: {e}")
                continue
            measure(name, inner, guest, time.perf_counter() - began, options.functions)


def available() -> int:
    """Bytes of memory that a proof may take: four fifths of what is free now."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 5 * 4


def measure(name: str, inner: Proof, guest: Program, proved: float, functions: int) -> None:
    """Run the guest on a proof, and print where its cycles go."""
    began = time.perf_counter()
    e = guest.run(verifier_input(inner), profile=True).execution
    seconds = time.perf_counter() - began
    tree = e.tree
    assert tree is not None
    stacks = list(tree.stacks())
    permutations = sum(s.permutations for s in stacks)
    marks = sum(s.cycles for s in stacks if s.functions[-1].startswith(MARK))
    print(f"  {name}: proof {len(inner) / 1024:.0f} KiB ({inner.soundness.total:g} bits, made in {proved:.1f} s); "
          f"guest {e.cycles:,} cycles, {permutations:,} keccak, {e.unaligned} unaligned; executed in {seconds:.2f} s")
    phases = tree.by_phase()
    assert sum(cycles for cycles, _ in phases.values()) == e.cycles
    print("    phases: " + ", ".join(f"{p} {100 * c / e.cycles:.1f} %" for p, (c, _) in phases.items()))
    print("    keccak: " + ", ".join(f"{p} {k:,}" for p, (_, k) in phases.items() if k))
    print(f"    plumbing: {plumbing(stacks) / max(permutations, 1):.0f} cycles a permutation; marks: "
          f"{marks / e.cycles:.3%}")
    for f, n in by_function(stacks).most_common(functions):
        print(f"      {n:12,} {n / e.cycles:6.1%} {f}")


def plumbing(stacks: Iterable[Stack]) -> int:
    """Cycles spent around the Keccak precompile; see the module."""
    return sum(s.cycles for s in stacks if next((f for f in reversed(s.functions) if f not in HELPERS), "") in PLUMBING)


def by_function(stacks: Iterable[Stack]) -> Counter[str]:
    totals: Counter[str] = Counter()
    for s in stacks:
        totals[s.functions[-1]] += s.cycles
    return totals


if __name__ == "__main__":
    main()
