# %% [markdown]
# # Derivatives of an image
# A network is a formula, and a formula has derivatives: exact ones, at any position, and not differences between pixels. This
# is what networks of sines are loved for
# ([Sitzmann et al. 2020](https://arxiv.org/abs/2006.09661)): the derivative of a sine is a sine again.

# %%
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import neuralfield as nf

clone = Path(nf.__file__).parents[2]  # a clone of the repository
image = clone / "workflow/resources/savannah.png"
field = nf.fit(
    image,
    "siren",
    size=128,
    mode="grey",
    steps=500,
    width=64,
    optimizer="muon",
    learning_rate=0.002,
)
print(f"{field.psnr:.1f} dB")

# %% [markdown]
# ## Gradient and Laplacian
# `coordinates` has the positions of a render's pixels, x to the right and y down, and the longer side goes from -1 to 1.
# `gradient` adds an axis with the derivatives by x and by y; `laplacian` is the sum of the second ones.

# %%
xy = field.coordinates(240)
slope = field.gradient(xy)
curvature = field.laplacian(xy)
print(xy.shape, slope.shape, curvature.shape)

# %%
figure, panels = plt.subplots(2, 2, figsize=(9, 6.2), layout="constrained")
steepness = np.hypot(slope[..., 0, 0], slope[..., 0, 1])
across = np.percentile(np.abs(slope), 99)
bend = np.percentile(np.abs(curvature), 98)
shown = [
    (
        "the field",
        field.render(240),
        {"cmap": "gray", "vmin": 0, "vmax": 1},
    ),
    (
        "derivative by x",
        slope[..., 0, 0],
        {"cmap": "RdBu", "vmin": -across, "vmax": across},
    ),
    (
        "length of the gradient",
        steepness,
        {"cmap": "magma", "vmax": 1.5 * across},
    ),
    (
        "Laplacian",
        curvature[..., 0],
        {"cmap": "RdBu", "vmin": -bend, "vmax": bend},
    ),
]
for panel, (title, values, colours) in zip(panels.flat, shown, strict=True):
    panel.imshow(values, **colours)
    panel.set_title(title)
    panel.axis("off")

# %% [markdown]
# ## Are they right?
# Differences of values a small way apart come close to the derivative, and the closer the smaller the way is.

# %%
generator = np.random.default_rng(0)
points = generator.uniform(-0.6, 0.6, (1000, 2))
exact = field.gradient(points)[:, 0, 0]
for way in (1e-1, 1e-2, 1e-3):
    step = np.array([way / 2, 0])
    differences = (field(points + step) - field(points - step))[:, 0] / way
    print(
        f"{way:g} apart: {np.abs(differences - exact).max():.1e}"
        " from the derivative"
    )
assert np.abs(differences - exact).max() < 0.05 * np.abs(exact).max()
