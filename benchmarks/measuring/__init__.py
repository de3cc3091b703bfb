"""Code shared by the benchmarks.

Importing it adds the package and the workflow's modules of this checkout to the path.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "workflow")]
