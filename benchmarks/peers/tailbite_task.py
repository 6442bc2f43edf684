"""Tailbite at the tasks of the peers: ``python tailbite_task.py fibonacci|keccak|loop LOG PRESET REPEATS``.

fibonacci: 16 pairs (a, b) -> (b, a + b) side by side in 2^LOG rows, 32 columns. keccak: a guest that permutes a state
floor(2^LOG / 24) times, which fills the Keccak table; all that surrounds it is proved as well. loop: the Fibonacci loop
on the machine, 2^LOG cycles. Prints one JSON line for each proof: seconds to prove (with a trace made before, but for
the machine), seconds to verify, bytes, proven bits.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tailbite import Program, verify
from tailbite.air import Table, token
from tailbite.bench.suite import give
from tailbite.field import P
from tailbite.hash.keccak import permute
from tailbite.lang import Array, function, riscv, u64
from tailbite.program import default_threads
from tailbite.proof import shape_of
from tailbite.stark.params import preset
from tailbite.stark.prove import prove
from tailbite.stark.soundness import soundness
from tailbite.stark.system import System, commit_fixed, program_key
from tailbite.stark.verifier import check_words

PAIRS = 16
GUESTS = Path(__file__).parents[1] / "guests"


class Fibonacci(Table):
    """Pairs of Fibonacci numbers; the public words are the last row's second numbers."""

    name = "PAIRS"
    required = True
    constraint_count = 5 * PAIRS
    a, b = token("these numbers", PAIRS), token("the next ones", PAIRS)

    def rules(t) -> None:
        for k in range(PAIRS):
            t.zero(f"step.a.{k}", (1 - t.last) * (t.next(t.a[k]) - t.b[k]))
            t.zero(f"step.b.{k}", (1 - t.last) * (t.next(t.b[k]) - t.a[k] - t.b[k]))
            t.zero(f"first.a.{k}", t.first * (t.a[k] - k))
            t.zero(f"first.b.{k}", t.first * (t.b[k] - 1))
            t.zero(f"last.{k}", t.last * (t.b[k] - t.public(k)))


def fibonacci_columns(rows: int) -> Any:
    """Shape (2 PAIRS, rows)."""
    out = np.empty((2 * PAIRS, rows), dtype=np.uint64)
    for k in range(PAIRS):
        a, b, column = k, 1, []
        for _ in range(rows + 1):
            column.append(a)
            a, b = b, (a + b) % P
        out[k], out[PAIRS + k] = column[:-1], column[1:]
    return out


def fibonacci(log: int, name: str, repeats: int) -> None:
    params = preset(name)
    keyed = System("pairs", [Fibonacci()], []).keyed(params)
    fixed = commit_fixed({}, params.log_blowup)
    program = program_key(keyed, 0, fixed)
    columns = fibonacci_columns(1 << log)
    output = columns[PAIRS:, -1].astype("<u8").tobytes()
    for _ in range(repeats):
        began = time.perf_counter()
        words, _ = prove(keyed, program, fixed, output, {0: columns}, default_threads())
        proved = time.perf_counter()
        check_words(keyed, program.id(keyed), words)
        tell(proved - began, time.perf_counter() - proved, 8 * len(words),
             soundness(params, shape_of(keyed, (log,), len(output))).total)


def keccak(log: int, name: str, repeats: int) -> None:
    @function
    def main() -> None:
        state = Array[u64, 25]()
        for _i in range((1 << log) // 24):
            permute(state)
        give(state[0])

    machine(Program.from_elf(riscv.link(main)), name, repeats)


def loop(log: int, name: str, repeats: int) -> None:
    machine(Program.from_elf(GUESTS / f"fib_loop_{log}.elf"), name, repeats)


def machine(program: Program, name: str, repeats: int) -> None:
    for _ in range(repeats):
        began = time.perf_counter()
        proof = program.prove(b"", name)
        proved = time.perf_counter()
        verify(proof, program, min_bits=0)
        tell(proved - began, time.perf_counter() - proved, len(proof), proof.soundness.total)


def tell(proved: float, verified: float, size: int, bits: float) -> None:
    print(json.dumps({"prove": proved, "verify": verified, "bytes": size, "bits": bits}), flush=True)


if __name__ == "__main__":
    task, log, name, repeats = sys.argv[1:]
    {"fibonacci": fibonacci, "keccak": keccak, "loop": loop}[task](int(log), name, int(repeats))
