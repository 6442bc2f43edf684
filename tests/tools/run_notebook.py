"""Run the notebook and keep its outputs, without times: ``python tests/tools/run_notebook.py``."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

PATH = Path(__file__).parents[2] / "examples" / "first_proof.ipynb"

if __name__ == "__main__":
    notebook = nbformat.read(PATH, as_version=4)
    NotebookClient(notebook, record_timing=False, resources={"metadata": {"path": str(PATH.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, PATH)
