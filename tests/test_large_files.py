"""Files of any size are refused, or read in bounded memory and time."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tailbite import Program, Proof, TailbiteError
from tailbite.files import read_at_most
from tailbite.program import MAX_ELF_BYTES
from tailbite.proof import MAX_PROOF_BYTES
from tailbite.vm import elf as elf_file
from tailbite.vm.executor import MAX_INPUT

sys.path.insert(0, str(Path(__file__).parent / "vm"))
from assembler import BASE, elf, halt

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits and devices are those of Linux")


def sparse(path: Path, size: int) -> Path:
    """A file of zeros that takes no room."""
    path.touch()
    os.truncate(path, size)
    return path


def test_reading_stops_behind_the_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(100)))
    assert read_at_most(file, 100) == bytes(range(100)) and read_at_most(file, 200) == bytes(range(100))
    assert read_at_most(file, 99) == bytes(range(100)) and read_at_most(file, 9) == bytes(range(10))
    assert len(read_at_most(sparse(tmp_path / "large", 5 << 20), (3 << 20) + 5)) == (3 << 20) + 6


def test_files_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TailbiteError, match="at most"):
        Proof.load(sparse(tmp_path / "x.proof", MAX_PROOF_BYTES + 8))
    with pytest.raises(TailbiteError, match="at most"):
        Proof.load(sparse(tmp_path / "x.proof", MAX_PROOF_BYTES + 1))
    with pytest.raises(TailbiteError, match="larger than"):
        Program.from_elf(sparse(tmp_path / "x.elf", MAX_ELF_BYTES + 1))


@linux
@pytest.mark.parametrize("given", ["large", "/dev/zero"])
def test_private_input_is_not_read_beyond_its_limit(tmp_path: Path, given: str) -> None:
    """In an address space that the file does not fit into. Its twin is a small file."""
    (tmp_path / "ok.elf").write_bytes(elf(halt()))
    (tmp_path / "small").write_bytes(b"input")
    sparse(tmp_path / "large", 1 << 34)
    command = [sys.executable, "-m", "tailbite", "run", "ok.elf", "--json", "--input"]
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32)); " \
              "os.execv(sys.argv[1], sys.argv[1:])"
    for name, code, text in (("small", 0, ""), (given, 3, f"at most {MAX_INPUT}")):
        done = subprocess.run([sys.executable, "-c", limited, *command, name], cwd=tmp_path, capture_output=True,
                              text=True, timeout=60, check=False)
        assert done.returncode == code and text in json.loads(done.stdout).get("error", ""), done.stderr


def with_symbols(count: int) -> bytes:
    """A program with this many symbols, each at an address of its own."""
    code, names = elf(halt()), b"\0name\0"
    symbols = b"".join(struct.pack("<IBBHQQ", 1, 2, 0, 1, BASE + 4 * i, 4) for i in range(count))
    data = bytearray(code + names + symbols)
    sections = [(0, 0, 0, 0), (2, len(code) + len(names), len(symbols), 2), (3, len(code), len(names), 0)]
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<HH", data, 58, 64, len(sections))
    for kind, at, size, link in sections:
        data += struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, at, size, link, 0, 1, 24)
    return bytes(data)


def test_symbols_beyond_a_number_are_ignored() -> None:
    few, many = (Program.from_elf(with_symbols(n)).image for n in (3, elf_file._MOST_SYMBOLS + 3))
    assert [s.address for s in few.symbols] == [BASE, BASE + 4, BASE + 8]
    assert len(many.symbols) == elf_file._MOST_SYMBOLS and many.symbols[:3] == few.symbols
