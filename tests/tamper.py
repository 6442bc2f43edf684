"""A manifest of tampered proofs: every message and hint of a recorded proof, times the ways to change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tailbite.channel import HINT, MESSAGE, Label
from tailbite.field import P

Events = list[tuple[int, int, int, int]]
MASK = (1 << 64) - 1


class Entry(NamedTuple):
    """One message or hint: where its words are in the proof. ``ordinal`` counts those of the same label."""

    label: Label
    ordinal: int
    start: int
    size: int

    def of(self, words: Any) -> Any:
        return words[self.start:self.start + self.size]

    @property
    def name(self) -> str:
        return f"{self.label.name.lower()} {self.ordinal}"


class Recorded(NamedTuple):
    """A proof with its record."""

    words: Any
    events: Events

    def entries(self) -> list[Entry]:
        """What the stream is made of, in order."""
        out, at, seen = [], 0, dict[int, int]()
        for label, kind, size, _ in self.events:
            if kind in (MESSAGE, HINT):
                out.append(Entry(Label(label), seen.get(label, 0), at, size))
                seen[label] = seen.get(label, 0) + 1
                at += size
        assert at == len(self.words), "the record is not that of these words"
        return out


class Tampered(NamedTuple):
    """A changed proof."""

    entry: Entry
    strategy: str
    words: Any

    @property
    def name(self) -> str:
        return f"{self.entry.name}: {self.strategy}"


# ---------------------------------------------------------------- strategies
# Each gives the changed words of an entry, which may have none, or None where it does not apply. ``other`` is what
# another proof has in this place, if it has something else.


def set_word(entry: Any, at: int, value: int) -> Any:
    out = entry.copy()
    out[at] = value
    return out


def somewhere(entry: Any) -> int:
    """A place in the entry that depends on its words."""
    return int(entry[0]) % len(entry)


def add_one(entry: Any, other: Any) -> Any:
    if len(entry):
        at = somewhere(entry)
        return set_word(entry, at, int(entry[at]) + 1 & MASK)


def add_p(entry: Any, other: Any) -> Any:
    """The same field element in another form, where 64 bits hold one."""
    for at, x in enumerate(entry.tolist()):
        if x + P <= MASK:
            return set_word(entry, at, x + P)


def above_p(entry: Any, other: Any) -> Any:
    """A word that is no field element."""
    if len(entry):
        at = somewhere(entry)
        return set_word(entry, at, P + int(entry[at]) % (MASK + 1 - P))


def swap(entry: Any, other: Any) -> Any:
    """Exchange the first two neighbours that differ."""
    for at in range(len(entry) - 1):
        if entry[at] != entry[at + 1]:
            out = entry.copy()
            out[[at, at + 1]] = entry[[at + 1, at]]
            return out


def zero(entry: Any, other: Any) -> Any:
    if entry.any():
        return set_word(entry, int(np.flatnonzero(entry)[-1]), 0)


def drop(entry: Any, other: Any) -> Any:
    return entry[:0] if len(entry) else None


def duplicate(entry: Any, other: Any) -> Any:
    return np.concatenate([entry, entry]) if len(entry) else None


def extend(entry: Any, other: Any) -> Any:
    return np.concatenate([entry, np.zeros(1, dtype=np.uint64)])


def replace(entry: Any, other: Any) -> Any:
    return other


def truncate(entry: Any, other: Any) -> Any:
    """The proof ends one word before the entry does: see :func:`manifest`."""
    return entry[:-1] if len(entry) else None


WHOLE: tuple[Callable[[Any, Any], Any], ...] = (
    add_one, add_p, above_p, swap, zero, drop, duplicate, truncate, extend, replace)
STRATEGIES: dict[Label, tuple[Callable[[Any, Any], Any], ...]] = {
    Label.DOMAIN: WHOLE,
    Label.PROGRAM: WHOLE,
    Label.OUTPUT: WHOLE,
    Label.TABLES: WHOLE,
    Label.MAIN_ROOT: WHOLE,
    Label.LOGUP_ROOT: WHOLE,
    Label.SIGMA: WHOLE,
    Label.QUOTIENT_ROOT: WHOLE,
    Label.VALUES: WHOLE,
    Label.FRI_ROOT: WHOLE,
    Label.FINAL: WHOLE,
    Label.NONCE: WHOLE,
    Label.ROWS: WHOLE,
    Label.SIBLINGS: WHOLE,
}
"""What is done to the entries of each label. A label that is missing here makes :func:`manifest` fail."""


IN_PLACE: dict[Label, str] = {
    Label.DOMAIN: "header",
    Label.PROGRAM: "program",
    Label.OUTPUT: "statement encoding shape balance constraints",
    Label.TABLES: "shape balance constraints",
    Label.MAIN_ROOT: "balance constraints",
    Label.LOGUP_ROOT: "constraints",
    Label.SIGMA: "balance",
    Label.QUOTIENT_ROOT: "constraints",
    Label.VALUES: "constraints",
    Label.FRI_ROOT: "work opening",
    Label.FINAL: "work opening",
    Label.NONCE: "work",
    Label.ROWS: "opening",
    Label.SIBLINGS: "opening",
}
"""Why a changed word is refused: by the first check after it. A root is not checked until it is opened, so the check is
that of the challenges which it changes: of the constraints, or of the nonce, which happens to be right once in a while.
"""
MOVED: dict[Label, str] = {
    Label.DOMAIN: "header program statement shape",
    Label.PROGRAM: "program statement shape truncated",
    Label.OUTPUT: "statement encoding shape truncated balance constraints",
    Label.TABLES: "shape encoding balance constraints",
    Label.MAIN_ROOT: "encoding balance constraints",
    Label.LOGUP_ROOT: "encoding balance constraints",
    Label.SIGMA: "encoding balance constraints",
    Label.QUOTIENT_ROOT: "encoding constraints",
    Label.VALUES: "encoding constraints work opening truncated",
    Label.FRI_ROOT: "encoding work opening",
    Label.FINAL: "encoding work opening truncated",
    Label.NONCE: "encoding work opening truncated",
    Label.ROWS: "encoding opening truncated",
    Label.SIBLINGS: "encoding opening truncated extended",
}
"""The same where the words after the entry move: what is read in their stead may also be no field element, or there may
be too few or too many in the end."""
ELEMENTS = {Label.SIGMA, Label.VALUES, Label.FINAL, Label.ROWS}
"""Labels whose words are field elements, which is checked when they are read."""


def expected(case: Tampered) -> set[str]:
    """Categories of refusal that are right for a case."""
    label, strategy = case.entry.label, case.strategy
    if strategy == "truncate":
        return {"truncated"}
    if strategy in ("add_p", "above_p") and label in ELEMENTS:
        return {"encoding"}
    if strategy in ("drop", "duplicate", "extend"):
        return set(MOVED[label].split())
    if strategy == "replace":
        return set(f"{IN_PLACE[label]} {MOVED[label]}".split())
    return set(IN_PLACE[label].split())


def donors(others: Sequence[Recorded]) -> dict[tuple[Label, int], list[Any]]:
    """What other proofs have in each place, whatever its size."""
    out: dict[tuple[Label, int], list[Any]] = {}
    for other in others:
        for e in other.entries():
            out.setdefault((e.label, e.ordinal), []).append(e.of(other.words))
    return out


def manifest(proof: Recorded, others: Sequence[Recorded]) -> Iterator[Tampered]:
    """Every entry times every strategy that applies; KeyError for an entry that nobody thought of.

    The ``others`` are proofs whose entries take the place of this one's.
    """
    elsewhere = donors(others)
    for entry in proof.entries():
        own = entry.of(proof.words)
        other = next((x for x in elsewhere.get((entry.label, entry.ordinal), ()) if not np.array_equal(x, own)), None)
        for strategy in STRATEGIES[entry.label]:
            changed = strategy(own, other)
            if changed is not None:
                rest = proof.words[entry.start + entry.size:len(proof.words) * (strategy is not truncate)]
                words = np.concatenate([proof.words[:entry.start], changed, rest])
                assert not np.array_equal(words, proof.words)
                yield Tampered(entry, strategy.__name__, words)


def thinned(cases: Sequence[Tampered]) -> list[Tampered]:
    """Every case of all entries but siblings, of which there are many alike, and of those every third."""
    siblings = [c for c in cases if c.entry.label == Label.SIBLINGS]
    return [c for c in cases if c.entry.label != Label.SIBLINGS] + siblings[::3]
