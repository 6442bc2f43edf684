"""One protocol with different samplers: prover, native verifier and recursion guest for each.

A variant is the machine under another name with functions of the transcript replaced. Its ids differ from those of
every other variant, and with them all its challenges, so that none accepts a proof of another. ``DIRECT`` replaces
nothing and is the package itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chacha
import numpy as np

from tailbite import Program
from tailbite import transcript as ts
from tailbite.channel import CHALLENGE, RECORD_WORDS, Writer, events_of
from tailbite.errors import Trap
from tailbite.lang import Function, cpu, riscv
from tailbite.program import default_threads
from tailbite.recursion.guest import entry
from tailbite.stark import verifier
from tailbite.stark.params import preset
from tailbite.stark.prove import prove
from tailbite.stark.system import System, commit_fixed, program_key
from tailbite.stark.verify import verify
from tailbite.vm.executor import execute
from tailbite.vm.machine import machine, program_columns
from tailbite.vm.trace import fill

Events = list[tuple[int, int, int, int]]


class VariantProof(NamedTuple):
    """A proof of a variant: the program's id there, the proof's words, and the prover's record."""

    program_id: bytes
    words: Any
    events: Events

    @property
    def guest_input(self) -> bytes:
        """Private input of the variant's recursion guest."""
        return bytes(4) + self.program_id + self.words.astype("<u8").tobytes()

    def draws(self, words: int) -> int:
        """How many challenges of so many words were drawn: 3 for an element, 1 for an index."""
        return sum(kind == CHALLENGE and size == words for _, kind, size, _ in self.events)


class Drawing(NamedTuple):
    """What a channel draws by, compiled."""

    sample_ext: Callable[[Any], Any]
    sample_below: Callable[[Any, int], int]


class Variant:
    """What a sampler changes. ``functions`` are those that draw challenges, by whose names profiles are read."""

    def __init__(self, name: str, title: str, sampler: chacha.Sampler | None = None) -> None:
        self.name, self.title = name, title
        self.replace = sampler.replace if sampler else {}
        direct = [ts.next_word, ts.sample_field, ts.sample_ext, ts.sample_below]
        drawing = sampler.functions if sampler else direct
        self.functions: Sequence[Function] = [*drawing, ts.squeeze, ts.finish]
        self.verifier, self.sampler = verifier.library, None
        if sampler:
            self.verifier = cpu.Library(f"verify {name}", [verify], replace=self.replace)
            drawn = cpu.Library(f"sampler {name}", list(self.replace.values()))
            self.sampler = Drawing(*(getattr(drawn, f.name) for f in self.replace.values()))

    @functools.cached_property
    def system(self) -> System:
        """The machine under the variant's name."""
        return dataclasses.replace(machine(), name=f"rv64im {self.name}") if self.replace else machine()

    def prove(self, program: Program, params: str, private_input: bytes = b"") -> VariantProof:
        """Run the program and prove the run."""
        keyed = self.system.keyed(preset(params))
        fixed = commit_fixed(program_columns(program.image), keyed.params.log_blowup)
        key = program_key(keyed, program.image.entry, fixed)
        execution = execute(program.image, private_input)
        columns = fill(execution, program.image, private_input).columns
        words, channel = prove(keyed, key, fixed, execution.output, columns, default_threads(),
                               channel=Writer(self.sampler))
        return VariantProof(key.id(keyed), words, channel.events)

    def check(self, proof: VariantProof, params: str, record: bool = False) -> Events:
        """Verify natively, as ``verifier.check_words`` does; returns the recorded events if asked for."""
        keyed = self.system.keyed(preset(params))
        memory = np.zeros(verifier.working_words(keyed, len(proof.words)), dtype=np.uint64)
        log = np.zeros(1 + RECORD_WORDS * verifier.MAX_EVENTS if record else 0, dtype=np.uint64)
        identity = np.frombuffer(proof.program_id, dtype="<u8").astype(np.uint64)
        try:
            self.verifier.verify(keyed.words, keyed.params_words, keyed.vm_words, identity, proof.words, memory, log)
        except Trap as e:
            raise verifier.refusal(str(e).rpartition("assertion failed: ")[2]) from None
        return events_of(log) if record else []


@functools.cache
def guest(variant: Variant, params: str) -> Program:
    """The variant's verifier as a program of the machine."""
    return Program.from_elf(riscv.link(entry(variant.system.keyed(preset(params))), variant.replace))


DIRECT = Variant("direct", "direct squeeze")
SEED = Variant("chacha seed", "ChaCha20, as the seed had it", chacha.SEED)
LEAN = Variant("chacha lean", "ChaCha20, at its least", chacha.LEAN)
VARIANTS = (DIRECT, SEED, LEAN)
