"""The export for the public calculator: fields are those of the parameter objects, and of the calculator's fixtures."""

from __future__ import annotations

import json
import sys
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import bits

from tailbite import Proof
from tailbite.cli import app
from tailbite.stark.params import PRESETS, Params, fold_schedule
from tailbite.stark.soundcalc import toml
from tailbite.stark.soundness import Shape, soundness

TESTS = Path(__file__).parent
CASES = json.loads((TESTS / "data" / "soundcalc.json").read_text())["cases"]
PROOF = TESTS / "artefacts" / "collatz.fast.proof"


def agree(exported: dict[str, Any], params: Params, shape: Shape) -> None:
    """Each number of the export against where it comes from."""
    assert exported["zkevm"] == {"name": "Tailbite", "protocol_family": "FRI_STARK", "field": "Goldilocks^3",
                                 "hash_size_bits": 256}
    (c,) = exported["circuits"]
    lookups = c.pop("lookups", [])
    sizes = [h + params.log_blowup for h in shape.log_heights]
    assert Fraction(c.pop("gap_to_radius", 0)).limit_denominator(10**6) == params.gap
    assert c == {
        "name": params.name, "rho": 1 / (1 << params.log_blowup), "trace_length": 2 ** max(shape.log_heights),
        "batch_size": shape.batch_terms, "power_batching": False, "multilinear_batching": True,
        "num_queries": params.num_queries, "num_constraints": shape.constraints, "air_max_degree": shape.max_degree,
        "opening_points": shape.opening_points, "grinding_query_phase": params.grinding_bits,
        "fri_folding_factors": [2 ** (s.log_from - s.log_to) for s in fold_schedule(sizes, params.log_blowup)],
        "fri_early_stop_degree": 32 << params.log_blowup,
        "explicit_regime": {"unique": "unique", "johnson": "list"}[params.regime]}
    product = 1
    for factor in c["fri_folding_factors"]:
        product *= factor
    assert c["fri_early_stop_degree"] * product == c["trace_length"] / c["rho"], "the calculator demands this"
    assert lookups == [{"name": "buses", "logup_type": "univariate", "rows_L": shape.logup_denominators, "rows_T": 0,
                        "num_columns_S": shape.logup_tuple_len}] * (shape.logup_denominators > 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["params"]["name"])
def test_export_of_the_fixtures(case: dict[str, Any]) -> None:
    params = Params(**case["params"] | {"gap": Fraction(case["params"]["gap"])})
    shape = Shape(**case["shape"] | {"log_heights": tuple(case["shape"]["log_heights"])})
    exported = tomllib.loads(toml(params, shape))
    commits = [k for k in case["bits"] if k.startswith("commit round")]
    assert len(exported["circuits"][0]["fri_folding_factors"]) == len(commits)
    agree(exported, params, shape)


def test_bits_are_as_documented_and_reach_the_aim() -> None:
    """At the machine's own corners, which are larger in constraints than those of test_soundness.py."""
    assert bits.table() in (TESTS.parent / "docs" / "soundness.md").read_text()
    for shape in (bits.smallest(), bits.largest(), bits.fibonacci()):
        assert all(soundness(params, shape).total >= params.aim_bits for params in PRESETS)


def test_no_buses_no_lookup() -> None:
    agree(tomllib.loads(toml(PRESETS[0], Shape((5,), 1, 1))), PRESETS[0], Shape((5,), 1, 1))


def test_inspect_shows_every_round_and_exports(tmp_path: Path) -> None:
    p, file = Proof.load(PROOF), tmp_path / "collatz.toml"
    done = CliRunner().invoke(app, ["inspect", str(PROOF), "--soundcalc", str(file), "--json"])
    assert done.exit_code == 0
    rounds = [{"name": r.name, "bits": r.bits} for r in p.soundness.rounds]
    assert json.loads(done.stdout)["rounds"] == rounds and len(rounds) > 6
    agree(tomllib.loads(file.read_text()), p.params, p.shape)
    with pytest.raises(AssertionError):
        agree(tomllib.loads(file.read_text().replace("air_max_degree = 3", "air_max_degree = 2")), p.params, p.shape)
    assert Proof.load(PROOF).tables
