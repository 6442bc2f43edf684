"""What the documents say is so: commands exist, links lead somewhere, code runs, generated pages are up to date."""

from __future__ import annotations

import importlib.util
import re
import shlex
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from tailbite.cli import app
from tailbite.field import mul_ints, root_of_unity
from tailbite.hash.keccak import keccak256
from tailbite.stark.params import PRESETS
from tailbite.stark.verifier import CATEGORIES
from tailbite.transcript import Transcript

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")])


def blocks(text: str, language: str) -> list[str]:
    """Fenced code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """All commands in shell blocks, as argument lists."""
    for block in blocks(text, "sh"):
        for line in block.strip().split("\n"):
            for part in line.split(" && "):
                yield shlex.split(part)


# ---------------------------------------------------------------- commands


def check_command(argv: list[str]) -> None:
    """The program, the subcommand and the options exist."""
    name, rest = Path(argv[0]).name, argv[1:]
    if name == "tailbite":
        group = typer.main.get_command(app)
        assert rest[0] in group.commands, rest[0]  # type: ignore[attr-defined]
        group.commands[rest[0]].make_context(rest[0], rest[1:])  # type: ignore[attr-defined]
    elif name in ("python", "python3") and rest[0] == "-m":
        assert importlib.util.find_spec(rest[1]) is not None, rest[1]
    elif name == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert rest[0] == "install"
        assert all(x in extras for x in re.findall(r"\[(\w+)\]", rest[-1]))
    else:
        assert name in ("ruff", "mypy") and importlib.util.find_spec(name) is not None, argv


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_commands_exist(page: str) -> None:
    found = list(commands((ROOT / page).read_text()))
    assert found
    for argv in found:
        check_command(argv)


def test_a_wrong_command_is_noticed() -> None:
    for wrong in ("tailbite fly", "tailbite prove x.py --no-such-option", ".venv/bin/pip install '.[no_such_extra]'"):
        with pytest.raises(Exception):  # noqa: B017
            check_command(shlex.split(wrong))


def test_set_up_comes_first() -> None:
    """Two commands: one that installs and runs, one that installs the test extras and runs the tests."""
    first, second = blocks(README, "sh")[:2]
    assert first.count("\n") == second.count("\n") == 1
    assert [argv[0] for argv in commands(f"```sh\n{first}```")][-1].endswith("tailbite")
    assert "pytest" in second and README.index(second) < README.index("## ")


# ---------------------------------------------------------------- links and lists


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        assert not path or (page.parent / path).exists(), target
        if anchor and (not path or path.endswith(".md")):
            text = (page.parent / path).read_text() if path else page.read_text()
            assert re.search(rf"^#+ {anchor}$", text, re.MULTILINE | re.IGNORECASE), target


def test_source_files_named_in_docs_exist() -> None:
    package = ROOT / "src" / "tailbite"
    for page in [*ROOT.glob("docs/*.md"), ROOT / "CONTRIBUTING.md"]:
        for name in re.findall(r"`([\w/.]+/[\w.]+\.(?:py|h|md))`", page.read_text()):
            assert any((base / name).exists() for base in (ROOT, package, ROOT / "docs")), f"{page.name}: {name}"


def test_presets_are_listed() -> None:
    protocol = (ROOT / "docs" / "protocol.md").read_text()
    for p in PRESETS:
        work = f"{p.grinding_bits} bits" if p.grinding_bits else "none"
        assert f"| `{p.name}` | {1 << p.log_blowup} | {p.num_queries} | {work} | {p.aim_bits or 'none'} |" in README
        row = (p.number, f"`{p.name}`", p.log_blowup, p.num_queries, p.grinding_bits, p.regime, p.gap, p.aim_bits,
               "yes" if p.secure else "no")
        assert f"| {' | '.join(map(str, row))} |" in protocol


def test_categories_are_listed() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    section = text[text.index("## 15"):text.index("## 16")]
    assert set(re.findall(r"`(\w+)`", section)) >= set(CATEGORIES)
    used = set(re.findall(r"refuse(?:: | \()(\w+)", re.sub(r"\s+", " ", text)))
    assert used <= set(CATEGORIES) and len(used) > 10


def test_check_values() -> None:
    text = (ROOT / "docs" / "protocol.md").read_text()
    words = struct.pack("<3Q", 1, 2, 3)
    row = keccak256(words)
    t = Transcript(words)
    draws = [t.sample_extension_element(), t.sample_extension_element()]
    expected = [keccak256(b"").hex(), row.hex(), keccak256(b"\xff" * 8 + row + row).hex(),
                *(f"({', '.join(f'{int(c):016x}' for c in x)})" for x in draws),
                str(t.sample_u64(1024)), t.sample().hex(), str(t.sample_u64(1024)),
                str(mul_ints((1, 2, 3), (4, 5, 6))), f"{root_of_unity(5):016x}"]
    listed = [line for line in text[text.index("## 18"):].split("```")[1].strip().split("\n") if not line.endswith(":")]
    assert [re.split(r" {2,}", line.strip())[1] for line in listed] == expected


# ---------------------------------------------------------------- generated pages, and code


def test_tables_are_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_tables", ROOT / "docs" / "generate_tables.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert generator.TARGET.read_text() == generator.render(), "run python docs/generate_tables.py"


def test_first_program_of_the_readme(tmp_path: Path) -> None:
    """The guest in the README, run as a script, and the commands that follow it."""
    (tmp_path / "collatz.py").write_text(blocks(README, "python")[0])
    done = subprocess.run([sys.executable, "collatz.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "111\n(27,) 111\n"
    section = README[README.index("## A first program"):README.index("## What a proof says")]
    ran = list(commands(section))
    assert {argv[1] for argv in ran} >= {"run", "prove", "verify", "inspect", "build", "id"}
    for argv in ran:
        done = subprocess.run([sys.executable, "-m", *argv], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        if argv[1] == "verify":
            assert done.stdout.startswith("verified")


def test_private_argument_of_the_readme(tmp_path: Path) -> None:
    (tmp_path / "square.py").write_text(blocks(README, "python")[1])
    argv = [sys.executable, "-m", "tailbite", "run", "square.py", "5", "35", "--json", "--quiet"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert '"args": [35], "result": 25' in done.stdout
