"""Rows in every accepted shape become the same batch."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from viewlet.engine.values.batching import Batch, make_batch
from viewlet.errors import DataError, RangeError
from viewlet.program.text import parse_program
from viewlet.schema import INTEGER, Column, Relation

RELATION = parse_program(
    "relation r(a: INTEGER not null, c: DECIMAL(12,2), d: DATE, s: VARCHAR, f: DOUBLE, b: BOOLEAN,"
    " t: TIMESTAMP)"
).relations[0]

ROWS: list[tuple[Any, ...]] = [
    (1, Decimal("1.50"), dt.date(1970, 1, 11), "x", 0.5, True, dt.datetime(1970, 1, 1, 0, 0, 1)),
    (2, None, None, None, None, None, None),
]
NAMES = RELATION.names


def plain(batch: Batch) -> list[list[Any]]:
    found = []
    for column, nulls in zip(batch.columns, batch.nulls, strict=True):
        gaps = nulls if nulls is not None else np.zeros(len(batch), bool)
        found.append([None if gap else v for v, gap in zip(column.tolist(), gaps, strict=True)])
    return found


EXPECTED = [[1, 2], [150, None], [10, None], ["x", None], [0.5, None], [1, None], [1_000_000, None]]
ARROW = pa.table(
    {
        "a": pa.array([1, 2], pa.int32()),
        "c": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        "d": pa.array([dt.date(1970, 1, 11), None], pa.date32()),
        "s": pa.array(["x", None]).dictionary_encode(),
        "f": [0.5, None],
        "b": [True, None],
        "t": pa.array([dt.datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("ms")),
    }
)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        [dict(zip(NAMES, row, strict=True)) for row in ROWS],
        {name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)},
        ARROW,
        ARROW.to_batches()[0],
        pl.from_arrow(ARROW),
    ],
    ids=["tuples", "dicts", "columns", "arrow", "record batch", "polars"],
)
def test_shapes_agree(rows: Any) -> None:
    assert plain(make_batch(RELATION, rows)) == EXPECTED


def test_pandas_and_one_tuple() -> None:
    pair = parse_program("relation r(a: INTEGER not null, s: VARCHAR)").relations[0]
    frame = pd.DataFrame({"s": ["x", "y"], "a": [1, 2]})
    assert plain(make_batch(pair, frame)) == [[1, 2], ["x", "y"]]
    assert plain(make_batch(pair, (1, "x"))) == [[1], ["x"]]


def test_numpy_columns_are_taken_whole() -> None:
    pair = parse_program("relation r(a: BIGINT not null, d: DATE)").relations[0]
    days = np.array(["1970-01-03", "NaT"], "datetime64[D]")
    batch = make_batch(pair, {"a": np.array([1, 2], np.int32), "d": days}, np.array([1, -1]))
    assert plain(batch) == [[1, 2], [2, None]]
    assert batch.weights.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([(1, 2)], DataError, "row 1 for r has 2 values"),
        ([{"c": 1}], DataError, "row 1 for r: NULL in column a"),
        ({"a": [1], "zz": [2]}, DataError, "no column zz"),
        (7, DataError, "7 is not a row of r"),
        ({**{name: [None] for name in NAMES}, "a": [None]}, DataError, "NOT NULL"),
        ({**{name: [None] for name in NAMES}, "a": np.array([2**40])}, RangeError, "out of range"),
        ({**{name: [None] for name in NAMES}, "a": ["x"]}, DataError, "is not"),
    ],
)
def test_bad_rows_are_refused(rows: Any, error: type[DataError], message: str) -> None:
    with pytest.raises(error, match=message):
        make_batch(RELATION, rows)


def test_weights_are_checked() -> None:
    pair = parse_program("relation r(a: BIGINT not null)").relations[0]
    with pytest.raises(DataError, match="1 weights for 2 rows"):
        make_batch(pair, [(1,), (2,)], [1])
    with pytest.raises(DataError, match=r"0\.5 is not a weight"):
        make_batch(pair, [(1,)], [0.5])


def test_a_series_of_several_types_is_refused_by_row() -> None:
    relation = Relation("r", (Column("x", INTEGER),))
    good = make_batch(relation, pd.DataFrame({"x": pd.Series([1, None, 3], dtype=object)}))
    assert good.columns[0].tolist() == [1, 0, 3]
    with pytest.raises(DataError, match="row 2 for r: column x is INTEGER, and 'a' is not"):
        make_batch(relation, pd.DataFrame({"x": pd.Series([1, "a", None, 2.5], dtype=object)}))
