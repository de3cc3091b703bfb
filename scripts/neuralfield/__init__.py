"""neuralfield: small neural networks fitted to images, on NumPy or CuPy.

>>> import numpy as np
>>> import neuralfield as nf
>>> image = np.zeros((16, 16))
>>> image[4:12, 4:12] = 1
>>> field = nf.fit(image, "siren", steps=50, width=16, hidden_layers=1, device="cpu")
>>> field([[0.0, 0.0], [-0.9, -0.9]]).shape
(2, 1)
>>> field.render(32).shape
(32, 32)
>>> field.gradient([0.5, 0.0]).shape
(1, 2)

Names that are not listed here are in the subpackages; see docs/architecture.md.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
"""The version of the package; `ENGINE_VERSION` in version.py is the version of its results."""

if TYPE_CHECKING:
    from neuralfield.api.classifiers import ImageClassifier
    from neuralfield.api.decoding import decode
    from neuralfield.api.encoder import EncodedImage
    from neuralfield.api.encoding import encode
    from neuralfield.api.fitting import fit
    from neuralfield.api.from_torch import from_torch_siren
    from neuralfield.api.image_field import ImageField
    from neuralfield.api.loading import load
    from neuralfield.api.rendered import RenderedImage
    from neuralfield.api.tables import TableClassifier, TableRegressor
    from neuralfield.system.errors import NeuralfieldError

_PLACES = {
    "EncodedImage": "api.encoder",
    "ImageClassifier": "api.classifiers",
    "ImageField": "api.image_field",
    "NeuralfieldError": "system.errors",
    "RenderedImage": "api.rendered",
    "TableClassifier": "api.tables",
    "TableRegressor": "api.tables",
    "decode": "api.decoding",
    "encode": "api.encoding",
    "fit": "api.fitting",
    "from_torch_siren": "api.from_torch",
    "load": "api.loading",
}
"""Module of each public name; it is imported on first use, because some modules load slowly."""

__all__ = [
    "EncodedImage",
    "ImageClassifier",
    "ImageField",
    "NeuralfieldError",
    "RenderedImage",
    "TableClassifier",
    "TableRegressor",
    "__version__",
    "decode",
    "encode",
    "fit",
    "from_torch_siren",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
