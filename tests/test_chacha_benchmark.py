"""The older sampler, kept for a comparison: ChaCha20 against RFC 8439, its draws against their rules, and the proofs,
verifiers and guests that are made with it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from Crypto.Cipher import ChaCha20
from plain import WORD, P, PlainTranscript, array

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks" / "transcript"))

import chacha  # noqa: E402
import compare  # noqa: E402
import variant  # noqa: E402
from variant import DIRECT, LEAN, SEED, VARIANTS, Variant, VariantProof, guest  # noqa: E402

from tailbite import ExecutionError, Proof, VerificationError, verify  # noqa: E402
from tailbite.lang import Constants, Slice, cpu, function, u32, u64, unroll  # noqa: E402
from tailbite.stark import verifier  # noqa: E402
from tailbite.transcript import STATE_WORDS, Transcript, Words4  # noqa: E402
from tailbite.vm.executor import execute  # noqa: E402

PARAMS = "min"
compiled = cpu.Library("chacha-test", [chacha.block])
BLOCKS = pytest.mark.parametrize("block", [chacha.block, compiled.block], ids=["interpreted", "compiled"])


def words32(data: bytes) -> Any:
    return np.frombuffer(data, dtype="<u4").astype(np.uint32)


def stream(block: Callable[..., None], key: bytes, counter: int, nonce: bytes, blocks: int = 1) -> bytes:
    """Key stream of so many blocks."""
    parts = []
    for k in range(blocks):
        out = np.zeros(16, dtype=np.uint32)
        block(words32(key), counter + k, words32(nonce), out)
        parts.append(out.astype("<u4").tobytes())
    return b"".join(parts)


# ---------------------------------------------------------------- RFC 8439


def test_quarter_round() -> None:
    """Section 2.1.1."""
    given = [u32(x) for x in (0x11111111, 0x01020304, 0x9B8D6F43, 0x01234567)]
    assert [int(x) for x in chacha.quarter_round(*given)] == [0xEA2A92F4, 0xCB1CF8CE, 0x4581472E, 0x5881C4BB]


ZERO = bytes(32)
VECTORS = [  # section 2.3.2; appendix A.1, 1 to 5
    (bytes(range(32)), 1, "000000090000004a00000000",
     "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
     "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"),
    (ZERO, 0, "00" * 12,
     "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
     "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"),
    (ZERO, 1, "00" * 12,
     "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
     "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"),
    (bytes(31) + b"\1", 1, "00" * 12,
     "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
     "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"),
    (b"\0\xff" + bytes(30), 2, "00" * 12,
     "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
     "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"),
    (ZERO, 0, "00" * 11 + "02",
     "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
     "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d"),
]


@BLOCKS
@pytest.mark.parametrize(("key", "counter", "nonce", "want"), VECTORS)
def test_block_vectors(block: Callable[..., None], key: bytes, counter: int, nonce: str, want: str) -> None:
    assert stream(block, key, counter, bytes.fromhex(nonce)).hex() == want
    assert stream(block, key, counter + 1, bytes.fromhex(nonce)).hex() != want


@BLOCKS
def test_encryption_vector(block: Callable[..., None]) -> None:
    """Section 2.4.2."""
    text = (b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen "
            b"would be it.")
    keys = stream(block, bytes(range(32)), 1, bytes.fromhex("000000000000004a00000000"), blocks=2)
    assert bytes(a ^ b for a, b in zip(text, keys, strict=False)).hex() == (
        "6e2e359a2568f98041ba0728dd0d6981e97e7aec1d4360c20a27afccfd9fae0b"
        "f91b65c5524733ab8f593dabcd62b35716 39d624e65152ab8f530c359f0861d8"
        "07ca0dbf500d6a6156a38e088a22b65e52bc514d16ccf806818ce91ab7793736"
        "5af90bbf74a35be6b40b8eedf2785e42874d").replace(" ", "")


# ---------------------------------------------------------------- draws


def generated(seed: bytes) -> Iterator[int]:
    """64-bit words of a generator, from its rules and an independent ChaCha20."""
    cipher = ChaCha20.new(key=seed, nonce=bytes(8))
    while True:
        yield int.from_bytes(cipher.encrypt(bytes(8)), "big")


def plain_field(t: PlainTranscript, n: int) -> list[int]:
    words = generated(t.sample())
    return [next(w for w in words if w < P) for _ in range(n)]


def plain_below(t: PlainTranscript, bound: int, generator: bool) -> int:
    def squeezed() -> Iterator[int]:
        while True:
            yield int.from_bytes(t.sample()[:8], "big")

    words = generated(t.sample()) if generator else squeezed()
    return next(w for w in words if w >= (WORD - bound) % bound) % bound


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize(("sampler", "generator"), [(chacha.SEED, False), (chacha.LEAN, True)])
def test_draws_follow_the_rules(sampler: chacha.Sampler, generator: bool, interpreted: bool) -> None:
    functions = [sampler.sample_field, sampler.sample_ext, sampler.sample_below]
    library = cpu.Library(f"chacha-draws-{generator}", functions)
    field, ext, below = functions if interpreted else [getattr(library, f.name) for f in functions]
    mine, other, direct = Transcript(b"draws"), PlainTranscript(b"draws"), PlainTranscript(b"draws")
    for bound in (1, 2, 1000, 2**20, 2**63 + 1, WORD - 1) * (1 if interpreted else 20):
        assert [int(x) for x in ext(mine.state)] == plain_field(other, 3) != list(direct.sample_extension_element())
        assert int(field(mine.state)) == plain_field(other, 1)[0]
        assert int(below(mine.state, bound)) == plain_below(other, bound, generator)
        mine.append_bytes(b"more")
        other.append_bytes(b"more")
    assert mine.sample() == other.sample()


SCRIPT = [P, P + 1, WORD - 1, P, P, P, P, P, P, P - 1, P, 5, 0, *[0] * 3]  # an element from the second block on
swapped = Constants(int.from_bytes(w.to_bytes(8, "big"), "little") for w in SCRIPT)
LOW_WORDS = [3, 2**63 - 2, 2**63 - 1, 9]
low_words = Constants(int.from_bytes(w.to_bytes(8, "big"), "little") for w in LOW_WORDS)


@function
def scripted_block(key: Slice[u32], counter: u32, nonce: Slice[u32], out: Slice[u32]) -> None:
    """The key stream is the script."""
    for k in unroll(range(8)):
        w = swapped[8 * u64(counter) + k]
        out[2 * k] = u32(w)
        out[2 * k + 1] = u32(w >> 32)


@function
def scripted_squeeze(t: Slice[u64]) -> Words4:
    """Words of another script, which begin each a sample."""
    t[0] += 1
    w = low_words[t[0] - 1]
    return Words4(w, w, w, w)


@pytest.mark.parametrize("interpreted", [False, True])
def test_rejection(interpreted: bool) -> None:
    """Elements from p on are drawn again, across blocks; indices below the threshold too."""
    lean, seed = chacha.Sampler(1, True, block=scripted_block), chacha.Sampler(2, False, block=scripted_block)
    squeezing = chacha.Sampler(1, False, squeeze=scripted_squeeze).sample_below
    functions = [lean.sample_ext, lean.sample_below, squeezing]
    library = cpu.Library("chacha-rejection", functions)
    ext, below, squeezed = functions if interpreted else [getattr(library, f.name) for f in functions]
    state = array([0] * STATE_WORDS)
    assert [int(x) for x in ext(state)] == [P - 1, 5, 0]
    assert [int(x) for x in seed.sample_ext(array([0] * STATE_WORDS))] == [P - 1, 5, 0]
    assert int(below(state, 2**63 + 1)) == P % (2**63 + 1)  # the first word will do
    assert int(below(state, WORD - P)) == P % (WORD - P)
    bound = 2**63 + 1  # the threshold is 2^63 - 1
    counter = array([0] * STATE_WORDS)
    assert (int(squeezed(counter, bound)), int(counter[0])) == (2**63 - 1, 3)
    counter = array([0] * STATE_WORDS)
    assert (int(squeezed(counter, 4)), int(counter[0])) == (3, 1)


# ---------------------------------------------------------------- prover, verifiers, guests


@pytest.fixture(scope="module")
def proofs() -> dict[Variant, VariantProof]:
    return {v: v.prove(compare.PROGRAMS["empty"](), PARAMS) for v in VARIANTS}


def test_direct_is_the_package_itself(proofs: dict[Variant, VariantProof]) -> None:
    program = compare.PROGRAMS["empty"]()
    proof = program.prove(params=PARAMS, allow_insecure=True)
    assert np.array_equal(proof.words, proofs[DIRECT].words)
    assert DIRECT.verifier is verifier.library and not verifier.library.replace and DIRECT.sampler is None
    assert verify(proof, program, allow_insecure=True).program_id == proofs[DIRECT].program_id


def test_honest_proofs_are_accepted_with_the_provers_record(proofs: dict[Variant, VariantProof]) -> None:
    for v in VARIANTS:
        events = v.check(proofs[v], PARAMS, record=True)
        assert events == proofs[v].events
        run = guest(v, PARAMS).run(proofs[v].guest_input)
        assert run.output[8:40] == proofs[v].program_id


def test_nothing_is_shared_between_variants(proofs: dict[Variant, VariantProof]) -> None:
    assert len({p.program_id for p in proofs.values()}) == len({guest(v, PARAMS).elf for v in VARIANTS}) == 3
    assert len({v.system.keyed(Proof(proofs[v].words).params).vm_id for v in VARIANTS}) == 3


def test_each_verifier_refuses_the_proofs_of_others(proofs: dict[Variant, VariantProof]) -> None:
    for v in VARIANTS:
        for other in VARIANTS:
            if v is not other:
                for identity in (proofs[v].program_id, proofs[other].program_id):
                    foreign = proofs[other]._replace(program_id=identity)
                    with pytest.raises(VerificationError):
                        v.check(foreign, PARAMS)
                    with pytest.raises(ExecutionError):
                        guest(v, PARAMS).run(foreign.guest_input)
    for v in (SEED, LEAN):
        for identity in (proofs[v].program_id, proofs[DIRECT].program_id):
            with pytest.raises(VerificationError):
                verify(proofs[v].words.tobytes(), identity, allow_insecure=True)


def test_samplers_alone_tell_proofs_apart(proofs: dict[Variant, VariantProof]) -> None:
    """With one name, and so one id, for all: still no verifier accepts what another sampler made."""
    for v in (SEED, LEAN):
        same_name = Variant(v.name, v.title)
        same_name.verifier, same_name.system = v.verifier, DIRECT.system
        with pytest.raises(VerificationError, match=r"balance|constraints|work|opening|fri|extended|truncated"):
            same_name.check(proofs[DIRECT], PARAMS)
        same_name.sampler = v.sampler
        same_name.replace = v.replace
        good = same_name.prove(compare.PROGRAMS["empty"](), PARAMS)
        assert good.program_id == proofs[DIRECT].program_id
        same_name.check(good, PARAMS)
        with pytest.raises(VerificationError):
            DIRECT.check(good, PARAMS)


@pytest.mark.parametrize("v", VARIANTS, ids=lambda v: v.name)
def test_guest_and_native_verifier_agree(v: Variant, proofs: dict[Variant, VariantProof]) -> None:
    """A bit changed all over the proof: both refuse, for the same reason."""
    rng = np.random.default_rng(3)
    size = len(proofs[v].words)
    for at in [*range(0, 60, 4), *rng.integers(60, size, 30).tolist()]:
        words = proofs[v].words.copy()
        words[at] ^= np.uint64(1) << np.uint64(rng.integers(64))
        with pytest.raises(VerificationError) as native:
            v.check(proofs[v]._replace(words=words), PARAMS)
        with pytest.raises(ExecutionError) as run:
            guest(v, PARAMS).run(proofs[v]._replace(words=words).guest_input)
        assert "assertion failed" not in str(run.value) or str(native.value) in str(run.value)


# ---------------------------------------------------------------- the comparison


def test_costs_are_exact(proofs: dict[Variant, VariantProof]) -> None:
    for v in VARIANTS:
        cost = compare.cost(v, proofs[v], PARAMS)
        log = execute(guest(v, PARAMS).image, proofs[v].guest_input).log
        assert log is not None and cost.keccak == len(log.keccaks.pc)
        if v is not DIRECT:  # a squeeze for each element and index; this preset has no proof of work
            assert cost.squeezes == proofs[v].draws(3) + proofs[v].draws(1)
        assert 0 < cost.sampling < cost.cycles
    assert compare.cost(SEED, proofs[SEED], PARAMS).sampling > compare.cost(LEAN, proofs[LEAN], PARAMS).sampling


def test_the_package_does_not_know_the_older_sampler() -> None:
    for file in (ROOT / "src").rglob("*.py"):
        assert "chacha" not in file.read_text().lower(), file
    assert "chacha" in Path(variant.__file__).read_text()


def test_command() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "transcript" / "compare.py"), "--preset", "min",
                           "--program", "empty", "--statements", "1", "--rounds", "1"],
                          capture_output=True, text=True, check=True)
    assert "ChaCha20 against direct squeeze" in done.stdout and "-3.75 %" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert all(line.count("|") == 2 + len(VARIANTS) for line in rows) and len(rows) == 14
