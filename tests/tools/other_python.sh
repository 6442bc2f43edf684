#!/bin/sh
# Compares the pinned artefacts under another Python: tests/tools/other_python.sh python3.13
# Installs the checkout in a temporary virtual environment of it.
set -eu
python=${1:?usage: other_python.sh PYTHON}
cd "$(dirname "$0")/../.."
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
"$python" -m venv "$home"
"$home/bin/pip" install --quiet .
"$home/bin/python" tests/tools/regenerate.py --check
