"""Many faults in witnesses, none of which may be accepted unless the statement stays true for a known reason.

    python tests/vm/run_faults.py --count 1000 --seed 1 --json faults.json

injects faults until that many are refused for each table and each opcode class. Some of them, ``--proofs`` for each
table and class, are also checked in full and go through prove and verify at the preset "fast", as do the first accepted
ones of each kind. Fault number i of a table depends on the seed and the number of guests: ``--table LW --index 17``
shows one. See faults.py for what faults are, and what counts as a miss. Exit code 1: something was accepted that should
not be.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from faults import Fault, Judgement, NoFault, draw, judge, tables  # noqa: E402

CHUNK, SHOWN = 50, 2


class Campaign:
    """Faults of all tables by one seed, and what became of them."""

    def __init__(self, seed: int, count: int, proofs: int, guests: int) -> None:
        self.seed, self.count, self.proofs, self.guests = seed, count, proofs, guests
        self.next: Counter[str] = Counter()  # index of the next fault of each table
        self.tables: dict[str, Counter[str]] = {t: Counter() for t in tables()}
        self.classes: dict[str, Counter[str]] = {}
        self.operations: dict[str, Counter[str]] = {}
        self.kinds: dict[str, Counter[str]] = {}
        self.harmless: Counter[str] = Counter()
        self.refused_by: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.start = time.monotonic()

    def run(self, names: list[str], file: str | None) -> None:
        """The tables in turn, a few faults each, so that a run that is stopped has some of all; with a summary."""
        for goal in range(CHUNK, self.count + CHUNK, CHUNK):
            for table in names:
                while self.tables[table]["refused"] - self.tables[table]["padding"] < min(goal, self.count):
                    self.one(table)
            print(self.line(min(goal, self.count)), flush=True)
            if file:
                Path(file).write_text(json.dumps(self.summary(), indent=1) + "\n")

    def one(self, table: str) -> None:
        index = self.next[table]
        self.next[table] += 1
        try:
            fault = draw(self.seed, table, index, self.guests)
            judgement, difference = judge(fault)
        except NoFault:
            self.tables[table]["no fault"] += 1
            return
        self.note(fault, judgement)
        if judgement.verdict in ("miss", "unexplained"):
            self.report(f"{table} {index} {judgement.verdict}: {judgement.why}")
        if (judgement.verdict == "refused" and self.to_prove(fault)) or (
                judgement.verdict == "harmless" and self.harmless[judgement.why] <= SHOWN):
            witness = difference.witness()
            reasons, verdict = witness.reasons(), witness.verdict()
            for counter in self.counters(fault):
                counter["proved"] += 1
            if reasons != set(judgement.reasons) or (verdict == "") != (judgement.verdict == "harmless"):
                self.report(f"{table} {index} {judgement}: full check {reasons}, verifier {verdict!r}")

    def report(self, text: str) -> None:
        self.wrong.append(text)
        print(text, flush=True)

    def counters(self, fault: Fault) -> list[Counter[str]]:
        return [self.tables[fault.table], self.classes.setdefault(fault.opcode_class, Counter()),
                self.operations.setdefault(fault.op, Counter()),
                self.kinds.setdefault(f"{fault.level}: {fault.kind}", Counter())]

    def note(self, fault: Fault, judgement: Judgement) -> None:
        for counter in self.counters(fault):
            counter[judgement.verdict] += 1
            if judgement.verdict == "refused" and fault.claims_other_output:
                counter["false output"] += 1
        if judgement.verdict == "refused" and fault.opcode_class == "padding":
            self.tables[fault.table]["padding"] += 1
        if judgement.verdict == "harmless":
            self.harmless[judgement.why] += 1
        self.refused_by.update("constraint" if "." in r else f"bus {r}" for r in judgement.reasons)

    def to_prove(self, fault: Fault) -> bool:
        """An even sample of each table and class, so that all kinds of faults are in it."""
        done = min((self.tables[fault.table], self.classes[fault.opcode_class]), key=lambda c: c["proved"])
        return done["proved"] < -(-done["refused"] * self.proofs // self.count)

    def totals(self) -> Counter[str]:
        return sum(self.tables.values(), Counter())

    def line(self, goal: int) -> str:
        t = self.totals()
        seconds = time.monotonic() - self.start
        return (f"{goal} of each table: {t['refused']} refused, {t['harmless']} harmless, {t['undone']} undone, "
                f"{t['proved']} proved, {len(self.wrong)} wrong, {seconds:.0f} s")

    def summary(self) -> dict[str, Any]:
        def plain(counters: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
            return {k: dict(sorted(c.items())) for k, c in sorted(counters.items())}

        return {"seed": self.seed, "count": self.count, "proofs": self.proofs, "guests": self.guests,
                "seconds": round(time.monotonic() - self.start), "total": dict(self.totals()),
                "tables": plain(self.tables), "classes": plain(self.classes), "operations": plain(self.operations),
                "kinds": plain(self.kinds), "harmless": dict(self.harmless.most_common()),
                "refused by": dict(self.refused_by.most_common()), "wrong": self.wrong}


def show(seed: int, table: str, index: int, guests: int) -> None:
    try:
        fault = draw(seed, table, index, guests)
        judgement, _ = judge(fault)
    except NoFault:
        print("no fault")
        return
    print(fault.level, fault.kind, fault.op, judgement)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="refused faults of each table")
    parser.add_argument("--proofs", type=int, default=20, help="of them, proved and verified")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--guests", type=int, default=10, help="guest programs of each kind")
    parser.add_argument("--table", help="only this one")
    parser.add_argument("--index", type=int, help="show this fault of the table")
    parser.add_argument("--json", help="file for the summary")
    args = parser.parse_args()
    if args.index is not None:
        show(args.seed, args.table, args.index, args.guests)
        return 0
    campaign = Campaign(args.seed, args.count, args.proofs, args.guests)
    campaign.run([args.table] if args.table else tables(), args.json)
    if not args.json:
        print(json.dumps(campaign.summary(), indent=1))
    return int(bool(campaign.wrong))


if __name__ == "__main__":
    sys.exit(main())
