"""Record the noise of this machine for the simulations: ``python tests/bench/record_noise.py``.

Several series of runs of one command, each run a process that verifies a proof as ``tailbite bench verify`` does. They
go to tests/data/bench_noise.json with the machine's name.
"""

import json
import tempfile
from pathlib import Path

from tailbite.bench.comparisons import VERIFY_SECONDS, files, program_named
from tailbite.bench.pairs import one_cpu
from tailbite.bench.report import describe_machine
from tailbite.bench.sides import prepare

SERIES, RUNS = 4, 60

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as cache, files(program_named("fibonacci")) as (home, given):
        side = prepare(".", Path(cache))
        proof = str(home / "proof")
        side.ask("prove", **given, params="strong", out=proof)
        series = [[round(side.run("verify", one_cpu(), proof=proof, elf=given["elf"],
                                  seconds=VERIFY_SECONDS)[0]["seconds"], 9) for _ in range(RUNS)]
                  for _ in range(SERIES)]
    path = Path(__file__).parents[1] / "data" / "bench_noise.json"
    path.write_text(json.dumps({"machine": describe_machine(), "seconds": series}, indent=1) + "\n")
