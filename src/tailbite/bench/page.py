"""A report as one HTML page that needs no network: tables, and plots as inline SVG."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from .report import (
    EXACT_HEAD,
    TIMED_HEAD,
    Exact,
    Report,
    Timed,
    exact_cells,
    header,
    phase_cells,
    timed_cells,
)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } th, td { border: 1px solid #ccc; padding: .2rem .6rem; }
td:not(:first-child) { text-align: right; } figure { margin: 1.5rem 0; } svg { max-width: 100%; height: auto; }
.note { border-left: 4px solid #c80; padding-left: 1rem; }
.IMPROVED { color: #080; } .REGRESSED { color: #b00; font-weight: bold; }
"""
COLOURS = {"A": "#1f6fb4", "B": "#c8691c"}


def page(report: Report) -> str:
    """The whole document."""
    parts = [f"<h1>{html.escape(report.title)}</h1>", *(f"<p>{html.escape(line)}</p>" for line in header(report)),
             *(f'<p class="note">{html.escape(n)}</p>' for n in report.notes)]
    if report.timed:
        parts.append(_table(TIMED_HEAD, [timed_cells(t) for t in report.timed],
                            [t.stats.verdict for t in report.timed]))
    if report.exact:
        parts.append(_table(EXACT_HEAD, [exact_cells(r) for r in report.exact]))
    if report.phases:
        parts.append(_table(["phase", "A, cycles", "B, cycles", "change"], phase_cells(report)))
        parts.append(_figure("phases", "Cycles by phase", _phases(report.phases)))
    for t in report.timed:
        parts.append(_figure("pairs", f"{t.name}: pairs over time", _pairs(t)))
        parts.append(_figure("changes", f"{t.name}: distribution of changes", _changes(t)))
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(report.title)}</title>'
            f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], classes: Sequence[str] = ()) -> str:
    def line(tag: str, cells: Sequence[str], name: str = "") -> str:
        mark = f' class="{name.split()[0]}"' if name else ""
        return f"<tr{mark}>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    names = list(classes) or [""] * len(rows)
    body = "".join(line("td", r, n) for r, n in zip(rows, names, strict=True))
    return f"<table>{line('th', head)}{body}</table>"


def _figure(kind: str, caption: str, svg: str) -> str:
    return f'<figure class="{kind}"><figcaption>{html.escape(caption)}</figcaption>{svg}</figure>'


def _plot(height: float, draw: Any) -> str:
    """An SVG of what ``draw(axes)`` draws, always the same for the same figures."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tailbite", "font.size": 9}):
        figure = Figure(figsize=(8, height), layout="constrained")
        draw(figure.add_subplot())
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    return svg[svg.index("<svg"):]


def _pairs(t: Timed) -> str:
    def draw(axes: Any) -> None:
        for k, runs in (("A", t.a), ("B", t.b)):
            axes.plot(range(1, len(runs) + 1), runs, "o-", color=COLOURS[k], label=k, markersize=3, linewidth=1)
        axes.set_xlabel("pair")
        axes.set_ylabel(t.unit)
        axes.legend()

    return _plot(2.6, draw)


def _changes(t: Timed) -> str:
    def draw(axes: Any) -> None:
        change = 100 * (np.array(t.a) / np.array(t.b) - 1)
        s = t.stats
        axes.hist(change, bins="auto", color="#bbb")
        axes.axvline(0, color="black", linewidth=0.8)
        axes.axvspan(100 * s.mean_low, 100 * s.mean_high, color=COLOURS["A"], alpha=0.2, label="mean, 95 %")
        axes.axvspan(100 * s.shift_low, 100 * s.shift_high, color=COLOURS["B"], alpha=0.2, label="median shift, 95 %")
        axes.set_xlabel("change (A - B) / B, %; negative: A takes less")
        axes.set_ylabel("pairs")
        axes.legend()

    return _plot(2.4, draw)


def _phases(phases: Sequence[Exact]) -> str:
    def draw(axes: Any) -> None:
        at = np.arange(len(phases))
        axes.barh(at - 0.2, [p.a for p in phases], 0.4, color=COLOURS["A"], label="A")
        axes.barh(at + 0.2, [p.b for p in phases], 0.4, color=COLOURS["B"], label="B")
        axes.set_yticks(at, [p.name for p in phases])
        axes.invert_yaxis()
        axes.set_xlabel("cycles")
        axes.legend()

    return _plot(0.9 + 0.35 * len(phases), draw)
