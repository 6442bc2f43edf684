"""A side of a benchmark: one revision of Tailbite, exported and installed in a directory of its own.

    <cache>/bench/<commit or digest>-py3.11/    source/  venv/  cache/ (compiled objects)  results/  READY

Sides share nothing that is built. A directory counts once READY is written, as the last step; one without it was
interrupted, and is made anew. The repository itself is only read.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TailbiteError
from ..files import write_whole
from .pairs import RunFailed, Sample, measure

PROBE = Path(__file__).with_name("probe.py")
WORK_TREE = "."
READY = "READY"
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USERPROFILE")


class SideError(TailbiteError):
    """A revision that cannot be had, or cannot be installed."""


@dataclass(frozen=True)
class Side:
    """An installed revision. ``name`` is what the user wrote; ``commit`` is empty for the working tree."""

    name: str
    commit: str
    home: Path

    @property
    def label(self) -> str:
        """What reports call it."""
        return f"{self.name} ({self.commit[:12] if self.commit else 'working tree ' + self.home.name[:12]})"

    @property
    def python(self) -> Path:
        return self.home / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def environment(self) -> dict[str, str]:
        """A clean environment, with a cache of compiled objects that no other side uses."""
        kept = {k: os.environ[k] for k in KEPT_VARIABLES if k in os.environ}
        cache = self.home / "cache"
        cache.mkdir(mode=0o700, exist_ok=True)
        return kept | {"XDG_CACHE_HOME": str(cache), "LOCALAPPDATA": str(cache), "PYTHONHASHSEED": "0"}

    def run(self, task: str, cpus: list[int] | None = None, **arguments: Any) -> tuple[dict[str, Any], Sample]:
        """Let this side's own interpreter do a task of ``probe.py``; its answer, and the run's figures.

        Raises :class:`RunFailed`.
        """
        sample = measure([str(self.python), "-I", str(PROBE), task], stdin=json.dumps(arguments), cpus=cpus,
                         environment=self.environment(), cwd=self.home)
        try:
            answer = json.loads(sample.stdout)
        except ValueError:
            raise RunFailed(f"{self.label}: {task} did not finish its answer") from None
        if "error" in answer:
            raise RunFailed(f"{self.label}: {answer['error']}")
        return answer, sample

    def ask(self, task: str, **arguments: Any) -> dict[str, Any]:
        """The answer alone."""
        return self.run(task, **arguments)[0]

    def remembered(self, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """An exact result of this side: read if it is known, else made and written, all or nothing."""
        path = self.home / "results" / f"{key}.json"
        try:
            known: dict[str, Any] = json.loads(path.read_text())
            return known
        except (OSError, ValueError):
            value = make()
            path.parent.mkdir(exist_ok=True)
            write_whole(path, json.dumps(value, indent=1).encode())
            return value


def cache_directory() -> Path:
    """Where sides are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("tailbite", appauthor=False)) / "bench"


def prepare(name: str, cache: Path | None = None, repository: Path | None = None,
            tell: Callable[[str], None] = lambda text: None) -> Side:
    """Export and install a revision, or the working tree (``.``), unless that was done before.

    ``repository``: a directory in a clone of Tailbite; the current one if it is None. Raises :class:`SideError`.
    """
    root = repository_root(repository or Path.cwd())
    cache = cache or cache_directory()
    if name == WORK_TREE:
        files = _work_tree_files(root)
        commit, key = "", f"{_digest(root, files)[:16]}"
    else:
        commit = resolve(root, name)
        files, key = [], commit[:16]
    home = cache / f"{key}-py{sys.version_info.major}.{sys.version_info.minor}"
    side = Side(name, commit, home)
    with _locked(home):
        if not (home / READY).exists():
            tell(f"installing {side.label}")
            if home.exists():
                shutil.rmtree(home)
            home.mkdir(parents=True)
            _export(root, commit, files, home / "source")
            _install(side)
            write_whole(home / READY, (commit or key).encode())
    return side


def check_names(*names: str) -> None:
    """Raise :class:`SideError` for a name that is no revision here, before anything is installed."""
    root = repository_root(Path.cwd())
    for name in names:
        if name != WORK_TREE:
            resolve(root, name)


def repository_root(inside: Path) -> Path:
    """The clone that a directory lies in."""
    root = Path(_git(inside, "rev-parse", "--show-toplevel").strip())
    if not (root / "src" / "tailbite").is_dir():
        raise SideError(f"{root} is not a clone of Tailbite: run this inside one")
    return root


def resolve(root: Path, name: str) -> str:
    """Full hash of a revision."""
    try:
        return _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
    except SideError:
        raise SideError(f"no revision {name!r} here: name a commit, branch or tag, or . for the working tree") from None


def _git(where: Path, *arguments: str) -> str:
    return _git_bytes(where, *arguments).decode()


def _git_bytes(where: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=where, capture_output=True, check=False)
    except OSError as e:
        raise SideError(f"git cannot be run in {where}: {e.strerror or e}") from None
    if done.returncode:
        raise SideError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip() or 'failed'}")
    return done.stdout


def _work_tree_files(root: Path) -> list[str]:
    """Files of the working tree that git does not ignore."""
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return sorted({f for f in listed if f and (root / f).is_file()})


def _digest(root: Path, files: list[str]) -> str:
    h = hashlib.sha256()
    for f in files:
        data = (root / f).read_bytes()
        h.update(f"{f}\0{len(data)}\0".encode() + data)
    return h.hexdigest()


def _export(root: Path, commit: str, files: list[str], target: Path) -> None:
    """A copy of the sources without the repository."""
    target.mkdir()
    if commit:
        with tarfile.open(fileobj=io.BytesIO(_git_bytes(root, "archive", "--format=tar", commit))) as tar:
            tar.extractall(target, filter="data")
    for f in files:
        (target / f).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / f, target / f)


def _install(side: Side) -> None:
    """A virtual environment with the exported sources and what they need."""
    for command in ([sys.executable, "-m", "venv", str(side.home / "venv")],
                    [str(side.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                     str(side.home / "source")]):
        try:
            measure(command)
        except RunFailed as e:
            raise SideError(f"{side.label} cannot be installed: {e}") from None


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[None]:
    """One process at a time installs a side."""
    from filelock import FileLock

    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(home.with_name(home.name + ".lock")):
        yield
