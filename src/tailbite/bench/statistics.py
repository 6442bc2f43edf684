"""What paired runs say. The change of a pair is (A - B) / B: negative means that A takes less, which is better.

A verdict needs two tests to agree: the paired t-test, which assumes that the changes are roughly normal and uses all of
them, and Wilcoxon's signed-rank test, which assumes only that they are symmetric and shrugs off outliers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

ALPHA = 0.05  # of each test, two-sided
POWER = 0.8  # with which a suggested number of pairs should settle the matter
IMPROVED, REGRESSED, NO_DIFFERENCE, INCONCLUSIVE = "IMPROVED", "REGRESSED", "NO DIFFERENCE", "INCONCLUSIVE"


@dataclass(frozen=True)
class Comparison:
    """Statistics of paired runs. Changes, intervals, variations and drift are fractions; p-values are two-sided.

    ``mean`` with its t interval; ``shift`` is the Hodges-Lehmann estimate with its exact interval; ``variation_*`` the
    standard deviation of a side's runs over their mean; ``drift`` the relative change of all runs from the first to
    the last by a straight line, with the p-value of its slope. ``above``: no change larger than this is plausible
    (NO DIFFERENCE). ``more_pairs``: about so many more would settle it (INCONCLUSIVE).
    """

    pairs: int
    mean: float
    mean_low: float
    mean_high: float
    t_p: float
    median: float
    shift: float
    shift_low: float
    shift_high: float
    wilcoxon_p: float
    variation_a: float
    variation_b: float
    drift: float
    drift_p: float
    verdict: str
    above: float | None = None
    more_pairs: int | None = None

    def __str__(self) -> str:
        if self.verdict == NO_DIFFERENCE:
            return f"NO DIFFERENCE ABOVE {percent_up(self.above or 0)}"
        if self.verdict == INCONCLUSIVE:
            return f"INCONCLUSIVE: about {self.more_pairs} more pairs would settle it"
        return self.verdict

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compare(a: Sequence[float], b: Sequence[float], threshold: float = 0.01) -> Comparison:
    """Judge runs of A and B, paired by position, in the order A B, B A, A B, ...

    ``threshold``: a difference that is surely smaller does not matter. ValueError unless both have the same number of
    runs, at least 4, all finite and positive.
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if len(x) != len(y) or len(x) < 4:
        raise ValueError(f"{len(x)} runs of A and {len(y)} of B: at least 4 pairs are needed")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and (x > 0).all() and (y > 0).all()):
        raise ValueError("a measurement is not a positive number")
    change = (x - y) / y
    mean, mean_low, mean_high, t_p = t_interval(change)
    shift, shift_low, shift_high = hodges_lehmann(change)
    wilcoxon_p = signed_rank_p(change)
    drift, drift_p = trend(x, y)
    verdict, above, more = judge(change, (mean, mean_low, mean_high, t_p), (shift, shift_low, shift_high, wilcoxon_p),
                                 threshold)
    return Comparison(len(change), mean, mean_low, mean_high, t_p, float(np.median(change)), shift, shift_low,
                      shift_high, wilcoxon_p, variation(x), variation(y), drift, drift_p, verdict, above, more)


def judge(change: Any, by_mean: tuple[float, float, float, float], by_rank: tuple[float, float, float, float],
          threshold: float) -> tuple[str, float | None, int | None]:
    """Verdict, the bound of NO DIFFERENCE, and the pairs that an INCONCLUSIVE one lacks."""
    if by_mean[3] < ALPHA and by_rank[3] < ALPHA and by_mean[0] * by_rank[0] > 0:
        return (IMPROVED if by_mean[0] < 0 else REGRESSED), None, None
    bound = max(abs(v) for v in (*by_mean[1:3], *by_rank[1:3]))
    if bound <= threshold:
        return NO_DIFFERENCE, bound, None
    return INCONCLUSIVE, None, missing_pairs(change, threshold)


def missing_pairs(change: Any, threshold: float) -> int:
    """Even number of further pairs after which either the observed mean change would show, or the intervals would
    exclude every change above the threshold, if the runs went on as they did."""
    from scipy import stats

    deviation, mean, n = float(np.std(change, ddof=1)), abs(float(np.mean(change))), len(change)
    z = stats.norm.ppf(1 - ALPHA / 2)
    to_show = ((z + stats.norm.ppf(POWER)) * deviation / mean) ** 2 if mean else math.inf
    room = threshold - mean
    to_exclude = (z * deviation / room) ** 2 if room > 0 else math.inf
    wanted = min(to_show, to_exclude)
    more = max(2, math.ceil(min(wanted, 10_000.0)) - n)
    return more + more % 2


def t_interval(change: Any) -> tuple[float, float, float, float]:
    """Mean, its interval, and the p-value of the t-test against no change."""
    from scipy import stats

    if np.ptp(change) == 0:  # the test divides by the deviation
        mean = float(change[0])
        return mean, mean, mean, 0.0 if mean else 1.0
    test = stats.ttest_1samp(change, 0.0)
    interval = test.confidence_interval(1 - ALPHA)
    return float(np.mean(change)), float(interval.low), float(interval.high), float(test.pvalue)


def signed_rank_p(change: Any) -> float:
    """p-value of Wilcoxon's test: exact, or by the normal approximation where changes tie or vanish."""
    from scipy import stats

    if not np.any(change):
        return 1.0
    return float(stats.wilcoxon(change).pvalue)


def hodges_lehmann(change: Any) -> tuple[float, float, float]:
    """Median of the averages of all pairs of changes, with the interval that inverts the exact signed-rank test.

    Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, sections 3.2 and 3.3.
    """
    n = len(change)
    i, j = np.triu_indices(n)
    walsh = np.sort((change[i] + change[j]) / 2)
    counts = np.ones(1)
    for rank in range(1, n + 1):  # of the 2^n sign patterns, how many have each rank sum
        counts = np.convolve(counts, np.bincount([0, rank]).astype(float))
    tail = np.cumsum(counts) / counts.sum()
    outside = int(np.searchsorted(tail, ALPHA / 2, side="right"))  # the most averages that may lie beyond one end
    outside = max(outside, 1)
    return float(np.median(walsh)), float(walsh[outside - 1]), float(walsh[len(walsh) - outside])


def trend(a: Any, b: Any) -> tuple[float, float]:
    """Drift of the runs in the order in which they were made, each side over its own mean."""
    from scipy import stats

    relative = np.stack([a / a.mean(), b / b.mean()], axis=1)
    relative[1::2] = relative[1::2, ::-1]
    order = relative.reshape(-1)
    if np.ptp(order) == 0:
        return 0.0, 1.0
    line = stats.linregress(np.linspace(0, 1, len(order)), order)
    return float(line.slope), float(line.pvalue)


def variation(runs: Any) -> float:
    """Standard deviation over mean."""
    return float(np.std(runs, ddof=1) / np.mean(runs))


def percent(x: float) -> str:
    """A signed change for people."""
    return f"{100 * x:+.2f} %"


def percent_up(x: float) -> str:
    """A bound for people, rounded up."""
    return f"{math.ceil(10_000 * x) / 100:.2f} %"
