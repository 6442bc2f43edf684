"""Benchmarks of revisions and commands: order, processes, installation, reports, and one real comparison."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tailbite import Program
from tailbite.bench import comparisons, pairs, sides
from tailbite.bench.comparisons import FORMAT_CHANGE, REGRESSION, complete, empty_program, shared_proof
from tailbite.bench.page import page
from tailbite.bench.report import SCHEMA, Exact, Report, Timed, markdown
from tailbite.bench.sides import READY, Side, SideError, prepare
from tailbite.bench.statistics import compare
from tailbite.bench.suite import suite
from tailbite.cli import app
from tailbite.cost import table_costs
from tailbite.vm.machine import TABLES

ROOT = Path(__file__).parents[2]
in_clone = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository")

# ---------------------------------------------------------------- order and processes


def test_order_is_a_b_b_a() -> None:
    assert "".join(side for _, side in pairs.order(6)) == "ABBAABBAABBA"
    told: list[tuple[int, int]] = []
    calls: list[str] = []
    runs = pairs.interleave(6, lambda k: calls.append(k) or len(calls), lambda d, n: told.append((d, n)))
    assert "".join(calls) == "AB" + "ABBAABBAABBA"  # one of each to warm up, which does not count
    assert runs["A"][:2] == [3, 6] and runs["B"][:2] == [4, 5] and told[-1] == (12, 12)


@pytest.mark.parametrize("n", [0, 5, 7, 41, 42])
def test_pairs_are_even_and_within_limits(n: int) -> None:
    with pytest.raises(ValueError, match="even number from 6 to 40"):
        pairs.check_pairs(n)
    assert pairs.check_pairs(6) == 6 and pairs.check_pairs(40) == 40


def test_a_process_is_measured() -> None:
    busy = ("import time; t = time.process_time(); x = b'x' * (300 << 20)\n"
            "while time.process_time() - t < 0.2: pass\nprint(len(x))")
    s = pairs.measure([sys.executable, "-c", busy], cpus=pairs.one_cpu())
    assert s.stdout == f"{300 << 20}\n" and s.user + s.system >= 0.2 <= s.wall
    assert s.peak >= 300 << 20 or not hasattr(os, "wait4")


@pytest.mark.parametrize(("code", "match"), [("raise SystemExit(3)", "ended with 3"), ("print(1/0)", "ZeroDivision")])
def test_a_failure_is_no_figure(code: str, match: str) -> None:
    with pytest.raises(pairs.RunFailed, match=match):
        pairs.measure([sys.executable, "-c", code])
    with pytest.raises(pairs.RunFailed, match="nonexistent"):
        pairs.measure(["/nonexistent"])


@pytest.mark.skipif(not pairs.POSIX, reason="signals")
def test_an_interruption_ends_the_run(tmp_path: Path) -> None:
    """What the command started is gone too."""
    script = ("import subprocess, sys; from pathlib import Path; from tailbite.bench.pairs import measure; "
              f"measure(['sh', '-c', 'echo $$ > {tmp_path}/pid; sleep 60'])")
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=20)[1]
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # it is gone as soon as it has been waited for
            os.kill(int((tmp_path / "pid").read_text()), 0)
            time.sleep(0.05)


# ---------------------------------------------------------------- sides


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository with two commits."""
    root = tmp_path / "repository"
    (root / "src" / "tailbite").mkdir(parents=True)
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *arguments], cwd=root, check=True,
                       capture_output=True)

    git("init", "--quiet")
    for text in ("1", "2"):
        (root / "src" / "tailbite" / "__init__.py").write_text(text)
        git("add", ".")
        git("commit", "--quiet", "-m", text)
    return root


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Installing is only noted."""
    done: list[str] = []
    monkeypatch.setattr(sides, "_install", lambda side: done.append(side.home.name))
    return done


def source(side: Side) -> str:
    return (side.home / "source" / "src" / "tailbite" / "__init__.py").read_text()


def test_revisions_are_installed_once_and_apart(repository: Path, installed: list[str], tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    new, old = (prepare(name, cache, repository) for name in ("HEAD", "HEAD~1"))
    assert source(new) == "2" and source(old) == "1" and new.home != old.home
    assert prepare("HEAD", cache, repository) == new and len(installed) == 2
    tree = prepare(".", cache, repository)
    assert source(tree) == "2" and tree.home not in (new.home, old.home) and tree.commit == ""
    (repository / "src" / "tailbite" / "__init__.py").write_text("3")
    assert source(prepare(".", cache, repository)) == "3" and len(installed) == 4
    status = subprocess.run(["git", "status", "--porcelain"], cwd=repository, capture_output=True, text=True)
    assert status.stdout == " M src/tailbite/__init__.py\n"
    assert subprocess.run(["git", "worktree", "list"], cwd=repository, capture_output=True).stdout.count(b"\n") == 1


def test_an_interrupted_installation_is_made_anew(repository: Path, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(side: Side) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sides, "_install", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare("HEAD", tmp_path, repository)
    (home,) = [p for p in tmp_path.iterdir() if p.is_dir() and p != repository]
    assert not (home / READY).exists()
    (home / "source" / "left over").write_text("")
    monkeypatch.setattr(sides, "_install", lambda side: None)
    side = prepare("HEAD", tmp_path, repository)
    assert (side.home / READY).exists() and not (side.home / "source" / "left over").exists()


@pytest.mark.parametrize("name", ["nonsense", "--help", "HEAD:src", ""])
def test_unknown_revisions_are_named(name: str, repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SideError, match="no revision"):
        prepare(name, tmp_path, repository)
    with pytest.raises(SideError, match=r"git rev-parse|not a clone"):
        prepare("HEAD", tmp_path, tmp_path)


def test_results_are_remembered_whole(tmp_path: Path) -> None:
    side, calls = Side("x", "c" * 40, tmp_path), list[int]()

    def make() -> dict[str, Any]:
        calls.append(1)
        return {"cycles": 7}

    assert side.remembered("k", make) == side.remembered("k", make) == {"cycles": 7} and len(calls) == 1
    (tmp_path / "results" / "k.json").write_text('{"cyc')  # a torn file is not believed
    assert side.remembered("k", make) == {"cycles": 7} and len(calls) == 2
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["k.json"]


class Fake(Side):
    """Answers from a table."""

    def __init__(self, answers: dict[str, Any]) -> None:
        object.__setattr__(self, "answers", answers)
        super().__init__("fake", "f" * 40, Path("fake"))

    def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
        return self.answers[task]  # type: ignore[attr-defined]


def fake(accepted: bool, vm_id: str) -> Fake:
    return Fake({"accepts": {"accepted": accepted, "reason": "r"}, "describe": {"vm_id": vm_id}})


def test_which_proof_is_verified() -> None:
    """A refusal of the same format is a regression, of another one a change."""
    b = fake(True, "1")
    assert shared_proof({"A": fake(True, "1"), "B": b}, "e", "p", "strong", False)[0]
    shared, note = shared_proof({"A": fake(False, "1"), "B": b}, "e", "p", "strong", False)
    assert not shared and note.startswith(REGRESSION)
    shared, note = shared_proof({"A": fake(False, "2"), "B": b}, "e", "p", "strong", False)
    assert not shared and note.startswith(FORMAT_CHANGE)
    assert not shared_proof({"A": fake(True, "1"), "B": b}, "e", "p", "strong", True)[0]
    with pytest.raises(pairs.RunFailed, match="rejects its own proof"):
        shared_proof({"A": b, "B": fake(False, "1")}, "e", "p", "strong", False)


def test_a_run_cut_short_is_an_error() -> None:
    whole = {"cycles": 10, "phases": {"a": [4, 1], "b": [6, 0]}, "calls": {"keccak": 1}}
    assert complete(fake(True, ""), whole) == whole
    for bad in ({"cycles": 0}, {"phases": {"a": [4, 1]}}, {"calls": {"keccak": 0}}, {"calls": {}}):
        with pytest.raises(pairs.RunFailed, match="whole run"):
            complete(fake(True, ""), whole | bad)


# ---------------------------------------------------------------- programs


def test_the_suite_uses_every_table() -> None:
    used = set()
    for b in suite():
        program = Program.from_elf(b.elf)
        assert program.run(b.input).output
        used |= set(table_costs(program, b.input))
    assert {t.name for t in TABLES} <= used


def test_the_empty_program_halts() -> None:
    assert Program.from_elf(empty_program()).run().cycles == 2


# ---------------------------------------------------------------- reports


@pytest.fixture
def report() -> Report:
    rng = np.random.default_rng(1)
    b = list(1 + 0.01 * rng.random(8))
    a = list(0.9 + 0.01 * rng.random(8))
    return Report("verify", {"A": "new | <b>", "B": "old"},
                  {"cpu": "c", "threads": 2, "memory": 1 << 34, "system": "Linux", "python": "3"}, {"pairs": 8},
                  ["a note & more"], [Exact("size", "B", 123_456_789, 123_456_780)],
                  [Timed("one verification", "s", a, b, compare(a, b))],
                  [Exact("openings", "cycles", 700, 800), Exact("folds", "cycles", 300, 200)])


def test_markdown_has_verdict_and_exact_integers(report: Report) -> None:
    text = markdown(report)
    assert "| IMPROVED |" in text and "<details>" in text and "size: A 123456789 B 123456780 B" in text
    rows = [line for line in text.split("\n") if line.startswith("|")]
    heads = [re.sub(r"\\\|", "", r).count("|") for r in rows]
    assert sorted(set(heads)) == [5, 10]  # every row as wide as its head
    assert "70.0 %" in text and "+50.00 %" in text


def test_json_schema(report: Report) -> None:
    data = json.loads(json.dumps(report.as_dict()))
    assert data["schema"] == SCHEMA and set(data) == {
        "schema", "kind", "sides", "machine", "settings", "notes", "exact", "phases", "timed"}
    (row,) = data["timed"]
    assert row["verdict"] == row["stats"]["verdict"] == "IMPROVED" and len(row["a"]) == len(row["b"]) == 8
    again = compare(row["a"], row["b"])
    assert again.as_dict() == row["stats"]  # everything follows from the runs


def test_page_is_self_contained(report: Report) -> None:
    text = page(report)
    assert page(report) == text
    assert "<b>" not in text and "new | &lt;b&gt;" in text
    assert not re.search(r'(src|href)\s*=\s*"(?!#)', text) and "<script" not in text and "@import" not in text
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        assert len(list(ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}path"))) > 3
    assert text.count("<svg") == 3


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no headless Chromium here")
def test_page_in_a_browser(report: Report, tmp_path: Path) -> None:
    """The plots are laid out with a size, and the figures are on the page."""
    measure = ("<script>document.title = JSON.stringify([...document.querySelectorAll('svg')].map("
               "s => s.getBoundingClientRect().width))</script></body>")
    (tmp_path / "r.html").write_text(page(report).replace("</body>", measure), encoding="utf-8")
    dumped = subprocess.run([str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                             (tmp_path / "r.html").as_uri()], capture_output=True, text=True, timeout=60)
    assert dumped.returncode == 0
    title = re.search(r"<title>(.*?)</title>", dumped.stdout)
    assert title is not None
    widths = json.loads(title[1])
    assert len(widths) == 3 and min(widths) > 100
    assert "IMPROVED" in dumped.stdout and "123,456,789 B" in dumped.stdout


# ---------------------------------------------------------------- the command


def test_run_compares_commands(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [
        "bench", "run", "--pairs", "6", "--json", "--markdown", str(tmp_path / "r.md"), "--html",
        str(tmp_path / "r.html"), "--", f"{sys.executable} -c pass",
        f"{sys.executable} -c 'import time; time.sleep(0.2)'"])
    assert done.exit_code == 0
    data = json.loads(done.stdout)
    wall = data["timed"][0]
    assert wall["name"] == "wall time" and wall["verdict"] == "IMPROVED" and wall["stats"]["pairs"] == 6
    assert "IMPROVED" in (tmp_path / "r.md").read_text() and "<svg" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(("arguments", "code", "match"), [
    (["run", "--pairs", "7", "true", "true"], 2, "even number"), (["run", "", "true"], 2, "empty"),
    (["run", "false", "true"], 3, "ended with 1"), (["cycles", "no-such-revision", "HEAD"], 3, "no revision"),
])
def test_errors_are_named(arguments: list[str], code: int, match: str) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments, "--json"])
    assert done.exit_code == code and match in json.loads(done.stdout)["error"]


@in_clone
@pytest.mark.timeout(900)
def test_a_revision_against_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working tree is really installed; both sides verify one proof and have the same exact costs."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sides, "cache_directory", lambda: tmp_path)
    monkeypatch.setattr(comparisons, "VERIFY_SECONDS", 0.05)
    runner = CliRunner()
    done = runner.invoke(app, ["bench", "verify", ".", ".", "--pairs", "6", "--preset", "fast", "--program", "empty",
                               "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["notes"] == ["Both sides verify one proof, made by B."]
    assert data["exact"][0]["a"] == data["exact"][0]["b"] > 10_000 and min(data["timed"][0]["a"]) > 0
    done = runner.invoke(app, ["bench", "cycles", ".", ".", "--json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    cycles = data["exact"][0]
    assert cycles["name"] == "guest cycles" and cycles["a"] == cycles["b"] == sum(p["a"] for p in data["phases"])


# ---------------------------------------------------------------- comments on pull requests


def asked(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / ".github" / "bench_pairs.sh"], env={"PATH": os.environ["PATH"], "BODY": body},
                          capture_output=True, text=True)


@pytest.mark.parametrize(("body", "pairs_wanted"), [("/bench-verify", "20"), ("/bench-verify 6\r\nthanks", "6"),
                                                    ("/bench-verify 40", "40"), ("/bench-verify 08", "8")])
def test_requests(body: str, pairs_wanted: str) -> None:
    assert asked(body).stdout == f"{pairs_wanted}\n"


@pytest.mark.parametrize("body", ["/bench-verify 5", "/bench-verify 41", "/bench-verify 7", "/bench-verify 0",
                                  "/bench-verify $(touch x)", "/bench-verify 6; ls", "/bench-verifyx", "hello",
                                  "/bench-verify 100", "/bench-verify -6", "/bench-verify  6"])
def test_other_comments_are_no_requests(body: str) -> None:
    done = asked(body)
    assert done.returncode != 0 and done.stdout == ""


def test_the_workflow_never_pastes_what_others_wrote() -> None:
    """Values of the event reach scripts by the environment only, and code of a pull request sees no writing token."""
    text = (ROOT / ".github" / "workflows" / "bench-verify.yml").read_text()
    scripts = [step.split("run:", 1)[1].split("\n\n")[0] for step in text.split("\n      - ") if "run:" in step]
    assert len(scripts) == 4 and not any("${{" in script for script in scripts)
    bench = text[text.index("\n  bench:"):text.index("\n  answer:")]
    assert "write" not in bench and "secrets." not in text and "persist-credentials: false" in bench
    for job in ("refuse", "bench"):
        part = text[text.index(f"\n  {job}:"):]
        assert "author_association" in part[:600]
