"""Presets, the FRI schedule, and proven soundness against the public calculator."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import ceil, floor, log2, sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailbite.errors import ParameterError, TailbiteError
from tailbite.field import P
from tailbite.stark import soundness as sound
from tailbite.stark.params import (
    FINAL_LOG_DEGREE,
    MAX_FOLD,
    MAX_LOG_FOLD,
    MAX_LOG_HEIGHT,
    MIN_LOG_HEIGHT,
    PRESETS,
    FoldStep,
    Params,
    fold_schedule,
    preset,
)
from tailbite.stark.soundness import Round, Shape, bits, check_shape_conditions, soundness

FIXTURES = json.loads((Path(__file__).parent / "data" / "soundcalc.json").read_text())
SECURE = [params for params in PRESETS if params.secure]
ALL_HEIGHTS = tuple(range(MIN_LOG_HEIGHT, MAX_LOG_HEIGHT + 1))
LARGEST = Shape(ALL_HEIGHTS, 2**14, 2**12, 3, 2, 2**40, 53)
SMALL = Shape((10,), 100, 50, 3, 2, 2**14, 8)

by_name = pytest.mark.parametrize("params", SECURE, ids=lambda params: params.name)


def corners() -> list[Shape]:
    """Extreme shapes: heights at both ends and mixed in several ways, every count at both ends."""
    pairs = list(combinations((5, 6, 8, 13, 25, 26), 2))
    singles = [(h,) for h in (5, 6, 7, 8, 9, 16, 25, 26)]
    ladders = [ALL_HEIGHTS, ALL_HEIGHTS[::3], (26, 23, 20, 20)]
    counts = list(product((1, 2**14), (1, 2**12), (0, 2**40)))
    return [Shape(h, b, c, 3, 2, d, 53) for h in singles + pairs + ladders for b, c, d in counts]


# --- presets


def test_presets_are_the_documented_closed_list() -> None:
    expected = [("standard", 1, 100), ("strong", 2, 128), ("strong2", 1, 128), ("strong8", 3, 128)]
    assert [(p.name, p.log_blowup, p.aim_bits) for p in SECURE] == expected
    assert [p.name for p in PRESETS if not p.secure] == ["min", "fast"]
    assert [p.number for p in PRESETS] == list(range(1, len(PRESETS) + 1))
    assert all(p.grinding_bits <= 20 for p in PRESETS)


def test_preset_by_name_and_number() -> None:
    for params in PRESETS:
        assert preset(params.name) is params
        assert preset(params.number) is params


@pytest.mark.parametrize("key", ["", "Standard", "1", 0, 7, -1, True])
def test_unknown_preset_is_a_typed_error(key: str | int) -> None:
    with pytest.raises(ParameterError, match="standard") as caught:
        preset(key)
    assert isinstance(caught.value, TailbiteError)


def test_params_are_frozen() -> None:
    with pytest.raises(AttributeError):
        preset("standard").num_queries = 1  # type: ignore[misc]


def test_words_are_canonical_and_tell_presets_apart() -> None:
    for params in PRESETS:
        assert all(type(word) is int and 0 <= word < P for word in params.words())
    assert len({tuple(params.words()) for params in PRESETS}) == len(PRESETS)
    assert preset("standard").words() == [1, 1, 161, 20, 1, 1, 1000, 100, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"number": 9},
        {"log_blowup": 2},
        {"num_queries": 160},
        {"grinding_bits": 19},
        {"regime": "unique"},
        {"gap": Fraction(1, 999)},
        {"gap": Fraction(2, 1000)},
        {"aim_bits": 101},
        {"secure": False},
    ],
)
def test_words_depend_on_every_value(change: dict[str, Any]) -> None:
    assert replace(preset("standard"), **change).words() != preset("standard").words()


# --- the FRI schedule


def test_fold_schedule_of_one_height() -> None:
    assert fold_schedule([21], 1) == [
        FoldStep(21, 18, False),
        FoldStep(18, 15, False),
        FoldStep(15, 12, False),
        FoldStep(12, 9, False),
        FoldStep(9, 6, False),
    ]
    assert fold_schedule([22], 2)[-1] == FoldStep(10, 7, False)


def test_fold_schedule_stops_at_every_size_present() -> None:
    assert fold_schedule([21, 20, 16, 16, 6], 1) == [
        FoldStep(21, 20, True),
        FoldStep(20, 17, False),
        FoldStep(17, 16, True),
        FoldStep(16, 13, False),
        FoldStep(13, 10, False),
        FoldStep(10, 7, False),
        FoldStep(7, 6, True),
    ]


def test_fold_schedule_ends_with_a_short_fold() -> None:
    assert fold_schedule([10], 1) == [FoldStep(10, 7, False), FoldStep(7, 6, False)]


def test_no_fold_at_the_final_size() -> None:
    assert fold_schedule([FINAL_LOG_DEGREE + 2], 2) == []


@pytest.mark.parametrize("sizes", [[], [5], [20, 5]])
def test_fold_schedule_refuses_sizes_below_the_final_one(sizes: list[int]) -> None:
    with pytest.raises(ParameterError):
        fold_schedule(sizes, 1)
    fold_schedule([6, 20], 1)  # the passing twin: 2^6 is the final size


@given(st.sets(st.integers(MIN_LOG_HEIGHT, MAX_LOG_HEIGHT), min_size=1), st.integers(1, 3))
def test_fold_schedule_meets_every_size_once(heights: set[int], log_blowup: int) -> None:
    sizes = {height + log_blowup for height in heights}
    steps = fold_schedule(sizes, log_blowup)
    path = [max(sizes)] + [step.log_to for step in steps]
    assert [step.log_from for step in steps] == path[:-1]
    assert path[-1] == FINAL_LOG_DEGREE + log_blowup
    assert all(1 <= step.log_from - step.log_to <= MAX_LOG_FOLD for step in steps)
    assert {step.log_to for step in steps if step.joins} == sizes - {max(sizes)}
    assert MAX_FOLD == 1 << MAX_LOG_FOLD


# --- the promise


@by_name
def test_aim_holds_at_every_corner(params: Params) -> None:
    for shape in corners():
        assert soundness(params, shape).total >= params.aim_bits, shape


@by_name
def test_one_query_less_misses_the_aim(params: Params) -> None:
    weaker = replace(params, num_queries=params.num_queries - 1)
    for shape in (SMALL, LARGEST):
        assert soundness(weaker, shape).total < params.aim_bits <= soundness(params, shape).total


@by_name
def test_one_bit_of_grinding_less_misses_the_aim(params: Params) -> None:
    assert soundness(replace(params, grinding_bits=19), SMALL).total < params.aim_bits


@by_name
def test_no_gap_reaches_the_aim_with_fewer_queries(params: Params) -> None:
    for denominator in range(20, 4000, 20):
        other = replace(params, num_queries=params.num_queries - 1, gap=Fraction(1, denominator))
        queries, batching = bits(sound.query_error(other)), bits(sound.batching_error(other, LARGEST))
        assert min(queries, batching) < params.aim_bits


@by_name
def test_gap_too_small_misses_the_aim_in_an_algebraic_round(params: Params) -> None:
    closer = soundness(replace(params, gap=params.gap / 16), LARGEST)
    assert closer.total < params.aim_bits
    assert closer.weakest.name == "batching"


def test_insecure_presets_are_far_below_any_aim() -> None:
    for params in PRESETS:
        if not params.secure:
            assert params.aim_bits == 0
            assert soundness(params, SMALL).total < 10


def test_no_claim_exceeds_the_hash() -> None:
    many = replace(preset("strong"), num_queries=500)
    assert soundness(many, SMALL).weakest.name == "hash collisions"
    assert soundness(many, SMALL).total == 128


# --- the public calculator


def fixture_params(values: dict[str, Any]) -> Params:
    return Params(**values | {"gap": Fraction(values["gap"])})


def fixture_shape(values: dict[str, Any]) -> Shape:
    return Shape(**values | {"log_heights": tuple(values["log_heights"])})


def tolerance(params: Params, name: str) -> int:
    """Bits by which a round may be below the calculator's: 1, and more where our bound is another one."""
    if name == "LogUp":  # we charge the list size
        return 1 + ceil(log2(sound.list_size(params)))
    if params.regime == "unique" and name.startswith(("batching", "fold")):  # n against theta n + 1
        return 1 + ceil(log2(2 / (1 - 2.0**-params.log_blowup)))
    return 1


def paired(rounds: tuple[Round, ...], calculated: dict[str, int]) -> list[tuple[Round, int]]:
    """Our rounds with the calculator's bits for each; the hash, which it does not count, is left out."""
    names = {"LogUp": "logup", "constraints": "ALI", "out-of-domain point": "DEEP", "queries": "query phase"}
    folds = [r.name for r in rounds if r.name.startswith("fold")]
    names |= {name: f"commit round {i + 1}" for i, name in enumerate(folds)} | {"batching": "batching"}
    pairs = [(r, calculated[names[r.name]]) for r in rounds if r.name != "hash collisions"]
    assert len(pairs) == len(calculated) - 1  # all but the total
    return pairs


@pytest.mark.parametrize("case", FIXTURES["cases"], ids=lambda case: case["params"]["name"])
def test_never_above_the_public_calculator_and_close_below(case: dict[str, Any]) -> None:
    params, shape = fixture_params(case["params"]), fixture_shape(case["shape"])
    ours = soundness(params, shape)
    for entry, theirs in paired(ours.rounds, case["bits"]):
        assert theirs - tolerance(params, entry.name) <= floor(entry.bits) <= theirs, entry
    lowest = case["bits"]["total"] - tolerance(params, ours.weakest.name)
    assert lowest <= floor(ours.total) <= case["bits"]["total"]


def test_fixtures_are_of_the_presets_as_they_are() -> None:
    recorded = {tuple(fixture_params(case["params"]).words()) for case in FIXTURES["cases"]}
    assert {tuple(params.words()) for params in SECURE} <= recorded
    assert FIXTURES["commit"].startswith("809896f")


@pytest.mark.parametrize(
    ("log_blowup", "log_height", "codewords", "expected"),
    [(1, 20, 403, 127), (1, 22, 1503, 123), (2, 20, 403, 127), (3, 20, 403, 127), (3, 22, 1503, 123)],
)
def test_line_error_gives_the_recorded_power_batching_bits(
    log_blowup: int, log_height: int, codewords: int, expected: int
) -> None:
    """Results of a full run of the calculator, gap 1/300, with powers of one challenge as coefficients."""
    params = replace(preset("strong"), log_blowup=log_blowup, gap=Fraction(1, 300))
    assert floor(bits((codewords - 1) * sound.line_error(params, log_height + log_blowup))) == expected


# --- single terms


def round_bits(params: Params, shape: Shape) -> dict[str, float]:
    return {entry.name: entry.bits for entry in soundness(params, shape).rounds}


def test_rounds_come_in_protocol_order() -> None:
    shape = Shape((10, 7), batch_terms=2, constraints=1, logup_denominators=1)
    assert list(round_bits(preset("standard"), shape)) == [
        "LogUp",
        "constraints",
        "out-of-domain point",
        "batching",
        "fold 2^11 to 2^8 with roll-in",
        "fold 2^8 to 2^6",
        "queries",
        "hash collisions",
    ]


def test_rounds_that_do_not_happen_are_absent() -> None:
    assert set(round_bits(preset("standard"), Shape((5,), 1, 1))) == {
        "constraints",
        "out-of-domain point",
        "queries",
        "hash collisions",
    }


@pytest.mark.parametrize(
    ("change", "name", "loss"),
    [
        ({"constraints": 100}, "constraints", 1),
        ({"logup_denominators": 2**15}, "LogUp", 1),
        ({"logup_tuple_len": 32}, "LogUp", 2),
        ({"max_degree": 2}, "out-of-domain point", -log2(4 / 3)),
        ({"opening_points": 450}, "out-of-domain point", log2(1 + 3 * 448 / 4098)),
        ({"batch_terms": 2**14}, "batching", 1),
        ({"batch_terms": 128}, "batching", 0),
        ({"log_heights": (11,)}, "batching", 1),
        ({"log_heights": (11,)}, "out-of-domain point", 1),
        ({"log_heights": (10, 10)}, "batching", 0),
        ({"log_heights": (10, 9)}, "batching", log2(1.5)),
    ],
)
def test_a_round_moves_with_what_it_depends_on(change: dict[str, Any], name: str, loss: float) -> None:
    before = round_bits(preset("strong"), SMALL)
    after = round_bits(preset("strong"), replace(SMALL, **change))
    assert before[name] - after[name] == pytest.approx(loss, abs=0.02)


def test_a_roll_in_costs_as_much_as_one_more_power() -> None:
    alone = sound.fold_error(preset("strong"), FoldStep(12, 11, False))
    assert sound.fold_error(preset("strong"), FoldStep(12, 11, True)) == 2 * alone
    assert sound.fold_error(preset("strong"), FoldStep(14, 11, False)) == 7 * alone


def test_multiplicity_is_exact_where_the_quotient_is_an_integer() -> None:
    quarter = replace(preset("strong"), gap=Fraction(1, 200))
    assert sound.multiplicity(quarter) == 50
    assert sound.multiplicity(replace(quarter, gap=Fraction(1, 201))) == 51
    assert sound.multiplicity(replace(quarter, gap=Fraction(1, 4))) == 3


def test_line_error_counts_the_rate_by_degree() -> None:
    """The formula of the paper, with rate (H - 1) / n = 31 / 64, in floating point."""
    m, rate, theta = sound.multiplicity(preset("strong2")) + 0.5, 31 / 64, 1 - sqrt(1 / 2) - 1 / 203
    expected = (2 * m**5 + 3 * m * theta * rate) / (3 * rate**1.5) * 64 + m / sqrt(rate)
    actual = sound.line_error(preset("strong2"), 6) * sound.FIELD
    assert expected <= actual
    assert float(actual) == pytest.approx(expected, rel=1e-6)


def test_unique_regime_has_one_candidate_and_half_the_distance() -> None:
    unique = replace(preset("standard"), regime="unique", gap=Fraction(0))
    assert sound.list_size(unique) == 1
    assert sound.agreement(unique) == Fraction(3, 4)
    assert soundness(unique, SMALL).regime == "unique"
    assert bits(sound.query_error(unique)) == floor(100 * (161 * log2(4 / 3) + 20)) / 100


@pytest.mark.parametrize("params", PRESETS, ids=lambda params: params.name)
def test_rounded_roots_are_upper_bounds_and_close(params: Params) -> None:
    rate = Fraction(1, 1 << params.log_blowup)
    root = sound.agreement(params) - params.gap
    assert root**2 >= rate
    assert (root - Fraction(1, 2**64)) ** 2 < rate
    assert float(sound.list_size(params)) == pytest.approx(1 / (2 * params.gap * sqrt(rate)))


@given(st.integers(1, 2**400), st.integers(1, 2**400))
def test_bits_never_claim_too_much(numerator: int, denominator: int) -> None:
    error = Fraction(numerator, denominator)
    hundredths = round(100 * bits(error))
    assert hundredths == 0 or error**100 <= Fraction(1, 2**hundredths)
    assert error**100 > Fraction(1, 2 ** (hundredths + 2))


def test_bits_of_known_errors() -> None:
    assert bits(Fraction(1, 2**100)) == 100
    assert bits(Fraction(1, 3)) == 1.58
    assert bits(Fraction(3)) == 0


# --- conditions


def test_shape_conditions_hold_for_every_preset() -> None:
    for params in PRESETS:
        check_shape_conditions(params, LARGEST)
        check_shape_conditions(params, replace(SMALL, log_heights=(MIN_LOG_HEIGHT,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_heights": ()}, "at least one table"),
        ({"log_heights": (10, 4)}, "allowed are 5 to 26"),
        ({"log_heights": (27,)}, "allowed are 5 to 26"),
        ({"max_degree": 4}, "degree 4"),
        ({"max_degree": 1}, "degree 1"),
        ({"batch_terms": 0}, "at least 1"),
        ({"constraints": 0}, "at least 1"),
        ({"opening_points": 0}, "at least 1"),
        ({"logup_tuple_len": 0}, "at least 1"),
        ({"logup_denominators": -1}, "negative"),
        ({"log_heights": (5,), "opening_points": 14}, "too short"),
    ],
)
def test_shapes_outside_the_theorems_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        soundness(preset("standard"), replace(SMALL, **change))


def test_thirteen_points_may_be_opened_at_the_shortest_height() -> None:
    shape = replace(SMALL, log_heights=(5,), opening_points=13)  # the passing twin: 32 + 13 < 0.7081 * 64
    assert soundness(preset("standard"), shape).total >= 100


@pytest.mark.parametrize("gap", [Fraction(0), Fraction(-1, 100), Fraction(1, 3)])
def test_gap_without_a_proximity_parameter_is_refused(gap: Fraction) -> None:
    with pytest.raises(ParameterError, match="gap"):
        soundness(replace(preset("standard"), gap=gap), SMALL)
