"""Make the oracle and the support code importable; keep compiled objects of these tests to themselves."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tailbite.lang import cache


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def own_cache(cache_home: Path) -> Iterator[Path]:
    """An empty user cache for this directory's tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        cache.directory.cache_clear()
        yield cache_home
    cache.directory.cache_clear()
