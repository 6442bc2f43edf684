"""The phases of the verifier, for the cost report of the verifier as a guest.

They follow the order of the protocol; some alternate. The marks stand in ``verify*.py`` and do nothing natively and in
the interpreter. What a helper costs is counted in the phase that called it.
"""

from __future__ import annotations

from enum import IntEnum


class Phase(IntEnum):
    """What the verifier is doing."""

    STATEMENT = 1  # header, program id, output and heights: read, absorbed and checked
    TRANSCRIPT = 2  # all later messages and challenges, the proof of work, and the drawing of queries
    CONSTRAINTS = 3  # bus balance; every table's constraints at the point zeta
    BATCHING = 4  # weights; weighted sums of opened rows, which tables have one, and quotients at the queries
    OPENINGS = 5  # index sets; opened rows and leaves read, hashed, and led to the roots
    FOLDS = 6  # FRI: consistency of layers, and folding
    FINAL = 7  # the final polynomial at the last layer's queries
    REST = 8  # before the first mark and after the verdict: start, input, commits, halt


__all__ = ["Phase"]
