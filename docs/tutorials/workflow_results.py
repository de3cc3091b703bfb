# %% [markdown]
# # Results of the workflow
# [Snakemake](https://snakemake.github.io) fits several networks to an image, renders and measures them. Here it runs with a
# small config, and its results are read as any program would read them.

# %%
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image

import neuralfield as nf

clone = Path(nf.__file__).parents[2]  # a clone of the repository
work = Path(tempfile.mkdtemp())
config = f"""
images:
  cub:
    path: {clone}/workflow/resources/lion_cub.png
    size: 96
    fields: [wide, grids]
fields:
  wide:
    type: siren
    width: 64
    training: {{optimizer: muon, learning_rate: 0.002, steps: 300}}
  grids:
    type: hashgrid
    training: {{supervision: point, steps: 200}}
render: {{sizes: [96, 384]}}
timelapse: {{formats: []}}
"""
_ = (work / "own.yaml").write_text(config)

# %% [markdown]
# In a shell this is `snakemake --cores all --configfile own.yaml` in the clone; `--snakefile` and `--directory` let it run
# elsewhere. As the config names an image, the examples are left out.

# %%
command = [
    sys.executable,
    "-m",
    "snakemake",
    "--snakefile",
    clone / "Snakefile",
]
command += [
    "--directory",
    work,
    "--cores",
    "2",
    "--configfile",
    work / "own.yaml",
]
done = subprocess.run(
    command,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=True,
)
print(done.stdout)

# %% [markdown]
# ## Tables
# `results/summary.csv` has a row for each network; [`history.csv`](../architecture.md#the-path-of-an-image) the course of one.

# %%
summary = pd.read_csv(work / "results/summary.csv")
summary[["image", "field", "parameters", "psnr_db", "upscale_psnr_db"]]

# %%
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for path in sorted(work.glob("results/cub/*/history.csv")):
    history = pd.read_csv(path)
    axes.plot(history["step"], history["psnr_db"], label=path.parent.name)
axes.set(xlabel="step", ylabel="fit, dB")
axes.grid(alpha=0.3)
_ = axes.legend()

# %% [markdown]
# ## Networks
# `nf.load` reads a network of the workflow, which then renders, differentiates and exports like one of `nf.fit`.

# %%
field = nf.load(work / "results/cub/wide/model.safetensors")
print(field)
rendered = Image.open(work / "results/cub/wide/render_384.png")
own = Image.fromarray(field.render(384).levels()).convert(rendered.mode)
assert own.tobytes() == rendered.tobytes()
rendered
