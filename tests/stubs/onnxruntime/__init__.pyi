# onnxruntime is no dependency; for type checkers it is there everywhere.
from typing import Any

def __getattr__(name: str) -> Any: ...
