"""Make the helpers of the other test directories importable."""

import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
for directory in (TESTS, TESTS / "vm", TESTS / "vm" / "tables", TESTS / "stark"):
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
