"""The command line: verbs, exit codes, JSON on stdout alone, typed errors, interruption."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
C_ELF = ROOT / "examples" / "c" / "elf"
COLLATZ = """
import tailbite
from tailbite import u64, Private

@tailbite.guest
def collatz(start: u64) -> u64:
    n = start
    steps = u64(0)
    while n != 1:
        n = n >> 1 if n & 1 == 0 else 3 * n + 1
        steps += 1
    return steps
"""


def tailbite(*args: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> Any:
    """Run the command; returns the finished process."""
    return subprocess.run([sys.executable, "-m", "tailbite", *map(str, args)], capture_output=True, text=True,
                          cwd=cwd, env={**os.environ, **(env or {})}, check=False, timeout=300)


def as_json(done: Any) -> dict[str, Any]:
    """stdout is one JSON object and nothing else."""
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    return dict(json.loads(lines[0]))


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a guest and a proof of it."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "collatz.py").write_text(COLLATZ)
    done = tailbite("prove", "collatz.py", 27, "-o", "c.proof", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_prove_verify_by_program_and_by_id(work: Path) -> None:
    good = tailbite("verify", "c.proof", "collatz.py", "--trust-source", "--json", cwd=work)
    assert good.returncode == 0
    said = as_json(good)
    assert said["ok"] and said["result"] == 111 and said["args"] == [27] and said["params"] == "standard"
    assert said["bits"] >= 100
    by_id = tailbite("verify", "c.proof", "--id", said["program_id"], "--json", cwd=work)
    assert by_id.returncode == 0 and as_json(by_id)["output"] == said["output"]
    identity = as_json(tailbite("id", "collatz.py", "--json", cwd=work))
    assert identity["ids"]["standard"] == said["program_id"]


def test_verify_never_runs_a_file_that_it_was_not_told_to_trust(work: Path) -> None:
    (work / "evil.py").write_text("open('ran', 'w')\n" + COLLATZ)
    done = tailbite("verify", "c.proof", "evil.py", cwd=work)
    assert done.returncode == 2 and "--trust-source" in done.stderr and not (work / "ran").exists()


def test_rejections_exit_with_one(work: Path) -> None:
    data = bytearray((work / "c.proof").read_bytes())
    data[len(data) // 2] ^= 1
    (work / "bad.proof").write_bytes(data)
    for proof, program in (("bad.proof", "collatz.py"), ("c.proof", "--id=" + "00" * 32)):
        extra = ["--trust-source"] if program.endswith(".py") else []
        done = tailbite("verify", proof, program, *extra, "--json", cwd=work)
        assert done.returncode == 1
        said = as_json(done)
        assert said["ok"] is False and said["error"] and said["category"] != "internal"
        assert "Traceback" not in done.stderr
    low = tailbite("verify", "c.proof", "collatz.py", "--trust-source", "--min-bits", "120", cwd=work)
    assert low.returncode == 1 and "100.17" in low.stderr and "120" in low.stderr
    (work / "empty.proof").write_bytes(b"")
    assert tailbite("verify", "empty.proof", "--id", "00" * 32, cwd=work).returncode == 1


@pytest.mark.parametrize("args", [
    ("run", "collatz.py"), ("run", "collatz.py", "x"), ("run", "collatz.py", str(1 << 64)),
    ("run", "collatz.py", "1", "2"), ("run", "collatz.py", "1", "--guest", "nobody"), ("verify", "c.proof"),
    ("verify", "c.proof", "--id", "zz"), ("prove", "collatz.py", "7", "--params", "fast"),
    ("prove", "collatz.py", "7", "--params", "nonsense"), ("frobnicate",), ("build", "x.elf"), ("run",)])
def test_usage_errors_exit_with_two(work: Path, args: tuple[str, ...]) -> None:
    done = tailbite(*args, cwd=work)
    assert done.returncode == 2 and "Traceback" not in done.stderr and not done.stdout


def test_what_cannot_run_exits_with_three(work: Path) -> None:
    (work / "broken.py").write_text("def f(:\n")
    (work / "text.elf").write_text("no ELF")
    (work / "wrong.py").write_text("import tailbite\n@tailbite.guest\ndef f(n: tailbite.u64) -> tailbite.u64:\n"
                                   "    x = 0\n    return n\n")
    (work / "fails.py").write_text("import tailbite\n@tailbite.guest\ndef f(n: tailbite.u64) -> tailbite.u64:\n"
                                   "    assert n < 5, 'too large'\n    return n\n")
    for args, text in ((("run", "missing.elf"), "missing.elf"), (("run", "text.elf"), "text.elf"),
                       (("run", "broken.py"), "broken.py"), (("run", "wrong.py", 1), "has no type"),
                       (("prove", "fails.py", 9, "-o", "none.proof"), "too large"),
                       (("run", "collatz.py", 0, "--max-cycles", 1000), "1000 cycles"),
                       (("inspect", "missing.proof"), "missing.proof")):
        done = tailbite(*args, "--json", cwd=work)
        assert done.returncode == 3, (args, done.stderr)
        assert text in as_json(done)["error"] and "Traceback" not in done.stderr
    assert not (work / "none.proof").exists()


def test_run_check_build_inspect(work: Path) -> None:
    run = as_json(tailbite("run", "collatz.py", 27, "--json", "--counts", "--profile", cwd=work))
    assert run["result"] == 111 and run["counts"] and run["profile"]["collatz"] > 100
    assert as_json(tailbite("check", "collatz.py", 27, "--json", cwd=work))["failures"] == []
    built = as_json(tailbite("build", "collatz.py", "-o", "c.elf", "--json", cwd=work))
    elf = (work / "c.elf").read_bytes()
    assert built["sha256"] == hashlib.sha256(elf).hexdigest()
    assert tailbite("verify", "c.proof", "c.elf", cwd=work).returncode == 0
    seen = as_json(tailbite("inspect", "c.proof", "--json", cwd=work))
    assert seen["verified"] is False and seen["program_id"] == built["program_id"]
    assert min(r["bits"] for r in seen["rounds"]) == seen["bits"]
    assert sum(seen["parts"].values()) == seen["bytes"] and min(seen["parts"].values()) >= 0
    assert tailbite("inspect", "c.proof", cwd=work).returncode == 0


def test_prove_tells_what_its_phases_took(work: Path) -> None:
    done = tailbite("prove", "collatz.py", 27, "-o", "d.proof", "--stats", "--json", cwd=work)
    said = as_json(done)
    names = [p["name"] for p in said["phases"]]
    assert names[0] == "run" and "constraints" in names and names[-1] == "proof of work" and "done" not in names
    assert 0 < sum(p["seconds"] for p in said["phases"]) <= said["seconds"] and said["phases"][2]["bytes"] > 1 << 16
    assert "phases" not in as_json(tailbite("prove", "collatz.py", 27, "-o", "d.proof", "--json", cwd=work))
    table = tailbite("prove", "collatz.py", 27, "-o", "d.proof", "--stats", cwd=work)
    assert table.returncode == 0 and "GiB/s" in table.stdout


@pytest.mark.parametrize("compiler", ["gcc", "clang", "zig"])
def test_c_program_from_the_command_line(work: Path, compiler: str) -> None:
    elf = C_ELF / f"sha256.{compiler}.elf"
    message = b"the quick brown fox"
    (work / "message").write_bytes(message)
    proved = tailbite("prove", elf, "--input", "message", "-o", f"{compiler}.proof", "-q", "--json", cwd=work)
    assert proved.returncode == 0, proved.stderr
    assert as_json(proved)["output"] == hashlib.sha256(message).hexdigest()
    assert tailbite("verify", f"{compiler}.proof", elf, cwd=work).returncode == 0
    assert tailbite("verify", f"{compiler}.proof", C_ELF / "fib.gcc.elf", cwd=work).returncode == 1


def test_python_examples(work: Path) -> None:
    fibonacci = as_json(tailbite("run", ROOT / "examples" / "fibonacci.py", 90, "--json"))
    assert fibonacci["result"] == 2880067194370816120
    items = as_json(tailbite("run", ROOT / "examples" / "sorting.py", "5,3,9,1,0,7,2,8", "--json"))
    assert bytes.fromhex(items["committed"]) == b"".join(x.to_bytes(4, "little") for x in (0, 1, 2, 3, 5, 7, 8, 9))
    for n in (0, 3, 55, 56, 64, 119, 120, 200):
        (work / "m").write_bytes(bytes(range(n)))
        digest = as_json(tailbite("run", ROOT / "examples" / "sha256.py", f"@{work / 'm'}", "--json"))
        assert digest["committed"] == hashlib.sha256(bytes(range(n))).hexdigest()


def test_demo_and_doctor() -> None:
    demo = tailbite("demo")
    assert demo.returncode == 0 and "524" in demo.stdout and "not zero-knowledge" in demo.stdout
    doctor = as_json(tailbite("doctor", "--json"))
    assert doctor["ok"], doctor


def test_help_has_examples() -> None:
    for verb in ("run", "prove", "verify"):
        assert "Examples" in tailbite(verb, "--help").stdout


def test_read_only_home_works(work: Path, tmp_path: Path) -> None:
    """No cache is no error."""
    done = tailbite("verify", "c.proof", "c.elf" if (work / "c.elf").exists() else "collatz.py", "--trust-source",
                    cwd=work, env={"XDG_CACHE_HOME": "/proc/nowhere", "HOME": "/proc/nowhere"})
    assert done.returncode == 0, done.stderr


def test_interruption_leaves_no_file(work: Path) -> None:
    elf = ROOT / "benchmarks" / "guests" / "fib_loop_20.elf"
    process = subprocess.Popen([sys.executable, "-m", "tailbite", "prove", str(elf), "-o", "cut.proof"], cwd=work,
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the proof was finished before the signal came")
    assert process.returncode == 130 and "Traceback" not in messages
    assert not list(work.glob("*cut.proof*"))
