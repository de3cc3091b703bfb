"""Code that the benchmarks share.

Importing it puts the package and the workflow's modules on the path, from this checkout.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "workflow")]
