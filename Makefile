# `make demo` and `make test` are all a fresh machine with Python >= 3.11, git and make needs.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2

.PHONY: demo test lint bench readme clean

demo: $(STAMP)
	$(BIN)/alebrije demo

# Tests start some 100 programs: compiled modules are kept, also where the environment would not. Processes share files of
# tests and take them in the order of tests/conftest.py, the longest first.
test: lint
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

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

readme: $(STAMP)
	$(BIN)/python docs/metric_table.py
	$(BIN)/python docs/worlds_picture.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "alebrije needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
