"""What native code reads of Arrow is what `schema.encode` makes of each value."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from viewlet.engine.values.arrow_columns import reader_of
from viewlet.engine.values.batching import make_batch, plain_values
from viewlet.engine.values.intake import Intake
from viewlet.engine.values.string_codes import StringCodes
from viewlet.errors import DataError, RangeError, ViewletError
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
    Type,
    encode,
    same,
)

MOMENT = dt.datetime(2024, 2, 29, 13, 14, 15)
DAY = dt.date(1969, 12, 30)

CASES: list[tuple[Type, pa.DataType, list[Any]]] = [
    *((INTEGER, kind, [1, 0, 127]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((BIGINT, kind, [1, 0, 200]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (BIGINT, pa.int64(), [2**63 - 1, -(2**63), -1]),
    (DECIMAL(12, 2), pa.int32(), [5, -7, 2**31 - 1]),
    (DECIMAL(12, 2), pa.decimal128(15, 2), [Decimal("1.50"), Decimal("-0.01"), Decimal("9999.99")]),
    (DECIMAL(12, 2), pa.decimal128(15, 0), [Decimal(1), Decimal(-12), Decimal(0)]),
    (DECIMAL(12, 2), pa.decimal128(15, 3), [Decimal("0.125"), Decimal("-0.125"), Decimal("0.124")]),
    (DECIMAL(12, 2), pa.decimal256(50, 3), [Decimal("0.125"), Decimal("-0.125"), Decimal("0.124")]),
    (DECIMAL(12, 2), pa.float64(), [1.005, -2.675, 0.125]),
    (DECIMAL(12, 2), pa.float32(), [0.5, -2.25, 1e6]),
    (DECIMAL(12, 2), pa.float64(), [1.5, math.nan, 2.5]),
    (BIGINT, pa.decimal128(38, 0), [Decimal(5), Decimal(-(2**62)), Decimal(0)]),
    (INTEGER, pa.float64(), [3.0, -4.0, 0.0]),
    (INTEGER, pa.float64(), [3.0, math.nan, 0.0]),
    (DOUBLE, pa.float64(), [-0.0, math.nan, math.inf]),
    (DOUBLE, pa.float32(), [0.1, -0.0, -math.inf]),
    (DOUBLE, pa.int64(), [2**53 + 1, -3, 0]),
    (BOOLEAN, pa.bool_(), [True, False, True]),
    (DATE, pa.date32(), [DAY, dt.date.min, dt.date.max]),
    (DATE, pa.date64(), [DAY, dt.date(2024, 1, 1), dt.date(1970, 1, 1)]),
    *(
        (DATE, pa.timestamp(unit), [dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1), None])
        for unit in ("s", "ms", "us", "ns")
    ),
    *(
        (TIMESTAMP, pa.timestamp(unit), [MOMENT, dt.datetime(1900, 1, 1, 1), None])
        for unit in ("s", "ms", "us", "ns")
    ),
    (TIMESTAMP, pa.timestamp("us", "Europe/Berlin"), [MOMENT.replace(tzinfo=dt.UTC)] * 3),
    (TIMESTAMP, pa.timestamp("us"), [dt.datetime.min, dt.datetime.max, None]),
    (TIMESTAMP, pa.date32(), [DAY, dt.date.min, dt.date.max]),
    *(
        (VARCHAR, kind, ["a", "", "é€😀 and more than twelve bytes"])
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ),
    *(
        (VARCHAR, pa.dictionary(index, pa.string()), ["b", "a", "b"])
        for index in (pa.int8(), pa.uint16(), pa.int32(), pa.int64())
    ),
]


def _batch(values: Any, column: Column, strings: StringCodes | None, **more: Any) -> list[Any]:
    intake = Intake(strings=strings, **more)
    batch = make_batch(Relation("r", (column,)), {"x": values}, intake=intake)
    encoded = batch.columns[0]
    if strings is not None and column.type is VARCHAR:
        encoded = strings.decode(encoded)
    if column.type is BOOLEAN:
        encoded = encoded.astype(bool)
    return plain_values(encoded, batch.nulls[0])


@pytest.mark.parametrize("coded", [True, False], ids=["coded", "plain"])
@pytest.mark.parametrize(("type", "kind", "values"), CASES, ids=lambda value: str(value)[:40])
def test_all_layouts_are_as_one_by_one(
    type: Type, kind: pa.DataType, values: list[Any], coded: bool
) -> None:
    """Whole, with nulls, sliced, chunked: many rows of it."""
    column = Column("x", type)
    many = pa.array([*values, None] * 20, kind)
    for given in (
        many,
        many[3:-5],
        pa.array([value for value in values if value is not None] * 20, kind),
        pa.chunked_array([many[1:2], many[:0], many[5:]]),
        pa.chunked_array([], kind),
    ):
        encoded = _batch(given, column, StringCodes() if coded else None)
        expected = [encode(value, column) for value in given.to_pylist()]
        assert all(same(a, b) for a, b in zip(encoded, expected, strict=True)), (encoded, expected)


def test_native_code_reads_what_is_usual() -> None:
    """Else the test above shows nothing of it."""
    slow = {(str(t), str(kind)) for t, kind, _ in CASES if reader_of(Column("x", t), kind) is None}
    assert slow == {("DECIMAL(12,2)", "decimal256(50, 3)")}


TOO_MUCH: list[tuple[Type, Any, str]] = [
    (INTEGER, pa.array([2**31], pa.int64()), "2147483648 is out of range for INTEGER"),
    (INTEGER, pa.array([2**32 - 1], pa.uint32()), "4294967295 is out of range for INTEGER"),
    (BIGINT, pa.array([2**63], pa.uint64()), "out of range for BIGINT"),
    (BIGINT, pa.array([Decimal(2**64)], pa.decimal128(38, 0)), "out of range for BIGINT"),
    (DECIMAL(4, 2), pa.array([100], pa.int64()), r"100 is out of range for DECIMAL\(4,2\)"),
    (DECIMAL(4, 2), pa.array([Decimal("100.00")]), "out of range"),
    (DECIMAL(4, 2), pa.array([Decimal("99.995")]), "out of range"),
    (DECIMAL(4, 2), pa.array([99.995]), "out of range"),
    (DECIMAL(4, 2), pa.array([math.inf]), "is not"),
    (DECIMAL(18, 2), pa.array([1e300]), "does not fit|out of range"),
    (INTEGER, pa.array([1.5]), "column x is INTEGER, and 1.5 is not"),
    (INTEGER, pa.array([math.inf]), "column x"),
    (DATE, pa.array([MOMENT]), "column x is DATE"),
    (DATE, pa.array([3_000_000], pa.int32()).cast(pa.date32()), "out of range for DATE"),
    (
        TIMESTAMP,
        pa.array([2**62], pa.int64()).cast(pa.timestamp("s")),
        "out of range for TIMESTAMP",
    ),
    (
        TIMESTAMP,
        pa.array([2**62], pa.int64()).cast(pa.timestamp("us")),
        "out of range for TIMESTAMP",
    ),
    (VARCHAR, pa.array([b"\xff"]).view(pa.string()), "is not: .*utf-8"),
    (VARCHAR, pa.array([b"\xff"]).view(pa.string()).dictionary_encode(), "is not: .*utf-8"),
    (VARCHAR, pa.array([5]), "column x is VARCHAR, and 5 is not"),
    (BOOLEAN, pa.array([5]), "column x is BOOLEAN, and 5 is not"),
]


@pytest.mark.parametrize("coded", [True, False], ids=["coded", "plain"])
@pytest.mark.parametrize(("type", "bad", "message"), TOO_MUCH, ids=lambda value: str(value)[:40])
def test_what_does_not_fit_is_named_by_row_and_column(
    type: Type, bad: Any, message: str, coded: bool
) -> None:
    good = pa.nulls(2, bad.type if not pa.types.is_dictionary(bad.type) else pa.string())
    if pa.types.is_dictionary(bad.type):
        good = good.dictionary_encode()
    values = pa.chunked_array([good.cast(bad.type), bad, bad])
    with pytest.raises(ViewletError, match=message) as caught:
        _batch(values, Column("x", type), StringCodes() if coded else None)
    assert str(caught.value).startswith("row 3 for r: "), caught.value


def test_null_where_there_must_be_none() -> None:
    column = Column("x", INTEGER, nullable=False)
    for columns in (None, frozenset[int]()):
        with pytest.raises(DataError, match="row 41 for r: NULL in column x, which is NOT NULL"):
            _batch(pa.array([1] * 40 + [None]), column, StringCodes(), columns=columns)


def test_what_nobody_reads_is_checked_and_left_out() -> None:
    strings = StringCodes()
    relation = Relation("r", (Column("x", INTEGER), Column("y", VARCHAR), Column("z", INTEGER)))
    intake = Intake(frozenset({2}), strings)
    good = {"x": pa.array([1, 2]), "y": pa.array(["a", "b"]), "z": pa.array([3, 4])}
    batch = make_batch(relation, good, intake=intake)
    assert [len(column) for column in batch.columns] == [0, 0, 2]
    assert len(batch) == 2
    assert len(strings) == 1
    for bad in ({"x": pa.array([1, 2**40])}, {"y": pa.array([1, 2])}):
        with pytest.raises(DataError, match=r"row [12] for r: column [xy]"):
            make_batch(relation, good | bad, intake=intake)


MANY: list[tuple[Type, list[Any]]] = [
    (INTEGER, [1, -5, 2**31 - 1]),
    (BIGINT, [2**63 - 1, -(2**63), 0]),
    (DECIMAL(12, 2), [1, 2, -3]),
    (DECIMAL(12, 2), [Decimal("1.5"), Decimal("0.125"), Decimal("-0.125"), Decimal("1e3")]),
    (DECIMAL(12, 2), [1.005, -2.675, math.nan]),
    (DECIMAL(12, 2), [Decimal("1.5"), 1, "2.25"]),
    (DOUBLE, [-0.0, math.nan, 1.5]),
    (DOUBLE, [1, 2**60 + 1]),
    (BOOLEAN, [True, False]),
    (DATE, [DAY, dt.date.max]),
    (DATE, [DAY, dt.datetime(2024, 1, 1), "2024-02-03"]),
    (TIMESTAMP, [MOMENT, dt.datetime(1900, 1, 1, 0, 0, 0, 1)]),
    (TIMESTAMP, [MOMENT.replace(tzinfo=dt.timezone(dt.timedelta(hours=5))), MOMENT]),
    (TIMESTAMP, [MOMENT, DAY]),
    (VARCHAR, ["a", "é", ""]),
]


@pytest.mark.parametrize("coded", [True, False], ids=["coded", "plain"])
@pytest.mark.parametrize(("type", "values"), MANY, ids=lambda value: str(value)[:40])
def test_many_values_of_python_are_as_one(type: Type, values: list[Any], coded: bool) -> None:
    column = Column("x", type)
    many = [*values, None] * 30
    encoded = _batch(many, column, StringCodes() if coded else None)
    expected = [encode(value, column) for value in many]
    assert all(same(a, b) for a, b in zip(encoded, expected, strict=True)), (encoded, expected)


@pytest.mark.parametrize(
    ("type", "bad", "kind"),
    [
        (INTEGER, 2**31, RangeError),
        (BIGINT, 2**63, RangeError),
        (INTEGER, True, DataError),
        (DECIMAL(4, 2), 100, RangeError),
        (DECIMAL(4, 2), Decimal("99.995"), RangeError),
        (DECIMAL(4, 2), Decimal("NaN"), DataError),
        (DECIMAL(4, 2), math.inf, DataError),
        (BOOLEAN, 1, DataError),
        (DATE, MOMENT, DataError),
        (VARCHAR, "\ud800", DataError),
        (VARCHAR, b"x", DataError),
    ],
    ids=str,
)
@pytest.mark.parametrize("before", [0, 100], ids=["alone", "among many"])
def test_a_bad_value_of_python_is_named(type: Type, bad: Any, kind: Any, before: int) -> None:
    good = {INTEGER: 1, BIGINT: 1, BOOLEAN: True, DATE: DAY, VARCHAR: "a"}.get(type, Decimal(1))
    with pytest.raises(kind, match=f"row {before + 1} for r: column x"):
        _batch([good] * before + [bad], Column("x", type), StringCodes())


def test_numpy_goes_the_same_way() -> None:
    days = np.array(["2024-01-01", "NaT", "1960-05-05"] * 20, "M8[D]")
    expected = [encode(day, Column("x", DATE)) for day in days.tolist()]
    assert _batch(days, Column("x", DATE), None) == expected
    nanoseconds = np.array([1_500, -1, 0], "M8[ns]")
    assert _batch(nanoseconds, Column("x", TIMESTAMP), None) == [1, -1, 0]
    floats = np.array([1.5, math.nan] * 30)
    assert _batch(floats, Column("x", DECIMAL(4, 1)), None) == [15, None] * 30
    strided = np.arange(200, dtype=np.int16)[::2]
    assert _batch(strided, Column("x", INTEGER), None) == list(range(0, 200, 2))
    swapped = np.arange(100, dtype=">i4")
    assert _batch(swapped, Column("x", INTEGER), None) == list(range(100))


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("count", [2, 100])
def test_strings_that_nobody_reads_get_no_codes(count: int, limit: int | None) -> None:
    relation = Relation("r", (Column("x", VARCHAR, limit=limit),))
    texts = [f"{i:03}" for i in range(count)]
    for given in ([(text,) for text in texts], pa.table({"x": texts})):
        strings = StringCodes()
        make_batch(relation, given, intake=Intake(frozenset(), strings))
        assert len(strings) == 1  # NULL's


def test_strings_under_nulls_have_any_length() -> None:
    texts = pa.array(["abc", "long", "ab"])
    masked = pa.Array.from_buffers(
        pa.string(), 3, [pa.py_buffer(bytes([0b101])), *texts.buffers()[1:]]
    )
    assert _batch(masked, Column("x", VARCHAR, limit=3), None) == ["abc", None, "ab"]
    with pytest.raises(RangeError, match="row 2 for r"):
        _batch(texts, Column("x", VARCHAR, limit=3), None)


@pytest.mark.parametrize("places", [pa.int8(), pa.uint8(), pa.uint32()])
def test_a_bad_string_of_a_dictionary_is_named(places: pa.DataType) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")]
    )
    coded = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], places), broken)
    with pytest.raises(DataError, match="row 3 for r: column x"):
        _batch(coded, Column("x", VARCHAR), StringCodes())
