"""Where the transcript absorbs and draws: sites as the recorder saw them, and as they stand in the source.

    python tests/inventory.py    write tests/data/transcript.txt again after a deliberate change of the protocol
"""

from __future__ import annotations

import ast
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent / "stark"))

import numpy as np
import reference_verifier as ref
from cases import Case, make, proof

import tailbite
from tailbite import Proof
from tailbite.air import Table, fixed
from tailbite.channel import ABSORB, CHALLENGE, HINT, KINDS, MESSAGE, Label
from tailbite.stark.params import fold_schedule
from tailbite.stark.system import System
from tailbite.stark.verifier import check_words

PINNED = Path(__file__).parent / "data" / "transcript.txt"
ARTEFACTS = Path(__file__).parent / "artefacts"
SOURCE = Path(tailbite.__file__).parent
AIRS = [("fibonacci 5", "fast"), ("fibonacci 9", "min"), ("permutation 9 7 6", "fast"), ("permutation 11 5", "strong8"),
        ("squares 8", "fast"), ("echo nothing", "min"), ("echo 3", "standard"), ("echo 40", "fast")]
MACHINE = ["collatz.min", "collatz.fast"]

Events = list[tuple[int, int, int, int]]


class Constant(Table):
    """Nothing but a preprocessed column: neither a main tree nor buses."""

    name = "CONSTANT"
    fixed_in = "universal"
    required = True
    min_log = max_log = 5
    constraint_count = 1
    n = fixed("zero or one")

    def rules(t) -> None:
        t.zero("bit", t.n * (1 - t.n))


@functools.cache
def constant() -> System:
    return System("constant", [Constant()], [], universal={"CONSTANT": np.array([[0, 1] * 16], dtype=np.uint64)})


class Recorded(NamedTuple):
    """The verifier's events on a proof, and the numbers that the protocol's sizes depend on."""

    events: Events
    words: int
    numbers: dict[str, int]


def numbers(keyed: Any, program_id: bytes, words: Any) -> dict[str, int]:
    """What sizes are made of, by the reference verifier."""
    run = ref.Run(keyed, words)
    run.statement(program_id)
    run.commitments()
    run.values()
    steps = fold_schedule([log + run.blowup for log in run.logs], run.blowup)
    return {
        "P": len(run.system.program_tables),
        "bytes": len(run.output),
        "slots": len(run.system.slots),
        "M": sum(s.program.main_count for s in run.slots),
        "S": sum(bool(s.program.interactions) for s in run.slots),
        "T": len(run.terms),
        "folds": len(steps),
        "joins": sum(step.joins for step in steps),
        "grinding": run.params.grinding_bits,
        "queries": run.params.num_queries,
    }


def recorded(keyed: Any, program_id: bytes, words: Any) -> Recorded:
    events = check_words(keyed, program_id, words, record=True)
    return Recorded(events, len(words), numbers(keyed, program_id, words))


def all_recorded() -> list[Recorded]:
    """Proofs of the example AIRs, and of the machine."""
    airs = [*(proof(*air) for air in AIRS), make(Case(constant(), b"", {0: None}))]
    out = [recorded(made.keyed, made.program_id, made.words) for made in airs]
    for name in MACHINE:
        p = Proof.load(ARTEFACTS / f"{name}.proof")
        out.append(recorded(p.keyed, p.program_id, p.words))
    return out


# ---------------------------------------------------------------- from the recorder

Formula = Callable[[dict[str, int]], int]
WORDS: dict[str, Formula] = {
    "1": lambda n: 1,
    "3": lambda n: 3,
    "4": lambda n: 4,
    "96": lambda n: 96,
    "5 + P": lambda n: 5 + n["P"],
    "ceil(bytes / 8)": lambda n: -(-n["bytes"] // 8),
    "slots": lambda n: n["slots"],
    "3 S": lambda n: 3 * n["S"],
    "3 T": lambda n: 3 * n["T"],
}
TIMES: dict[str, Formula] = {
    "1": lambda n: 1,
    "1 if M > 0": lambda n: int(n["M"] > 0),
    "1 if S > 0": lambda n: int(n["S"] > 0),
    "1 if grinding": lambda n: int(n["grinding"] > 0),
    "folds": lambda n: n["folds"],
    "joins": lambda n: n["joins"],
    "queries": lambda n: n["queries"],
    "ceil(log2 T)": lambda n: (n["T"] - 1).bit_length(),
}
LEGEND = """\
# Everything that the transcript absorbs and draws, and every opening, in the order of the protocol, as recorded from
# proofs of the machine and of the example AIRs. Write again: python tests/inventory.py
#
# P: tables with preprocessed columns of the program. bytes: length of the public output. M: main columns of the
# present tables. S: present tables with messages. T: opened values. folds, joins: of the FRI schedule.
# after: the steps that can come before this one.
"""


def site(event: tuple[int, int, int, int], seen: Counter[str]) -> str:
    """Name of an event's site. Label and kind tell sites apart, but for the output's length and its bytes."""
    label, kind, _, _ = event
    name = f"{Label(label).name.lower():14} {KINDS[kind]}"
    if label == Label.OUTPUT and seen[name]:
        name += " 2"
    return name


def sites(proof: Recorded) -> list[tuple[str, int]]:
    """(site, words) of every event."""
    out, seen = [], Counter[str]()
    for event in proof.events:
        name = site(event, seen)
        seen[name] += 1
        out.append((name, event[2]))
    return out


def formula(candidates: dict[str, Formula], values: list[tuple[dict[str, int], set[int]]]) -> str:
    """The first formula that gives every proof's only value."""
    found = (text for text, f in candidates.items() if all({f(n)} == v for n, v in values))
    return next(found, "?")


def inventory(proofs: list[Recorded]) -> str:
    """The sites with their formulas, as the pinned file has them."""
    streams = [sites(p) for p in proofs]
    order = merged([list(dict.fromkeys(name for name, _ in s)) for s in streams])
    lines = []
    for name in order:
        times = [(p.numbers, {sum(n == name for n, _ in s)}) for p, s in zip(proofs, streams, strict=True)]
        words = [(p.numbers, {w for n, w in s if n == name}) for p, s in zip(proofs, streams, strict=True)]
        before = {s[k - 1][0] if k else "-" for s in streams for k, (n, _) in enumerate(s) if n == name}
        after = ", ".join(" ".join(b.split()) for b in sorted(before, key=["-", *order].index))
        if name.endswith(KINDS[HINT]):
            lines.append((name, "by tree", "by indices", after))
        else:
            lines.append((name, formula(WORDS, [x for x in words if x[1]]), formula(TIMES, times), after))
    head = ("label          kind", "words", "times", "after")
    return LEGEND + "".join(f"{a:26} {b:16} {c:14} {d}\n" for a, b, c, d in [head, *lines])


def merged(orders: list[list[str]]) -> list[str]:
    """One order that agrees with all: each item comes when nothing that is still to come precedes it anywhere."""
    left = [o for o in orders if o]
    out: list[str] = []
    while left:
        item = next(o[0] for o in left if not any(o[0] in other[1:] for other in left))
        out.append(item)
        left = [rest for o in left if (rest := [x for x in o if x != item])]
    return out


# ---------------------------------------------------------------- from the source

CALLS = {"message": MESSAGE, "field_message": MESSAGE, "absorb": ABSORB, "challenge": CHALLENGE,
         "challenge_below": CHALLENGE, "hint": HINT, "record_event": CHALLENGE}
METHODS = {"message": MESSAGE, "absorb": ABSORB, "challenge": CHALLENGE, "challenge_below": CHALLENGE, "hint": HINT,
           "pow_seed": CHALLENGE}


@functools.cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


def trees(pattern: str) -> Iterator[tuple[str, ast.Module]]:
    """Source files with their syntax trees."""
    for path in sorted(SOURCE.glob(pattern)):
        yield path.relative_to(SOURCE).as_posix(), parsed(path.read_text())


def label_in(node: ast.AST) -> Label | None:
    """``Label.X`` anywhere in an expression."""
    for n in ast.walk(node):
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "Label":
            return Label[n.attr]
    return None


def read_sites() -> set[tuple[Label, int]]:
    """Label and kind of every step that the verifier's source makes."""
    out = set()
    for path, tree in trees("stark/verify*.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                label = label_in(node.args[1])
                assert label is not None, f"{path}:{node.lineno}: a step of the channel without a label"
                out.add((label, CALLS[node.func.id]))
    return out


def written_sites() -> set[tuple[Label, int]]:
    """The same of the prover's source."""
    out = set()
    for path, tree in trees("stark/prove*.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS \
                    and isinstance(node.func.value, ast.Name) and node.func.value.id == "ch":
                label = Label.POW_SEED if node.func.attr == "pow_seed" else label_in(node.args[0])
                assert label is not None, f"{path}:{node.lineno}: a step of the channel without a label"
                out.add((label, METHODS[node.func.attr]))
    return out


def imports(module: str) -> set[tuple[str, str]]:
    """(file, name) of everything that is imported from a module of the package, or the module itself."""
    out = set()
    for path, tree in trees("**/*.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                names = {a.name for a in node.names}
                if (node.module or "").split(".")[-1] == module:
                    out |= {(path, name) for name in names}
                elif module in names:
                    out.add((path, module))
            elif isinstance(node, ast.Import):
                out |= {(path, a.name) for a in node.names if a.name.split(".")[-1] == module}
    return out


def channel_parts() -> set[tuple[str, str, str]]:
    """(file, function, part) wherever a part of a reader is used past the channel's own functions."""
    out = set()
    for path, tree in trees("**/*.py"):
        if path == "channel.py":
            continue
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            out |= {(path, function.name, node.attr) for node in ast.walk(function)
                    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ch"
                    and node.attr in ("proof", "at", "t", "log")}
    return out


if __name__ == "__main__":
    PINNED.write_text(inventory(all_recorded()))
