"""Columns hold to their declaration, and numbers are rounded in one way, for all ways in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import viewlet
from viewlet.errors import DataError, RangeError, UnsupportedError, ViewletError

Put = Callable[[viewlet.Database, str, str, list[Any], Path], None]


@pytest.fixture(params=["interpreter", "local"])
def db(request: Any) -> Iterator[viewlet.Database]:
    with viewlet.connect(request.param) as db:
        yield db


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(' ')}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def by_tuples(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    db.insert(table, [(value,) for value in values])


def by_one_tuple(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    for value in values:
        db.insert(table, [(value,)])


def by_dicts(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    db.insert(table, [{column: value} for value in values])


def by_arrow(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    db.insert(table, pa.table({column: pa.array(values)}))


def by_dictionary(
    db: viewlet.Database, table: str, column: str, values: list[Any], _: Path
) -> None:
    array = pa.array(values)
    is_text = pa.types.is_string(array.type)
    db.insert(table, pa.table({column: array.dictionary_encode() if is_text else array}))


def by_pandas(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    db.insert(table, pd.DataFrame({column: values}))


def by_values(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    db.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({literal(v)})" for v in values))


def by_select(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    for value in values:
        db.execute(f"INSERT INTO {table} SELECT {literal(value)}")


def by_update(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    for value in values:
        db.execute(f"INSERT INTO {table} VALUES (NULL)")
        db.execute(f"UPDATE {table} SET {column} = {literal(value)} WHERE {column} IS NULL")


def by_copy(db: viewlet.Database, table: str, column: str, values: list[Any], at: Path) -> None:
    path = at / "rows.csv"
    path.write_text("".join(f"{value}\n" for value in [column, *values]))
    db.execute(f"COPY {table} FROM '{path}'")


WAYS: list[Put] = [
    *(by_tuples, by_one_tuple, by_dicts, by_arrow, by_dictionary, by_pandas, by_values),
    *(by_select, by_update, by_copy),
]


def contents(db: viewlet.Database, table: str) -> list[Any]:
    """The values of the only column, without the NULLs that an UPDATE starts from."""
    values = [next(iter(row.values())) for row in db.query(f"SELECT * FROM {table}").to_pylist()]
    return sorted(value for value in values if value is not None)


@pytest.mark.parametrize("put", WAYS)
def test_decimals_are_rounded_half_away_from_zero(
    db: viewlet.Database, put: Put, tmp_path: Path
) -> None:
    db.execute("CREATE TABLE t (c DECIMAL(12,2))")
    numbers = [Decimal("0.125"), Decimal("-0.125"), Decimal("2.344"), Decimal("2.345")]
    put(db, "t", "c", numbers, tmp_path)
    expected = ["-0.13", "0.13", "2.34", "2.35"]
    assert [str(value) for value in contents(db, "t")] == expected


@pytest.mark.parametrize("put", [w for w in WAYS if w is not by_copy])
def test_doubles_become_the_decimals_that_they_are_written_as(
    db: viewlet.Database, put: Put, tmp_path: Path
) -> None:
    db.execute("CREATE TABLE t (c DECIMAL(12,2))")
    put(db, "t", "c", [0.125, -0.125, 1.005], tmp_path)
    assert [str(value) for value in contents(db, "t")] == ["-0.13", "0.13", "1.01"]


def test_a_cast_rounds_as_a_column_does(db: viewlet.Database) -> None:
    db.execute("CREATE TABLE t (c DECIMAL(12,3), d DOUBLE)")
    casts = "CAST(c AS DECIMAL(12,2)) AS x, CAST(d AS DECIMAL(12,2)) AS y"
    db.execute(f"CREATE VIEW v AS SELECT {casts} FROM t")
    db.insert("t", [(Decimal("0.125"), 0.125), (Decimal("-0.125"), -0.125), (1.005, 1.005)])
    assert sorted((str(x), str(y)) for x, y in db.view("v").rows()) == [
        ("-0.13", "-0.13"),
        ("0.13", "0.13"),
        ("1.01", "1.01"),
    ]


@pytest.mark.parametrize("put", WAYS)
def test_text_is_as_long_as_declared(db: viewlet.Database, put: Put, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (s VARCHAR(3)); CREATE TABLE u (s CHAR(2))")
    put(db, "t", "s", ["abc", "äöü", "x"], tmp_path)
    assert contents(db, "t") == ["abc", "x", "äöü"]
    with pytest.raises(RangeError, match="'abcd' has 4 characters, 3 are most"):
        put(db, "t", "s", ["abcd"], tmp_path)
    with pytest.raises(RangeError):
        put(db, "u", "s", ["abc"], tmp_path)
    assert contents(db, "t") == ["abc", "x", "äöü"]


@pytest.mark.parametrize("put", [w for w in WAYS if w is not by_copy])
def test_blanks_at_the_end_are_cut(db: viewlet.Database, put: Put, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (s VARCHAR(3))")
    put(db, "t", "s", ["abc  ", "x    ", "ab "], tmp_path)
    assert contents(db, "t") == ["ab ", "abc", "x  "]


@pytest.mark.parametrize("put", WAYS)
def test_moments_are_rounded(db: viewlet.Database, put: Put, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (m TIMESTAMP(0)); CREATE TABLE u (m TIMESTAMP(1))")
    moments = [
        dt.datetime(2024, 1, 1, 10, 0, 0, 500_000),
        dt.datetime(1960, 1, 1, 10, 0, 0, 500_000),
        dt.datetime(2024, 1, 1, 10, 0, 0, 449_999),
    ]
    put(db, "t", "m", moments, tmp_path)
    put(db, "u", "m", moments, tmp_path)
    assert [m.isoformat() for m in contents(db, "t")] == [
        "1960-01-01T10:00:00",
        "2024-01-01T10:00:00",
        "2024-01-01T10:00:01",
    ]
    assert contents(db, "u")[1].isoformat() == "2024-01-01T10:00:00.400000"


@pytest.mark.parametrize("put", WAYS)
@pytest.mark.parametrize("copies", [1, 40])
def test_half_a_second_is_rounded_away_from_2000(
    db: viewlet.Database, put: Put, tmp_path: Path, copies: int
) -> None:
    if copies > 1 and put in (by_select, by_update):
        pytest.skip("they put one row at a time")
    db.execute("CREATE TABLE t (m TIMESTAMP(0))")
    half = dt.timedelta(milliseconds=500)
    years = [1969, 1985, 1999, 2000, 2001]
    put(db, "t", "m", [dt.datetime(y, 6, 1, 12) + half for y in years] * copies, tmp_path)
    seconds = [0, 0, 0, 1, 1]
    expected = [dt.datetime(y, 6, 1, 12, 0, s) for y, s in zip(years, seconds, strict=True)]
    assert contents(db, "t") == sorted(expected * copies)


def test_a_cast_rounds_moments_away_from_2000(db: viewlet.Database) -> None:
    db.execute("CREATE TABLE t (m TIMESTAMP)")
    db.execute("CREATE VIEW v AS SELECT CAST(m AS TIMESTAMP(0)) AS c FROM t")
    db.execute(
        "CREATE VIEW w AS SELECT CAST(m AS TIMESTAMP(0)) AS c, COUNT(*) AS n FROM t GROUP BY 1"
    )
    db.insert("t", [("1985-06-01 12:00:00.5",), ("2001-06-01 12:00:00.5",)])
    expected = [dt.datetime(1985, 6, 1, 12), dt.datetime(2001, 6, 1, 12, 0, 1)]
    assert sorted(row.c for row in db.view("v").rows()) == expected
    assert sorted(row.c for row in db.view("w").rows()) == expected


@pytest.mark.parametrize("put", WAYS)
def test_a_moment_that_is_rounded_out_of_range_is_refused(
    db: viewlet.Database, put: Put, tmp_path: Path
) -> None:
    """Half a second before the year 10000, which no Python date can say."""
    db.execute("CREATE TABLE t (m TIMESTAMP(0))")
    with pytest.raises(viewlet.ViewletError, match="out of range"):
        put(db, "t", "m", [dt.datetime(9999, 12, 31, 23, 59, 59, 500_000)], tmp_path)
    assert contents(db, "t") == []


@pytest.mark.parametrize("put", WAYS)
def test_small_integers(db: viewlet.Database, put: Put, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (n SMALLINT)")
    put(db, "t", "n", [-32768, 32767], tmp_path)
    with pytest.raises(RangeError, match="out of range"):
        put(db, "t", "n", [32768], tmp_path)
    assert contents(db, "t") == [-32768, 32767]


MANY = 50
"""Values that go through Arrow and native code, from whatever they came in."""


def by_large_strings(
    db: viewlet.Database, table: str, column: str, values: list[Any], _: Path
) -> None:
    db.insert(table, pa.table({column: pa.array(values, pa.large_string())}))


def by_string_views(
    db: viewlet.Database, table: str, column: str, values: list[Any], _: Path
) -> None:
    db.insert(table, pa.table({column: pa.array(values, pa.string_view())}))


def by_slices(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    """In two chunks, with longer strings before and behind what is given."""
    middle = len(values) // 2
    halves = [
        pa.array(["too long", *part, "too long"]) for part in (values[:middle], values[middle:])
    ]
    chunks = [half.slice(1, len(half) - 2) for half in halves]
    db.insert(table, pa.table({column: pa.chunked_array(chunks)}))


def by_unsigned_dictionary(
    db: viewlet.Database, table: str, column: str, values: list[Any], _: Path
) -> None:
    """As polars has categories; one of them is longer, and in no row."""
    strings = pa.array(["too long", *dict.fromkeys(v for v in values if v is not None)])
    indices = [None if v is None else strings.to_pylist().index(v) for v in values]
    coded = pa.DictionaryArray.from_arrays(pa.array(indices, pa.uint32()), strings)
    db.insert(table, pa.table({column: coded}))


def by_numpy(db: viewlet.Database, table: str, column: str, values: list[Any], _: Path) -> None:
    db.insert(table, {column: np.array(values, object)})


AT_ONCE: list[Put] = [
    *(by_tuples, by_dicts, by_arrow, by_dictionary, by_pandas, by_numpy),
    *(by_large_strings, by_string_views, by_slices, by_unsigned_dictionary),
]


@pytest.mark.parametrize("put", AT_ONCE)
def test_many_texts_are_as_long_as_declared(db: viewlet.Database, put: Put, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (s VARCHAR(3))")
    fitting = ["abc", "äöü", None, "😀😀😀", ""] * MANY
    put(db, "t", "s", fitting, tmp_path)
    expected = sorted(text for text in fitting if text is not None)
    assert contents(db, "t") == expected
    for bad in ("abcd", "äöüä", "    a"):
        with pytest.raises(RangeError, match=rf"row 251 for t: column s: .* {len(bad)} characters"):
            put(db, "t", "s", [*fitting, bad, "ab"], tmp_path)
    assert contents(db, "t") == expected
    put(db, "t", "s", ["ab  "] * MANY, tmp_path)
    assert contents(db, "t") == sorted([*expected, *["ab "] * MANY])


@pytest.mark.parametrize("put", [by_tuples, by_dicts, by_arrow, by_pandas])
def test_many_moments_are_rounded(db: viewlet.Database, put: Put, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (m TIMESTAMP(1))")
    before, after = (
        dt.datetime(1960, 1, 1, 10, 0, 0, 50_000),
        dt.datetime(2024, 1, 1, 0, 0, 0, 50_000),
    )
    put(db, "t", "m", [before, None, after] * MANY, tmp_path)
    assert {m.isoformat() for m in contents(db, "t")} == {
        "1960-01-01T10:00:00",
        "2024-01-01T00:00:00.100000",
    }


@pytest.mark.parametrize("type", ["int32", "int64", "uint16", "uint64", "double"])
def test_many_small_integers(db: viewlet.Database, type: str) -> None:
    db.execute("CREATE TABLE t (n SMALLINT)")
    fitting = [0, 32767] * MANY
    db.insert("t", pa.table({"n": pa.array(fitting, type)}))
    with pytest.raises(RangeError, match=r"row 101 for t: column n: 32768.* out of range"):
        db.insert("t", pa.table({"n": pa.array([*fitting, 32768], type)}))
    assert contents(db, "t") == sorted(fitting)


def test_columns_that_no_view_reads_are_checked(db: viewlet.Database) -> None:
    db.execute("CREATE STREAM r (k INT, s VARCHAR(3), n SMALLINT, m TIMESTAMP(0))")
    db.execute("CREATE VIEW v AS SELECT k, COUNT(*) AS c FROM r GROUP BY k")
    now = dt.datetime(2024, 1, 1)
    good = (1, "abc", 7, now)
    put = db.inserter("r")
    for bad in ((1, "abcd", 7, now), (1, "abc", 32768, now)):
        for count in (1, MANY):
            with pytest.raises(RangeError, match=f"row {count + 1} for r"):
                db.insert("r", [*[good] * count, bad])
            with pytest.raises(RangeError, match=f"row {count + 1} for r"):
                columns = zip(*[good] * count, bad, strict=True)
                db.insert("r", pa.table(dict(zip("ksnm", map(list, columns), strict=True))))
        with pytest.raises(RangeError, match="row 1 for r"):
            db.insert("r", bad)
        with pytest.raises(RangeError, match="row 1 for r"):
            put(*bad)
    assert db.view("v").rows() == []
    put(1, "abc   ", 7, now)
    db.insert("r", [good] * MANY)
    assert [tuple(row) for row in db.view("v").rows()] == [(1, MANY + 1)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_single_rows_are_held(db: viewlet.Database, kind: str) -> None:
    """Again and again, for strings that came lately are known by their codes."""
    db.execute(f"CREATE {kind} r (s CHAR(2), m TIMESTAMP(0))")
    db.execute("CREATE VIEW v AS SELECT s, m, COUNT(*) AS c FROM r GROUP BY s, m")
    put = db.inserter("r")
    moment, rounded_moment = (
        dt.datetime(2024, 1, 1, 0, 0, 0, 500_000),
        dt.datetime(2024, 1, 1, 0, 0, 1),
    )
    for _ in range(3):
        put("äö  ", moment)
        put("äö", rounded_moment)
        with pytest.raises(RangeError, match="row 1 for r: column s: 'äöü' has 3 characters"):
            put("äöü", moment)
    assert [tuple(row) for row in db.view("v").rows()] == [("äö", rounded_moment, 6)]
    db.delete("r", ("äö   ", moment))
    assert [tuple(row) for row in db.view("v").rows()] == [("äö", rounded_moment, 5)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_a_relation_that_is_declared_again_has_its_new_size(
    db: viewlet.Database, kind: str
) -> None:
    view = "CREATE VIEW v AS SELECT s, COUNT(*) AS c FROM r GROUP BY s"
    db.execute(f"CREATE {kind} r (s VARCHAR(3)); {view}")
    db.insert("r", ("abc",))
    db.execute(f"DROP VIEW v; DROP {kind} r; CREATE {kind} r (s VARCHAR(5)); {view}")
    db.insert("r", ("abcde",))
    db.execute(f"DROP VIEW v; DROP {kind} r; CREATE {kind} r (s VARCHAR(4)); {view}")
    with pytest.raises(RangeError):
        db.insert("r", ("abcde",))
    assert db.view("v").rows() == []


def test_the_row_is_named(db: viewlet.Database) -> None:
    db.execute("CREATE TABLE t (s VARCHAR(3))")
    with pytest.raises(DataError, match="row 2 for t: column s: 'long'"):
        db.insert("t", [("abc",), ("long",)])
    with pytest.raises(DataError, match="row 1 for t: column s: 'long'"):
        db.insert("t", [("long",)])


def test_nulls_have_any_size(db: viewlet.Database) -> None:
    db.execute("CREATE TABLE t (s VARCHAR(1), m TIMESTAMP(0), n SMALLINT)")
    db.insert("t", [(None, None, None), ("a", None, 1)])
    db.insert("t", pa.table({"s": ["b", None], "m": [None, None], "n": [None, 2]}))
    assert db.query("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 4}]


def test_sizes_are_kept_on_disk(tmp_path: Path) -> None:
    with viewlet.connect(tmp_path / "shop.viewlet") as db:
        db.execute("CREATE TABLE t (s VARCHAR(3))")
        db.insert("t", [("abc",)])
    with viewlet.connect(tmp_path / "shop.viewlet") as db:
        with pytest.raises(RangeError):
            db.insert("t", [("abcd",)])
        assert contents(db, "t") == ["abc"]


@pytest.mark.parametrize(
    ("cast", "bad"),
    [
        ("CAST(b AS INTEGER)", 2**31),
        ("CAST(b * 100000 AS SMALLINT)", 1),
        ("CAST(b AS TINYINT)", 128),
        ("CAST(c AS DECIMAL(8,2))", 999_999.999),
        ("CAST(d AS INTEGER)", 3e9),
        ("CAST(d AS DECIMAL(4,1))", 999.95),
        ("b::INT", -(2**31) - 1),
    ],
)
def test_a_cast_out_of_range_refuses_the_batch(db: viewlet.Database, cast: str, bad: Any) -> None:
    db.execute("CREATE TABLE t (b BIGINT, c DECIMAL(15,4), d DOUBLE)")
    db.execute(f"CREATE VIEW v AS SELECT {cast} AS x FROM t")
    column = cast.partition("(")[2][:1] or cast[0]
    good = dict.fromkeys("bcd", 0)
    db.insert("t", [good])
    for rows in ([{**good, column: bad}], [good, {**good, column: bad}]):
        with pytest.raises(ViewletError):
            db.insert("t", rows)
        assert [tuple(map(float, row)) for row in db.view("v").rows()] == [(0.0,)]


def test_casts_of_text_cut(db: viewlet.Database) -> None:
    db.execute("CREATE TABLE t (s VARCHAR)")
    text = "SELECT CAST(s AS CHAR(2)) AS a, CAST(s AS VARCHAR(3)) AS b, s::CHAR AS c FROM t"
    db.execute(f"CREATE VIEW v AS {text}")
    db.insert("t", [("xabc",), ("é",), (None,)])
    expected = {("xa", "xab", "x"), ("é", "é", "é"), (None, None, None)}
    assert {tuple(row) for row in db.view("v").rows()} == expected
    db.execute("CREATE TABLE one (x INT)")
    db.execute("CREATE VIEW w AS SELECT CAST('xabc' AS CHAR(2)) AS a FROM one")
    db.insert("one", [(1,)])
    assert [tuple(row) for row in db.view("w").rows()] == [("xa",)]


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_decimals_of_more_than_18_digits_are_refused_at_once(
    db: viewlet.Database, kind: str
) -> None:
    with pytest.raises(UnsupportedError, match="at most 18 digits") as caught:
        db.execute(f"CREATE {kind} t (a INT, c DECIMAL(19,2))")
    assert caught.value.position is not None and caught.value.hint is not None
    db.execute(f"CREATE {kind} t (a INT, c DECIMAL(18,2))")
    db.execute("CREATE VIEW v AS SELECT SUM(c) AS c FROM t")
    db.insert("t", [(1, Decimal("9999999999999999.99"))])
    assert db.view("v").rows()[0].c == Decimal("9999999999999999.99")
