# %% [markdown]
# # An image as a function
# This page fits a network to an image, and renders the network at any size. It needs the package alone: no workflow, no GPU.
# It is a notebook, executed anew whenever the site is built, and
# [a Python file](https://jupytext.readthedocs.io/en/latest/formats-scripts.html#the-percent-format) in `docs/tutorials/`.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import neuralfield as nf

clone = Path(nf.__file__).parents[2]  # a clone of the repository
source = Image.open(clone / "workflow/resources/lion_cub.png").convert("L")
source

# %% [markdown]
# ## Fitting
# The drawing is reduced to 128 pixels, and a network of sines is fitted to what is left of it. With footprint supervision, the
# default, the *mean* of the network over the square of each pixel becomes the pixel, so that the network has to find where an
# edge runs inside it. A sigmoid at the output suits a drawing of black and white.

# %%
field = nf.fit(
    source,
    "siren",
    size=128,
    steps=600,
    width=64,
    optimizer="muon",
    learning_rate=0.002,
    output="sigmoid",
    steepness=8,
)
print(f"{field.parameter_count:,} numbers, {field.psnr:.1f} dB")

# %% [markdown]
# `field.history` has the course of the training, as arrays.

# %%
figure, axes = plt.subplots(figsize=(7, 2.5), layout="constrained")
axes.plot(field.history["step"], field.history["psnr_db"])
axes.set(xlabel="step", ylabel="fit, dB")
axes.grid(alpha=0.3)

# %% [markdown]
# ## Rendering
# A function has no pixels: `render` evaluates it at the centres of as many as are asked for, here of a part of the image. `box`
# has the left, top, right and bottom edge as shares of the image. Lanczos, beside it, enlarges the same 128 pixels.

# %%
box = (0.3, 0.25, 0.7, 0.65)
ours = field.render(360, box=box)
small = source.resize((128, 128), Image.Resampling.BOX)
enlarged = small.resize((900, 900), Image.Resampling.LANCZOS)
corners = tuple(900 * share for share in box)
lanczos = enlarged.crop(corners)
truth = source.resize((900, 900), Image.Resampling.NEAREST).crop(corners)
figure, panels = plt.subplots(1, 3, figsize=(9, 3.3), layout="constrained")
titles = ("Lanczos", "rendered by the network", "the source")
for panel, title, image in zip(
    panels, titles, (lanczos, ours, truth), strict=True
):
    white = 1 if image is ours else 255
    panel.imshow(image, cmap="gray", vmin=0, vmax=white)
    panel.set_title(title)
    panel.axis("off")

# %% [markdown]
# How close is that to the source, which the network was never shown?

# %%
filtered = (
    np.asarray(small.resize(source.size, Image.Resampling.LANCZOS)) / 255
)
error = np.mean((filtered - np.asarray(source) / 255) ** 2)
print(
    f"network {field.psnr_to(source):.2f} dB,"
    f" Lanczos {-10 * np.log10(error):.2f} dB"
)

# %% [markdown]
# ## Keeping it
# The file has the network and its settings, as [the format](../format.md) describes; `nf.load` reads it. A field by itself is
# shown as [the viewer](../viewer.md), which evaluates the network in the browser: zoom by the wheel, and move by dragging.

# %%
path = Path(tempfile.mkdtemp()) / "lion_cub.safetensors"
field.save(path)
field = nf.load(path)
field
