"""The verifier folds exactly as the schedule that soundness is computed from."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from tailbite.lang import Slice, cpu, function, u64
from tailbite.stark.params import FINAL_LOG_DEGREE, MAX_LOG_HEIGHT, MIN_LOG_HEIGHT, FoldStep, fold_schedule
from tailbite.stark.verify_queries import next_size
from tailbite.stark.view import Shape


@function
def sizes(present: Slice[u64], blowup: u64, top: u64, out: Slice[u64]) -> u64:
    """Log sizes of the verifier's folds; returns how many there are."""
    none = present[0:0]
    shape = Shape(u64(0), blowup, top, *[none] * 14, present, none, none, none)
    size = top + blowup
    n = u64(0)
    while size > blowup + FINAL_LOG_DEGREE:
        size = next_size(shape, size, blowup + FINAL_LOG_DEGREE)
        out[n] = size
        n += 1
    return n


library = cpu.Library("fold sizes", [sizes])


def verifier_schedule(heights: tuple[int, ...], blowup: int, run=library.sizes) -> list[FoldStep]:
    """Folds for tables of these log heights."""
    present, out = np.zeros(64, dtype=np.uint64), np.zeros(40, dtype=np.uint64)
    present[list(heights)] = 1
    n = int(run(present, blowup, max(heights), out))
    stops = [max(heights) + blowup, *map(int, out[:n])]
    return [FoldStep(a, b, b - blowup in heights) for a, b in pairwise(stops)]


@pytest.mark.parametrize("blowup", [1, 2, 3])
def test_all_height_sets(blowup: int) -> None:
    heights = range(MIN_LOG_HEIGHT, MIN_LOG_HEIGHT + 11)
    for count in range(1, len(heights) + 1):
        for chosen in combinations(heights, count):
            assert verifier_schedule(chosen, blowup) == fold_schedule([h + blowup for h in chosen], blowup)


def test_tall_tables() -> None:
    for chosen in combinations(range(MIN_LOG_HEIGHT, MAX_LOG_HEIGHT + 1), 3):
        assert verifier_schedule(chosen, 1) == fold_schedule([h + 1 for h in chosen], 1)


def test_interpreter() -> None:
    for chosen in [(5,), (6,), (9, 7), (14, 13, 6), (26, 5)]:
        assert verifier_schedule(chosen, 2, sizes) == fold_schedule([h + 2 for h in chosen], 2)
