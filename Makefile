# Everything runs in .venv, which these targets make; only make and Python 3.10+ are needed.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Compiled kernels are kept apart for every state of the sources; conftest.py says how and why.
export NUMBA_CACHE_DIR := $(shell $(PYTHON) conftest.py)

# The data sets, where they lie beside the checkout. Elsewhere set BAYESCUT_DATA to their folder, or
# have them fetched: bayescut datasets fetch.
ifneq ($(wildcard $(CURDIR)/../shared/data/.),)
export BAYESCUT_DATA ?= $(abspath $(CURDIR)/../shared/data)
endif

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-oldest lint docs format clean

help:
	@echo 'make demo    learn the embedded digits, print a table, draw and complete digits'
	@echo 'make test    lint, types, documentation and the whole test suite'
	@echo 'make test-oldest  the test suite with the oldest declared versions of everything'
	@echo 'make lint    lint and types only'
	@echo 'make docs    build the documentation into build/site; a broken link is an error'
	@echo 'make format  format the code and apply safe fixes'
	@echo 'make venv    only the virtual environment'
	@echo 'make clean   remove caches and builds (and, with ALL=1, the virtual environment)'

venv: $(STAMP)

# The stamp is written last, so an interrupted installation is taken up again.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("bayescut needs Python 3.10 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 10) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/python -m bayescut.demo

test: lint docs
	$(BIN)/python -m pytest

# A check before a release: are the floors in pyproject.toml true? The oldest Python that is at hand
# says most: make test-oldest PYTHON=python3.10. Warnings are no errors here: old versions warn of
# each other (matplotlib of pyparsing, pandas of NumPy).
OLDEST := build/oldest
test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python .ci/oldest.py > $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r $(OLDEST)/requirements.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	$(OLDEST)/bin/python -m pytest -W default

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Nothing is fetched: formulas, fonts and styles are part of what is built.
docs: $(STAMP)
	$(BIN)/mkdocs build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	$(if $(ALL),rm -rf $(VENV))
