"""Files: written whole or not at all, and read up to a limit."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file under another name, then rename it. Raises OSError; then, or if interrupted, nothing is left.

    The other name is chosen before its file exists, so that there is no moment at which nobody knows of it.
    """
    temporary = path.parent / f".{path.name}.{os.urandom(8).hex()}"
    try:
        with open(temporary, "xb") as f:
            f.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_at_most(path: Path, limit: int) -> bytes:
    """A file's bytes, or its first ``limit`` + 1 if it has more, which the caller refuses. Raises OSError.

    It does not rely on the size that the system tells: a device has none, and a file can grow.
    """
    data = bytearray()
    with open(path, "rb") as f:
        while len(data) <= limit and (piece := f.read(min(limit + 1 - len(data), 1 << 20))):
            data += piece
    return bytes(data)
