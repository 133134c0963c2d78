"""The Join Order Benchmark over generated tables: shapes, streams, and DuckDB's answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from viewlet_bench import job
from viewlet_bench.imdb import FULL_ROWS, KINDS, ImdbTables
from viewlet_bench.output import FIELDS
from viewlet_bench.workload import compiled, queries

SCALE = 0.0005


def test_every_family_is_there() -> None:
    assert sorted(queries("job")) == sorted(f"q{number}a" for number in range(1, 34))


def test_tables_are_the_same_for_the_same_seed() -> None:
    columns = ["id", "movie_id", "note"]
    first, again = (ImdbTables(SCALE).table("movie_info", columns) for _ in range(2))
    assert first.equals(again)
    assert not first.equals(ImdbTables(SCALE, seed=1).table("movie_info", columns))


def test_sizes_follow_the_scale() -> None:
    tables = ImdbTables(0.001)
    assert tables.length("cast_info") == round(0.001 * FULL_ROWS["cast_info"])
    assert tables.length("role_type") == len(KINDS["role_type"]) == 12
    assert tables.length("info_type") == 113


def test_references_are_there_and_skewed() -> None:
    tables = ImdbTables(0.001)
    films = tables.table("cast_info", ["movie_id"])["movie_id"].to_numpy()
    assert films.min() >= 1 and films.max() <= tables.length("title")
    counts = np.sort(np.bincount(films))[::-1]
    assert counts[: len(counts) // 10].sum() > 0.3 * counts.sum()


def test_the_stream_deletes_what_was_loaded() -> None:
    stream = job.JobStream(ImdbTables(0.001))
    weights = stream.weights("title")
    ids = stream.table("title", ["id"])["id"].to_numpy()
    loaded = stream.begin({"title": len(ids)})["title"]
    assert set(ids[loaded:][weights[loaded:] < 0]) <= set(ids[:loaded])
    assert len(set(ids[weights > 0])) == (weights > 0).sum()
    lengths = {"title": len(ids), "role_type": 12}
    spans = list(stream.spans(lengths, 10))
    assert sum(high - low for span in spans for _, low, high in span) == len(ids) - loaded
    assert all(name == "title" for span in spans for name, _, _ in span)


def test_equal_to_duckdb(cache: Path) -> None:
    (row,) = job.run(quick=True, sf=SCALE, queries=["q3a"])
    assert row.keys() >= set(FIELDS)
    assert row["equal"] is True
    assert row["relations"] == 4
    assert row["state_ratio"] > 0 and row["ratio"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("query", [query for query in queries("job") if query != "q3a"])
def test_every_family_is_equal_to_duckdb(query: str, cache: Path) -> None:
    rows = job.run(sf=SCALE, queries=[query], seconds=3.0)
    assert all(row["equal"] is True for row in rows)


def test_at_most_three_maps_for_a_joined_relation() -> None:
    for query in ("q1a", "q13a", "q29a"):
        made = compiled("job", query)
        (view,) = made.views
        joined = 1 + view[1].split("FROM")[1].split("WHERE")[0].count(",")
        assert len(made.program.state) <= 3 * joined
