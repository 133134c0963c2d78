# Targets are what people type. Everything is installed into .venv, nothing outside the clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install test test-all style bench demo docs clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(STAMP)

test: install style
	$(BIN)/pytest -n 2 -m "not slow"

test-all: install style
	$(BIN)/pytest -n 2

style: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# All figures of docs/benchmarks.md, over an hour; BENCH='--only tpch --seconds 3' for a part of it.
bench: install
	$(BIN)/python -m viewlet.interfaces.bench.report $(BENCH)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
