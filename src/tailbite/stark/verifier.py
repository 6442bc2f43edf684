"""The native verifier: compiled, with its errors given types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..channel import RECORD_WORDS, events_of
from ..errors import TailbiteError, Trap
from ..lang import cpu
from .system import Keyed
from .verify import verify

library = cpu.Library("verify", [verify], packaged=True)
MAX_EVENTS = 1 << 18


class VerificationError(TailbiteError):
    """The proof is refused. ``category`` says what failed: one of :data:`CATEGORIES`."""

    category = "proof"


CATEGORIES = ("truncated", "extended", "header", "encoding", "program", "statement", "shape", "balance",
              "constraints", "work", "opening", "fri", "soundness", "internal")


class _Categories:
    """One subclass of VerificationError for each category."""

    by_name = {name: type(f"{name.capitalize()}Error", (VerificationError,), {"category": name,
               "__doc__": f"The proof is refused: {name}."}) for name in CATEGORIES}


def refusal(message: str) -> VerificationError:
    """The typed error of a refusal ``category: reason``."""
    category, _, _ = message.partition(":")
    if category not in CATEGORIES:
        category, message = "internal", f"internal: {message}"
    return _Categories.by_name[category](message)


def working_words(keyed: Keyed, proof_words: int) -> int:
    """Working memory that suffices for any proof of this size under this key."""
    slots = max((p.slot_count for p in keyed.system.programs), default=0)
    queries = keyed.params.num_queries
    tables = len(keyed.system.slots)
    return 4096 + 16 * tables + 3 * slots + 4 * proof_words + 64 * 40 * (queries + 1)


def check_words(keyed: Keyed, program_id: bytes, words: Any, record: bool = False,
                interpret: bool = False) -> list[tuple[int, int, int, int]]:
    """Verify proof words; returns the recorded events (empty unless asked for).

    Raises :class:`VerificationError`. ``interpret`` runs the same source in the interpreter, the oracle.
    """
    memory = np.zeros(working_words(keyed, len(words)), dtype=np.uint64)
    log = np.zeros(1 + RECORD_WORDS * MAX_EVENTS if record else 0, dtype=np.uint64)
    identity = np.frombuffer(program_id, dtype="<u8").astype(np.uint64)
    run = verify if interpret else library.verify
    try:
        run(keyed.words, keyed.params_words, keyed.vm_words, identity,
            np.ascontiguousarray(words, dtype=np.uint64), memory, log)
    except Trap as e:
        raise refusal(str(e).rpartition("assertion failed: ")[2]) from None
    return events_of(log) if record else []
