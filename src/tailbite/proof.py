"""Proof files and their verification: the public interface of checking."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ParameterError, TailbiteError
from .files import write_whole
from .stark.params import Params, preset
from .stark.parts import parts
from .stark.soundness import Shape, Soundness, soundness
from .stark.system import MAGIC, PROTOCOL_VERSION, Keyed
from .stark.verifier import VerificationError, check_words, refusal
from .stark.verify import HEADER_WORDS, MAX_OUTPUT_BYTES
from .vm.machine import machine

if TYPE_CHECKING:
    from .guest import Guest
    from .program import Program
    from .stark.job import PhaseCost

MAX_PROOF_BYTES = 1 << 28
DEFAULT_MIN_BITS = 100


class ProofFileError(TailbiteError):
    """A proof file cannot be read or written."""


class InsecureParameters(ParameterError):
    """A preset that is only for tests, used without saying so."""


@dataclass(frozen=True)
class Statement:
    """What an accepted proof shows: the program halted with exit code 0 and this public output.

    ``bits``: proven soundness of the proof, the least over all rounds.
    """

    program_id: bytes
    output: bytes
    params: Params
    bits: float
    guest: Guest | None = None

    @property
    def args(self) -> tuple[Any, ...]:
        """A guest's public arguments."""
        return self._decoded().args

    @property
    def result(self) -> Any:
        """A guest's result."""
        return self._decoded().result

    @property
    def committed(self) -> bytes:
        """What a guest committed besides arguments and result."""
        return self._decoded().committed

    def _decoded(self) -> Any:
        if self.guest is None:
            raise TailbiteError("verify(proof, guest_function) gives typed values; this was verified as bytes")
        return self.guest.decode(self.output)


class Proof:
    """A proof, as made or as read. Its claims count only after :func:`verify`.

    ``words``: the proof as u64 words. ``events``: the prover's record, and ``costs``: what its phases took; both are
    empty for a proof that was read.
    """

    def __init__(self, words: Any, events: list[tuple[int, int, int, int]] | None = None,
                 guest: Guest | None = None, costs: list[PhaseCost] | None = None) -> None:
        self.words = _unwritable(words)  # what the header says is read from them once
        self.events, self.guest, self.costs = events or [], guest, costs or []
        self.header = _Header.read(self.words)

    # ------------------------------------------------------------ bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Proof:
        """Read a proof. Raises :class:`VerificationError` if the bytes cannot be one."""
        if len(data) > MAX_PROOF_BYTES:
            raise refusal(f"extended: a proof has at most {MAX_PROOF_BYTES} bytes, this has {len(data)}")
        if len(data) % 8:
            raise refusal(f"truncated: a proof is a whole number of 8-byte words, this has {len(data)} bytes")
        return cls(np.frombuffer(data, dtype="<u8"))

    def to_bytes(self) -> bytes:
        """The proof file's content."""
        return self.words.astype("<u8").tobytes()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Proof:
        """Read a proof file. Raises :class:`ProofFileError` or :class:`VerificationError`."""
        try:
            size = Path(path).stat().st_size
            if size > MAX_PROOF_BYTES:
                raise refusal(f"extended: a proof has at most {MAX_PROOF_BYTES} bytes, {path} has {size}")
            if size % 8:
                return cls.from_bytes(Path(path).read_bytes())  # which says what is wrong
            return cls(np.fromfile(path, dtype="<u8"))
        except OSError as e:
            raise ProofFileError(f"cannot read {path}: {e.strerror}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the proof file, whole or not at all."""
        try:
            write_whole(Path(path), self.to_bytes())
        except OSError as e:
            raise ProofFileError(f"cannot write {path}: {e.strerror}") from None

    def __len__(self) -> int:
        """Size in bytes."""
        return 8 * len(self.words)

    # ------------------------------------------------------------ claims

    @property
    def params(self) -> Params:
        """The preset that the proof names."""
        return self.header.params

    @property
    def output(self) -> bytes:
        """The public output that the proof claims."""
        return self.header.output

    @property
    def args(self) -> tuple[Any, ...]:
        """Public arguments, for a proof made from a guest."""
        return self._decoded().args

    @property
    def result(self) -> Any:
        """The result, for a proof made from a guest."""
        return self._decoded().result

    def _decoded(self) -> Any:
        if self.guest is None:
            raise TailbiteError("this proof was not made from a guest: use verify(proof, guest).result")
        return self.guest.decode(self.output)

    @property
    def program_id(self) -> bytes:
        """Id of the program that the proof claims to be about."""
        from .stark.system import ProgramKey

        h = self.header
        r = h.root
        return ProgramKey(h.entry, h.program_logs, (r[0], r[1], r[2], r[3])).id(self.keyed)

    @property
    def keyed(self) -> Keyed:
        return machine().keyed(self.params)

    @property
    def tables(self) -> list[tuple[str, int]]:
        """Tables of the proof with their log heights, in list order."""
        system = machine()
        return [(system.programs[k].name, log) for (k, _), log in zip(system.slots, self.header.logs, strict=True)
                if log]

    @property
    def shape(self) -> Shape:
        """What soundness depends on besides the preset."""
        return shape_of(self.keyed, self.header.logs, len(self.output))

    @property
    def soundness(self) -> Soundness:
        """Proven soundness, round by round, of this preset and these heights."""
        return soundness(self.params, self.shape)

    def parts(self) -> dict[str, int]:
        """Bytes by part; they add up to the size. Reads the proof to its end, so a bad one is refused."""
        return parts(self.keyed, self.header.logs, check_words(self.keyed, self.program_id, self.words, record=True))


def _unwritable(words: Any) -> Any:
    """The words in memory that nobody can write to: a caller's array is copied, as it may change later."""
    own = np.ascontiguousarray(words, dtype=np.uint64)
    return own if isinstance(own.base, bytes) else np.frombuffer(own.tobytes(), dtype=np.uint64)


@dataclass(frozen=True)
class _Header:
    """The start of a proof: what it claims to be about."""

    params: Params
    entry: int
    program_logs: tuple[int, ...]
    root: tuple[int, ...]
    output: bytes
    logs: tuple[int, ...]

    @classmethod
    def read(cls, words: Any) -> _Header:
        system = machine()
        programs, slots = len(system.program_tables), len(system.slots)
        if len(words) < HEADER_WORDS + 6 + programs + slots:
            raise refusal(f"truncated: {8 * len(words)} bytes are too few for a proof")
        if int(words[0]) != MAGIC:
            raise refusal("header: this is not a Tailbite proof")
        if int(words[1]) != PROTOCOL_VERSION:
            raise refusal(f"header: protocol version {int(words[1])}; this verifier knows {PROTOCOL_VERSION}")
        try:
            params = preset(int(words[2]))
        except ParameterError as e:
            raise refusal(f"header: {e}") from None
        at = HEADER_WORDS
        entry = int(words[at])
        logs = tuple(int(x) for x in words[at + 1:at + 1 + programs])
        at += 1 + programs
        root = tuple(int(x) for x in words[at:at + 4])
        size = int(words[at + 4])
        at += 5
        if size > MAX_OUTPUT_BYTES:
            raise refusal(f"statement: a public output of {size} bytes is too long")
        count = (size + 7) // 8
        if len(words) < at + count + slots:
            raise refusal("truncated: the proof ends within its statement")
        output = words[at:at + count].astype("<u8").tobytes()
        heights = tuple(int(x) for x in words[at + count:at + count + slots])
        for log, (k, _) in zip(heights, system.slots, strict=True):
            p = system.programs[k]
            if log and not p.min_log <= log <= p.max_log:
                raise refusal(f"shape: table {p.name} of height 2^{log}; it has 2^{p.min_log} to 2^{p.max_log}")
        if not any(heights):
            raise refusal("shape: the proof has no tables")
        return cls(params, entry, logs, root, output[:size], heights)


def shape_of(keyed: Keyed, logs: tuple[int, ...], output_bytes: int) -> Shape:
    """What soundness depends on, for tables of these log heights (0: absent)."""
    system = keyed.system
    terms = constraints = denominators = longest = 0
    present = [(system.programs[k], log) for (k, _), log in zip(system.slots, logs, strict=True) if log]
    for p, log in present:
        terms += p.column_count + len(p.following) + (p.pairs + 1 if p.pairs else 0)
        denominators += len(p.interactions) << log
        longest = max([longest, *(len(i.entries) + 1 for i in p.interactions)])
    for height in {log for _, log in present}:
        terms += 2
        constraints = max(constraints, sum(p.constraint_count for p, log in present if log == height))
    if system.start_bus is not None:
        denominators += 1
    if system.output_bus is not None:
        denominators += output_bytes
    return Shape(tuple(log for _, log in present), terms, constraints, logup_denominators=denominators,
                 logup_tuple_len=max(longest, 1))


def require_secure(params: Params, allow_insecure: bool) -> None:
    """InsecureParameters for a test preset that was not allowed explicitly."""
    if not params.secure and not allow_insecure:
        raise InsecureParameters(f"preset '{params.name}' is for tests only and proves nothing: choose standard or "
                                 f"strong, or pass allow_insecure (--allow-insecure)")


def verify(proof: Proof | bytes, program: Program | Guest | bytes, min_bits: float | None = None, *,
           allow_insecure: bool = False) -> Statement:
    """Check a proof. Returns what it shows, or raises :class:`VerificationError` with what failed.

    ``program`` is the program, a guest function, or the 32-byte program id that the caller trusts. A proof with fewer
    than ``min_bits`` proven bits (default 100) is refused; test presets need ``allow_insecure``, with which the
    default is 0.
    """
    from .guest import Guest

    if min_bits is None:
        min_bits = 0 if allow_insecure else DEFAULT_MIN_BITS
    if isinstance(proof, bytes | bytearray):
        proof = Proof.from_bytes(bytes(proof))
    guest = program if isinstance(program, Guest) else getattr(program, "guest", None)
    source = program.program if isinstance(program, Guest) else program
    params = proof.params
    if not params.secure and not allow_insecure:
        raise refusal(f"soundness: the proof was made with preset '{params.name}', which is for tests only and proves "
                      f"nothing")
    identity = bytes(source) if isinstance(source, bytes | bytearray) else source.id(params.number)
    if len(identity) != 32:
        raise ParameterError(f"a program id has 32 bytes, this has {len(identity)}")
    bits = proof.soundness.total
    if not bits >= min_bits:  # so that NaN demands what nothing has
        raise refusal(f"soundness: the proof has {bits:g} proven bits, fewer than the {min_bits:g} demanded")
    check_words(proof.keyed, identity, proof.words)
    return Statement(identity, proof.output, params, bits, guest)


__all__ = ["InsecureParameters", "Proof", "ProofFileError", "Statement", "VerificationError", "verify"]
