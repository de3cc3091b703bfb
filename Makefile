# `make help` lists the targets.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	2>/dev/null && { echo $$python; exit; }; done; \
	for python in python3 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$python; exit; }; done)
VENV := .venv
BIN := $(VENV)/bin
CORES ?= all
ARGS ?=

# Snakemake ends with a traceback if it cannot write files in the user's cache folder.
export XDG_CACHE_HOME := $(shell cache="$${XDG_CACHE_HOME:-$$HOME/.cache}"; \
	probe="$$cache/neuralfield/probe.$$$$"; { mkdir -p "$$cache/neuralfield" && \
	head -c 65536 /dev/zero > "$$probe" && rm "$$probe" && echo "$$cache"; } 2>/dev/null \
	|| { rm -f "$$probe" 2>/dev/null; echo "$(CURDIR)/.snakemake/cache"; })

.DEFAULT_GOAL := help
.PHONY: help run tables classifiers test test-all fuzz test-cluster verify check lint format reference docs clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile
	@echo
	@echo "make run ARGS='--config image=photo.jpg'   an image of your own"
	@echo "make run CORES=2                           how many cores to use at once"

run: $(VENV)/installed ## set everything up and make everything: results/report.html
	$(BIN)/snakemake --cores $(CORES) $(ARGS)

tables: $(VENV)/installed ## train networks on the tables of samples: results/tables/report.html
	$(BIN)/snakemake --cores $(CORES) $(ARGS) tables

classifiers: $(VENV)/installed ## train networks that classify images: results/classifiers/report.html
	$(BIN)/snakemake --cores $(CORES) $(ARGS) classifiers

test: $(VENV)/installed-test ## run the tests of what users notice; ARGS goes to pytest
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: $(VENV)/installed-test ## run every test that needs neither a GPU nor a cluster
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder -m "not fuzz and not cluster" $(ARGS)

fuzz: $(VENV)/installed-test ## give every reader 10,000 files as strangers might make them
	$(BIN)/pytest --numprocesses 2 -m fuzz tests/unit/system/test_fuzz_readers.py $(ARGS)

test-cluster: $(VENV)/installed-slurm ## run the workflow on a SLURM of this machine, as root: some minutes
	$(BIN)/pytest -rs -m cluster tests/cluster $(ARGS)

verify: $(VENV)/installed ## make the shipped results anew, elsewhere, and compare checksums
	$(BIN)/python verification/verify.py --cores $(CORES) $(ARGS)

check: $(VENV)/installed ## find results that are damaged, changed or missing since they were made
	$(BIN)/python verification/check.py $(ARGS)

lint: $(VENV)/installed-test ## check style, types and the workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(BIN)/snakemake --lint
	$(BIN)/pyright

format: $(VENV)/installed-test ## bring all code into its form
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow/Snakefile workflow/rules

reference: $(VENV)/installed-test ## write what is generated in docs/, config.yaml and workflow/files.txt
	PYTHONPATH=scripts:workflow $(BIN)/python -m config.reference
	git ls-files config.yaml scripts workflow ':!scripts/neuralfield/command' ':!workflow/resources' ':!workflow/files.txt' > workflow/files.txt

docs: $(VENV)/installed-docs ## build the pages as a site, site/index.html; runs the tutorials
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=$(CURDIR)/scripts $(BIN)/mkdocs build --quiet

clean: ## remove all results, and everything else that runs and tests have made
	find results -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +
	rm -rf logs .snakemake .pytest_cache .ruff_cache .hypothesis
	find scripts tests workflow -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "python3: not found, or older than 3.11; expected Python 3.11 or\
	 newer; install it, or name one: make run PYTHON=/path/to/python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$($(PYTHON) --version); this is done once."
	$(PYTHON) -m venv --without-pip --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/installed: pyproject.toml constraints.txt .ci/install.py | $(BIN)/python
	$(BIN)/python .ci/install.py
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python .ci/install.py test
	@touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/python .ci/install.py docs
	@touch $@

# The executor plugin is installed in a folder of its own, because any Snakemake that finds it starts
# slowly if SLURM's commands are installed but SLURM does not run.
$(VENV)/installed-slurm: $(VENV)/installed-test
	tool=pip; $(BIN)/python -m pip --version > /dev/null 2>&1 || tool="uv pip"; \
	$(BIN)/python -m $$tool install --quiet --no-deps --upgrade \
	 --target $(VENV)/slurm --constraint constraints.txt \
	 snakemake-executor-plugin-slurm snakemake-executor-plugin-slurm-jobstep
	@touch $@
