"""Write or check tests/artefacts: digests and ids of guests and proofs, which nothing may change unnoticed.

    python tests/tools/regenerate.py            # after a deliberate change: write all again
    python tests/tools/regenerate.py --check    # build all, compare with what is written; exit code 1 if it differs

A change of the protocol (other vm ids, other ids of the same ELF, other proofs by the same ELF) is written only with
another PROTOCOL_VERSION. Guests that compile to other ELFs are no change of the protocol. Without a manifest anything
is written: remove it only while no version of the protocol is in use.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "stark"))

from cases import SHAPES, make

from tailbite.demo import collatz
from tailbite.guest import Guest
from tailbite.program import Program
from tailbite.recursion import recursion_program, verifier_input
from tailbite.stark.params import PRESETS, preset
from tailbite.stark.system import PROTOCOL_VERSION
from tailbite.vm.machine import machine

ROOT = Path(__file__).resolve().parent.parent.parent
ARTEFACTS = ROOT / "tests" / "artefacts"
MANIFEST = ARTEFACTS / "manifest.json"
Manifest = dict[str, Any]
INNER = ("min", "strong2", "strong", "strong8")  # presets whose verifier is a published guest
AIRS = ("fibonacci 5", "permutation 5 5 5", "squares 5", "echo 3")
COMMITTED = ("collatz.min", "collatz.fast", *(f"air {shape}.fast" for shape in AIRS))


# ---------------------------------------------------------------- what is pinned


def example(name: str) -> Program:
    """The program of the one guest in a file of examples/."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # annotations are looked up there
    spec.loader.exec_module(module)
    guest, = (x for x in vars(module).values() if isinstance(x, Guest))
    return guest.program


@functools.cache
def programs() -> dict[str, Program]:
    """Guests by name: Python, C and recursion."""
    elves = sorted([*ROOT.glob("examples/c/elf/*.elf"), *ROOT.glob("benchmarks/guests/*.elf")])
    return {
        "collatz": collatz.program,
        **{p.stem: example(p.stem) for p in sorted(ROOT.glob("examples/*.py"))},
        **{p.name: Program.from_elf(p) for p in elves},
        **{f"recursion {name}": recursion_program(name) for name in INNER},
    }


def vm_proof(name: str, params: str, private_input: bytes) -> tuple[bytes, bytes]:
    """Id of a program and a proof of it."""
    program = programs()[name]
    return program.id(params), program.prove(private_input, params, allow_insecure=True).to_bytes()


def air_proof(shape: str, params: str) -> tuple[bytes, bytes]:
    """Id of the program of an example AIR and a proof."""
    made = make(SHAPES[shape], params)
    return made.program_id, made.words.astype("<u8").tobytes()


@functools.cache
def proofs() -> dict[str, Callable[[], tuple[bytes, bytes]]]:
    """How each proof is made, by its name: the program, a dot, the preset."""
    start, n = collatz.encode(27), (20).to_bytes(8, "little")
    return {
        **{f"collatz.{p.name}": functools.partial(vm_proof, "collatz", p.name, start) for p in PRESETS},
        "fib.gcc.elf.fast": functools.partial(vm_proof, "fib.gcc.elf", "fast", n),
        **{f"air {shape}.fast": functools.partial(air_proof, shape, "fast") for shape in AIRS},
    }


@functools.cache
def made(name: str) -> tuple[bytes, bytes]:
    """Program id and bytes of the proof of this name."""
    return proofs()[name]()


def proof_file(name: str) -> Path:
    """Where the proof is committed, if it is one of COMMITTED."""
    return ARTEFACTS / f"{name.replace(' ', '-')}.proof"


def recursion_cost() -> dict[str, int]:
    """Exact costs of verifying the pinned collatz proof at `min` in the machine."""
    from tailbite.proof import Proof

    run = recursion_program("min").run(verifier_input(Proof.from_bytes(made("collatz.min")[1])))
    return {"cycles": run.cycles, "ecalls": run.counts["ECALL"]}


def current() -> Manifest:
    """The manifest of this version of the package."""
    return {
        "protocol_version": PROTOCOL_VERSION,
        "vm_ids": {p.name: machine().keyed(preset(p.name)).vm_id.hex() for p in PRESETS},
        "guests": {name: {"sha256": p.sha256, "bytes": len(p.elf), "ids": {x.name: p.id(x.name).hex() for x in PRESETS}}
                   for name, p in programs().items()},
        "proofs": {name: _proof(name) for name in proofs()},
        "verifying collatz.min": recursion_cost(),
    }


def _proof(name: str) -> dict[str, Any]:
    program_id, data = made(name)
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "program_id": program_id.hex()}


# ---------------------------------------------------------------- what may change


def leaves(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value of nested dicts with its path."""
    if not isinstance(tree, dict):
        yield path, tree
        return
    for key, value in tree.items():
        yield from leaves(value, (*path, key))


def differences(old: Manifest, new: Manifest) -> list[tuple[str, ...]]:
    """Paths at which two manifests differ."""
    a, b = dict(leaves(old)), dict(leaves(new))
    return sorted(k for k in {**a, **b} if a.get(k) != b.get(k))


def same_elf(old: Manifest, new: Manifest, guest: str) -> bool:
    """Whether both manifests have the same file of a guest."""
    a, b = old["guests"].get(guest), new["guests"].get(guest)
    return a is not None and b is not None and a["sha256"] == b["sha256"]


def protocol_changes(old: Manifest, new: Manifest) -> list[tuple[str, ...]]:
    """Differences that only another protocol can make.

    Any of vm ids; those of program ids, as long as the ELF is the same; those of proofs that both have, of the same ELF
    or of an example AIR, which are never changed.
    """

    def bound(kind: str, name: str = "", what: str = "", *_: str) -> bool:
        if kind == "guests":
            return what == "ids" and same_elf(old, new, name)
        if kind == "proofs":
            both = name in old["proofs"] and name in new["proofs"]
            return both and (name.startswith("air ") or same_elf(old, new, name.rpartition(".")[0]))
        return kind == "vm_ids"

    return [path for path in differences(old, new) if bound(*path)]


def refusal(old: Manifest | None, new: Manifest) -> str:
    """Why ``new`` must not replace ``old``; empty if it may."""
    if old is None:
        return ""
    before, now = old["protocol_version"], new["protocol_version"]
    if now < before:
        return f"the protocol version went back from {before} to {now}"
    changed = protocol_changes(old, new)
    if now == before and changed:
        names = ", ".join(" / ".join(p) for p in changed[:6]) + (", ..." if len(changed) > 6 else "")
        return f"the protocol changed ({names}), its version {now} did not: raise PROTOCOL_VERSION in stark/system.py"
    return ""


# ---------------------------------------------------------------- files


def stored() -> Manifest | None:
    """The manifest as written, None if there is none."""
    return json.loads(MANIFEST.read_text()) if MANIFEST.exists() else None


def stale_files() -> list[str]:
    """Proof files that are missing, superfluous, or have other bytes than the prover makes."""
    wanted = {proof_file(name): made(name)[1] for name in COMMITTED}
    found = set(ARTEFACTS.glob("*.proof"))
    return sorted(p.name for p in found | set(wanted) if p not in found or p.read_bytes() != wanted.get(p))


def write(manifest: Manifest) -> None:
    """Replace manifest and proof files."""
    ARTEFACTS.mkdir(exist_ok=True)
    for path in ARTEFACTS.glob("*.proof"):
        path.unlink()
    for name in COMMITTED:
        proof_file(name).write_bytes(made(name)[1])
    MANIFEST.write_text(json.dumps(manifest, indent=1) + "\n")


def main() -> int:
    """Check or write; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    old, new = stored(), current()
    changed = [" / ".join(p) for p in differences(old or {}, new)] + stale_files()
    for line in changed:
        print("differs:", line)
    if check or not changed:
        print(f"Python {sys.version.split()[0]}: {len(changed)} differences")
        return 1 if changed else 0
    reason = refusal(old, new)
    if reason:
        print("not written:", reason, file=sys.stderr)
        return 1
    write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
