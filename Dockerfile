FROM condaforge/miniforge3:latest
LABEL io.github.snakemake.containerized="true"
LABEL io.github.snakemake.conda_env_hash="15931f3b51dbf022023e0aa6b5b7f23e5605895ca8493eb93edeaccf85d929f8"
# Conda environment:
#   source: workflow/envs/networks.yaml
#   prefix: /conda-envs/e2a53407e8f71b9f4c8d5b37c9a6ca59
#   # For jobs that read images, and train, render and measure networks, by `snakemake --sdm conda`.
#   # On GPUs add `cupy>=14` and `nvidia-ml-py>=12.535`.
#   channels:
#     - conda-forge
#     - nodefaults
#   dependencies:
#     - python >=3.11,<3.14
#     - contourpy >=1.3
#     - numba >=0.63,<0.69
#     - numpy >=2.0
#     - pandas >=2.2
#     - pillow >=11
#     - pyvips >=3.0
#     - pyyaml >=6.0
#     - safetensors >=0.5
#     - threadpoolctl >=3.5
#     - tqdm >=4.66
RUN mkdir -p /conda-envs/e2a53407e8f71b9f4c8d5b37c9a6ca59
COPY workflow/envs/networks.yaml /conda-envs/e2a53407e8f71b9f4c8d5b37c9a6ca59/environment.yaml
# Conda environment:
#   source: workflow/envs/pages.yaml
#   prefix: /conda-envs/ae03cb2cb14371115116d0a3219b239c
#   # For jobs that make tables, plots, time-lapses and pages, by `snakemake --sdm conda`.
#   channels:
#     - conda-forge
#     - nodefaults
#   dependencies:
#     - python >=3.11,<3.14
#     - av >=14
#     - jinja2 >=3.1
#     - matplotlib >=3.9
#     - numba >=0.63,<0.69
#     - numpy >=2.0
#     - pandas >=2.2
#     - pillow >=11
#     - pyvips >=3.0
#     - pyyaml >=6.0
#     - safetensors >=0.5
#     - threadpoolctl >=3.5
RUN mkdir -p /conda-envs/ae03cb2cb14371115116d0a3219b239c
COPY workflow/envs/pages.yaml /conda-envs/ae03cb2cb14371115116d0a3219b239c/environment.yaml

RUN conda env create --prefix /conda-envs/e2a53407e8f71b9f4c8d5b37c9a6ca59 --file /conda-envs/e2a53407e8f71b9f4c8d5b37c9a6ca59/environment.yaml && \
    conda env create --prefix /conda-envs/ae03cb2cb14371115116d0a3219b239c --file /conda-envs/ae03cb2cb14371115116d0a3219b239c/environment.yaml && \
    conda clean --all -y
