"""Every shape of rows is measured, into streams and tables, and ends in the same view."""

from __future__ import annotations

from pathlib import Path

import pytest

import viewlet
from viewlet.errors import ResolutionError
from viewlet_bench import ingest
from viewlet_bench.data import generated
from viewlet_bench.output import FIELDS
from viewlet_bench.workload import query_text, schema_text


def test_all_shapes_are_measured(cache: Path) -> None:
    reported = []
    rows = ingest.run(
        sf=0.001,
        queries=["q1", "q3"],
        batches=["1", "1000"],
        seconds=0.01,
        progress=reported.append,
    )
    assert rows == reported
    assert {row["shape"] for row in rows} == {*ingest.SHAPES, *ingest.SINGLE}
    assert {(row["query"], row["into"]) for row in rows} == {
        (query, into) for query in ("q1", "q3") for into in ("stream", "table")
    }
    for row in rows:
        assert row.keys() >= set(FIELDS)
        assert row["lowest"] <= row["tuples_per_s"] <= row["highest"]
        assert row["ratio"] == pytest.approx(row["tuples_per_s"] / row["reference_per_s"])


@pytest.mark.parametrize("into", ["STREAM", "TABLE"])
def test_all_shapes_end_in_the_same_view(into: str, cache: Path) -> None:
    """Doubles of a data frame for decimals, timestamps for dates, and the rest as it is."""
    import pyarrow.parquet as pq

    file = generated("tpch", 0.001, ["lineitem"]) / "lineitem.parquet"
    table = pq.read_table(file)
    results = []
    for shape in (*ingest.SHAPES, *ingest.SINGLE):
        with viewlet.connect() as db:
            text = schema_text("tpch").replace("TABLE lineitem", f"{into} lineitem")
            db.execute(text + query_text("tpch", "q1"))
            put = db.inserter("lineitem")
            for part in ingest.batches(table[:2000], shape, 1 if shape in ingest.SINGLE else 500):
                if shape == "inserter":
                    put(*part)
                else:
                    db.insert("lineitem", part)
            (view,) = db._state.definitions.views
            results.append(sorted(db.view(view).rows()))
    assert sum(row.count_order for row in results[0]) > 1000
    assert all(result == results[0] for result in results)


def test_what_is_not_measured_is_refused(cache: Path) -> None:
    with pytest.raises(ResolutionError, match="does not measure q2"):
        ingest.run(queries=["q2"])
    with pytest.raises(ResolutionError, match="x is no batch size"):
        ingest.run(batches=["x"])
