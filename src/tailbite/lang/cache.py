"""Compiled objects on disk, in a directory that only this user can write."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import stat
from pathlib import Path

from ..files import write_whole

_MAGIC = b"tailbite-object-1\n"
log = logging.getLogger("tailbite")


@functools.cache
def directory() -> Path | None:
    """The cache directory, or None if it cannot be used safely (then nothing is cached)."""
    import platformdirs

    path = Path(platformdirs.user_cache_dir("tailbite", appauthor=False))
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    if hasattr(os, "getuid"):
        info = path.lstat()
        private = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077
        if not private:
            log.warning("cache not used: %s must be a directory of yours with mode 0700", path)
            return None
    return path if os.access(path, os.W_OK) else None


def key_of(*parts: str | bytes) -> str:
    """SHA-256 of length-prefixed parts, in hex."""
    h = hashlib.sha256()
    for p in parts:
        data = p.encode() if isinstance(p, str) else p
        h.update(len(data).to_bytes(8, "little") + data)
    return h.hexdigest()


def load(key: str) -> bytes | None:
    """The entry stored under ``key``; None if it is missing, damaged or belongs to another key."""
    where = directory()
    if where is None:
        return None
    try:
        data = (where / f"{key}.bin").read_bytes()
    except OSError:
        return None
    head, body = data[: len(_MAGIC) + 32], data[len(_MAGIC) + 32:]
    return body if head == _MAGIC + _seal(key, body) else None


def store(key: str, body: bytes) -> None:
    """Write an entry whole or not at all; failure to write is not an error."""
    where = directory()
    if where is None:
        return
    try:
        write_whole(where / f"{key}.bin", _MAGIC + _seal(key, body) + body, 0o600)
    except OSError as e:
        log.debug("cache entry not written: %s", e)


def _seal(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + body).digest()


@functools.cache
def package_digest() -> str:
    """Digest of Tailbite's own sources: while it stands, nothing needs to be lowered again."""
    root = Path(__file__).resolve().parent.parent
    h = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        h.update(str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return h.hexdigest()
