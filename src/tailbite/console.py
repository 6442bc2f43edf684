"""What the commands share: two consoles, outcomes and exit codes, progress bars."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .errors import ParameterError, TailbiteError

YES, NO, USAGE, FAILED, INTERRUPTED = 0, 1, 2, 3, 130

err = Console(stderr=True, highlight=False, soft_wrap=True)
out = Console(highlight=False, soft_wrap=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no messages but errors.")]


class Usage(TailbiteError):
    """A command line that makes no sense."""


@contextlib.contextmanager
def outcome(as_json: bool) -> Iterator[dict[str, Any]]:
    """Collect a command's result; turn errors into messages, JSON and exit codes."""
    from .proof import VerificationError

    result: dict[str, Any] = {"ok": True}
    code = YES
    try:
        yield result
        code = YES if result["ok"] else NO
    except VerificationError as e:
        code = NO
        result.update(ok=False, error=str(e), category=e.category)
        err.print(f"[red]rejected[/]: {escape(e)}")
    except (Usage, ParameterError) as e:
        code = USAGE
        result.update(ok=False, error=str(e))
        err.print(f"[red]error[/]: {escape(e)}")
    except (TailbiteError, OSError, MemoryError) as e:
        code = FAILED
        text = str(e) or type(e).__name__
        result.update(ok=False, error=text)
        err.print(f"[red]error[/]: {escape(text)}")
    except KeyboardInterrupt:
        code = INTERRUPTED
        result.update(ok=False, error="interrupted")
        err.print("interrupted")
    if as_json:
        sys.stdout.write(json.dumps(result, default=str) + "\n")
        sys.stdout.flush()
    if code:
        raise typer.Exit(code)


def escape(text: object) -> str:
    """Text that the console shows as it is."""
    from rich import markup

    return markup.escape(str(text))




@contextlib.contextmanager
def bar(title: str, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """A progress bar on a terminal, plain lines elsewhere, nothing if quiet."""
    if quiet:
        yield lambda phase, fraction: None
        return
    if not err.is_terminal:
        def line(phase: str, fraction: float) -> None:
            err.print(f"{title}: {phase} ({fraction:.0%})")

        yield line
        return
    with Progress(TextColumn("{task.description:32}"), BarColumn(), TextColumn("{task.percentage:3.0f}%"),
                  TimeElapsedColumn(), TimeRemainingColumn(), console=err, transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda phase, fraction: progress.update(task, description=f"{title}: {phase}", completed=fraction)


def announce(quiet: bool) -> None:
    """Let library messages, such as that of a first compilation, reach stderr."""
    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        logging.getLogger("tailbite").setLevel(logging.INFO)


def say(quiet: bool, as_json: bool, text: str) -> None:
    """A result for people: on stdout, or on stderr when stdout carries JSON."""
    if not quiet:
        (err if as_json else out).print(text)
