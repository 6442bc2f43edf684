"""Where the bytes of a proof go: by table, by tree, by kind of message."""

from __future__ import annotations

from collections.abc import Sequence

from ..channel import HINT, MESSAGE, Label
from .system import Keyed

Event = tuple[int, int, int, int]
STATEMENT = (Label.DOMAIN, Label.PROGRAM, Label.OUTPUT, Label.TABLES)


def parts(keyed: Keyed, logs: Sequence[int], events: Sequence[Event]) -> dict[str, int]:
    """Bytes by part, from the record of a proof that was read to its end; they add up to its size.

    ``logs``: log height of each slot, 0 if absent. Rows of a tree are opened by descending height, and a row holds the
    columns of all tables of its height, so what a table takes follows from its width and the number of distinct rows.
    """
    size = {label: 0 for label in Label}
    for label, kind, words, _ in events:
        if kind in (MESSAGE, HINT):
            size[Label(label)] += 8 * words
    indices = [value for label, _, _, value in events if label == Label.INDEX]
    out = {"statement": sum(size[label] for label in STATEMENT), "out-of-domain values": size[Label.VALUES]}

    def opened(log: int, width: int) -> int:
        rows = len({i & (1 << log + keyed.params.log_blowup) - 1 for i in indices})
        return 8 * rows * width

    absent = 0
    for (k, instance), log in zip(keyed.system.slots, logs, strict=True):
        p = keyed.system.programs[k]
        if log:
            name = f"rows of {p.name} (2^{log})"
            out[name] = out.get(name, 0) + opened(log, p.fixed_count + p.main_count + 3 * p.pairs)
        elif p.fixed_in == 1 and instance == 0:
            absent += opened(p.min_log, p.fixed_count)  # universal trees are opened whole
    if absent:
        out["rows of absent tables"] = absent
    out["rows of quotients"] = sum(opened(log, 6) for log in {log for log in logs if log})
    out["rows of FRI layers"] = size[Label.ROWS] - sum(v for k, v in out.items() if k.startswith("rows of"))
    out["siblings of rows"], out["siblings of FRI layers"] = _siblings(events, 1 + max(
        i for i, (label, _, _, _) in enumerate(events) if label == Label.INDEX))
    out["roots, sums, final polynomial, nonce"] = sum(size.values()) - sum(out.values())
    return out


def _siblings(events: Sequence[Event], start: int) -> tuple[int, int]:
    """Bytes of siblings in the trees of tables and in those of FRI layers, of which there are as many as FRI roots."""
    trees: list[int] = []
    before = Label.SIBLINGS
    for label, kind, words, _ in events[start:]:
        if kind == HINT and label == Label.ROWS and before == Label.SIBLINGS:
            trees.append(0)
        if kind == HINT and label == Label.SIBLINGS:
            trees[-1] += 8 * words
        before = Label(label)
    layers = sum(label == Label.FRI_ROOT for label, _, _, _ in events)
    split = len(trees) - layers
    return sum(trees[:split]), sum(trees[split:])
