"""Values that no column can hold, in every shape that rows have: one error with row and column.

Whatever is refused has changed nothing, whatever is taken can be read and deleted again, and the
next good batch works. Nothing here depends on how values are encoded.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import DataError, ViewletError
from viewlet.interfaces.database import Database

D = decimal.Decimal
INF, NAN = float("inf"), float("nan")
TYPES = ("INT", "BIGINT", "DOUBLE", "DECIMAL(12,2)", "DATE", "TIMESTAMP", "BOOLEAN", "VARCHAR")


class Evil:
    """Raises whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")

    def __len__(self) -> int:
        raise RuntimeError("len")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("iter")


class EvilInt(int):
    """An int that is none when it matters."""

    def __int__(self) -> int:
        raise RuntimeError("int")

    def __index__(self) -> int:
        raise RuntimeError("index")


class EvilZone(dt.tzinfo):
    """A time zone without an offset."""

    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta:
        raise RuntimeError("utcoffset")


HOURS = dt.timedelta(hours=14)
VALUES = [
    pd.NaT,
    pd.NA,
    np.datetime64("NaT"),
    np.datetime64("NaT", "s"),
    INF,
    -INF,
    NAN,
    np.float32("nan"),
    np.float32("inf"),
    D("nan"),
    D("inf"),
    D("snan"),
    "1e999999999",
    D("1e999999999"),
    D("-1e999999999"),
    D("1e-999999999"),
    D("1e400"),
    10**5000,
    -(10**400),
    2**63,
    2**64,
    -(2**63) - 1,
    np.uint64(2**63),
    fractions.Fraction(1, 3),
    "\ud800",
    "ok \udfff",
    "a\0b",
    b"\xff",
    b"12",
    bytearray(b"a"),
    1 + 2j,
    complex(NAN, 0),
    object(),
    Evil(),
    EvilInt(3),
    [1],
    (1,),
    {},
    {"a": 1},
    set(),
    dt.time(1),
    dt.timedelta(1),
    dt.date.min,
    dt.date.max,
    dt.datetime.min,
    dt.datetime.max,
    dt.datetime.min.replace(tzinfo=dt.timezone(HOURS)),
    dt.datetime.max.replace(tzinfo=dt.timezone(-HOURS)),
    dt.datetime(2020, 1, 1, tzinfo=EvilZone()),
    "0000-01-01",
    "10000-01-01",
    "2020-13-01",
    "2020-01-01T25:00",
    pd.Timestamp.max,
    pd.Timestamp("2020-01-01", tz="Asia/Tokyo"),
    np.datetime64(2**62, "s"),
    np.datetime64("20000-01-01"),
    np.datetime64("-0001-01-01"),
    "inf",
    "nan",
    "",
    True,
    np.bool_(True),
    type,
    ...,
]

SHAPES: dict[str, Callable[[Any], Any]] = {
    "row": lambda value: (1, value),
    "rows": lambda value: [(0, None), (1, value)],
    "dict": lambda value: {"k": 1, "a": value},
    "dicts": lambda value: [{"k": 1, "a": value}],
    "columns": lambda value: {"k": [0, 1], "a": [None, value]},
    "objects": lambda value: {"k": [1], "a": _objects(value)},
    "array": lambda value: {"k": [1], "a": np.array([value])},
    "frame": lambda value: pd.DataFrame({"k": [1], "a": [value]}),
    "frame of objects": lambda value: pd.DataFrame({"k": [1], "a": _objects(value)}),
    "arrow": lambda value: pa.table({"k": [1], "a": [value]}),
}


def _objects(value: Any) -> Any:
    array = np.empty(1, object)
    array[0] = value
    return array


@pytest.fixture(params=["local", "interpreter"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def database(engine: str, type: str) -> Database:
    db = viewlet.connect(engine)
    db.execute(f"CREATE TABLE r (k INT, a {type})")
    db.execute("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM r GROUP BY a")
    return db


def read_all(db: Database) -> None:
    """Every way out; a view that took a row must be readable."""
    db.view("v").rows()
    db.view("v").to_arrow().to_pylist()
    dict(db.view("v").items())
    repr(db.view("v"))
    db.query("SELECT * FROM r").to_pylist()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("type", TYPES)
def test_values_fit_or_are_refused(engine: str, type: str, shape: str) -> None:
    with database(engine, type) as db:
        for value in VALUES:
            try:
                rows = SHAPES[shape](value)
            except Exception:  # NumPy or Arrow refuse it already
                continue
            try:
                db.insert("r", rows)
            except DataError as error:
                message = str(error).splitlines()[0]
                if shape != "dict":  # there, what is a list or an object may be a column
                    assert message.startswith(
                        f"row {2 if shape == 'rows' or 'col' in shape else 1}"
                    )
                    assert "column a" in message
                assert len(message) < 300
            else:
                read_all(db)
                db.delete("r", rows)
            assert db.query("SELECT COUNT(*) AS n FROM r").to_pylist() == [{"n": 0}]
        db.insert("r", (1, None))
        assert [tuple(row) for row in db.view("v").rows()] == [(None, 1)]


def arrow_column(type: pa.DataType, *values: int) -> pa.Table:
    """A table with these words, whatever they mean as values of the type."""
    words = pa.array(values, pa.int64() if type.bit_width == 64 else pa.int32())
    return pa.table({"k": list(range(len(values))), "a": words.view(type)})


OUTSIDE = {
    "seconds": arrow_column(pa.timestamp("s"), 0, 2**62),
    "milliseconds": arrow_column(pa.timestamp("ms"), 0, 2**62),
    "microseconds": arrow_column(pa.timestamp("us"), 0, 253_402_300_800_000_000),
    "before year 1": arrow_column(pa.timestamp("us"), 0, -62_135_596_800_000_001),
    "zone": arrow_column(pa.timestamp("s", tz="America/Lima"), 0, 2**62),
    "no such zone": arrow_column(pa.timestamp("s", tz="Nowhere/Never"), 0, -(2**62)),
    "days": arrow_column(pa.date32(), 0, 2_932_897),
    "days before year 1": arrow_column(pa.date32(), 0, -719_163),
    "least day": arrow_column(pa.date32(), 0, -(2**31)),
    "date64": arrow_column(pa.date64(), 0, 2**62),
    "NumPy seconds": {"k": [0, 1], "a": np.array([0, 2**62], "M8[s]")},
    "NumPy days": {"k": [0, 1], "a": np.array(["1970-01-01", "12000-01-01"], "M8[D]")},
    "NumPy months": {"k": [0, 1], "a": np.array(["1970-01", "-0001-01"], "M8[M]")},
    "NumPy years": {"k": [0, 1], "a": np.array([0, 2**60], "M8[Y]")},
    "NumPy weeks": {"k": [0, 1], "a": np.array([0, 2**61], "M8[W]")},
    "NumPy hours": {"k": [0, 1], "a": np.array([0, -(2**61)], "M8[h]")},
    "frame": pd.DataFrame({"k": [0, 1], "a": np.array([0, 2**50], "M8[s]")}),
}


@pytest.mark.parametrize("given", OUTSIDE)
@pytest.mark.parametrize("type", ["DATE", "TIMESTAMP"])
def test_moments_outside_of_the_years_1_to_9999(engine: str, type: str, given: str) -> None:
    with database(engine, type) as db:
        with pytest.raises(DataError, match=rf"^row 2 for r: column a: .* out of range for {type}"):
            db.insert("r", OUTSIDE[given])
        assert db.view("v").rows() == []
        db.insert("r", (1, "2020-01-01"))
        read_all(db)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
def test_moments_within_are_exact(engine: str, unit: str, zone: str | None) -> None:
    first, last = ("1677-09-22", "2262-04-10") if unit == "ns" else ("0001-01-01", "9999-12-31")
    moments = np.array([first, "1969-12-31T23:59:59", "1970-01-01", last], f"M8[{unit}]")
    column = pa.array(moments.view(np.int64)).view(pa.timestamp(unit, tz=zone))
    expected = moments.astype("M8[us]").tolist()
    for rows in (pa.table({"a": column}), {"a": moments}):
        with database(engine, "TIMESTAMP") as db:
            db.insert("r", rows)
            assert sorted(row.a for row in db.view("v").rows()) == expected


@pytest.mark.parametrize("unit", ["D", "M", "Y", "W"])
def test_coarse_units_of_numpy(engine: str, unit: str) -> None:
    days = np.array(["0001-01-01", "1969-06-01", "9999-12-01"], f"M8[{unit}]")
    if unit == "W":
        days = days[1:]
    for type in ("DATE", "TIMESTAMP"):
        with database(engine, type) as db:
            db.insert("r", {"a": days})
            days_read = [str(row.a)[:10] for row in db.view("v").rows()]
            assert sorted(days_read) == sorted(days.astype("M8[D]").astype(str).tolist())


def test_a_date_is_not_cut_out_of_a_moment(engine: str) -> None:
    noon = np.array(["2020-01-01", "2020-01-01T12:00"], "M8[s]")
    for rows in ({"a": noon}, pa.table({"a": noon}), pd.DataFrame({"a": noon})):
        db = database(engine, "DATE")
        with db, pytest.raises(DataError, match=r"^row 2 for r: column a is DATE, and 2020"):
            db.insert("r", rows)


def invalid_utf8(type: pa.DataType) -> pa.Array:
    return pa.array([b"ok", None, b"\xc3\x28"], pa.large_binary()).cast(pa.binary()).view(type)


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"a": invalid_utf8(pa.string())}),
        pa.table({"a": invalid_utf8(pa.string()).dictionary_encode()}),
        {"a": ["ok", None, "\udcff"]},
        {"a": ["ok", "ä", "\udcff"]},
        [("ok",), ("ä",), (b"\xff",)],
        pd.DataFrame({"a": ["ok", None, "\udcff"]}),
    ],
)
def test_strings_that_are_no_text(engine: str, rows: Any) -> None:
    with viewlet.connect(engine) as db:
        db.execute("CREATE TABLE r (a VARCHAR)")
        db.execute("CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM r GROUP BY a")
        with pytest.raises(DataError, match=r"^row 3 for r: column a is VARCHAR, and .* is not"):
            db.insert("r", rows)
        with pytest.raises(DataError, match=r"^row 1 for r: column a"):
            db.insert("r", ("\ud834",))
        db.insert("r", ("ä",))
        assert db.view("v")["ä"].n == 1


ODD_WEIGHTS = [
    1.5,
    NAN,
    2**63,
    -(2**63) - 1,
    "1",
    b"1",
    object(),
    Evil(),
    D(1),
    [1.5],
    [NAN],
    [2**63],
    [None],
    [True],
    ["1"],
    [1, 2],
    [],
    np.array([1.0]),
    np.array([2**63], np.uint64),
    np.array([[1]]),
    np.array([True]),
    pa.array([1.5]),
    pa.array([None], pa.int64()),
    {"a": 1},
]


@pytest.mark.parametrize("number", range(len(ODD_WEIGHTS)))
def test_odd_weights(engine: str, number: int) -> None:
    with database(engine, "INT") as db:
        with pytest.raises(DataError):
            db.apply([viewlet.Change("r", [(1, 1)], ODD_WEIGHTS[number])])
        assert db.view("v").rows() == []
        db.apply([viewlet.Change("r", [(1, 1)], 2)])
        assert db.view("v")[1].n == 2


def test_weights_that_leave_their_range_together() -> None:
    with database("local", "INT") as db:
        most = 2**63 - 1
        with pytest.raises(DataError):
            db.apply([viewlet.Change("r", [(1, 1), (1, 1)], [most, most])])
        db.insert("r", (1, 1))
        assert db.view("v")[1].n == 1


ODD_ROWS = [
    None,
    0,
    1.5,
    "text",
    b"bytes",
    object(),
    Evil(),
    [Evil()],
    [None],
    [1],
    ["ab"],
    [[]],
    [()],
    (),
    [(1,)],
    [(1, 2, 3)],
    [(1, 2), (1,)],
    [(1, 2), {"k": 1, "z": 2}],
    {"z": 1},
    {"k": 1, "z": [1]},
    {"k": [1], "a": [1, 2]},
    {1: 2},
    {None: 1},
    {"k": Evil()},
    {"k": [1], "a": Evil()},
    np.array([1, 2, 3]),
    np.array(5),
    np.zeros((2, 3)),
    np.zeros((2, 2, 2)),
    np.array([object()]),
    pa.table({"k": [1], "z": [1]}),
    pa.table([pa.array([1]), pa.array([2])], names=["k", "k"]),
    pa.table({"k": [[1]], "a": [{"x": 1}]}),
    pa.array([1, 2]),
    pd.DataFrame([[1, 2]], columns=["k", "k"]),
    pd.DataFrame([[1, 2]]),
    pd.Series([1, 2]),
    {1: 2}.values(),
    {(1, 2): 1, 3: 4}.keys(),
    lambda: None,
    Database,
]


@pytest.mark.parametrize("number", range(len(ODD_ROWS)))
def test_odd_rows(engine: str, number: int) -> None:
    with database(engine, "INT") as db:
        db.insert("r", (1, 1))
        for call in (db.insert, db.delete):
            with pytest.raises(DataError):
                call("r", ODD_ROWS[number])
        with pytest.raises(DataError):
            db.apply([viewlet.Change("r", (2, 2)), viewlet.Change("r", ODD_ROWS[number])])
        assert [tuple(row) for row in db.view("v").rows()] == [(1, 1)]
        db.insert("r", (2, 1))
        assert db.view("v")[1].n == 2


def test_what_an_object_raised_is_the_cause(engine: str) -> None:
    def rows() -> Iterator[tuple[int, int]]:
        yield 1, 1
        raise ConnectionError("the source is gone")

    with database(engine, "INT") as db:
        with pytest.raises(ViewletError, match="the source is gone") as refused:
            db.insert("r", rows())
        assert isinstance(refused.value.__cause__, ConnectionError)
        assert db.view("v").rows() == []


def test_levels_of_a_pandas_index_are_columns_where_the_frame_has_none() -> None:
    with viewlet.connect() as db:
        db.execute("CREATE TABLE t (k INT, g VARCHAR, a INT DEFAULT 7)")
        frame = pd.DataFrame({"k": [1, 1, 2], "g": ["x", "x", "y"], "b": [3, 4, 5]})
        sums = frame.groupby(["k", "g"]).agg(a=("b", "sum"))
        db.insert("t", sums)
        assert list(sums.columns) == ["a"]
        db.insert("t", pd.DataFrame({"k": [3], "g": ["z"]}, index=pd.Index([9], name="k")))
        db.insert("t", pd.DataFrame({"k": [4], "g": ["z"]}, index=pd.Index([9], name="other")))
        rows = db.query("SELECT * FROM t ORDER BY k").to_pylist()
        assert [tuple(row.values()) for row in rows] == [
            (1, "x", 7),
            (2, "y", 5),
            (3, "z", 7),
            (4, "z", 7),
        ]
        twice = pd.MultiIndex.from_tuples([(8, 9)], names=["k", "k"])
        with pytest.raises(DataError, match=r"reset_index"):
            db.insert("t", pd.DataFrame({"a": [1]}, index=twice))
