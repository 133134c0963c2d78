# Targets are what people type. Everything is installed into .venv, nothing outside the clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --editable
RUN := $(VENV)/.run
STAMP := $(VENV)/.installed

.PHONY: install browser test test-all cover style bench demo docs hunt soak clean

install: $(STAMP)

# What running needs, Spark among it: enough for the demo, and quicker to install than everything.
$(RUN): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) '.[spark]'
	touch $(RUN)

$(STAMP): $(RUN)
	$(PIP) '.[dev]'
	touch $(STAMP)

demo: $(RUN)
	$(BIN)/viewlet demo $(DEMO)

test: install style
	$(BIN)/pytest -n 2 -m "not slow"

test-all: install style browser
	$(BIN)/pytest -n 2

# Debian's Chromium for the tests of the live page; without it, and without the right to install it, they are skipped.
browser:
	command -v chromium || (apt-get update -qq && apt-get install -y -qq chromium) || true

# The fast tests with the lines that none of them runs; tracing makes them take nearly three times as long.
cover: install
	$(BIN)/pytest -n 2 -m "not slow" --cov --cov-report=term:skip-covered

style: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# All figures of docs/benchmarks.md, over an hour; BENCH='--only tpch --seconds 3' for a part of it.
bench: install
	$(BIN)/python -m viewlet_bench.report $(BENCH)

# A counted search for wrong answers on random views and batches; prints its first seed.
hunt: install
	$(BIN)/python -m tests.oracle.long_hunt --minutes $(or $(MINUTES),10) $(HUNT)

# Change data on Spark with drivers killed, restarts and views that come and go; equal at each check.
soak: install
	$(BIN)/python -m tests.engine.spark.soak --minutes $(or $(MINUTES),30)

# The pictures and tables of the pages; every block and deployment is run, and the pages become a site in site/.
docs: install
	$(BIN)/viewlet explain docs/how-it-works.sql --format svg > docs/images/program.svg
	$(BIN)/python -m tests.sql_tables
	$(BIN)/python -m viewlet_bench.report --page
	VIEWLET_SCREENSHOTS=1 $(BIN)/pytest tests/server/test_page.py
	$(BIN)/pytest tests/test_docs.py tests/test_cookbook.py tests/test_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf site $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage
