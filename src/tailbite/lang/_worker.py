"""Compiler process: a line of JSON that names the machine, then LLVM text, in; object code out."""

from __future__ import annotations

import json
import sys

from .backend import Machine, compile_object


def main() -> None:
    head, _, text = sys.stdin.buffer.read().partition(b"\n")
    sys.stdout.buffer.write(compile_object(text.decode(), Machine(**json.loads(head))))


if __name__ == "__main__":
    main()
