"""Rows in every form that users have, in; Arrow out."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.engine.values.batching import Batch, batch_of, make_batch, weighted_rows
from viewlet.errors import DataError, RangeError
from viewlet.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Column,
    Relation,
)

PAIR = Relation("r", (Column("a", INTEGER, False), Column("b", VARCHAR)))
ALL = Relation(
    "everything",
    (
        Column("i", INTEGER),
        Column("l", BIGINT),
        Column("d", DOUBLE),
        Column("p", DECIMAL(10, 2)),
        Column("s", VARCHAR),
        Column("day", DATE),
        Column("t", TIMESTAMP),
        Column("b", BOOLEAN),
    ),
)
ROW = (
    1,
    2**40,
    0.5,
    Decimal("1.25"),
    "x",
    dt.date(1970, 1, 3),
    dt.datetime(1970, 1, 1, 0, 0, 1),
    True,
)
ENCODED = (1, 2**40, 0.5, 125, "x", 2, 1_000_000, True)
EXPECTED = [(1, "x"), (2, None)]


def encode_rows(relation: Relation, rows: Any) -> list[tuple[Any, ...]]:
    """There and back: what an engine's batch says the rows are."""
    return [row for row, _ in weighted_rows(relation, make_batch(relation, rows))]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([(1, "x"), (2, None)], id="tuples"),
        pytest.param([[1, "x"], [2, None]], id="lists"),
        pytest.param(((1, "x"), (2, None)), id="tuple of tuples"),
        pytest.param([{"b": "x", "a": 1}, {"a": 2}], id="dicts"),
        pytest.param({"b": ["x", None], "a": [1, 2]}, id="columns"),
        pytest.param({"a": np.array([1, 2]), "b": ["x", None]}, id="numpy columns"),
        pytest.param((row for row in [(1, "x"), (2, None)]), id="generator"),
        pytest.param(pa.table({"b": ["x", None], "a": [1, 2]}), id="arrow table"),
        pytest.param(
            pa.record_batch({"a": pa.array([1, 2]), "b": pa.array(["x", None])}), id="record batch"
        ),
        pytest.param(pandas.DataFrame({"a": [1, 2], "b": ["x", None]}), id="pandas"),
        pytest.param(polars.DataFrame({"a": [1, 2], "b": ["x", None]}), id="polars"),
    ],
)
def test_forms(rows: Any) -> None:
    assert encode_rows(PAIR, rows) == EXPECTED


@pytest.mark.parametrize("row", [(1, "x"), {"a": 1, "b": "x"}, [(1, "x")]])
def test_one_row(row: Any) -> None:
    assert encode_rows(PAIR, row) == [(1, "x")]


@pytest.mark.parametrize("rows", [[], {}, {"a": [], "b": []}, pa.table({"a": [], "b": []})])
def test_no_rows(rows: Any) -> None:
    if rows == {}:
        with pytest.raises(DataError, match="NULL in column a"):
            encode_rows(PAIR, rows)
    else:
        assert encode_rows(PAIR, rows) == []


def test_every_type_through_every_carrier() -> None:
    encoded = batch_of(ALL, [(ENCODED, 1), ((None,) * 8, 1)])
    table = to_arrow(table_columns(ALL), encoded)
    assert table.to_pylist()[0] == dict(zip(ALL.names, ROW, strict=True))
    expected = [ENCODED, (None,) * 8]
    assert encode_rows(ALL, [ROW, (None,) * 8]) == expected
    assert encode_rows(ALL, table) == expected
    assert encode_rows(ALL, table.to_pandas()) == expected
    assert encode_rows(ALL, polars.from_arrow(table)) == expected


def test_nanoseconds_and_zones_of_other_libraries() -> None:
    relation = Relation("r", (Column("t", TIMESTAMP),))
    stamps = pandas.DataFrame({"t": pandas.to_datetime(["1970-01-01 00:00:01"])})
    assert encode_rows(relation, stamps) == [(1_000_000,)]
    zoned = pa.table({"t": pa.array([1_000_000], pa.timestamp("us", "Europe/Berlin"))})
    assert encode_rows(relation, zoned) == [(1_000_000,)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((1,), "row 1 for r has 1 values, and r has 2 columns"),
        ([(1, "x"), (None, "x")], "row 2 for r: NULL in column a, which is NOT NULL"),
        ([(1, 5)], "row 1 for r: column b is VARCHAR, and 5 is not"),
        ([(1.5, "x")], "row 1 for r: column a is INTEGER, and 1.5 is not"),
        ({"a": [1], "b": ["x", "y"]}, "columns for r differ in length: a 1, b 2"),
        ({"a": 1, "b": ["x"]}, "a dict for r mixes single values and columns"),
        ({"a": [1], "bb": ["x"]}, "r has no column bb\nhint: did you mean b"),
        ("rows", "'rows' is not a row of r"),
        (7, "7 is not a row of r"),
        ([7], "7 is not a row of r"),
    ],
)
def test_what_does_not_fit(rows: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        encode_rows(PAIR, rows)
    assert message in str(caught.value)


def test_numbers_out_of_range() -> None:
    with pytest.raises(RangeError, match="row 1 for r: column a: 3000000000 is out of range"):
        encode_rows(PAIR, (3_000_000_000, "x"))
    with pytest.raises(RangeError, match="column total left the range of BIGINT"):
        large = Batch([np.array([2**63], object)], [None], np.ones(1, np.int64))
        to_arrow([("total", BIGINT)], large)
