"""Values go in and come out as they were, or are refused with the column's name."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pytest

from viewlet.errors import DataError, RangeError, ResolutionError
from viewlet.schema import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    Catalog,
    Column,
    Relation,
    Type,
    decode,
    encode,
)

GOOD = [
    (INTEGER, 5, 5, 5),
    (INTEGER, np.int64(5), 5, 5),
    (BIGINT, 2**40, 2**40, 2**40),
    (BIGINT, 3.0, 3, 3),
    (DOUBLE, 1.5, 1.5, 1.5),
    (DOUBLE, 2, 2.0, 2.0),
    (DECIMAL(12, 2), decimal.Decimal("1.50"), 150, decimal.Decimal("1.50")),
    (DECIMAL(12, 2), "1.505", 151, decimal.Decimal("1.51")),
    (DECIMAL(12, 2), -1.25, -125, decimal.Decimal("-1.25")),
    (DATE, "1970-01-02", 1, dt.date(1970, 1, 2)),
    (DATE, dt.datetime(1970, 1, 2), 1, dt.date(1970, 1, 2)),
    (TIMESTAMP, "1970-01-01 00:00:01", 1_000_000, dt.datetime(1970, 1, 1, 0, 0, 1)),
    (TIMESTAMP, dt.date(1970, 1, 2), 86_400_000_000, dt.datetime(1970, 1, 2)),
    (BOOLEAN, True, True, True),
    (BOOLEAN, np.bool_(False), False, False),
    (VARCHAR, "x", "x", "x"),
]


@pytest.mark.parametrize(("type", "value", "encoded", "decoded"), GOOD)
def test_round_trip(type: Type, value: Any, encoded: Any, decoded: Any) -> None:
    found = encode(value, Column("c", type))
    assert found == encoded
    assert decode(found, type) == decoded


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (INTEGER, 1.5),
        (INTEGER, "1"),
        (INTEGER, True),
        (DOUBLE, "x"),
        (DECIMAL(12, 2), float("inf")),
        (DECIMAL(12, 2), object()),
        (DATE, "yesterday"),
        (DATE, dt.datetime(1970, 1, 2, 3)),
        (DATE, 5),
        (TIMESTAMP, 5),
        (BOOLEAN, 1),
        (VARCHAR, 1),
    ],
)
def test_wrong_type_names_the_column(type: Type, value: Any) -> None:
    with pytest.raises(DataError, match="column c is"):
        encode(value, Column("c", type))


@pytest.mark.parametrize(
    ("type", "value"), [(INTEGER, 2**31), (BIGINT, 2**63), (DECIMAL(3, 1), 100)]
)
def test_out_of_range(type: Type, value: Any) -> None:
    with pytest.raises(RangeError, match=r"column c: .* out of range"):
        encode(value, Column("c", type))


def test_null() -> None:
    assert encode(None, Column("c", INTEGER)) is None
    assert encode(float("nan"), Column("c", INTEGER)) is None
    assert decode(None, INTEGER) is None
    with pytest.raises(DataError, match="NULL in column c"):
        encode(None, Column("c", INTEGER, nullable=False))


def test_catalog() -> None:
    relation = Relation("r", (Column("a", INTEGER),))
    catalog = Catalog()
    catalog.add(relation)
    assert "r" in catalog and catalog["r"] is relation and list(catalog) == [relation]
    assert relation.column("a").type is INTEGER
    with pytest.raises(ResolutionError, match="already exists"):
        catalog.add(relation)
    with pytest.raises(ResolutionError, match="no column b"):
        relation.column("b")
