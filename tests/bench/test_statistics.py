"""The statistics of paired benchmarks against textbook values, direct enumeration, and simulation."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailbite.bench.statistics import (
    ALPHA,
    IMPROVED,
    INCONCLUSIVE,
    NO_DIFFERENCE,
    REGRESSED,
    compare,
    hodges_lehmann,
    missing_pairs,
    signed_rank_p,
    t_interval,
    trend,
)

NOISE = json.loads((Path(__file__).parents[1] / "data" / "bench_noise.json").read_text())

# Hollander, Wolfe, Chicken, table 3.1: depression scores of nine patients before and after; Z = after - before.
DEPRESSION = np.array([-0.952, 0.147, -1.022, -0.430, -0.620, -0.590, -0.490, 0.080, -0.010])


def test_signed_rank_is_exact() -> None:
    """The two-sided p-value by all 2^9 sign patterns; the book has T+ = 5 and a one-sided 0.020."""
    ranks = np.argsort(np.argsort(np.abs(DEPRESSION))) + 1
    observed = ranks[DEPRESSION > 0].sum()
    assert observed == 5
    sums = [sum(r for r, s in zip(ranks, signs, strict=True) if s) for signs in itertools.product((0, 1), repeat=9)]
    one_sided = sum(s <= observed for s in sums) / 2**9
    assert round(one_sided, 3) == 0.020
    assert signed_rank_p(DEPRESSION) == pytest.approx(2 * one_sided)


def test_hodges_lehmann_interval_inverts_the_test() -> None:
    """The book's estimate is -0.46. Inside the interval no shift is rejected, outside every one is."""
    shift, low, high = hodges_lehmann(DEPRESSION)
    assert shift == pytest.approx(-0.46, abs=0.005)
    assert low < shift < high
    for inside in (low + 1e-6, high - 1e-6):
        assert signed_rank_p(DEPRESSION - inside) > ALPHA
    for outside in (low - 1e-6, high + 1e-6):
        assert signed_rank_p(DEPRESSION - outside) <= ALPHA


def test_t_interval_of_known_values() -> None:
    """1, 2, 3, 4, 5: mean 3, deviation sqrt(2.5), t(4; 0.975) = 2.776445."""
    mean, low, high, p = t_interval(np.arange(1.0, 6.0))
    half = 2.776445 * math.sqrt(2.5 / 5)
    assert (mean, low, high) == pytest.approx((3, 3 - half, 3 + half), rel=1e-6)
    assert p == pytest.approx(0.013236, rel=1e-3)  # t = 4.2426 with 4 degrees of freedom


def test_drift_follows_the_order_of_the_runs() -> None:
    """Runs A B B A that grow by one each: a straight line in order, though neither side alone is evenly spaced."""
    a, b = np.array([100.0, 103, 104, 107]), np.array([101.0, 102, 105, 106])
    drift, p = trend(a, b)
    assert drift == pytest.approx(7 / 103.5, rel=0.02) and p < 1e-6
    assert trend(a * 0 + 5, b * 0 + 5) == (0.0, 1.0)


@pytest.mark.parametrize(("factor", "verdict"), [(0.9, IMPROVED), (1.1, REGRESSED), (1.0, NO_DIFFERENCE)])
def test_clear_cases(factor: float, verdict: str) -> None:
    rng = np.random.default_rng(1)
    b = 1 + 0.001 * rng.standard_normal(20)
    a = factor * (1 + 0.001 * rng.standard_normal(20))
    assert compare(a, b).verdict == verdict


def test_noise_is_inconclusive_and_says_how_much_more_is_needed() -> None:
    rng = np.random.default_rng(2)
    a, b = (1 + 0.05 * rng.standard_normal(20) for _ in range(2))
    judged = compare(a, b)
    assert judged.verdict == INCONCLUSIVE
    assert judged.more_pairs is not None and judged.more_pairs > 0 and judged.more_pairs % 2 == 0
    assert str(judged.more_pairs) in str(judged)


def test_both_tests_must_agree() -> None:
    """One wild pair makes the t-test doubt what the ranks see, and then there is no verdict of a difference."""
    change = np.array([-0.01] * 19 + [0.5]) + np.linspace(0, 1e-4, 20)
    judged = compare(1 + change, np.ones(20))
    assert judged.wilcoxon_p < ALPHA < judged.t_p and judged.verdict == INCONCLUSIVE
    assert compare(1 + change[:-1], np.ones(19)).verdict == IMPROVED


def test_identical_runs_do_not_differ() -> None:
    judged = compare([5.0] * 6, [5.0] * 6)
    assert judged.verdict == NO_DIFFERENCE and judged.above == 0.0


@pytest.mark.parametrize("bad", [([1.0] * 5, [1.0] * 6), ([1.0] * 3, [1.0] * 3), ([0.0] * 6, [1.0] * 6),
                                 ([float("nan")] * 6, [1.0] * 6)])
def test_what_is_no_measurement_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"pairs are needed|not a positive number"):
        compare(*bad)


def test_missing_pairs_shrink_with_the_noise() -> None:
    rng = np.random.default_rng(3)
    noise = rng.standard_normal(20)
    assert missing_pairs(0.02 * noise, 0.01) > missing_pairs(0.01 * noise, 0.01) >= 2


# ---------------------------------------------------------------- simulation with recorded noise


BLOCK = 8  # runs that stay together: four pairs


def simulated(rng: np.random.Generator, pairs: int, slower: float = 0.0, drift: float = 0.0,
              neighbour: float = 0.0) -> Any:
    """A benchmark of two equal commands, out of recorded runs of one command.

    Blocks of runs follow each other as they were recorded, so that the correlation of neighbours stays; the blocks come
    from anywhere. ``slower`` changes A, ``drift`` all runs along the benchmark, and a noisy ``neighbour`` a random
    stretch of it.
    """
    recorded, n = NOISE["seconds"], 2 * pairs
    blocks = []
    for _ in range(-(-n // BLOCK)):
        series = recorded[rng.integers(len(recorded))]
        at = rng.integers(len(series) - BLOCK + 1)
        blocks += series[at:at + BLOCK]
    runs = np.array(blocks[:n]) * (1 + drift * np.linspace(0, 1, n))
    if neighbour:
        at, length = rng.integers(n), rng.integers(1, n // 2)
        runs[at:at + length] *= 1 + neighbour
    order = runs.reshape(pairs, 2)
    order[1::2] = order[1::2, ::-1]
    return compare((1 + slower) * order[:, 0], order[:, 1])


def rate(count: int, trials: int) -> float:
    """Lower 95 % limit of a rate (Clopper and Pearson)."""
    from scipy import stats

    return float(stats.binomtest(count, trials).proportion_ci(0.9, "exact").low)


def wrong(verdict: str) -> bool:
    return verdict in (IMPROVED, REGRESSED)


def test_false_alarms_are_no_more_than_promised() -> None:
    rng = np.random.default_rng(20261201)
    alarms = sum(wrong(simulated(rng, 20).verdict) for _ in range(2000))
    assert rate(alarms, 2000) <= ALPHA


@pytest.mark.parametrize("disturbance", [{"drift": 0.05}, {"neighbour": 0.2}])
def test_disturbances_do_not_make_alarms(disturbance: dict[str, float]) -> None:
    rng = np.random.default_rng(7)
    alarms = sum(wrong(simulated(rng, 20, **disturbance).verdict) for _ in range(400))
    assert rate(alarms, 400) <= ALPHA


def test_a_slow_down_is_found() -> None:
    """Power grows with the change; 3 % is mostly found, and never taken for an improvement."""
    rng = np.random.default_rng(11)
    found = {s: [simulated(rng, 20, slower=s).verdict for _ in range(200)] for s in (0.005, 0.03)}
    counts = {s: v.count(REGRESSED) for s, v in found.items()}
    assert counts[0.03] > counts[0.005] and counts[0.03] >= 120
    assert IMPROVED not in found[0.03]
