FROM condaforge/miniforge3:latest
LABEL io.github.snakemake.containerized="true"
LABEL io.github.snakemake.conda_env_hash="b3ed81af277a5ed15fbfc29435df94f034782daa7229b20d19c8219e3c622b7b"
# Conda environment:
#   source: workflow/envs/networks.yaml
#   prefix: /conda-envs/2f73860c13e5e081fd4f672f8536a668
#   # For jobs that read images, and train, render and measure networks, by `snakemake --sdm conda`.
#   # On GPUs add `cupy>=14` and `nvidia-ml-py>=12.535`.
#   channels:
#     - conda-forge
#     - nodefaults
#   dependencies:
#     - python >=3.11,<3.14
#     - numba >=0.63,<0.69
#     - numpy >=2.0
#     - pandas >=2.2
#     - pillow >=11
#     - pyvips >=3.0
#     - pyyaml >=6.0
#     - safetensors >=0.5
#     - threadpoolctl >=3.5
RUN mkdir -p /conda-envs/2f73860c13e5e081fd4f672f8536a668
COPY workflow/envs/networks.yaml /conda-envs/2f73860c13e5e081fd4f672f8536a668/environment.yaml
# Conda environment:
#   source: workflow/envs/pages.yaml
#   prefix: /conda-envs/a53709c1fbf99094046962178193d38e
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
#     - pyvips >=3.0
#     - pyyaml >=6.0
#     - safetensors >=0.5
#     - threadpoolctl >=3.5
RUN mkdir -p /conda-envs/a53709c1fbf99094046962178193d38e
COPY workflow/envs/pages.yaml /conda-envs/a53709c1fbf99094046962178193d38e/environment.yaml

RUN conda env create --prefix /conda-envs/2f73860c13e5e081fd4f672f8536a668 --file /conda-envs/2f73860c13e5e081fd4f672f8536a668/environment.yaml && \
    conda env create --prefix /conda-envs/a53709c1fbf99094046962178193d38e --file /conda-envs/a53709c1fbf99094046962178193d38e/environment.yaml && \
    conda clean --all -y
