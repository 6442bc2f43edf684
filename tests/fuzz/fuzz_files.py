"""Files given to the command line, and attestations: damaged, empty, missing, directories, wrong in kind."""

from __future__ import annotations

import ast
import atexit
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_elfs
import fuzz_proofs
import numpy as np
from fuzz_watch import SKIPPED, Violation, plain
from typer.testing import CliRunner

from tailbite import Program, VerificationError, check_attestation, verify
from tailbite.cli import app
from tailbite.demo import collatz

GUEST = Path(__file__).resolve().parents[2] / "examples" / "fibonacci.py"
MEANING = {0: "yes", 1: "no", 2: "usage", 3: "could not"}
EXIT_CODES = {"run": {0, 2, 3}, "verify": {1, 2, 3}, "inspect": {0, 1, 3}, "build": {0, 2, 3}, "id": {0, 2, 3}}


def spoilt_bytes(rng: random.Random, data: bytes) -> bytes:
    """Any bytes instead of, or made of, these."""
    if rng.random() < 0.1:
        return rng.choice((b"", b"\0", b"\x7fELF", b"\xef\xbb\xbf", b"\xff" * 64, bytes(8), b"def f(:\n", b"\n" * 999))
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        rng.choice((fuzz_elfs.any_bytes, fuzz_elfs.cut, fuzz_elfs.extend, fuzz_elfs.delete))(rng, out)
    return bytes(out)


def spoilt_text(rng: random.Random, text: str) -> str:
    """A source whose lines are swapped, repeated, dropped, or have other tokens or characters."""
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 4))):
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines[i], lines[j] = lines[j], lines[i]
            case 1:
                lines.insert(i, lines[j])
            case 2 if len(lines) > 1:
                del lines[i]
            case 3:
                at = rng.randrange(len(lines[i]) + 1)
                lines[i] = lines[i][:at] + rng.choice((*"()[]:,.=+-*'\"#\\\t \0é", "0", "None")) + lines[i][at:]
            case 4 if lines[i]:
                at = rng.randrange(len(lines[i]))
                lines[i] = lines[i][:at] + lines[i][at + 1:]
            case _:
                lines[i] = " " * rng.randrange(9) + lines[i].lstrip()
    return "".join(lines)


class Files:
    """The verbs that read files, in this process, and :func:`check_attestation`."""

    invoke: Callable[..., Any] = staticmethod(CliRunner().invoke)

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tailbite-fuzz-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.proofs = fuzz_proofs.machine_seeds("fast")
        self.elfs = list(fuzz_elfs.elf_seeds().values())
        self.forward, self.attested = attested()
        self.good = {"in.elf": self.elfs[0], "echo.elf": self.forward.elf, "p.proof": self.attested[0].words.tobytes()}
        for name, data in self.good.items():
            (self.folder / name).write_bytes(data)
        (self.folder / "directory").mkdir()

    def case(self, rng: random.Random) -> str:
        kinds = (self.proof_file, self.proof_file, self.elf_file, self.input_file, self.source, self.attestation)
        return rng.choice(kinds)(rng)

    # ------------------------------------------------------------ the command line

    def command(self, verb: str, *args: object) -> str:
        """Call a verb with --json: its exit code must be one of those that it may have, and its answer JSON."""
        done = self.invoke(app, [verb, *map(str, args), "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code not in EXIT_CODES[verb]:
            raise Violation(f"{verb} {args} ended with {done.exit_code}: {done.output[-300:]}")
        if done.exit_code == 2 and not done.stdout:
            return f"{verb}: usage"
        lines = done.stdout.splitlines()
        answer = json.loads(lines[0])
        if len(lines) != 1 or answer["ok"] != (done.exit_code == 0):
            raise Violation(f"{verb} {args} says {done.stdout[:300]}")
        error = str(answer.get("error", ""))
        if "llocate" in error or "MemoryError" in error or answer.get("category") == "internal":
            raise Violation(f"{verb} {args}: {error}")
        about = ":".join(plain(error.replace(f"{self.folder}/", "")).split(":")[:2]).partition(" of height")[0]
        return f"{verb}: {MEANING[done.exit_code]}: {about[:60]}"

    def place(self, rng: random.Random, name: str, data: bytes) -> Path:
        """A file with this content; rarely none, or a directory."""
        if rng.random() < 0.03:
            return self.folder / rng.choice(("missing", "directory", "directory/missing", "in.elf/x", "\N{SNOWMAN}"))
        (self.folder / name).write_bytes(data)
        return self.folder / name

    def proof_file(self, rng: random.Random) -> str:
        chosen = rng.choice(self.proofs)
        data = chosen.seed.proof.words.tobytes()
        spoilt = chosen.seed.mutant(rng).tobytes() if rng.random() < 0.7 else spoilt_bytes(rng, data)
        if spoilt == data:
            return SKIPPED
        path = self.place(rng, "mutant.proof", spoilt)
        if rng.random() < 0.3:
            return self.command("inspect", path)
        return self.command("verify", path, "--id", chosen.program_id.hex(), "--allow-insecure")

    def elf_file(self, rng: random.Random) -> str:
        data = bytearray(rng.choice(self.elfs))
        for _ in range(rng.choice((1, 2, 3))):
            rng.choice(fuzz_elfs.CHANGES)(rng, data)
        path = self.place(rng, "mutant.elf", bytes(data))
        if rng.random() < 0.1:  # a good proof, by the damaged program: it may not be what the proof is about
            return self.against(path)
        return self.command("run", path, "--max-cycles", fuzz_elfs.MAX_CYCLES, *rng.choice(((), ("--profile",), (
            "--counts",), ("--cycles", "--phases"))))

    def against(self, path: Path) -> str:
        """A good proof against another program: accepted only if that is loaded to the same image."""
        proof = self.folder / "p.proof"
        done = self.invoke(app, ["verify", str(proof), str(path), "--allow-insecure", "--json"])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code == 0 and Program.from_elf(path).id("fast") != self.forward.id("fast"):
            raise Violation("a proof is accepted for another program")
        return f"verify a good proof by a damaged ELF: {MEANING[done.exit_code]}"

    def input_file(self, rng: random.Random) -> str:
        path = self.place(rng, "input", spoilt_bytes(rng, rng.randbytes(rng.choice((0, 1, 8, 4096, 1 << 16)))))
        program = self.folder / rng.choice(("in.elf", "echo.elf"))
        return self.command("run", program, "--input", path, "--max-cycles", 100_000)

    def source(self, rng: random.Random) -> str:
        """A damaged guest: refused without --trust-source; built only if it is no Python, since that runs nothing."""
        text = spoilt_text(rng, GUEST.read_text())
        path = self.folder / "mutant.py"
        path.write_text(text)
        refusal = self.command("verify", self.folder / "p.proof", path)
        if not refusal.startswith("verify: usage"):
            raise Violation(f"a source that nobody trusts was used: {refusal}")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return self.command(rng.choice(("build", "id", "run")), path)
        return "a source that parses: not run"

    # ------------------------------------------------------------ attestations

    def attestation(self, rng: random.Random) -> str:
        """The outer proof is changed, or it is a true proof of an output that is no attestation of this."""
        index = rng.randrange(len(self.attested))
        chosen = self.attested[index]
        data, inner = chosen.words.tobytes(), collatz.program.id("fast")
        if rng.random() < 0.7:
            data = fuzz_proofs.Seed.of(chosen).mutant(rng).tobytes() if rng.random() < 0.7 else spoilt_bytes(rng, data)
        ids = rng.choice((inner, [inner], [inner, inner], [inner[:31]], [], rng.randbytes(32)))
        if index == 0 and ids in (inner, [inner]) and data == chosen.words.tobytes():
            return SKIPPED
        try:
            check_attestation(data, self.forward.id("fast"), ids, allow_insecure=True)
        except VerificationError as e:
            return f"attestation: {fuzz_proofs.refused(str(e))}"
        raise Violation("a false attestation is accepted")


def attested() -> tuple[Program, list[fuzz_proofs.Recorded]]:
    """A program that puts its input on the output, as if it were the recursion guest; with proofs of what it said.

    The first says what an attestation of collatz(27) would; the others what none says.
    """
    from assembler import elf, halt, li
    from assembler import A1, A2, T0, asm, call  # isort: skip

    from tailbite.vm.elf import INPUT_BASE

    words = [*li(T0, INPUT_BASE), asm("lwu", A2, T0, 0), asm("addi", A1, T0, 4), *call(64, 1), *halt()]
    program = Program.from_elf(elf(words))
    head = (6).to_bytes(8, "little") + collatz.program.id("fast")
    said = [head + b"output", b"", head[:-1], (7).to_bytes(8, "little") + head[8:], b"\xff" * 8 + head[8:],
            head[:8] + bytes(32)]
    proofs = [program.prove(x, "fast", allow_insecure=True, threads=1) for x in said]
    assert verify(proofs[0], program.id("fast"), allow_insecure=True).output == said[0]
    return program, [fuzz_proofs.Recorded(np.asarray(p.words), p.events) for p in proofs]
