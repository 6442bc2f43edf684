"""The cache of compiled objects: never trusted, never needed, the same bytes for everyone."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from lang_support import HEADER, module_of

from tailbite.errors import CompileError, Trap
from tailbite.lang import backend, cache, cpu

TEXT = '''
@function
def square(x: u64) -> u64:
    return x * x


@function
def guarded(x: u64) -> u64:
    assert x < 100, "small"
    return x + square(x)
'''


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A fresh cache home; the cache itself is the directory ``tailbite`` in it."""
    where = tmp_path / "home"
    where.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(where))
    cache.directory.cache_clear()
    yield where
    cache.directory.cache_clear()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that were really compiled, in order."""
    done: list[str] = []

    def counted(text: str, machine: backend.Machine) -> bytes:
        done.append(text)
        return backend.compile_object(text, machine)

    monkeypatch.setattr(cpu, "compile_object", counted)
    return done


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    return module_of(tmp_path, TEXT)


def library(module: ModuleType, packaged: bool = False, level: str = "native") -> cpu.Library:
    return cpu.Library("cached", [module.guarded], packaged=packaged, level=level)


def entries(home: Path) -> list[Path]:
    return sorted((home / "tailbite").glob("*.bin"))


# ---------------------------------------------------------------- entries


def test_an_object_is_compiled_once(home: Path, compilations: list[str], module: ModuleType) -> None:
    assert [library(module).guarded(9) for _ in range(3)] == [90] * 3
    assert len(compilations) == 1
    (entry,) = entries(home)
    assert entry.stat().st_mode & 0o077 == 0
    assert entry.parent.stat().st_mode & 0o777 == 0o700


def damaged(entry: Path) -> list[bytes]:
    data = entry.read_bytes()
    middle = len(data) // 2
    flips = [data[:k] + bytes([data[k] ^ 1]) + data[k + 1:] for k in (0, 20, 50, middle, len(data) - 1)]
    return [b"", data[:10], data[:-1], data[:middle], data + b"\0", bytes(len(data)), *flips]


def test_a_damaged_entry_is_rebuilt(home: Path, compilations: list[str], module: ModuleType) -> None:
    library(module).load()
    (entry,) = entries(home)
    good = entry.read_bytes()
    variants = damaged(entry)
    for k, bad in enumerate(variants, 2):
        entry.write_bytes(bad)
        assert library(module).guarded(9) == 90
        assert len(compilations) == k
        assert entry.read_bytes() == good
    library(module).load()
    assert len(compilations) == 1 + len(variants)


def test_an_entry_of_another_key_is_rebuilt(home: Path, compilations: list[str], module: ModuleType,
                                            tmp_path: Path) -> None:
    """Valid, but for another function: its code must not run."""
    library(module).load()
    (entry,) = entries(home)
    other = module_of(tmp_path, TEXT.replace("x + square", "x - square"))
    assert library(other).guarded(9) == (9 - 81) % 2**64
    (foreign,) = set(entries(home)) - {entry}
    shutil.copy(foreign, entry)
    assert library(module).guarded(9) == 90
    assert len(compilations) == 3


def test_an_entry_that_is_no_file_is_ignored(home: Path, module: ModuleType) -> None:
    library(module).load()
    (entry,) = entries(home)
    entry.unlink()
    entry.mkdir()
    assert library(module).guarded(9) == 90
    assert not list((home / "tailbite").glob("tmp*"))


def test_levels_have_entries_of_their_own(home: Path, compilations: list[str], module: ModuleType) -> None:
    levels = ("native", "avx2", "baseline") if backend.host().triple.startswith("x86_64") else ("native",)
    for level in levels:
        library(module, level=level).load()
    assert len(entries(home)) == len(compilations) == len(levels)


def test_a_moved_function_traps_at_its_new_place(home: Path, compilations: list[str], module: ModuleType,
                                                 tmp_path: Path) -> None:
    """The code is the same, so it comes from the cache; the places of traps do not."""
    moved = module_of(tmp_path, "\n\n\n" + TEXT)
    for m, line in ((module, 12), (moved, 15)):
        with pytest.raises(Trap) as caught:
            library(m).guarded(100)
        assert str(caught.value) == f"{m.__file__}:{line}: assertion failed: small"
    assert len(compilations) == 1


# ---------------------------------------------------------------- packaged libraries


def test_a_packaged_library_is_not_lowered_again(home: Path, compilations: list[str], module: ModuleType,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    assert library(module, packaged=True).guarded(9) == 90
    with monkeypatch.context() as patch:
        patch.setattr(cpu.Library, "lowered", None)
        again = library(module, packaged=True)
        assert again.guarded(9) == 90
        with pytest.raises(Trap, match=r"\.py:12: assertion failed: small"):
            again.guarded(100)
    assert len(compilations) == 1 and len(entries(home)) == 2


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_packaged_entry_is_rebuilt(home: Path, module: ModuleType, which: int) -> None:
    library(module, packaged=True).load()
    good = {e: e.read_bytes() for e in entries(home)}
    entry = sorted(good)[which]
    for bad in damaged(entry):
        entry.write_bytes(bad)
        assert library(module, packaged=True).guarded(9) == 90
        assert {e: e.read_bytes() for e in entries(home)} == good


def test_swapped_packaged_entries_are_rebuilt(home: Path, module: ModuleType) -> None:
    library(module, packaged=True).load()
    a, b = entries(home)
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    assert library(module, packaged=True).guarded(9) == 90
    assert (a.read_bytes(), b.read_bytes()) == (first, second)


def test_a_changed_package_is_lowered_again(home: Path, compilations: list[str], module: ModuleType,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of its sources is part of the key; unchanged code is still found by its text."""
    library(module, packaged=True).load()
    monkeypatch.setattr(cache, "package_digest", lambda: "of other sources")
    assert library(module, packaged=True).guarded(9) == 90
    assert len(compilations) == 1 and len(entries(home)) == 3


def test_the_digest_covers_every_source_of_the_package() -> None:
    before = cache.package_digest()
    path = Path(backend.__file__)
    digest = cache.package_digest.__wrapped__
    assert digest() == before
    data = path.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda p, read=Path.read_bytes: read(p) + b"#" * (p == path))
        assert Path(path).read_bytes() == data + b"#"
        assert digest() != before


# ---------------------------------------------------------------- the directory


def test_the_directory_must_be_private(home: Path, compilations: list[str], module: ModuleType,
                                       caplog: pytest.LogCaptureFixture) -> None:
    (home / "tailbite").mkdir(mode=0o700)
    (home / "tailbite").chmod(0o755)
    with caplog.at_level(logging.WARNING, logger="tailbite"):
        assert [library(module).guarded(9) for _ in range(3)] == [90] * 3
    assert len(compilations) == 3 and entries(home) == []
    (record,) = caplog.records
    assert "must be a directory of yours with mode 0700" in record.getMessage()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners")
def test_the_directory_must_be_mine(home: Path, compilations: list[str], module: ModuleType,
                                    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Entries that another user wrote are not even read."""
    library(module).load()
    cache.directory.cache_clear()
    monkeypatch.setattr(os, "getuid", lambda uid=os.getuid(): uid + 1)
    assert [library(module).guarded(9) for _ in range(2)] == [90] * 2
    assert len(compilations) == 3
    assert len(caplog.records) == 1


def test_the_directory_is_no_link(home: Path, tmp_path: Path, compilations: list[str], module: ModuleType,
                                  caplog: pytest.LogCaptureFixture) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (home / "tailbite").symlink_to(elsewhere)
    assert library(module).guarded(9) == 90
    assert list(elsewhere.iterdir()) == []
    assert len(caplog.records) == 1


def test_without_a_directory(home: Path, compilations: list[str], module: ModuleType, caplog: pytest.LogCaptureFixture,
                             monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in its place, or a home that cannot be written: no cache, no warning, no error."""
    (home / "file").touch()
    for bad in (home / "file", Path("/proc/nowhere")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(bad))
        cache.directory.cache_clear()
        assert cache.directory() is None
        assert library(module, packaged=True).guarded(9) == 90
        cpu.prepare([library(module), cpu.Library("second", [module.square])])
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_a_full_disk_is_no_error(home: Path, compilations: list[str], module: ModuleType,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert [library(module).guarded(9) for _ in range(2)] == [90] * 2
    assert len(compilations) == 2
    assert list((home / "tailbite").iterdir()) == []


SCRIPT = HEADER + TEXT + '''
import logging, sys
logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
print(cpu.Library("script", [guarded]).guarded(9))
'''


def run(script: Path, env: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_CACHE_HOME")}
    return subprocess.run([*command, sys.executable, str(script)], capture_output=True, text=True, check=True,
                          env=clean | env)


NO_HOME = [{"XDG_CACHE_HOME": "/proc/nowhere"}, {"HOME": "/proc/nowhere"}, {"HOME": "/dev/null"}]


@pytest.mark.parametrize("env", NO_HOME)
def test_a_process_without_a_home(tmp_path: Path, env: dict[str, str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run(script, env)
    assert (done.stdout, done.stderr) == ("90\n", "")


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0 or shutil.which("setpriv") is None,
                    reason="needs to become another user")
def test_a_home_that_is_read_only(tmp_path: Path) -> None:
    """Permissions do not bind root, so another user runs it, whom the package's files must not be hidden from."""
    script = Path("/tmp") / f"tailbite-{os.getpid()}.py"
    home = Path("/tmp") / f"tailbite-{os.getpid()}-home"
    home.mkdir(mode=0o555)
    script.write_text(SCRIPT)
    try:
        probe = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", "import tailbite"],
                               capture_output=True, check=False)
        if probe.returncode:
            pytest.skip("another user cannot read this installation")
        done = run(script, {"XDG_CACHE_HOME": str(home)}, "setpriv", "--reuid=65534", "--clear-groups")
        assert (done.stdout, done.stderr, list(home.iterdir())) == ("90\n", "", [])
    finally:
        script.unlink()
        home.rmdir()


# ---------------------------------------------------------------- the same bytes


def test_objects_do_not_depend_on_the_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    stores = []
    for seed in ("0", "1", "77"):
        home = tmp_path / seed
        assert run(script, {"XDG_CACHE_HOME": str(home), "PYTHONHASHSEED": seed}).stdout == "90\n"
        stores.append({e.name: e.read_bytes() for e in entries(home)})
    assert len(stores[0]) == 1
    assert stores[0] == stores[1] == stores[2]


def test_a_worker_compiles_the_same(module: ModuleType) -> None:
    lib = library(module)
    text, _ = lib.lowered()
    assert cpu.compile_in_process(text, lib.machine) == backend.compile_object(text, lib.machine)


def test_a_worker_reports_what_is_wrong(module: ModuleType) -> None:
    with pytest.raises(CompileError, match="LLVM refused"):
        cpu.compile_in_process("define nonsense", backend.host())


def test_prepare_compiles_in_workers(home: Path, compilations: list[str], module: ModuleType, tmp_path: Path,
                                     caplog: pytest.LogCaptureFixture) -> None:
    """What is missing is compiled by processes; a line says so."""
    other = module_of(tmp_path, TEXT.replace("x + square", "x ^ square"))
    packaged = cpu.Library("other", [other.guarded], packaged=True)
    libs = [library(module), packaged, cpu.Library("third", [module.square])]
    with caplog.at_level(logging.INFO, logger="tailbite"):
        cpu.prepare(iter(libs))
    assert compilations == []
    assert len(entries(home)) == 4
    assert "compiling cached, other, third (first use on this machine)" in caplog.text
    assert [libs[0].guarded(9), libs[1].guarded(9), libs[2].square(9)] == [90, 9 ^ 81, 81]
    caplog.clear()
    cpu.prepare([library(module), cpu.Library("other", [other.guarded], packaged=True)])
    assert compilations == [] and caplog.text == ""


def test_prepare_does_without_workers(home: Path, compilations: list[str], module: ModuleType,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    libs = [library(module), cpu.Library("third", [module.square])]
    cpu.prepare(libs)
    assert [libs[0].guarded(9), libs[1].square(9)] == [90, 81]
    assert len(compilations) == 2
