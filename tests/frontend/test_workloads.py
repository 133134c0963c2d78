"""The named workloads: every published query means what DuckDB says it means."""

from __future__ import annotations

import pytest
from tests.frontend.oracle import SQL, compare, load, read_catalog
from tests.frontend.workloads import QUERIES, random_rows

SEEDS = range(1, 40)
AT_LEAST = 3
"""Databases that every query is tried on; more follow until one query finds something."""


@pytest.mark.parametrize(("workload", "query"), QUERIES, ids=lambda value: value)
def test_equals_duckdb(workload: str, query: str) -> None:
    catalog = read_catalog((SQL / workload / "schema.sql").read_text())
    text = (SQL / workload / f"{query}.sql").read_text()
    hits = 0
    for seed in SEEDS:
        rows = compare(text, catalog, load(catalog, random_rows(catalog, seed)))
        hits += bool(rows) and any(value is not None for value in rows[0])
        if hits and seed >= AT_LEAST:
            return
    pytest.fail(f"{query} found rows on no database")
