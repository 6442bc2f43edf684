"""What the public calculator soundcalc needs to know of a proof, as TOML.

Its model is one table of the largest height, so a proof with tables of several heights is described by its largest one,
with the terms, fractions and fold schedule of all of them.
"""

from __future__ import annotations

from typing import Any

from .params import FINAL_LOG_DEGREE, Params, fold_schedule
from .soundness import HASH_BITS, Shape


def circuit(params: Params, shape: Shape) -> dict[str, Any]:
    """The keys of a circuit, from the parameters and the shape alone."""
    steps = fold_schedule([height + params.log_blowup for height in shape.log_heights], params.log_blowup)
    values: dict[str, Any] = {
        "name": params.name,
        "rho": 2.0**-params.log_blowup,
        "trace_length": 1 << max(shape.log_heights),
        "batch_size": shape.batch_terms,
        "power_batching": False,
        "multilinear_batching": True,
        "num_queries": params.num_queries,
        "num_constraints": shape.constraints,
        "air_max_degree": shape.max_degree,
        "opening_points": shape.opening_points,
        "grinding_query_phase": params.grinding_bits,
        "fri_folding_factors": [1 << step.log_from - step.log_to for step in steps],
        "fri_early_stop_degree": 1 << FINAL_LOG_DEGREE + params.log_blowup,
    }
    if params.regime == "johnson":
        values["gap_to_radius"] = float(params.gap)
    values["explicit_regime"] = "unique" if params.regime == "unique" else "list"
    return values


def lookup(shape: Shape) -> dict[str, Any]:
    """The keys of the bus argument: all fractions at once."""
    return {"name": "buses", "logup_type": "univariate", "rows_L": shape.logup_denominators, "rows_T": 0,
            "num_columns_S": shape.logup_tuple_len}


def toml(params: Params, shape: Shape) -> str:
    """A file for the calculator."""
    system = {"name": "Tailbite", "protocol_family": "FRI_STARK", "field": "Goldilocks^3",
              "hash_size_bits": 2 * HASH_BITS}
    parts = [("[zkevm]", system), ("[[circuits]]", circuit(params, shape))]
    if shape.logup_denominators:
        parts.append(("[[circuits.lookups]]", lookup(shape)))
    return "\n".join("\n".join([head, *(f"{k} = {_value(v)}" for k, v in values.items())]) + "\n"
                     for head, values in parts)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


__all__ = ["circuit", "lookup", "toml"]
