"""Mutants of proofs: changes that know where each message and opening lies, and changes of plain bytes."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from fuzz_watch import SKIPPED, Violation
from tamper import Entry, Recorded

from tailbite import Proof, VerificationError, verify
from tailbite.channel import Label
from tailbite.field import P
from tailbite.program import Program
from tailbite.stark.system import Keyed, ProgramKey
from tailbite.stark.verifier import check_words

MASK = (1 << 64) - 1
AGREES = "accepted at min: another final polynomial, equal at the only query"
BOUNDARIES = (0, 1, 2, 5, 6, 7, 8, 26, 27, 28, 31, 32, 33, 63, 64, 65, 1 << 16, 1 << 20, (1 << 20) + 1, 1 << 31,
              1 << 32, P - 1, P, P + 1, 1 << 63, MASK - 1, MASK)
HEAVY = {Label.TABLES: 3, Label.SIGMA: 3, Label.VALUES: 3, Label.FRI_ROOT: 2, Label.FINAL: 4, Label.NONCE: 4,
         Label.ROWS: 4, Label.SIBLINGS: 4}
"""How much more often than others an entry of this label is chosen: those that are checked late."""


# ---------------------------------------------------------------- changes of words
# Each takes the words of an entry and gives others; ``other`` are the words of the same place in another proof.


Change = Callable[[random.Random, Any, Any], Any]


def at_random(rng: random.Random, words: Any) -> int:
    return rng.randrange(len(words))


def with_word(words: Any, at: int, value: int) -> Any:
    out = words.copy()
    out[at] = value & MASK
    return out


def step(rng: random.Random, words: Any, other: Any) -> Any:
    at = at_random(rng, words)
    return with_word(words, at, int(words[at]) + rng.choice((1, -1, 2, -2, 1 << 32, -(1 << 32))))


def same_element(rng: random.Random, words: Any, other: Any) -> Any:
    """The same field element, written otherwise where that is possible."""
    small = np.flatnonzero(words < np.uint64(MASK - P + 1))
    at = int(rng.choice(small)) if len(small) else at_random(rng, words)
    return with_word(words, at, int(words[at]) + P)


def flip(rng: random.Random, words: Any, other: Any) -> Any:
    at = at_random(rng, words)
    return with_word(words, at, int(words[at]) ^ 1 << rng.randrange(64))


def boundary(rng: random.Random, words: Any, other: Any) -> Any:
    return with_word(words, at_random(rng, words), rng.choice(BOUNDARIES))


def random_word(rng: random.Random, words: Any, other: Any) -> Any:
    return with_word(words, at_random(rng, words), rng.getrandbits(64))


def swap_words(rng: random.Random, words: Any, other: Any) -> Any:
    i, j = at_random(rng, words), at_random(rng, words)
    out = words.copy()
    out[[i, j]] = words[[j, i]]
    return out


def compensate(rng: random.Random, words: Any, other: Any) -> Any:
    """Two elements, or the parts of two extension elements, whose sum stays."""
    i = at_random(rng, words)
    j = rng.randrange(i % 3, len(words), 3)
    if i == j:
        return step(rng, words, other)
    d = rng.choice((1, P - 1, rng.randrange(P)))
    return with_word(with_word(words, i, (int(words[i]) + d) % P), j, (int(words[j]) - d) % P)


def zeros(rng: random.Random, words: Any, other: Any) -> Any:
    return np.zeros_like(words)


def repeat_word(rng: random.Random, words: Any, other: Any) -> Any:
    at = at_random(rng, words)
    return np.insert(words, at, words[at])


def drop_word(rng: random.Random, words: Any, other: Any) -> Any:
    return np.delete(words, at_random(rng, words))


def repeat_all(rng: random.Random, words: Any, other: Any) -> Any:
    return np.concatenate([words, words])


def drop_all(rng: random.Random, words: Any, other: Any) -> Any:
    return words[:0]


def splice(rng: random.Random, words: Any, other: Any) -> Any:
    """What another proof has here: all of it, or a part of equal length."""
    if other is None or len(other) == 0:
        return random_word(rng, words, other)
    if len(other) == len(words) and rng.random() < 0.5:
        a, b = sorted((rng.randrange(len(words) + 1), rng.randrange(len(words) + 1)))
        return np.concatenate([words[:a], other[a:b], words[b:]])
    return other


CHANGES: tuple[Change, ...] = (
    step, step, same_element, flip, flip, boundary, boundary, random_word, swap_words, compensate, compensate, zeros,
    repeat_word, drop_word, repeat_all, drop_all, splice, splice)


# ---------------------------------------------------------------- mutants of a proof


class Seed(NamedTuple):
    """A good proof that mutants are made of, and other proofs to take parts from."""

    proof: Recorded
    donors: tuple[Recorded, ...]
    labels: tuple[Label, ...]
    weights: tuple[int, ...]
    entries: dict[Label, list[Entry]]

    @classmethod
    def of(cls, proof: Recorded, donors: Sequence[Recorded] = ()) -> Seed:
        entries: dict[Label, list[Entry]] = {}
        for e in proof.entries():
            if e.size:
                entries.setdefault(e.label, []).append(e)
        labels = tuple(entries)
        return cls(proof, tuple(donors), labels, tuple(HEAVY.get(x, 1) for x in labels), entries)

    def mutant(self, rng: random.Random) -> Any:
        """Words of a changed proof, rarely of the same."""
        if rng.random() < 0.1:
            return self.roughly(rng)
        changed: dict[int, Any] = {}
        for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 5))):
            e = self.entry(rng)
            words = changed[e.start][1] if e.start in changed else e.of(self.proof.words)
            if len(words):
                changed[e.start] = e, rng.choice(CHANGES)(rng, words, self.elsewhere(rng, e))
        parts, at = [], 0
        for _, (e, words) in sorted(changed.items()):
            parts += [self.proof.words[at:e.start], words]
            at = e.start + e.size
        return np.concatenate([*parts, self.proof.words[at:]])

    def entry(self, rng: random.Random) -> Entry:
        return rng.choice(self.entries[rng.choices(self.labels, self.weights)[0]])

    def elsewhere(self, rng: random.Random, e: Entry) -> Any:
        """What stands in this place, or one with the same label, of another proof or of this one."""
        source = rng.choice(self.donors) if self.donors and rng.random() < 0.7 else self.proof
        alike = _by_label(id(source), source.entries).get(e.label, [])
        if not alike:
            return None
        x = alike[e.ordinal] if e.ordinal < len(alike) and rng.random() < 0.7 else rng.choice(alike)
        return x.of(source.words)

    def roughly(self, rng: random.Random) -> Any:
        """Changes that know nothing of messages."""
        words = self.proof.words
        at, size = rng.randrange(len(words)), rng.choice((1, 1, 2, 4, 16))
        match rng.randrange(7):
            case 0:
                return words[:at]
            case 1:
                return np.concatenate([words, np.array([rng.choice(BOUNDARIES)] * size, dtype=np.uint64)])
            case 2:
                return np.delete(words, slice(at, at + size))
            case 3:
                return np.insert(words, at, words[at:at + size])
            case 4:
                return np.concatenate([words[:at], words[:at:-1]])
            case 5:
                return np.array([rng.getrandbits(64) for _ in range(rng.choice((0, 1, 40, 400)))], dtype=np.uint64)
            case _:
                data = bytearray(words.astype("<u8").tobytes())
                for _ in range(size):
                    data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
                return np.frombuffer(bytes(data), dtype="<u8").astype(np.uint64)


_ENTRIES: dict[int, dict[Label, list[Entry]]] = {}


def _by_label(identity: int, entries: Callable[[], list[Entry]]) -> dict[Label, list[Entry]]:
    """Entries of a proof by label; proofs live as long as the process."""
    if identity not in _ENTRIES:
        found = _ENTRIES.setdefault(identity, {})
        for e in entries():
            found.setdefault(e.label, []).append(e)
    return _ENTRIES[identity]


def program_message(seed: Seed, words: Any) -> ProgramKey | None:
    """The program key that a mutant claims, if it has one."""
    e = seed.entries[Label.PROGRAM][0]
    if len(words) < e.start + e.size:
        return None
    own = [int(x) for x in words[e.start:e.start + e.size]]
    return ProgramKey(own[0], tuple(own[1:-4]), (own[-4], own[-3], own[-2], own[-1]))


def refused(reason: str) -> str:
    if reason.startswith("internal"):
        raise Violation(f"the verifier has no reason for this: {reason}")
    return reason


# ---------------------------------------------------------------- targets


class AirSeed(NamedTuple):
    """A proof of an example AIR with what its verifier is given."""

    name: str
    keyed: Keyed
    program_id: bytes
    seed: Seed

    def accepts_original(self) -> bool:
        check_words(self.keyed, self.program_id, self.seed.proof.words)
        return True

    def case(self, rng: random.Random) -> str:
        words = self.seed.mutant(rng)
        if np.array_equal(words, self.seed.proof.words):
            return SKIPPED
        program_id = self.program_id
        key = program_message(self.seed, words) if rng.random() < 0.3 else None
        if key is not None:  # the verifier trusts a program whose key is what the mutant says
            program_id = key.id(self.keyed)
        try:
            check_words(self.keyed, program_id, words)
        except VerificationError as e:
            return refused(str(e))
        if self.keyed.params.num_queries == 1 and self.agrees_at_the_query(words):
            return AGREES
        raise Violation(f"a mutant of {self.name} is accepted")

    def agrees_at_the_query(self, words: Any) -> bool:
        """Whether only the final polynomial is another, and it has the same value where the one query looks.

        One query cannot tell more; the statement is the original's.
        """
        original = self.seed.proof.words
        e = self.seed.entries[Label.FINAL][0]
        if len(words) != len(original) or np.any(np.delete(words != original, slice(e.start, e.start + e.size))):
            return False
        events = check_words(self.keyed, self.program_id, words, record=True)
        index, = (value for label, _, _, value in events if label == Label.INDEX)
        return final_value(e.of(words), index) == final_value(e.of(original), index)


def final_value(words: Any, index: int) -> list[int]:
    """The final polynomial at u = w^index, w of order 2^6: three coordinates (docs/protocol.md)."""
    u = pow(7, (P - 1 >> 6) * (index % 64), P)
    return [sum(int(a) * pow(u, k, P) for k, a in enumerate(words[c::3])) % P for c in range(3)]


class MachineSeed(NamedTuple):
    """A proof of a program of the machine, for :func:`tailbite.verify`."""

    name: str
    program_id: bytes
    seed: Seed
    verify: Callable[..., Any] = verify

    def accepts_original(self) -> bool:
        data = self.seed.proof.words.astype("<u8").tobytes()
        return verify(data, self.program_id, allow_insecure=True).program_id == self.program_id

    def case(self, rng: random.Random) -> str:
        words = self.seed.mutant(rng)
        data = words.astype("<u8").tobytes()
        if rng.random() < 0.02:
            data = data[:-rng.randrange(1, 8)] if rng.random() < 0.5 else data + bytes(rng.randrange(1, 8))
        if data == self.seed.proof.words.astype("<u8").tobytes():
            return SKIPPED
        try:
            proof = Proof.from_bytes(data)
            claimed = proof.program_id if rng.random() < 0.3 else self.program_id
            strict = rng.random() < 0.02
            self.verify(proof, claimed, rng.choice((100, 101, float("nan"))) if strict else 0,
                        allow_insecure=not strict or rng.random() < 0.5)
        except VerificationError as e:
            return refused(str(e))
        raise Violation(f"a mutant of {self.name} is accepted")


class Proofs:
    """Proofs of example AIRs and of the machine at one preset; half of the cases each."""

    preset = "fast"

    def __init__(self) -> None:
        self.airs = air_seeds(self.preset)
        self.machines = machine_seeds(self.preset)
        assert all(seed.accepts_original() for seed in [*self.airs, *self.machines])

    def case(self, rng: random.Random) -> str:
        seeds: Sequence[AirSeed | MachineSeed] = self.airs if rng.random() < 0.5 else self.machines
        return rng.choice(seeds).case(rng)


class Fast(Proofs):
    """Proofs at ``fast``."""


class Min(Proofs):
    """Proofs at ``min``: one query and no work, so that a mutant sometimes asks for the same rows as the original."""

    preset = "min"


class Standard(Proofs):
    """Proofs of the machine at ``standard``."""

    def __init__(self) -> None:
        self.machines = machine_seeds("standard")
        assert all(seed.accepts_original() for seed in self.machines)

    def case(self, rng: random.Random) -> str:
        return rng.choice(self.machines).case(rng)


AIR_SHAPES = ("fibonacci 5", "fibonacci 6", "permutation 5 5", "permutation 5 5 5", "permutation 6 5", "squares 5",
              "squares 6", "echo nothing", "echo 3", "echo 40")


@functools.cache
def air_seeds(name: str) -> list[AirSeed]:
    from cases import SHAPES, make

    made = {shape: make(SHAPES[shape], name) for shape in AIR_SHAPES}
    recorded = {shape: Recorded(m.words, m.events) for shape, m in made.items()}
    out = []
    for shape, m in made.items():
        donors = [r for s, r in recorded.items() if s != shape and (s[:4] == shape[:4] or s == "fibonacci 6")]
        out.append(AirSeed(f"{shape} at {name}", m.keyed, m.program_id, Seed.of(recorded[shape], donors)))
    return out


def tiny() -> tuple[Program, tuple[bytes, bytes]]:
    """A program that puts the square of its private input, one dword, on the public output; with two inputs."""
    from assembler import A0, T0, asm, call, elf, halt, li

    from tailbite.vm.elf import INPUT_BASE

    words = [*li(T0, INPUT_BASE), asm("ld", A0, T0, 4), asm("mul", A0, A0, A0), asm("sd", A0, T0, -16),
             *call(64, 1, INPUT_BASE - 16, 8), *halt()]
    return Program.from_elf(elf(words)), (b"tailbite", bytes(8))


def machine_seeds(name: str) -> list[MachineSeed]:
    from tailbite.demo import collatz

    program, inputs = tiny()
    small = [_recorded(program.prove(x, name, allow_insecure=True, threads=1)) for x in inputs]
    larger = _recorded(collatz.prove(27, params=name, allow_insecure=True, threads=1))
    return [MachineSeed(f"tiny at {name}", program.id(name), Seed.of(small[0], [small[1], larger])),
            MachineSeed(f"collatz at {name}", collatz.program.id(name), Seed.of(larger, small))]


def _recorded(proof: Proof) -> Recorded:
    return Recorded(proof.words, proof.events)
