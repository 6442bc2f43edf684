"""``tailbite bench verify | cycles | prove | run``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..console import JsonFlag, QuietFlag, Usage, bar, out, outcome
from ..files import write_whole

if TYPE_CHECKING:
    from .report import Report
    from .sides import Side

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="markdown",
    help="What changed between two revisions, how sure it is, and when it cannot tell.\n\n"
         "A is the candidate, B the baseline: a commit, branch or tag of the clone that you are in, or `.` for its "
         "working tree. Each is installed once, in a cache. Needs `pip install 'tailbite[bench]'`.")

AArg = Annotated[str, typer.Argument(metavar="A", help="Candidate: a revision, or . for the working tree.")]
BArg = Annotated[str, typer.Argument(metavar="B", help="Baseline, likewise.")]
PairsOpt = Annotated[int, typer.Option("--pairs", help="Pairs of runs: even, 6 to 40.")]
ThresholdOpt = Annotated[float, typer.Option("--threshold", metavar="PERCENT", min=0.01,
                                             help="A difference that is surely smaller does not matter.")]
MarkdownOpt = Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown report too.")]
HtmlOpt = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML page with plots too.")]
ParamsOpt = Annotated[str, typer.Option("--params", "--preset", "-p", metavar="NAME", help="Preset of the proofs.")]


@contextlib.contextmanager
def reporting(json_: bool, quiet: bool, markdown: Path | None, html: Path | None) -> Iterator[Any]:
    """Collect a report from the body, then write it in every form that was asked for."""
    with outcome(json_) as result:
        try:
            import filelock  # noqa: F401
            import matplotlib  # noqa: F401
            import scipy  # noqa: F401
        except ImportError as e:
            raise Usage(f"tailbite bench needs {e.name}: pip install 'tailbite[bench]'") from None
        from .report import markdown as as_markdown
        from .report import show

        made: list[Report] = []
        with bar("bench", quiet) as tell:
            def step(what: str, done: int, total: int) -> None:
                tell(what, done / max(total, 1))

            try:
                yield made, step
            except ValueError as e:
                raise Usage(str(e)) from None
        report = made[0]
        if markdown is not None:
            write_whole(markdown.absolute(), as_markdown(report).encode())
        if html is not None:
            from .page import page

            write_whole(html.absolute(), page(report).encode())
        result.update(report.as_dict())
        if not json_:
            show(report, out)


def two_sides(a: str, b: str, step: Callable[[str, int, int], None]) -> Mapping[str, Side]:
    """Both revisions, installed."""
    from .sides import check_names, prepare

    check_names(a, b)
    return {k: prepare(name, tell=lambda text: step(text, 0, 1)) for k, name in (("B", b), ("A", a))}


@app.command()
def verify(a: AArg, b: BArg, pairs: PairsOpt = 20, params: ParamsOpt = "strong",
           program: Annotated[str, typer.Option("--program", metavar="P", help="What the proof is about: an ELF file, "
                                                "empty, or a program of the suite.")] = "fibonacci",
           per_side: Annotated[bool, typer.Option("--per-side", help="Each side verifies its own proof.")] = False,
           threshold: ThresholdOpt = 1.0, markdown: MarkdownOpt = None, html: HtmlOpt = None,
           quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Compare the time of verification.

    Both sides verify one proof, made by B, if A accepts it. Examples: `tailbite bench verify . HEAD`,
    `tailbite bench verify HEAD HEAD~1 --pairs 40 --html report.html`
    """
    with reporting(json_, quiet, markdown, html) as (made, step):
        from .comparisons import verify as compare

        made.append(compare(two_sides(a, b, step), pairs, params, program, per_side, threshold / 100, step))


@app.command()
def cycles(a: AArg, b: BArg, params: ParamsOpt = "min",
           program: Annotated[str, typer.Option("--program", metavar="P", help="Inner program: an ELF file, empty, or "
                                                "a program of the suite.")] = "empty",
           markdown: MarkdownOpt = None, html: HtmlOpt = None, quiet: QuietFlag = False,
           json_: JsonFlag = False) -> None:
    """Compare what it costs to verify a proof inside the machine, in exact cycles and calls.

    Example: `tailbite bench cycles . HEAD --preset strong8 --program fibonacci`
    """
    with reporting(json_, quiet, markdown, html) as (made, step):
        from .comparisons import cycles as compare

        made.append(compare(two_sides(a, b, step), params, program, step))


@app.command()
def prove(a: AArg, b: BArg, pairs: PairsOpt = 6, params: ParamsOpt = "standard",
          program: Annotated[list[str] | None, typer.Option("--program", metavar="P", help="Only this program; may be "
                                                            "given again. Default: the suite.")] = None,
          threshold: ThresholdOpt = 2.0, markdown: MarkdownOpt = None, html: HtmlOpt = None,
          quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Compare proving time, memory and cells on a suite of programs that uses every table.

    Example: `tailbite bench prove . main --program divisions --pairs 20`
    """
    with reporting(json_, quiet, markdown, html) as (made, step):
        from .comparisons import prove as compare

        made.append(compare(two_sides(a, b, step), pairs, params, program or (), threshold / 100, step))


@app.command()
def run(a: Annotated[str, typer.Argument(metavar="'CMD A'", help="Candidate: a command line, without a shell.")],
        b: Annotated[str, typer.Argument(metavar="'CMD B'", help="Baseline, likewise.")],
        pairs: PairsOpt = 20, threshold: ThresholdOpt = 1.0, markdown: MarkdownOpt = None, html: HtmlOpt = None,
        quiet: QuietFlag = False, json_: JsonFlag = False) -> None:
    """Compare any two commands: wall, user and system time, peak memory.

    Example: `tailbite bench run -- 'gzip -k -f big' 'gzip -1 -k -f big'`
    """
    with reporting(json_, quiet, markdown, html) as (made, step):
        from .comparisons import commands

        made.append(commands(a, b, pairs, threshold / 100, step))

