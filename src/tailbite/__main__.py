"""``python -m tailbite`` is the ``tailbite`` command."""

from .cli import main

main()
