"""Programs and their runs: the public interface of running and proving."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .air.check import Failure, check
from .errors import TailbiteError
from .files import read_at_most
from .stark.job import Stopwatch
from .stark.params import Params, preset
from .stark.prove import prove as prove_words
from .stark.system import FixedTree, Keyed, ProgramKey, commit_fixed, program_key
from .vm.elf import ElfError, Image, load_elf
from .vm.executor import MAX_CYCLES, Execution, execute
from .vm.machine import machine, program_columns, verifier_terms
from .vm.trace import fill

if TYPE_CHECKING:
    from .guest import Guest
    from .proof import Proof

Progress = Callable[[str, float], None]
MAX_ELF_BYTES = 1 << 28
MAX_THREADS = 256


class MemoryLimit(TailbiteError):
    """The proof would need more memory than allowed."""


def default_threads() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Run:
    """A run that halted with exit code 0."""

    program: Program
    execution: Execution

    @property
    def output(self) -> bytes:
        """The public output."""
        return self.execution.output

    @property
    def cycles(self) -> int:
        """Cycles: one for each instruction and each committed byte."""
        return self.execution.cycles

    @property
    def printed(self) -> tuple[str, ...]:
        """Texts that the program printed."""
        return self.execution.printed

    @property
    def counts(self) -> dict[str, int]:
        """Executed instructions by operation."""
        return {op.name: n for op, n in self.execution.counts.items()}

    @property
    def args(self) -> tuple[Any, ...]:
        """A guest's public arguments."""
        return self.program.decoded(self.output).args

    @property
    def result(self) -> Any:
        """A guest's result."""
        return self.program.decoded(self.output).result

    def profile(self) -> list[tuple[str, int]]:
        """Instructions by function, most first."""
        image, totals = self.program.image, dict[str, int]()
        for pc, n in zip(image.rom.pc.tolist(), self.execution.hits.tolist(), strict=True):
            if n:
                name = image.symbol_at(pc).partition("+")[0] or "?"
                totals[name] = totals.get(name, 0) + n
        return sorted(totals.items(), key=lambda kv: (-kv[1], kv[0]))


class Program:
    """A RISC-V program, and everything about it that proofs of its runs need.

    ``guest`` is the Python function that it was made from, if any; its values then have types.
    """

    def __init__(self, image: Image, elf: bytes, guest: Guest | None = None) -> None:
        self.image, self.elf, self.guest = image, elf, guest
        self._lock = threading.Lock()
        self._fixed: dict[int, tuple[Keyed, FixedTree, ProgramKey]] = {}

    @classmethod
    def from_elf(cls, source: str | os.PathLike[str] | bytes, guest: Guest | None = None) -> Program:
        """Load a static RV64IM ELF from its bytes or a file. Raises :class:`ElfError`."""
        if isinstance(source, bytes):
            return cls(load_elf(source), source, guest)
        path = Path(source)
        try:
            data = read_at_most(path, MAX_ELF_BYTES)
        except OSError as e:
            raise ElfError(f"cannot read {path}: {e.strerror}") from None
        if len(data) > MAX_ELF_BYTES:
            raise ElfError(f"{path}: the file is larger than {MAX_ELF_BYTES} bytes")
        try:
            return cls(load_elf(data), data, guest)
        except ElfError as e:
            raise ElfError(f"{path}: {e}") from None

    @property
    def sha256(self) -> str:
        """Digest of the ELF file; it pins an artefact, and is no part of a proof."""
        return hashlib.sha256(self.elf).hexdigest()

    def keyed(self, params: Params, pool: ThreadPoolExecutor | None = None) -> tuple[Keyed, FixedTree, ProgramKey]:
        """The machine under a preset, this program's preprocessed tables and its key; cached."""
        with self._lock:
            if params.number not in self._fixed:
                keyed = machine().keyed(params, pool)
                fixed = commit_fixed(program_columns(self.image), params.log_blowup, pool)
                self._fixed[params.number] = keyed, fixed, program_key(keyed, self.image.entry, fixed)
            return self._fixed[params.number]

    def id(self, params: str | int = "standard") -> bytes:
        """What identifies the program to a verifier, 32 bytes; one for each preset."""
        keyed, _, key = self.keyed(preset(params))
        return key.id(keyed)

    def decoded(self, output: bytes) -> Any:
        """A guest's typed values in a public output; TailbiteError if the program is no guest function."""
        if self.guest is None:
            raise TailbiteError("this program is not a Python guest: its output is bytes")
        return self.guest.decode(output)

    # ------------------------------------------------------------ verbs

    def run(self, private_input: bytes = b"", max_cycles: int = MAX_CYCLES,
            progress: Callable[[int, int | None], None] | None = None, profile: bool = False) -> Run:
        """Run without proving. Raises :class:`~tailbite.vm.executor.ExecutionError`.

        ``profile`` counts cycles by call stack and phase, in ``run.execution.tree``; see :mod:`tailbite.cost`.
        """
        return Run(self, execute(self.image, private_input, max_cycles, False, progress, profile=profile))

    def prove(self, private_input: bytes = b"", params: str | int = "standard", *, allow_insecure: bool = False,
              threads: int | None = None, max_cycles: int = MAX_CYCLES, max_memory: int | None = None,
              progress: Progress | None = None) -> Proof:
        """Run, and prove the run.

        ``params`` names a preset; one that is only for tests needs ``allow_insecure``. ``max_memory`` is a bound in
        bytes that the estimated need must not exceed; half of the machine's memory, and no bound, if it is None. A
        proof that would need more makes its extended columns again for each use instead of keeping them, which takes a
        third longer. The same run and preset give the same bytes, whatever the other arguments; there are at most
        ``MAX_THREADS`` threads. Raises ExecutionError, NotProvable, MemoryLimit, ParameterError.
        """
        from .proof import Proof, require_secure

        chosen = preset(params)
        require_secure(chosen, allow_insecure)
        threads = max(1, min(threads or default_threads(), MAX_THREADS))
        watch = Stopwatch()

        def tell(phase: str, fraction: float) -> None:
            watch.start(phase)
            if progress is not None:
                progress(phase, fraction)

        with ThreadPoolExecutor(threads) as pool:
            tell("run", 0.0)
            execution = execute(self.image, private_input, max_cycles, True)
            keyed, fixed, key = self.keyed(chosen, pool)
            tell("fill tables", 0.05)
            filled = fill(execution, self.image, private_input, pool)
            output = execution.output
            watch.account(sum(c.nbytes for c in filled.columns.values()))
            del execution  # its log is large
        limit = max_memory or default_memory()
        keep = memory_estimate(filled.columns, chosen, True) <= limit
        if max_memory is not None and not keep and (need := memory_estimate(filled.columns, chosen, False)) > limit:
            raise MemoryLimit(f"this proof needs about {need >> 20} MiB, more than the limit of "
                              f"{max_memory >> 20} MiB: run fewer cycles, or raise --max-memory")
        step = None if progress is None else lambda phase, f: progress(phase, 0.1 + 0.9 * f)
        words, channel = prove_words(keyed, key, fixed, output, filled.columns, threads, step, keep=keep, watch=watch)
        return Proof(words, channel.events, self.guest, watch.stop())

    def check(self, private_input: bytes = b"", max_cycles: int = MAX_CYCLES) -> tuple[Run, list[Failure]]:
        """Run, fill all tables and check every constraint and bus, without a proof."""
        execution = execute(self.image, private_input, max_cycles, True)
        filled = fill(execution, self.image, private_input)
        failures = check(filled.traces(self.image), (), verifier_terms(self.image.entry, execution.output))
        return Run(self, execution), failures


def default_memory() -> int:
    """Half of the machine's memory, in bytes; 8 GiB where it cannot be known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return 8 << 30


def memory_estimate(columns: dict[int, Any], params: Params, keep: bool) -> int:
    """Bytes that proving filled tables takes, roughly, with extensions that are kept in memory or are not."""
    system = machine()
    blowup = 1 << params.log_blowup
    cells, heights = [], set()
    for slot, main in columns.items():
        p = system.programs[system.slots[slot][0]]
        cells.append((main.shape[0] + 3 * p.pairs) * main.shape[1])
        heights.add(main.shape[1])
    rows = blowup * sum(heights)
    # a tree has 8 words a row; codewords, what they are made from, and quotients
    words = sum(cells) + rows * (3 * 8 + 9 + 6)
    # or, of the table in hand, the states and columns that are hashed, or the columns on half of the quotient domain
    words += blowup * sum(cells) + 6 * rows if keep else max(42 * blowup * max(heights), max(cells))
    return 8 * words + (200 << 20)
