FROM condaforge/miniforge3:latest
LABEL io.github.snakemake.containerized="true"
LABEL io.github.snakemake.conda_env_hash="660d9b74defdaf0bc4400767b5eca156a9050cfd90cde48afe8c569a6f9f60f9"
# Conda environment:
#   source: workflow/envs/networks.yaml
#   prefix: /conda-envs/973fab3258f5ff992cba9ce8612a24b9
#   # For jobs that read images, and train, render and measure networks, by `snakemake --sdm conda`.
#   # On GPUs add `cupy>=14` and `nvidia-ml-py>=12.535`.
#   channels:
#     - conda-forge
#     - nodefaults
#   dependencies:
#     - python >=3.11,<3.14
#     - numba >=0.63,<0.69
#     - numpy >=2.0
#     - pillow >=11
#     - pyvips >=3.0
#     - pyyaml >=6.0
#     - safetensors >=0.5
#     - threadpoolctl >=3.5
#     - tqdm >=4.66
RUN mkdir -p /conda-envs/973fab3258f5ff992cba9ce8612a24b9
COPY workflow/envs/networks.yaml /conda-envs/973fab3258f5ff992cba9ce8612a24b9/environment.yaml
# Conda environment:
#   source: workflow/envs/pages.yaml
#   prefix: /conda-envs/152e3ee44314310a4953d8d6087928dd
#   # For jobs that make tables, plots, time-lapses and pages, by `snakemake --sdm conda`.
#   channels:
#     - conda-forge
#     - nodefaults
#   dependencies:
#     - python >=3.11,<3.14
#     - av >=14
#     - jinja2 >=3.1
#     - matplotlib >=3.9
#     - numpy >=2.0
#     - pandas >=2.2
#     - pillow >=11
#     - pygments >=2.18
#     - pyvips >=3.0
#     - pyyaml >=6.0
#     - safetensors >=0.5
#     - threadpoolctl >=3.5
#     - tqdm >=4.66
RUN mkdir -p /conda-envs/152e3ee44314310a4953d8d6087928dd
COPY workflow/envs/pages.yaml /conda-envs/152e3ee44314310a4953d8d6087928dd/environment.yaml

RUN conda env create --prefix /conda-envs/973fab3258f5ff992cba9ce8612a24b9 --file /conda-envs/973fab3258f5ff992cba9ce8612a24b9/environment.yaml && \
    conda env create --prefix /conda-envs/152e3ee44314310a4953d8d6087928dd --file /conda-envs/152e3ee44314310a4953d8d6087928dd/environment.yaml && \
    conda clean --all -y
