# A fresh machine needs Python >= 3.11, git and make: `make demo` and `make test` do the rest.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DOCS_STAMP := .venv/.docs-installed
PIP := $(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= 2
# Tests start about 100 programs, so compiled modules are kept even where the environment forbids it. Workers take whole
# files, longest first (tests/conftest.py).
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test check lint pytest pytest-fast bench docs pictures clean

demo: $(STAMP)
	$(BIN)/alebrije demo

# Types are checked by one process, so the tests start beside it.
test: $(STAMP)
	$(MAKE) --no-print-directory -j 2 lint pytest

# Lint, types and the fast tests: under two minutes on two cores.
check: $(STAMP)
	$(MAKE) --no-print-directory -j 2 lint pytest-fast

pytest: $(STAMP)
	$(PYTEST)

pytest-fast: $(STAMP)
	$(PYTEST) -m "not slow"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/worlds.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/convolutions.py
	$(BIN)/python benchmarks/studies.py
	$(BIN)/python benchmarks/evaluation.py

# The documentation site: out/site/index.html. It opens offline.
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The pictures of the documentation, from the report of `alebrije demo --train`. Needs Chromium.
pictures: $(STAMP)
	$(BIN)/alebrije demo --train --out out/trained-demo
	$(BIN)/python docs/pictures.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "alebrije needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(PIP) -e ".[dev]"
	touch $(STAMP)

$(DOCS_STAMP): $(STAMP)
	$(PIP) -e ".[docs]"
	touch $(DOCS_STAMP)

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
