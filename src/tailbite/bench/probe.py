"""What a side does with its own Tailbite: ``python probe.py TASK``, arguments as JSON on stdin, answer on stdout.

This file is run by the interpreters of other revisions, which need not have it. So it imports nothing of its package,
and uses only what README documents. A task that a revision cannot do is an error that says so.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def describe(params: str) -> dict[str, Any]:
    """What the side can be told apart by: tables and preset in one id."""
    import tailbite
    from tailbite.vm.machine import machine

    keyed = machine().keyed(tailbite.preset(params))
    return {"version": tailbite.__version__, "vm_id": keyed.vm_id.hex()}


def prove(elf: str, input: str, params: str, out: str = "") -> dict[str, Any]:
    """Prove twice, the second time by the clock: the first run compiles and warms up."""
    import tailbite

    program = tailbite.Program.from_elf(elf)
    data = Path(input).read_bytes() if input else b""
    program.prove(data, params, allow_insecure=True)
    began = time.perf_counter()
    proof = program.prove(data, params, allow_insecure=True)
    seconds = time.perf_counter() - began
    if out:
        proof.save(out)
    return {"seconds": seconds, "bytes": len(proof), "bits": proof.soundness.total}


def verify(proof: str, elf: str, seconds: float) -> dict[str, Any]:
    """Mean time of a verification in this process, program preprocessing left out, over about ``seconds``."""
    import tailbite

    program, data = tailbite.Program.from_elf(elf), Path(proof).read_bytes()
    trusted = program.id(tailbite.Proof.from_bytes(data).params.name)
    tailbite.verify(data, trusted, allow_insecure=True)
    runs, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        tailbite.verify(data, trusted, allow_insecure=True)
        runs += 1
    return {"seconds": (time.perf_counter() - began) / runs, "runs": runs}


def accepts(proof: str, elf: str) -> dict[str, Any]:
    """Does the side take this proof about this program?"""
    import tailbite

    try:
        tailbite.verify(Path(proof).read_bytes(), tailbite.Program.from_elf(elf), allow_insecure=True)
    except tailbite.TailbiteError as e:
        return {"accepted": False, "reason": str(e)}
    return {"accepted": True}


def cycles(elf: str, input: str, params: str) -> dict[str, Any]:
    """Exact cost of the side's verifier guest on the side's own proof."""
    import tailbite
    from tailbite.recursion import recursion_program, verifier_input

    data = Path(input).read_bytes() if input else b""
    inner = tailbite.Program.from_elf(elf).prove(data, params, allow_insecure=True)
    guest = recursion_program(params)
    run = guest.run(verifier_input(inner), profile=True).execution
    if run.tree is None or not run.output:
        raise RuntimeError("the guest's run has no profile or no output")
    phases = {name: list(counts) for name, counts in run.tree.by_phase().items()}
    total = sum(counts[0] for counts in phases.values())
    if total != run.cycles:
        raise RuntimeError(f"the phases have {total} cycles of {run.cycles}")
    calls = {kind.name.lower(): n for kind, n in run.calls.items()}
    return {"cycles": run.cycles, "calls": calls, "phases": phases, "proof_bytes": len(inner), "guest": guest.sha256}


def cells(elf: str, input: str) -> dict[str, Any]:
    """Exact cost of a proof: cycles, and cells by table."""
    import tailbite
    from tailbite.cost import table_costs

    program, data = tailbite.Program.from_elf(elf), Path(input).read_bytes() if input else b""
    costs = table_costs(program, data)
    return {"cycles": program.run(data).cycles, "cells": {name: t.cells for name, t in costs.items()}}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "describe": describe, "prove": prove, "verify": verify, "accepts": accepts, "cycles": cycles,
    "cells": cells,
}


def main() -> None:
    """Answer one task. An error is an answer too."""
    task = sys.argv[1]
    try:
        answer = TASKS[task](**json.load(sys.stdin))
    except (ImportError, AttributeError) as e:
        answer = {"error": f"this revision cannot do '{task}': {e}"}
    except Exception as e:
        answer = {"error": f"{task} failed: {type(e).__name__}: {e}"}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
