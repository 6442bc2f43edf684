"""What a proof is about: any change of what is loaded, stated or proved is refused; other changes keep the id."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

import tailbite
from tailbite import Program, Proof, VerificationError, verify
from tailbite.channel import HINT, Label
from tailbite.demo import collatz
from tailbite.errors import ParameterError, TailbiteError
from tailbite.proof import InsecureParameters

sys.path.insert(0, str(Path(__file__).parent / "vm"))
from assembler import asm, call, elf, elf_of_segments, halt

DATA = 0x20000


def sample(data: bytes = b"\x11\x22\x33\x44\x55\x66\x77\x88\x99", address: int = DATA, change: int = 0,
           entry: int | None = None) -> bytes:
    """Commits 8 bytes of its data; ``change`` alters an instruction that is not executed."""
    words = [asm("addi", 5, 0, 0), asm("addi", 6, 0, 0), *call(64, 1, DATA, 8), *halt(), asm("addi", 7, 0, change)]
    return elf(words, {address: data}, entry=entry)


@pytest.fixture(scope="module")
def proof() -> Proof:
    return Program.from_elf(sample()).prove(params="fast", allow_insecure=True)


def accepted(proof: Proof, program: Program | bytes) -> None:
    verify(proof, program, allow_insecure=True)


def refused(proof: Proof | bytes, program: Program | bytes, category: str | None = None) -> VerificationError:
    with pytest.raises(VerificationError) as e:
        verify(proof, program, allow_insecure=True)
    assert e.value.category != "internal"
    if category:
        assert e.value.category == category
    return e.value


def test_program_or_id_alone_is_enough(proof: Proof) -> None:
    program = Program.from_elf(sample())
    accepted(proof, program)
    accepted(proof, program.id("fast"))
    accepted(Proof.from_bytes(proof.to_bytes()), program)
    assert proof.program_id == program.id("fast")


def test_every_loaded_byte_is_part_of_the_identity(proof: Proof) -> None:
    program = Program.from_elf(sample())
    for segment in program.image.segments:
        for k in range(len(segment.data)):
            data = bytearray(program.elf)
            data[program.elf.index(segment.data) + k] ^= 0x40
            try:
                other = Program.from_elf(bytes(data))
            except TailbiteError:
                continue
            refused(proof, other, "program")


def test_entry_and_addresses_are_part_of_the_identity(proof: Proof) -> None:
    refused(proof, Program.from_elf(sample(entry=0x10004)), "program")
    refused(proof, Program.from_elf(sample(address=DATA + 8)), "program")
    refused(proof, Program.from_elf(sample(change=1)), "program")


def test_bytes_that_are_not_loaded_keep_the_id(proof: Proof) -> None:
    base = sample()
    with_tail = base + b"debug information that nothing loads"
    assert Program.from_elf(with_tail).id() == Program.from_elf(base).id()
    accepted(proof, Program.from_elf(with_tail))
    parts = [(5, 0x10000, struct.pack("<2I", asm("addi", 5, 0, 1), 0x73), 8)]
    plain, with_empty = elf_of_segments(parts, 0x10000), elf_of_segments([*parts, (6, 0x40000, b"", 64)], 0x10000)
    assert Program.from_elf(plain).id() == Program.from_elf(with_empty).id()  # zeros are what memory starts with


def test_ids_differ_by_preset() -> None:
    program = Program.from_elf(sample())
    assert len({program.id(p) for p in ("standard", "strong", "strong2", "strong8", "fast", "min")}) == 6


def test_every_byte_of_a_proof_counts(proof: Proof) -> None:
    program = Program.from_elf(sample())
    data = proof.to_bytes()
    rng = random.Random(2)
    places = [*range(400), *rng.sample(range(len(data)), 600)]
    for k in places:
        changed = bytearray(data)
        changed[k] ^= 1 << rng.randrange(8)
        refused(bytes(changed), program)


def test_output_and_preset_are_part_of_the_statement(proof: Proof) -> None:
    program = Program.from_elf(sample())
    words = proof.words.copy()
    size = 3 + 1 + 2 + 4
    assert int(words[size]) == 8 and words[size + 1:size + 2].astype("<u8").tobytes() == proof.output
    for at, value in ((size, 7), (size + 1, int(words[size + 1]) ^ 1), (2, 5)):
        changed = words.copy()
        changed[at] = np.uint64(value)
        refused(changed.astype("<u8").tobytes(), program)


def test_shapeless_files_are_refused(proof: Proof) -> None:
    program = Program.from_elf(sample())
    data, rng = proof.to_bytes(), random.Random(3)
    bad = [b"", b"\0", bytes(8), bytes(4096), data[:8], data[:-8], data[:-3], data + bytes(8), data * 2,
           *(rng.randbytes(rng.randrange(1, 3000) * 8) for _ in range(50)),
           *(data[:24] + rng.randbytes(8 * rng.randrange(20, 2000)) for _ in range(50)),
           *(data[:rng.randrange(len(data) // 8) * 8] for _ in range(50))]
    for b in bad:
        refused(b, program)


def test_soundness_floor_names_both_numbers() -> None:
    proof = collatz.prove(7)
    assert verify(proof, collatz).bits >= 100
    assert verify(proof, collatz, min_bits=100.1).bits == pytest.approx(100.17)
    with pytest.raises(VerificationError, match=r"100\.17 proven bits, fewer than the 128"):
        verify(proof, collatz, min_bits=128)


def test_test_presets_need_an_explicit_word(proof: Proof) -> None:
    program = Program.from_elf(sample())
    with pytest.raises(InsecureParameters):
        program.prove(params="fast")
    with pytest.raises(VerificationError) as e:
        verify(proof, program)
    assert e.value.category == "soundness"
    with pytest.raises(VerificationError):
        verify(proof, program, min_bits=0)  # a low floor is not enough
    with pytest.raises(ParameterError):
        program.prove(params="unheard-of")


def test_threads_do_not_change_a_proof() -> None:
    one = collatz.program.prove(collatz.encode(97), "fast", allow_insecure=True, threads=1)
    two = collatz.program.prove(collatz.encode(97), "fast", allow_insecure=True, threads=2)
    assert one.to_bytes() == two.to_bytes()


@pytest.mark.parametrize("params", ["fast", "strong8"])
def test_extensions_that_are_not_kept_do_not_change_a_proof(params: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large proofs make them again for each use."""
    kept = collatz.prove(97, params=params, allow_insecure=True)
    monkeypatch.setattr("tailbite.program.default_memory", lambda: 1)
    assert collatz.prove(97, params=params, allow_insecure=True).to_bytes() == kept.to_bytes()


def test_parts_of_a_proof() -> None:
    """What is left over for FRI layers is what their openings hold; a proof that is not read to its end has none."""
    proof = collatz.prove(97, params="fast", allow_insecure=True)
    parts = proof.parts()
    assert sum(parts.values()) == len(proof)
    openings = [(label, 8 * size) for label, kind, size, _ in proof.events if kind == HINT]
    rows_after = []
    for at, (label, size) in enumerate(openings):
        first = label == Label.ROWS and (at == 0 or openings[at - 1][0] == Label.SIBLINGS)
        rows_after += [0] if first else []
        rows_after[-1] += size * (label == Label.ROWS)
    layers = sum(label == Label.FRI_ROOT for label, *_ in proof.events)
    assert parts["rows of FRI layers"] == sum(rows_after[-layers:])
    bad = proof.words.copy()
    bad[-1] ^= 1
    with pytest.raises(VerificationError):
        Proof(bad).parts()


def test_a_run_that_fails_makes_no_proof_and_the_next_one_works() -> None:
    bad = Program.from_elf(elf([*halt(3)]))
    with pytest.raises(tailbite.ExecutionError, match="exit code 3"):
        bad.prove(params="fast", allow_insecure=True)
    good = Program.from_elf(elf([*halt(0)]))
    accepted(good.prove(params="fast", allow_insecure=True), good)


def test_memory_limit_is_named() -> None:
    from tailbite.program import MemoryLimit

    with pytest.raises(MemoryLimit, match="MiB"):
        collatz.program.prove(collatz.encode(7), max_memory=1 << 20)


def test_saving_is_whole_or_not_at_all(proof: Proof, tmp_path: Path) -> None:
    path = tmp_path / "p.proof"
    proof.save(path)
    assert Proof.load(path).to_bytes() == proof.to_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["p.proof"]
    with pytest.raises(tailbite.ProofFileError):
        proof.save(tmp_path / "missing" / "p.proof")
    with pytest.raises(tailbite.ProofFileError):
        Proof.load(tmp_path / "missing.proof")


def test_recorded_events_agree(proof: Proof) -> None:
    """Prover, native verifier and interpreter go through the same steps."""
    from tailbite.stark.verifier import check_words

    program = Program.from_elf(sample())
    identity = program.id("fast")
    assert check_words(proof.keyed, identity, proof.words, record=True) == proof.events
    assert check_words(proof.keyed, identity, proof.words, record=True, interpret=True) == proof.events


def test_trace_check_agrees() -> None:
    run, failures = collatz.program.check(collatz.encode(27))
    assert not failures and collatz.decode(run.output).result == 111


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak memory from /proc")
def test_the_largest_file_takes_little_memory_and_time(proof: Proof, tmp_path: Path) -> None:
    """256 MiB that begin like a proof are refused in a process that never holds 1 GiB."""
    import subprocess
    import time

    path = tmp_path / "large.proof"
    data = proof.to_bytes()
    path.write_bytes(data[:1600] + bytes((1 << 28) - 1600))
    script = ("import sys, tailbite\n"
              "try:\n    tailbite.verify(tailbite.Proof.load(sys.argv[1]), bytes(32), allow_insecure=True)\n"
              "except tailbite.VerificationError:\n    print(open('/proc/self/status').read())")
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    peak = next(int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("VmHWM"))
    assert peak < 1 << 20 and time.monotonic() - began < 60
    path.write_bytes(bytes((1 << 28) + 8))
    with pytest.raises(VerificationError, match="at most"):
        Proof.load(path)
