"""Files that are written whole or not at all."""

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
