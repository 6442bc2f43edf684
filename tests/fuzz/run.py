"""Fuzz the verifier, the ELF loader and the command line; a case depends on its number, the seed and
the sources (the proofs that are changed are made anew) alone.

    python tests/fuzz/run.py proofs --count 1000000 --seed 1       # native verifier, small proofs at fast
    python tests/fuzz/run.py min --count 1000000                   # at min: more cases reach the last checks
    python tests/fuzz/run.py standard --count 10000                # proofs of the machine at standard
    python tests/fuzz/run.py elfs --count 100000                   # loader and executor, some proved and verified
    python tests/fuzz/run.py files --count 3000                    # the command line and check_attestation
    python tests/fuzz/run.py proofs --seed 1 --case 4711           # one case again, in this process

Progress goes to stderr, a JSON summary to stdout (and to --summary FILE). The exit code is 0 if there was no
violation. To go on with a run that was cut off: --start N, with the "next" of its last progress line.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "stark"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "vm"))

from fuzz_reasons import unreached
from fuzz_targets import TARGETS
from fuzz_watch import SKIPPED, Session, fuzz, judge, work

PROGRESS_SECONDS = 10


class Progress:
    """A line now and then."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, session: Session) -> None:
        if time.monotonic() - self.last > PROGRESS_SECONDS:
            self.last = time.monotonic()
            s = session.summary()
            print(f"{s['target']} seed {s['seed']}: next {s['next']}, {s['cases']} of {session.count} cases, "
                  f"{s['per_second']} a second, {len(s['violations'])} violations, {session.counts[SKIPPED]} skipped, "
                  f"{len(s['answers'])} answers, slowest {s['slowest_ms']} ms, memory +{s['memory_growth_mib']} MiB",
                  file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", choices=sorted(TARGETS), metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, metavar="N", help="number of the first case")
    parser.add_argument("--case", type=int, metavar="N", help="judge this one case here, and print the answer")
    parser.add_argument("--summary", type=Path, metavar="FILE")
    parser.add_argument("--work", metavar="JSON", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    a = arguments()
    if a.work:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
        job = json.loads(a.work)
        numbers = (n for n in range(job["start"], job["stop"]) if n not in set(job["skip"]))
        work(TARGETS[job["target"]](), job["seed"], numbers, job["place"])
        return 0
    if a.target is None:
        raise SystemExit("a target is needed: see --help")
    if a.case is not None:
        print(judge(TARGETS[a.target](), a.seed, a.case))
        return 0
    summary = fuzz(a.target, a.count, a.seed, a.start, Progress())
    if a.target in ("proofs", "min", "standard"):
        summary["unreached"] = unreached(summary["answers"])
    text = json.dumps(summary, indent=1)
    if a.summary is not None:
        a.summary.write_text(text + "\n")
    print(text)
    return 1 if summary["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
