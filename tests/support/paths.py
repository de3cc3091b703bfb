"""The checkout's folder and pytest's import paths, for tests that start Python."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_PYTEST = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
IMPORT_PATHS = [str(ROOT / folder) for folder in _PYTEST["ini_options"]["pythonpath"]]
