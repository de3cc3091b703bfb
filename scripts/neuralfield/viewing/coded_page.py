"""A page that contains the file of an image, and decodes it in the browser."""

import base64
import re

from neuralfield.viewing.template import TEMPLATES, load_template


def coded_page(content: bytes, title: str) -> str:
    """Return a self-contained HTML page that shows the image of a file, docs/format.md."""
    decoder = (TEMPLATES / "coded.js").read_text(encoding="utf-8")
    # comments and indentation are a quarter of the decoder, which is a large part of a page
    decoder = re.sub(r"(?m)^\s*(//.*|/\*\*.*\*/)?\n?", "", decoder)
    return load_template(TEMPLATES / "coded.html.j2").render(
        title=title,
        bytes=len(content),
        decoder=decoder,
        content=base64.b64encode(content).decode(),
    )
