"""Make the oracle beside this directory importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
