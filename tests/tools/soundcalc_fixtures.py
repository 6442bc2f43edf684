"""Write tests/data/soundcalc.json: what the public soundness calculator says at corners of the shape space.

    python tests/tools/soundcalc_fixtures.py CHECKOUT [--commit HASH] [--note TEXT] [-o FILE]
    python tests/tools/soundcalc_fixtures.py CHECKOUT --toml FILE   the calculator's bits for one exported proof

CHECKOUT is a clone of https://github.com/ethereum/soundcalc at 809896f or later (its code is not part of this
repository). Where it is not a git checkout, --commit names the version and --note says how it was obtained.
Run it again whenever a preset changes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tailbite.stark.params import PRESETS, Params
from tailbite.stark.soundcalc import circuit, lookup
from tailbite.stark.soundness import HASH_BITS, Shape

DATA = Path(__file__).parent.parent / "data" / "soundcalc.json"
HEIGHTS = [(5,), (10,), (16,), (20,), (26,), (26, 20, 16, 10, 5), tuple(range(26, 4, -1))]
BATCHES = [2, 300, 2**14]


def shapes() -> Iterator[Shape]:
    """Corners of the allowed shapes: single heights and ladders, small and large counts."""
    for heights in HEIGHTS:
        for terms in BATCHES:
            large = terms == BATCHES[-1]
            yield Shape(
                log_heights=heights,
                batch_terms=terms,
                constraints=2**12 if large else 100,
                logup_denominators=2**40 if large else 2 ** (heights[0] + 5),
                logup_tuple_len=53 if large else 16,
            )


def parameter_sets() -> Iterator[Params]:
    """The secure presets, and each of them in the unique regime."""
    for params in PRESETS:
        if params.secure:
            yield params
            yield replace(params, name=f"{params.name}-unique", regime="unique", gap=Fraction(0))


def calculate(params: Params, shape: Shape) -> dict[str, int]:
    """Bits of every round by the calculator, whose model is one table of the largest height."""
    from soundcalc.circuits.deep_ali import DeepAliCircuit, DeepAliConfig
    from soundcalc.common.fields import GOLDILOCKS_3
    from soundcalc.lookups.logup import LogUp, LogUpConfig, LogUpType
    from soundcalc.pcs.fri import FRI, FRIConfig

    c, bus = circuit(params, shape), lookup(shape)
    gap = c.get("gap_to_radius") or None
    renamed = {"FRI_folding_factors": "fri_folding_factors", "FRI_early_stop_degree": "fri_early_stop_degree"}
    same = ["rho", "trace_length", "batch_size", "power_batching", "multilinear_batching", "num_queries",
            "grinding_query_phase"]
    pcs = FRI(FRIConfig(hash_size_bits=2 * HASH_BITS, field=GOLDILOCKS_3, gap_to_radius=gap,
                        **{k: c[k] for k in same}, **{k: c[v] for k, v in renamed.items()}))
    buses = LogUp(LogUpConfig(field=GOLDILOCKS_3, **bus | {"logup_type": LogUpType.UNIVARIATE}))
    model = DeepAliCircuit(DeepAliConfig(
        name=params.name, pcs=pcs, field=GOLDILOCKS_3, num_constraints=c["num_constraints"],
        AIR_max_degree=c["air_max_degree"], max_combo=c["opening_points"], gap_to_radius=gap, lookups=[buses]))
    return model.get_security_levels()["UDR" if params.regime == "unique" else "JBR"]


def case(params: Params, shape: Shape) -> dict[str, Any]:
    """Inputs and result of one calculation, as JSON values."""
    values = asdict(params) | {"gap": str(params.gap)}
    return {"params": values, "shape": asdict(shape), "bits": calculate(params, shape)}


def head(checkout: Path) -> str:
    """The commit of a git checkout."""
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Parse the arguments, run the calculator, write the file."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--commit")
    parser.add_argument("--note", default="")
    parser.add_argument("-o", "--output", type=Path, default=DATA)
    parser.add_argument("--toml", type=Path, help="a file of `tailbite inspect PROOF --soundcalc FILE`")
    args = parser.parse_args()
    if args.toml:
        sys.path.insert(0, str(args.checkout))
        from soundcalc.zkvms.zkvm import zkVM

        for model in zkVM.load_from_toml(args.toml).get_circuits():
            print(json.dumps(model.get_security_levels(), indent=1))
        return
    about = {
        "calculator": "https://github.com/ethereum/soundcalc",
        "commit": args.commit or head(args.checkout),
        "note": args.note,
    }
    sys.path.insert(0, str(args.checkout))
    lines = [json.dumps(case(params, shape)) for params in parameter_sets() for shape in shapes()]
    header = json.dumps(about)[:-1] + ', "cases": [\n'
    args.output.write_text(header + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
