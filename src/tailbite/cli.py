"""The command line: ``tailbite demo | run | prove | verify | inspect | id | check | build | bench | doctor``.

JSON goes to stdout alone, messages to stderr. Exit codes: 0 yes, 1 no (rejected), 2 usage, 3 could not run, 130
interrupted.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from .bench.cli import app as bench
from .console import (
    INTERRUPTED,
    YES,
    JsonFlag,
    QuietFlag,
    Usage,
    announce,
    bar,
    err,
    escape,
    out,
    outcome,
    say,
)
from .errors import TailbiteError
from .files import read_at_most, write_whole

app = typer.Typer(
    name="tailbite", no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
    help="Prove that a program ran, and check such proofs.\n\n"
         "A PROGRAM is an RV64IM ELF file or a .py file with a `@tailbite.guest` function.\n\n"
         "**Try it:** `tailbite demo`")
app.add_typer(bench, name="bench")

ProgramArg = Annotated[str, typer.Argument(metavar="PROGRAM", help="ELF file, or .py file with a guest function.")]
ArgsArg = Annotated[list[str] | None, typer.Argument(
    metavar="[ARGS]...", help="Arguments of a Python guest: integers, true/false, a,b,c for arrays; "
                              "for Bytes: text, hex:00ff or @FILE.")]
InputOpt = Annotated[Path | None, typer.Option("--input", "-i", metavar="FILE", help="Private input of an ELF.")]
GuestOpt = Annotated[str | None, typer.Option("--guest", "-g", metavar="NAME",
                                              help="Which guest function, if the file has several.")]
ParamsOpt = Annotated[str, typer.Option("--params", "-p", metavar="NAME",
                                        help="Preset: standard (default), strong, strong2, strong8; for tests: fast, "
                                             "min.")]
InsecureFlag = Annotated[bool, typer.Option("--allow-insecure", help="Accept presets that are only for tests.")]
MaxCyclesOpt = Annotated[int | None, typer.Option("--max-cycles", min=1, help="Stop a run after so many cycles.")]


def load_program(path: str, guest: str | None = None) -> Any:
    """A Program from an ELF, or a Guest from a .py file."""
    from .program import Program

    if path.endswith(".py"):
        return load_guest(path, guest)
    if guest is not None:
        raise Usage("--guest is for .py files")
    return Program.from_elf(path)


def load_guest(path: str, name: str | None) -> Any:
    """The guest function of a Python file, which is executed."""
    import importlib.util

    from .guest import Guest

    source = Path(path)
    if not source.is_file():
        raise TailbiteError(f"cannot read {path}: no such file")
    spec = importlib.util.spec_from_file_location(source.stem, source)
    if spec is None or spec.loader is None:
        raise TailbiteError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except TailbiteError:
        raise
    except Exception as e:
        raise TailbiteError(f"{path} cannot be imported: {type(e).__name__}: {e}") from e
    found = {k: g for k, g in vars(module).items() if isinstance(g, Guest)}
    if name is not None:
        if name not in found:
            raise Usage(f"{path} has no guest '{name}'; it has: {', '.join(found) or 'none'}")
        return found[name]
    if len(found) != 1:
        raise Usage(f"{path} has {len(found)} guest functions{': ' + ', '.join(found) if found else ''}; "
                    f"{'choose one with --guest' if found else 'mark one with @tailbite.guest'}")
    return next(iter(found.values()))


def parse_argument(text: str, t: Any, name: str) -> Any:
    """A command-line argument as a value of the guest's type."""
    from .guest import Bytes
    from .lang.types import ArrayType

    try:
        if t == Bytes:
            if text.startswith("@"):
                return read_input(Path(text[1:]))
            return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
        if isinstance(t, ArrayType):
            items = [x for x in text.split(",") if x]
            return [int(x, 0) for x in items]
        if t is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        if len(text) > 64:
            raise ValueError
        return int(text, 0)
    except (ValueError, KeyError):
        raise Usage(f"'{text[:64]}' is not a value for '{name}'") from None


def private_input(program: Any, args: list[str] | None, file: Path | None) -> bytes:
    """The bytes that carry a guest's arguments or an ELF's input file."""
    from .guest import ArgumentError, Guest

    if isinstance(program, Guest):
        if file is not None:
            raise Usage("--input is for ELF files; a guest takes its arguments on the command line")
        types = program.parameters
        given = args or []
        if len(given) != len(types):
            named = ", ".join(types) or "none"
            raise Usage(f"{program.name} takes {len(types)} arguments ({named}), got {len(given)}")
        values = [parse_argument(a, t, n) for a, (n, t) in zip(given, types.items(), strict=True)]
        try:
            return program.encode(*values)
        except ArgumentError as e:
            raise Usage(str(e)) from None
    if args:
        raise Usage("arguments are for Python guests; give an ELF its input with --input FILE")
    return b"" if file is None else read_input(file)


def read_input(file: Path) -> bytes:
    """The bytes of a file that becomes private input; one byte more than is possible, of a file that is too large."""
    from .vm.executor import MAX_INPUT

    try:
        return read_at_most(file, MAX_INPUT)
    except OSError as e:
        raise TailbiteError(f"cannot read {file}: {e.strerror}") from None


def program_of(target: Any) -> Any:
    """The Program behind a Guest."""
    from .guest import Guest

    return target.program if isinstance(target, Guest) else target


def typed(target: Any, output: bytes) -> dict[str, Any]:
    """A guest's arguments, result and other output, for display."""
    from .guest import Guest

    if not isinstance(target, Guest):
        return {}
    d = target.decode(output)
    shown = [a.hex() if isinstance(a, bytes) else a for a in d.args]
    return {"args": shown, "result": d.result, "committed": d.committed.hex()}


# ---------------------------------------------------------------- progress


# ---------------------------------------------------------------- commands


@app.command()
def run(program: ProgramArg, args: ArgsArg = None, input: InputOpt = None, guest: GuestOpt = None,
        max_cycles: MaxCyclesOpt = None, profile: Annotated[bool, typer.Option(
            "--profile", help="Show instructions by function.")] = False,
        profile_output: Annotated[str | None, typer.Option(
            "--profile-output", metavar="FILE", help="Write cycles by call stack: *.folded or "
                                                     "*.speedscope.json.")] = None,
        cycles: Annotated[bool, typer.Option("--cycles", help="Show exact counts: cycles, calls, unaligned "
                                                              "accesses.")] = False,
        rows: Annotated[bool, typer.Option("--rows", help="Show rows and cells of the tables that a proof would "
                                                          "have.")] = False,
        phases: Annotated[bool, typer.Option("--phases", help="Show cycles by the phases that the program "
                                                              "marks.")] = False,
        counts: Annotated[bool, typer.Option("--counts", help="Show instructions by operation.")] = False,
        quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Run a program without proving it.

    Examples: `tailbite run fib.elf --input n.bin`, `tailbite run collatz.py 27 --profile`,
    `tailbite run fib.elf --cycles --rows --profile-output fib.speedscope.json`
    """
    with outcome(json_) as result:
        announce(quiet)
        target = load_program(program, guest)
        data = private_input(target, args, input)
        from . import cost
        from .vm.executor import MAX_CYCLES

        if profile_output is not None:
            cost.profile_format(profile_output)  # refuse another suffix before the run
        limit, profiled = max_cycles or MAX_CYCLES, phases or profile_output is not None
        done = program_of(target).run(data, limit, profile=profiled)
        result.update(output=done.output.hex(), cycles=done.cycles, printed=list(done.printed),
                      **typed(target, done.output))
        if counts:
            result["counts"] = done.counts
        if profile:
            result["profile"] = dict(done.profile())
        for text in done.printed:
            say(quiet, json_, f"print: {escape(text.rstrip())}")
        say(quiet, json_, _run_summary(result))
        if profile:
            for name, n in done.profile()[:20]:
                say(quiet, json_, f"{n:12} {100 * n / max(done.cycles, 1):5.1f} %  {escape(name)}")
        if counts:
            for name, n in sorted(done.counts.items(), key=lambda kv: -kv[1]):
                say(quiet, json_, f"{n:12} {name}")
        tables = cost.table_costs(program_of(target), data, limit) if rows else None
        figures, lines = cost.report(done.execution, cycles, phases, tables)
        result.update(figures)
        for line in lines:
            say(quiet, json_, line)
        if profile_output is not None:
            cost.write_profile(done.execution.tree, profile_output, Path(program).name)


def _run_summary(result: dict[str, Any]) -> str:
    lines = [f"{result['cycles']} cycles"]
    if "result" in result:
        lines.append(f"result: {escape(result['result'])}")
    lines.append(f"public output: {result['output'] or '(none)'}")
    return "\n".join(lines)


@app.command()
def prove(program: ProgramArg, args: ArgsArg = None,
          output: Annotated[Path | None, typer.Option("--output", "-o", metavar="PROOF",
                                                      help="Proof file; default: PROGRAM with .proof")] = None,
          input: InputOpt = None, guest: GuestOpt = None, params: ParamsOpt = "standard",
          allow_insecure: InsecureFlag = False,
          threads: Annotated[int | None, typer.Option("--threads", min=1, help="Default: all CPUs.")] = None,
          max_cycles: MaxCyclesOpt = None,
          max_memory: Annotated[int | None, typer.Option("--max-memory", metavar="MIB", min=1,
                                                         help="Refuse if the proof needs more memory.")] = None,
          stats: Annotated[bool, typer.Option("--stats", help="Show what each phase of proving took.")] = False,
          quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Run a program and prove the run.

    Examples: `tailbite prove collatz.py 837799 -o c.proof`,
    `tailbite prove sha256.elf --input data.bin --params strong`
    """
    with outcome(json_) as result:
        announce(quiet)
        from .vm.executor import MAX_CYCLES

        target = load_program(program, guest)
        data = private_input(target, args, input)
        path = output or Path(program).with_suffix(".proof").name
        began = time.perf_counter()
        with bar("prove", quiet) as tell:
            proof = program_of(target).prove(
                data, params, allow_insecure=allow_insecure, threads=threads, progress=tell,
                max_cycles=max_cycles or MAX_CYCLES, max_memory=None if max_memory is None else max_memory << 20)
        seconds = time.perf_counter() - began
        proof.save(path)
        result.update(program_id=proof.program_id.hex(), output=proof.output.hex(), bits=proof.soundness.total,
                      params=proof.params.name, proof=str(path), bytes=len(proof), seconds=round(seconds, 3),
                      **typed(target, proof.output))
        if "result" in result:
            say(quiet, json_, f"result: {escape(result['result'])}")
        say(quiet, json_, f"public output: {result['output'] or '(none)'}\nprogram id: {result['program_id']}\n"
                          f"proof: {escape(path)}, {len(proof)} bytes, {proof.soundness.total:g} proven bits "
                          f"({proof.params.name}), {seconds:.1f} s")
        if stats:
            from .program import default_threads

            result["phases"] = [{"name": p.name, "seconds": p.wall, "cpu_seconds": p.cpu, "bytes": p.bytes}
                                for p in proof.costs]
            if not json_:
                out.print(phase_table(proof.costs, threads or default_threads()))


def phase_table(costs: list[Any], threads: int) -> Table:
    """Phases with time, share, threads in use, bytes of columns and rate."""
    table = Table("phase", "seconds", "share", "CPU", "MiB", "GiB/s")
    whole = sum(p.wall for p in costs)
    rows = [(p.name, p.wall, p.cpu, p.bytes) for p in costs]
    for name, wall, cpu, size in [*rows, ("all", whole, sum(p.cpu for p in costs), sum(p.bytes for p in costs))]:
        table.add_row(name, f"{wall:.3f}", f"{wall / whole:.0%}", f"{cpu / max(wall, 1e-9) / threads:.0%}",
                      f"{size / (1 << 20):.0f}" if size else "", f"{size / 2**30 / wall:.2f}" if size else "")
    return table


@app.command()
def verify(proof: Annotated[Path, typer.Argument(metavar="PROOF", help="Proof file.")],
           program: Annotated[str | None, typer.Argument(metavar="[ELF | GUEST.py]",
                                                         help="The program; or use --id.")] = None,
           id_: Annotated[str | None, typer.Option("--id", metavar="HEX", help="Program id that you trust.")] = None,
           trust_source: Annotated[bool, typer.Option("--trust-source", help="Run the given .py file to build its "
                                                                             "program.")] = False,
           guest: GuestOpt = None,
           min_bits: Annotated[float | None, typer.Option("--min-bits", help="Refuse fewer proven bits; default "
                                                                             "100.")] = None,
           allow_insecure: InsecureFlag = False, quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Check a proof against a program, or against its id alone.

    Exit code 0 if it is good, 1 if not. Examples: `tailbite verify c.proof collatz.py --trust-source`,
    `tailbite verify c.proof --id 5b0c...`
    """
    with outcome(json_) as result:
        announce(quiet)
        from .proof import Proof
        from .proof import verify as check_proof

        target = _trusted(program, id_, trust_source, guest)
        loaded = Proof.load(proof)
        statement = check_proof(loaded, target, min_bits, allow_insecure=allow_insecure)
        result.update(program_id=statement.program_id.hex(), output=statement.output.hex(), bits=statement.bits,
                      params=statement.params.name, **typed(target, statement.output))
        say(quiet, json_, _verified(result))


def _trusted(program: str | None, id_: str | None, trust_source: bool, guest: str | None) -> Any:
    """What the caller trusts: a program, or an id."""
    if (program is None) == (id_ is None):
        raise Usage("give the program or --id HEX, one of them")
    if id_ is not None:
        try:
            value = bytes.fromhex(id_)
        except ValueError:
            value = b""
        if len(value) != 32:
            raise Usage("--id takes 64 hexadecimal digits")
        return value
    assert program is not None
    if program.endswith(".py") and not trust_source:
        raise Usage(f"building {program} runs its code: pass --trust-source if you trust it, or verify with --id")
    return load_program(program, guest)


def _verified(result: dict[str, Any]) -> str:
    lines = ["[green]verified[/]: the program halted with exit code 0 and this public output"]
    if "result" in result:
        lines.append(f"arguments: {escape(', '.join(map(str, result['args'])) or '(none public)')}\n"
                     f"result: {escape(result['result'])}")
    lines.append(f"public output: {result['output'] or '(none)'}\nprogram id: {result['program_id']}\n"
                 f"soundness: {result['bits']:g} proven bits ({result['params']})")
    return "\n".join(lines)


@app.command()
def inspect(proof: Annotated[Path, typer.Argument(metavar="PROOF", help="Proof file.")],
            soundcalc: Annotated[Path | None, typer.Option("--soundcalc", metavar="FILE",
                                                           help="Write the proof's parameters and shape as TOML, for "
                                                                "the public calculator soundcalc.")] = None,
            json_: JsonFlag = False) -> None:
    """Show what a proof claims, its tables and its soundness round by round. It is not verified."""
    with outcome(json_) as result:
        from .proof import Proof
        from .stark.soundcalc import toml

        p = Proof.load(proof)
        s = p.soundness
        if soundcalc is not None:
            soundcalc.write_text(toml(p.params, p.shape))
        result.update(program_id=p.program_id.hex(), output=p.output.hex(), params=p.params.name, bits=s.total,
                      bytes=len(p), regime=s.regime, tables=[{"name": n, "log_height": log} for n, log in p.tables],
                      rounds=[{"name": r.name, "bits": r.bits} for r in s.rounds], parts=_parts(p), verified=False)
        if json_:
            return
        out.print(f"claims (not verified): public output {escape(result['output'] or '(none)')}\n"
                  f"program id: {result['program_id']}\npreset: {p.params.name}, {len(p)} bytes")
        tables = Table("table", "rows", title="tables")
        for name, log in p.tables:
            tables.add_row(name, f"2^{log}")
        rounds = Table("round", "proven bits", title=f"soundness: {s.total:g} bits ({s.regime})")
        for r in s.rounds:
            rounds.add_row(r.name, f"{r.bits:g}")
        sizes = Table("part", "bytes", "share", title="where the bytes go")
        for name, size in sorted(result["parts"].items(), key=lambda part: -part[1]):
            sizes.add_row(name, f"{size:,}", f"{size / len(p):.1%}")
        out.print(tables)
        out.print(rounds)
        out.print(sizes if result["parts"] else "The bytes are not told apart, as the proof is bad.")


def _parts(proof: Any) -> dict[str, int]:
    """Bytes by part; none for a proof that cannot be read to its end."""
    from .proof import VerificationError

    try:
        parts: dict[str, int] = proof.parts()
        return parts
    except VerificationError:
        return {}


@app.command(name="id")
def id_command(program: ProgramArg, guest: GuestOpt = None, json_: JsonFlag = False) -> None:
    """Print a program's ids, one for each preset, and the SHA-256 of its ELF."""
    with outcome(json_) as result:
        from .stark.params import PRESETS

        p = program_of(load_program(program, guest))
        result.update(ids={x.name: p.id(x.number).hex() for x in PRESETS if x.secure}, sha256=p.sha256,
                      program_id=p.id("standard").hex())
        if not json_:
            for name, value in result["ids"].items():
                out.print(f"{name:10} {value}")
            out.print(f"{'sha256':10} {p.sha256}")


@app.command()
def check(program: ProgramArg, args: ArgsArg = None, input: InputOpt = None, guest: GuestOpt = None,
          max_cycles: MaxCyclesOpt = None, quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Run a program and check every constraint and bus of its trace, without a proof."""
    with outcome(json_) as result:
        announce(quiet)
        from .vm.executor import MAX_CYCLES

        target = load_program(program, guest)
        data = private_input(target, args, input)
        done, failures = program_of(target).check(data, max_cycles or MAX_CYCLES)
        result.update(ok=not failures, cycles=done.cycles, output=done.output.hex(),
                      failures=[str(f) for f in failures])
        say(quiet, json_, f"{done.cycles} cycles: all constraints and buses hold" if not failures else
            "\n".join(escape(f) for f in failures))


@app.command()
def build(source: Annotated[str, typer.Argument(metavar="GUEST.py", help="Python file with a guest function.")],
          output: Annotated[Path | None, typer.Option("--output", "-o", metavar="ELF",
                                                      help="Default: the file's name with .elf")] = None,
          guest: GuestOpt = None, json_: JsonFlag = False) -> None:
    """Compile a Python guest to an RV64IM ELF, which is what its proofs are about."""
    with outcome(json_) as result:
        if not source.endswith(".py"):
            raise Usage("build takes a .py file")
        target = load_guest(source, guest)
        path = output or Path(Path(source).with_suffix(".elf").name)
        elf = target.elf()
        write_whole(path, elf)
        result.update(elf=str(path), bytes=len(elf), sha256=target.program.sha256,
                      program_id=target.program.id("standard").hex())
        say(False, json_, f"{escape(path)}: {len(elf)} bytes\nsha256: {result['sha256']}\n"
                          f"program id: {result['program_id']}")


@app.command()
def doctor(json_: JsonFlag = False) -> None:
    """Show what this machine offers: CPU, LLVM, cache, and that the compiled code computes correctly."""
    with outcome(json_) as result:
        from .doctor import examine

        checks = examine()
        result.update(ok=all(c.good for c in checks), checks=[c._asdict() for c in checks])
        for c in checks:
            say(False, json_, f"{'[green]ok[/] ' if c.good else '[red]bad[/]'} {c.name}: {escape(c.found)}")


@app.command()
def demo(quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Run, prove and verify a packaged program, and say what that showed and what not."""
    with outcome(json_) as result:
        announce(quiet)
        from .demo import START, collatz
        from .proof import verify as check_proof

        began = time.perf_counter()
        say(quiet, json_, f"The program: how many Collatz steps from {START} to 1? (src: tailbite/demo.py)")
        done = collatz.run(START)
        say(quiet, json_, f"run:    {done.cycles} cycles on a RISC-V machine; result {done.result}")
        with bar("prove", quiet or not err.is_terminal) as tell:
            proof = collatz.prove(START, progress=tell)
        proved = time.perf_counter()
        say(quiet, json_, f"prove:  {len(proof)} bytes, made in {proved - began:.1f} s (the first time compiles)")
        statement = check_proof(proof, collatz)
        say(quiet, json_, f"verify: good, in {1000 * (time.perf_counter() - proved):.0f} ms, without running it")
        say(quiet, json_, f"\nShown: this program, started with {START}, halts and gives {statement.result};\n"
                          f"wrong with probability below 2^-{statement.bits:.0f} (proven bound; Keccak-256 as random "
                          f"oracle).\n"
                          f"Not shown: that the program means what its author says; and nothing is hidden:\n"
                          f"the proof is succinct, not zero-knowledge.")
        result.update(program_id=statement.program_id.hex(), output=statement.output.hex(), bits=statement.bits,
                      params=statement.params.name, result=statement.result, bytes=len(proof))


def main() -> None:
    """Entry point of the ``tailbite`` command."""
    try:
        app(standalone_mode=True)
    except KeyboardInterrupt:
        err.print("interrupted")
        os._exit(INTERRUPTED)
    except BrokenPipeError:
        os._exit(YES)


if __name__ == "__main__":
    main()
