"""The reasons for which the verifier refuses, read from its source, so that a run can say which it reached."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from fuzz_watch import plain

import tailbite
from tailbite.stark.verifier import CATEGORIES

SOURCES = ("proof.py", "channel.py", "stark/view.py", "stark/verify.py", "stark/verify_constraints.py",
           "stark/verify_queries.py", "stark/verify_trees.py")


class Reason(NamedTuple):
    """A text ``category: reason``, with what its values may be."""

    text: str
    pattern: re.Pattern[str]


def _reason(node: ast.expr | None) -> Reason | None:
    """The reason in the message of an assertion or refusal, if it is one."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    text, pattern = "", ""
    for p in parts:
        if isinstance(p, ast.Constant) and isinstance(p.value, str):
            text += p.value
            pattern += re.escape(plain(p.value))
        else:
            text += "..."
            pattern += ".*"
    if text.partition(":")[0] in CATEGORIES:
        return Reason(text, re.compile(pattern if len(text) < 150 else pattern[:150] + ".*"))
    return None


def unreached(answers: Iterable[str]) -> list[str]:
    """Reasons that no answer gave."""
    return [r.text for r in reasons() if not any(r.pattern.fullmatch(a) for a in answers)]


@functools.cache
def reasons() -> tuple[Reason, ...]:
    """All reasons, in the order of the source, each once."""
    root = Path(tailbite.__file__).parent
    found: dict[str, Reason] = {}
    for name in SOURCES:
        for node in ast.walk(ast.parse((root / name).read_text())):
            message: ast.expr | None = None
            if isinstance(node, ast.Assert):
                message = node.msg
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "refusal":
                message = node.args[0]
            reason = _reason(message)
            if reason is not None:
                found.setdefault(reason.text, reason)
    return tuple(found.values())
