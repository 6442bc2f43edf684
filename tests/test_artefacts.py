"""Guests, ids and proofs are what tests/artefacts says, under any Python, and change only with the protocol version."""

from __future__ import annotations

import copy
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailbite import Proof, VerificationError, verify
from tailbite.demo import collatz
from tailbite.stark.params import preset
from tailbite.stark.verifier import check_words

sys.path.insert(0, str(Path(__file__).parent / "tools"))
import regenerate
from regenerate import COMMITTED, SHAPES, Manifest, proof_file, refusal

NEEDED = "numpy, llvmlite, elftools, platformdirs, typer, rich"


@functools.cache
def stored() -> Manifest:
    manifest = regenerate.stored()
    assert manifest is not None, "there is no manifest: python tests/tools/regenerate.py"
    return manifest


# ---------------------------------------------------------------- as pinned


def test_everything_is_built_as_pinned() -> None:
    changed = regenerate.differences(stored(), regenerate.current())
    assert not changed, "to write a deliberate change: python tests/tools/regenerate.py"
    assert regenerate.stale_files() == []


def test_a_changed_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = shutil.copytree(regenerate.ARTEFACTS, tmp_path / "artefacts")
    monkeypatch.setattr(regenerate, "ARTEFACTS", copied)
    assert regenerate.stale_files() == []
    (copied / "collatz.min.proof").write_bytes(b"")
    (copied / "left-over.proof").write_bytes(b"")
    proof_file(COMMITTED[-1]).unlink()
    assert regenerate.stale_files() == sorted(
        ["collatz.min.proof", "left-over.proof", proof_file(COMMITTED[-1]).name])


def accept(name: str, data: bytes) -> None:
    """Verify a committed proof about the pinned program id; VerificationError if it is bad."""
    program_id = bytes.fromhex(stored()["proofs"][name]["program_id"])
    if name.startswith("air "):
        shape, params = name.removeprefix("air ").split(".")
        words = np.frombuffer(data, dtype="<u8")
        check_words(SHAPES[shape].system.keyed(preset(params)), program_id, words)
    else:
        statement = verify(data, program_id, allow_insecure=True)
        assert statement.output == collatz.expected_output(27)


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_proofs_verify(name: str) -> None:
    data = bytearray(proof_file(name).read_bytes())
    accept(name, bytes(data))
    for at in (0, 8, len(data) // 2, len(data) - 8):
        data[at] ^= 1
        with pytest.raises(VerificationError):
            accept(name, bytes(data))
        data[at] ^= 1


def test_files_are_small() -> None:
    assert sum(p.stat().st_size for p in regenerate.ARTEFACTS.iterdir()) < 200_000
    assert len(Proof.load(proof_file("collatz.min"))) == stored()["proofs"]["collatz.min"]["bytes"]


# ---------------------------------------------------------------- what may be written


def changed(*path: str, value: Any = "00", version: int = 0) -> Manifest:
    """The manifest with another value at a path, and its version raised by ``version``."""
    manifest = copy.deepcopy(stored())
    manifest["protocol_version"] += version
    *parents, last = path
    node = functools.reduce(lambda tree, key: tree[key], parents, manifest)
    node[last] = value
    return manifest


PROTOCOL = [
    ("vm_ids", "min"),
    ("vm_ids", "a new preset"),
    ("guests", "fib.gcc.elf", "ids", "standard"),
    ("guests", "recursion strong8", "ids", "strong"),
    ("proofs", "collatz.min", "sha256"),
    ("proofs", "fib.gcc.elf.fast", "bytes"),
    ("proofs", "air fibonacci 5.fast", "sha256"),
]


@pytest.mark.parametrize("path", PROTOCOL, ids=" ".join)
def test_protocol_changes_need_another_version(path: tuple[str, ...]) -> None:
    reason = refusal(stored(), changed(*path))
    assert " / ".join(path) in reason and "raise PROTOCOL_VERSION" in reason
    assert refusal(stored(), changed(*path, version=1)) == ""
    assert "went back" in refusal(stored(), changed(*path, version=-1))


def test_an_absent_preset_is_a_protocol_change() -> None:
    manifest = copy.deepcopy(stored())
    del manifest["vm_ids"]["min"]
    assert "vm_ids / min" in refusal(stored(), manifest)


def test_other_changes_need_none() -> None:
    assert refusal(stored(), stored()) == ""
    assert refusal(None, changed("vm_ids", "min")) == ""
    assert refusal(stored(), changed("guests", "a new one", value=stored()["guests"]["collatz"])) == ""
    assert refusal(stored(), changed("proofs", "a new one.fast", value=stored()["proofs"]["collatz.fast"])) == ""
    assert refusal(stored(), changed("verifying collatz.min", "cycles", value=1)) == ""
    compiled = changed("guests", "collatz", "sha256")
    compiled["guests"]["collatz"]["ids"]["standard"] = "00"
    compiled["proofs"]["collatz.fast"]["sha256"] = "00"
    assert refusal(stored(), compiled) == ""  # another ELF, so other ids and proofs
    compiled["proofs"]["fib.gcc.elf.fast"]["sha256"] = "00"
    assert "fib.gcc.elf.fast" in refusal(stored(), compiled)


def test_nothing_is_written_if_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    """The command on a copy: refused and written, with and without the version raised."""
    copied = shutil.copytree(regenerate.ARTEFACTS, tmp_path / "artefacts")
    path = copied / "manifest.json"
    monkeypatch.setattr(regenerate, "ARTEFACTS", copied)
    monkeypatch.setattr(regenerate, "MANIFEST", path)

    def run(new: Manifest, *arguments: str) -> int:
        monkeypatch.setattr(regenerate, "current", lambda: new)
        monkeypatch.setattr(sys, "argv", ["regenerate.py", *arguments])
        return regenerate.main()

    before = path.read_bytes()
    assert run(stored()) == 0
    assert run(changed("vm_ids", "min"), "--check") == 1
    assert run(changed("vm_ids", "min")) == 1
    assert "not written: the protocol changed (vm_ids / min)" in capsys.readouterr().err
    assert path.read_bytes() == before
    assert run(changed("vm_ids", "min", version=1)) == 0
    assert regenerate.stored() == changed("vm_ids", "min", version=1)
    path.unlink()
    assert run(stored()) == 0
    assert path.read_bytes() == before


# ---------------------------------------------------------------- another Python


def other_pythons() -> Iterator[str]:
    """Interpreters of other versions that have what the package needs: those named, or those on the path."""
    named = os.environ.get("TAILBITE_OTHER_PYTHON", "").split()
    for python in named or [f"python3.{minor}" for minor in range(11, 16) if minor != sys.version_info.minor]:
        if shutil.which(python) and (named or not subprocess.run([python, "-c", f"import {NEEDED}"],
                                                                 capture_output=True).returncode):
            yield python


def test_other_pythons_build_the_same() -> None:
    """Compares under each; TAILBITE_OTHER_PYTHON names interpreters, else those of the path are tried."""
    found = list(other_pythons())
    if not found:
        pytest.skip("no other Python with the package's dependencies: see tests/tools/other_python.sh")
    sources = Path(__file__).parent.parent / "src"
    for python in found:
        environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONHASHSEED": "7"}
        command = [python, regenerate.__file__, "--check"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
