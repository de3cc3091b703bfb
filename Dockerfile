FROM condaforge/miniforge3:latest
LABEL io.github.snakemake.containerized="true"
LABEL io.github.snakemake.conda_env_hash="0785db8b0ed6a046b076eb66b92f6419c952e9d84247515fbffd16512c0e2b7b"
# Conda environment:
#   source: workflow/envs/networks.yaml
#   prefix: /conda-envs/a5768f3ea3804b929d0e8df0321e3dea
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
RUN mkdir -p /conda-envs/a5768f3ea3804b929d0e8df0321e3dea
COPY workflow/envs/networks.yaml /conda-envs/a5768f3ea3804b929d0e8df0321e3dea/environment.yaml
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

RUN conda env create --prefix /conda-envs/a5768f3ea3804b929d0e8df0321e3dea --file /conda-envs/a5768f3ea3804b929d0e8df0321e3dea/environment.yaml && \
    conda env create --prefix /conda-envs/a53709c1fbf99094046962178193d38e --file /conda-envs/a53709c1fbf99094046962178193d38e/environment.yaml && \
    conda clean --all -y
