"""Reports: what was compared, on what, with which figures; as a table, Markdown and JSON. HTML is in ``page``.

The JSON form (``schema``: "tailbite-bench/1") is described in docs/benchmarking.md.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .statistics import Comparison, percent

SCHEMA = "tailbite-bench/1"


@dataclass(frozen=True)
class Exact:
    """A count that is the same every time."""

    name: str
    unit: str
    a: int
    b: int

    @property
    def change(self) -> str:
        """For people."""
        if self.a == self.b:
            return "same"
        return percent((self.a - self.b) / self.b) if self.b else "new"


@dataclass(frozen=True)
class Timed:
    """A measured quantity: all runs of both sides, paired by position, and what they say."""

    name: str
    unit: str
    a: list[float]
    b: list[float]
    stats: Comparison


@dataclass
class Report:
    """One benchmark. ``sides``: what A and B are; ``settings``: how it was made; ``phases`` add up to the cycles."""

    kind: str
    sides: dict[str, str]
    machine: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    exact: list[Exact] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    phases: list[Exact] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"tailbite bench {self.kind}: A = {self.sides['A']}, B = {self.sides['B']}"

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        def exact(rows: list[Exact]) -> list[dict[str, Any]]:
            return [{"name": r.name, "unit": r.unit, "a": r.a, "b": r.b} for r in rows]

        return {
            "schema": SCHEMA, "kind": self.kind, "sides": self.sides, "machine": self.machine,
            "settings": self.settings, "notes": self.notes, "exact": exact(self.exact), "phases": exact(self.phases),
            "timed": [{"name": t.name, "unit": t.unit, "a": t.a, "b": t.b, "stats": t.stats.as_dict(),
                       "verdict": str(t.stats)} for t in self.timed],
        }


def describe_machine() -> dict[str, Any]:
    """What the figures depend on."""
    from ..lang.backend import host

    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = 0
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"cpu": host().cpu, "threads": threads, "memory": memory, "system": platform.system(),
            "python": platform.python_version()}


def quantity(x: float, unit: str) -> str:
    """A value with its unit, four significant digits where it is not a count."""
    if unit == "s":
        for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
            if x * factor >= 1:
                return f"{x * factor:.4g} {name}"
        return f"{x * 1e9:.4g} ns"
    if unit == "B" and x >= 1 << 20:
        return f"{x / (1 << 20):.4g} MiB"
    return f"{x:,.0f} {unit}".strip()


def count(x: int, unit: str) -> str:
    """An exact count."""
    return f"{x:,} {unit}".strip()


def header(report: Report) -> list[str]:
    """Machine and settings in two lines."""
    m = report.machine
    settings = ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in report.settings.items())
    return [f"Machine: {m['cpu']}, {m['threads']} threads, {m['memory'] / 2**30:.0f} GiB, {m['system']}, "
            f"Python {m['python']}", f"Settings: {settings}"]


EXACT_HEAD = ["exact", "A", "B", "change"]
TIMED_HEAD = ["measured", "A, median", "B, median", "mean change (95 %)", "median shift (95 %)", "p: t, Wilcoxon",
              "variation A, B", "drift", "verdict"]


def exact_cells(r: Exact) -> list[str]:
    return [r.name, count(r.a, r.unit), count(r.b, r.unit), r.change]


def timed_cells(t: Timed) -> list[str]:
    s = t.stats
    return [t.name, quantity(float(np.median(t.a)), t.unit), quantity(float(np.median(t.b)), t.unit),
            f"{percent(s.mean)} ({percent(s.mean_low)} to {percent(s.mean_high)})",
            f"{percent(s.shift)} ({percent(s.shift_low)} to {percent(s.shift_high)})",
            f"{s.t_p:.2g}, {s.wilcoxon_p:.2g}", f"{100 * s.variation_a:.1f} %, {100 * s.variation_b:.1f} %",
            f"{percent(s.drift)} (p {s.drift_p:.2g})", str(s)]


def phase_cells(report: Report) -> list[list[str]]:
    """Phases with their share of each side's cycles."""
    total_a, total_b = (max(1, sum(v)) for v in zip(*((p.a, p.b) for p in report.phases), strict=True))
    return [[p.name, f"{p.a:,} ({100 * p.a / total_a:.1f} %)", f"{p.b:,} ({100 * p.b / total_b:.1f} %)", p.change]
            for p in report.phases]


def markdown(report: Report) -> str:
    """For a pull request: tables, and exact figures to unfold."""
    def table(head: list[str], rows: list[list[str]]) -> list[str]:
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        return [*lines, *("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in rows), ""]

    out = [f"### {report.title.replace('`', '')}", "", *(f"{line}  " for line in header(report)), ""]
    out += [f"> {n}" for n in report.notes] + [""] * bool(report.notes)
    if report.timed:
        out += table(TIMED_HEAD, [timed_cells(t) for t in report.timed])
        out += ["Change is (A - B) / B: negative means that A takes less. A verdict needs both tests.", ""]
    if report.exact:
        out += table(EXACT_HEAD, [exact_cells(r) for r in report.exact])
    if report.phases:
        out += table(["phase", "A, cycles", "B, cycles", "change"], phase_cells(report))
    raw = [f"{r.name}: A {r.a} B {r.b} {r.unit}".rstrip() for r in [*report.exact, *report.phases]]
    for t in report.timed:
        scale, unit = (1e9, "ns") if t.unit == "s" else (1, t.unit)
        raw += [f"{t.name}, {k}, {unit}: {' '.join(str(round(v * scale)) for v in runs)}"
                for k, runs in (("A", t.a), ("B", t.b))]
    out += ["<details><summary>Raw figures</summary>", "", "```text", *raw, "```", "", "</details>", ""]
    return "\n".join(out)


def show(report: Report, console: Any) -> None:
    """The terminal table."""
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(report.title)}[/]")
    for line in [*header(report), *report.notes]:
        console.print(escape(line))
    for t in report.timed:
        s, colour = t.stats, {"IMPROVED": "green", "REGRESSED": "red"}.get(t.stats.verdict, "yellow")
        cells = timed_cells(t)
        console.print(f"\n[bold]{escape(t.name)}[/]: [{colour}]{escape(str(s))}[/]")
        for label, value in zip(TIMED_HEAD[1:-1], cells[1:-1], strict=True):
            console.print(f"  {label:20} {escape(value)}")
    for head, rows in ((EXACT_HEAD, [exact_cells(r) for r in report.exact]),
                       (["phase", "A, cycles", "B, cycles", "change"], phase_cells(report) if report.phases else [])):
        if rows:
            table = Table(*head)
            for r in rows:
                table.add_row(*map(escape, r))
            console.print(table)
