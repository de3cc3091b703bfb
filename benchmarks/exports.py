"""Compare fields with their exported forms, and print the largest differences.

``PYTHONPATH=scripts python benchmarks/exports.py`` fits each field to a small image. It needs onnx,
onnxruntime and PyTorch.
"""

import argparse
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import neuralfield as nf
from neuralfield.fields import FIELDS

PAGE = Path(__file__).parents[1] / "docs" / "format.md"
SIDE_PX = 48
POSITIONS = 10_000


def readers() -> tuple[Any, Any]:
    """Return the readers in the documentation of the format, for NumPy and for PyTorch."""
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(PAGE), "exec"), names)
    return names["read_and_render"], names["Siren"]


def differences(kind: str, steps: int, folder: Path) -> list[float | None]:
    """Return the largest differences of ONNX, of `to_torch`, and of both readers of sirens."""
    import torch  # not a dependency of the tests

    y, x = np.mgrid[0 : 1 : SIDE_PX * 1j, 0 : 1 : SIDE_PX * 1j]
    image = np.stack([(np.hypot(x - 0.5, y - 0.5) < 0.3) * 1.0, x, y], axis=2)
    field = nf.fit(image, kind, steps=steps, supervision="point", device="cpu")
    field.save(folder / "model.safetensors")
    field.to_onnx(folder / "model.onnx")
    xy = np.random.default_rng(0).uniform(-1, 1, (POSITIONS, 2)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    values = field(xy)
    with torch.no_grad():
        found = [session.run(["values"], {"xy": xy})[0], field.to_torch()(torch.from_numpy(xy))]
        largest: list[float | None] = [float(np.abs(np.asarray(v) - values).max()) for v in found]
        if kind != "siren":
            return [*largest, None, None]
        read_and_render, siren = readers()
        rendered = read_and_render(folder / "model.safetensors", 100, 100)
        largest.append(float(np.abs(rendered - field.render(100)).max()))
        module = siren(folder / "model.safetensors")
        return [*largest, float(np.abs(module(torch.from_numpy(xy)).numpy() - values).max())]


def main() -> None:
    """Print a row for each field."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="steps of each training")
    steps = parser.parse_args().steps
    print("| field | ONNX | `to_torch` | NumPy reader | PyTorch reader |\n|---|---|---|---|---|")
    for kind in FIELDS:
        with tempfile.TemporaryDirectory() as folder:
            found = differences(kind, steps, Path(folder))
        cells = ("-" if number is None else f"{number:.1e}" for number in found)
        print(f"| `{kind}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
