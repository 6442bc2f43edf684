"""The four comparisons. Each takes two sides, or two commands, and makes a :class:`~.report.Report`."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ParameterError
from .pairs import RunFailed, Sample, check_pairs, interleave, measure, one_cpu
from .report import Exact, Report, Timed, describe_machine
from .sides import Side
from .statistics import compare
from .suite import Benchmark, suite

Tell = Callable[[str, int, int], None]  # what is done, steps done, steps in all
VERIFY_SECONDS = 0.25  # of verifications that one run times
FORMAT_CHANGE = "A cannot decode B's proofs: format change. Each side verifies its own proof."
REGRESSION = ("A REJECTS B'S VALID PROOF, THOUGH TABLES AND PRESET ARE THE SAME: LIKELY A VERIFIER REGRESSION. "
              "Each side verifies its own proof.")


def quiet(what: str, done: int, total: int) -> None:
    """Report nothing."""


def empty_program() -> bytes:
    """ELF of two instructions, addi x17, x0, 93; ecall: the program that does nothing."""
    code, at = struct.pack("<2I", 0x05D00893, 0x00000073), 0x10000
    header = struct.pack("<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 2, 243, 1, at, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    return (header + struct.pack("<IIQQQQQQ", 1, 5, 4096, at, at, len(code), len(code), 4096)).ljust(4096, b"\0") + code


def program_named(name: str) -> Benchmark:
    """``empty``, a program of the suite, or an ELF file."""
    if name == "empty":
        return Benchmark("empty", empty_program())
    known = {b.name: b for b in suite()}
    if name in known:
        return known[name]
    path = Path(name)
    if not path.is_file():
        raise ParameterError(f"no program {name!r}: name an ELF file, or one of empty, {', '.join(known)}")
    return Benchmark(path.stem, path.read_bytes())


@contextmanager
def files(benchmark: Benchmark) -> Iterator[tuple[Path, dict[str, str]]]:
    """A temporary directory with the program and its input, as arguments of a probe."""
    with tempfile.TemporaryDirectory(prefix="tailbite-bench-") as name:
        home = Path(name)
        (home / "program.elf").write_bytes(benchmark.elf)
        (home / "input").write_bytes(benchmark.input)
        yield home, {"elf": str(home / "program.elf"), "input": str(home / "input")}


# ---------------------------------------------------------------- verify


def verify(sides: Mapping[str, Side], pairs: int = 20, params: str = "strong", program: str = "fibonacci",
           per_side: bool = False, threshold: float = 0.01, tell: Tell = quiet) -> Report:
    """Time of verification, program preprocessing left out, of one shared proof made by B if A accepts it."""
    check_pairs(pairs)
    report = Report("verify", {k: s.label for k, s in sides.items()}, describe_machine(),
                    {"pairs": pairs, "preset": params, "program": program, "threshold": threshold})
    chosen = program_named(program)
    with files(chosen) as (home, given):
        proofs = {}
        for k in "BA":
            tell(f"{k} proves", 0, 1)
            proofs[k] = str(home / f"{k}.proof")
            made = sides[k].ask("prove", **given, params=params, out=proofs[k])
            report.settings[f"bits {k}"] = made["bits"]
        shared, note = shared_proof(sides, given["elf"], proofs["B"], params, per_side)
        report.notes.append(note)
        if shared:
            shutil.copyfile(proofs["B"], proofs["A"])
        sizes = {k: Path(proofs[k]).stat().st_size for k in "AB"}
        report.exact.append(Exact("proof size" + (" (shared proof)" if shared else ""), "B", sizes["A"], sizes["B"]))

        def run(k: str) -> tuple[float, Sample]:
            answer, sample = sides[k].run("verify", one_cpu(), proof=proofs[k], elf=given["elf"],
                                          seconds=VERIFY_SECONDS)
            return float(answer["seconds"]), sample

        runs = interleave(pairs, run, lambda d, n: tell("verify", d, n))
    add_timed(report, "one verification", "s", {k: [r[0] for r in runs[k]] for k in "AB"})
    add_timed(report, "peak memory of the process", "B", {k: [float(r[1].peak) for r in runs[k]] for k in "AB"})
    return report


def shared_proof(sides: Mapping[str, Side], elf: str, proof: str, params: str, per_side: bool) -> tuple[bool, str]:
    """Can both verify B's proof? And what the report says of it."""
    if per_side:
        return False, "Each side verifies its own proof, as asked (--per-side)."
    own = sides["B"].ask("accepts", proof=proof, elf=elf)
    if not own["accepted"]:
        raise RunFailed(f"{sides['B'].label} rejects its own proof: {own['reason']}")
    answer = sides["A"].ask("accepts", proof=proof, elf=elf)
    if answer["accepted"]:
        return True, "Both sides verify one proof, made by B."
    same = sides["A"].ask("describe", params=params)["vm_id"] == sides["B"].ask("describe", params=params)["vm_id"]
    return False, f"{REGRESSION if same else FORMAT_CHANGE} (A says: {answer['reason']})"


# ---------------------------------------------------------------- cycles


def cycles(sides: Mapping[str, Side], params: str = "min", program: str = "empty", tell: Tell = quiet) -> Report:
    """Exact cost of each side's verifier guest on its own proof, by its own executor."""
    chosen = program_named(program)
    digest = hashlib.sha256(chosen.elf + chosen.input).hexdigest()[:16]
    results: dict[str, dict[str, Any]] = {}
    with files(chosen) as (_, given):
        for done, k in enumerate("AB"):
            tell(f"{k}: prove, run the guest", done, 2)
            side = sides[k]
            results[k] = side.remembered(f"cycles-{params}-{digest}",
                                         lambda s=side: complete(s, s.ask(  # type: ignore[misc]
                                             "cycles", **given, params=params)))
    a, b = results["A"], results["B"]
    report = Report("cycles", {k: s.label for k, s in sides.items()}, describe_machine(),
                    {"preset": params, "program": program})
    report.exact += [Exact("guest cycles", "", a["cycles"], b["cycles"])]
    for call in sorted({*a["calls"], *b["calls"]}):
        report.exact.append(Exact(f"calls of {call}", "", a["calls"].get(call, 0), b["calls"].get(call, 0)))
    report.exact.append(Exact("inner proof", "B", a["proof_bytes"], b["proof_bytes"]))
    for phase in [*a["phases"], *(p for p in b["phases"] if p not in a["phases"])]:
        report.phases.append(Exact(phase, "cycles", a["phases"].get(phase, [0])[0], b["phases"].get(phase, [0])[0]))
    return report


def complete(side: Side, answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, or :class:`RunFailed`: a run that was cut short must not pass for a cheap one."""
    counted = sum(p[0] for p in answer["phases"].values())
    if not answer["cycles"] > 0 or counted != answer["cycles"] or not answer["calls"].get("keccak"):
        raise RunFailed(f"{side.label}: the guest's counts are not those of a whole run")
    return answer


# ---------------------------------------------------------------- prove


def prove(sides: Mapping[str, Side], pairs: int = 6, params: str = "standard", programs: Sequence[str] = (),
          threshold: float = 0.02, tell: Tell = quiet) -> Report:
    """Proving time and peak memory on each program of the suite, and exact cells."""
    check_pairs(pairs)
    report = Report("prove", {k: s.label for k, s in sides.items()}, describe_machine(),
                    {"pairs": pairs, "preset": params, "threshold": threshold})
    chosen = [program_named(p) for p in programs] or suite()
    for k, benchmark in enumerate(chosen):
        prove_program(report, sides, benchmark, lambda d, n, k=k, name=benchmark.name: tell(  # type: ignore[misc]
            f"prove {name}", n * k + d, n * len(chosen)))
    return report


def prove_program(report: Report, sides: Mapping[str, Side], benchmark: Benchmark,
                  tell: Callable[[int, int], None]) -> None:
    """Add the rows of one program."""
    name, params, sizes, bits = benchmark.name, report.settings["preset"], dict[str, int](), dict[str, float]()
    with files(benchmark) as (_, given):
        costs = {k: s.ask("cells", **given) for k, s in sides.items()}

        def run(k: str) -> tuple[float, Sample]:
            answer, sample = sides[k].run("prove", None, **given, params=params)
            sizes[k], bits[k] = answer["bytes"], answer["bits"]
            return float(answer["seconds"]), sample

        runs = interleave(report.settings["pairs"], run, tell)
    report.settings |= {f"bits {k}": min(bits[k], report.settings.get(f"bits {k}", bits[k])) for k in "AB"}
    for what, of in (("cycles", lambda c: c["cycles"]), ("cells", lambda c: sum(c["cells"].values()))):
        report.exact.append(Exact(f"{name}: {what}", "", of(costs["A"]), of(costs["B"])))
    report.exact.append(Exact(f"{name}: proof size", "B", sizes["A"], sizes["B"]))
    for what, unit, value in (("prove", "s", lambda r: r[0]), ("peak memory", "B", lambda r: float(r[1].peak))):
        add_timed(report, f"{name}: {what}", unit, {k: [value(r) for r in runs[k]] for k in "AB"})


# ---------------------------------------------------------------- any two commands


def commands(a: str, b: str, pairs: int = 20, threshold: float = 0.01, tell: Tell = quiet) -> Report:
    """Wall, user and system time and peak memory of two command lines, which run without a shell."""
    check_pairs(pairs)
    lines = {"A": shlex.split(a), "B": shlex.split(b)}
    for k, line in lines.items():
        if not line:
            raise ParameterError(f"command {k} is empty")
    runs = interleave(pairs, lambda k: measure(lines[k]), lambda d, n: tell("run", d, n))
    report = Report("run", {"A": a, "B": b}, describe_machine(), {"pairs": pairs, "threshold": threshold})
    for name, unit, of in (("wall time", "s", lambda s: s.wall), ("user time", "s", lambda s: s.user),
                           ("system time", "s", lambda s: s.system), ("peak memory", "B", lambda s: float(s.peak))):
        add_timed(report, name, unit, {k: [of(s) for s in runs[k]] for k in "AB"})
    return report


def add_timed(report: Report, name: str, unit: str, runs: Mapping[str, list[float]]) -> None:
    """A judged row; or a note, if what is measured was too small in some run."""
    if all(v > 0 for side in runs.values() for v in side):
        judged = compare(runs["A"], runs["B"], report.settings["threshold"])
        report.timed.append(Timed(name, unit, runs["A"], runs["B"], judged))
    else:
        report.notes.append(f"{name}: too small to be measured in some runs, so it is not compared.")
