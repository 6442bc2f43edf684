"""The example notebook runs, and says what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOK = Path(__file__).parent.parent / "examples" / "first_proof.ipynb"


def outputs(notebook: Any) -> list[list[str]]:
    """Text that each code cell prints and returns."""
    return [[o.text if o.output_type == "stream" else o.data["text/plain"] for o in cell.outputs]
            for cell in notebook.cells if cell.cell_type == "code"]


def test_first_proof() -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(stored)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(fresh, timeout=300, kernel_name="python3").execute()
    assert outputs(fresh) == outputs(stored), "run .venv/bin/jupyter execute --inplace examples/first_proof.ipynb"
    printed = "\n".join(text for cell in outputs(fresh) for text in cell)
    assert printed.count("accepted") == 1  # the true proof, and no other attempt
    assert printed.count("refused") == 7
