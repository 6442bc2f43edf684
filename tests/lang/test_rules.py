"""Every rule of the language: what breaks it is refused at the right line with a remedy, and its twin works."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent
from types import ModuleType

import numpy as np
import pytest
from lang_support import Guest, module_of, words
from rule_cases import ALL, INTERPRETER_TOO, PRELUDE, Rule

from tailbite.errors import CompileError, Trap
from tailbite.lang import cpu
from tailbite.lang.lower import Module


def text_of(case: str) -> str:
    text = dedent(case).strip("\n")
    if "def f(" not in text:
        text = "@function\ndef f(x: u64, s: Slice[u64]) -> u64:\n" + indent(text, "    ")
    return PRELUDE + text + "\n"


def marked(module: ModuleType, mark: str) -> tuple[int, str]:
    """Number and text of the line that ends with ``mark``."""
    lines = Path(str(module.__file__)).read_text().split("\n")
    return next((k, line.strip()) for k, line in enumerate(lines, 1) if line.endswith(mark))


@pytest.mark.parametrize("rule", ALL, ids=lambda r: r.name)
@pytest.mark.parametrize("target", ["cpu", "riscv"])
def test_refused(tmp_path: Path, rule: Rule, target: str) -> None:
    module = module_of(tmp_path, text_of(rule.bad))
    with pytest.raises(CompileError) as caught:
        Module(target).add(module.f)
    line, text = marked(module, "#!")
    message = str(caught.value).split("\n")
    assert message[0].startswith(f"{module.__file__}:{line}: ")
    assert re.search(rule.message, message[0])
    assert message[1].strip() == text
    if "#2" in rule.bad:
        line, text = marked(module, "#2")
        assert [m.strip() for m in message[2:]] == [f"called from {module.__file__}:{line}", text]


def test_helpers_may_be_in_a_directory_of_any_name(tmp_path: Path) -> None:
    """The frames of the compiler are told from those of helpers by the whole path."""
    (rule,) = [r for r in ALL if r.name == "no run-time condition in a helper"]
    (tmp_path / "lang").mkdir()
    module = module_of(tmp_path / "lang", text_of(rule.bad))
    with pytest.raises(CompileError) as caught:
        Module("cpu").add(module.f)
    assert str(caught.value).startswith(f"{module.__file__}:{marked(module, '#!')[0]}: ")


@pytest.mark.parametrize("name", INTERPRETER_TOO)
def test_refused_by_the_interpreter(tmp_path: Path, name: str) -> None:
    """What depends on types alone is refused when it runs, too."""
    (rule,) = [r for r in ALL if r.name == name]
    module = module_of(tmp_path, text_of(rule.bad))
    with pytest.raises((TypeError, OverflowError, ValueError, CompileError, Trap)):
        module.f(7, [3, 1, 4, 1, 5])


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> list[ModuleType]:
    directory = tmp_path_factory.mktemp("rules")
    modules = [module_of(directory, text_of(rule.good)) for rule in ALL]
    for k, module in enumerate(modules):
        module.f.name = f"f{k}"
    return modules


INPUTS = [(x, [3, 1, 4, 1, 5]) for x in (0, 1, 2, 7)]


def test_twins_work_on_the_cpu(twins: list[ModuleType]) -> None:
    lib = cpu.Library("rules", [m.f for m in twins])
    for k, (rule, module) in enumerate(zip(ALL, twins, strict=True)):
        for x, s in INPUTS:
            assert getattr(lib, f"f{k}")(x, np.array(s, np.uint64)) == int(module.f(x, s)), (rule.name, x)


def test_twins_work_on_a_guest(twins: list[ModuleType]) -> None:
    guest = Guest([m.f for m in twins])
    for k, (rule, module) in enumerate(zip(ALL, twins, strict=True)):
        for x, s in INPUTS[1:3]:
            assert guest.run(f"f{k}", x, words(s), len(s)).a0 == int(module.f(x, s)), (rule.name, x)


def test_twins_show_that_the_values_matter(twins: list[ModuleType]) -> None:
    """Twins that all returned x would show little."""
    values = {tuple(int(m.f(x, s)) for x, s in INPUTS) for m in twins}
    assert len(values) > 20
