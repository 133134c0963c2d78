"""Files of rows: each value is taken or refused as a tuple with it would be."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from tests.pace import slack

import viewlet
from viewlet.errors import DataError, RangeError, ViewletError
from viewlet.interfaces.database import Database
from viewlet.interfaces.files import read_file
from viewlet.schema import DATE, DECIMAL, INTEGER, Column, Relation

INF = float("inf")
REFUSED = "refused"


@pytest.fixture(params=["local", "interpreter"])
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with viewlet.connect(request.param) as database:
        yield database


def value(db: Database) -> Any:
    """The last value of the only column."""
    return db.query("SELECT * FROM t").to_pydict()["c"][-1]


TEXTS = [
    ("INT", "2", 2),
    ("INT", "+2", 2),
    ("INT", " -2 ", -2),
    ("INT", "2.0", 2),
    ("INT", "1e2", 100),
    ("INT", "2.5", REFUSED),
    ("INT", "0x1f", REFUSED),
    ("INT", "1_000", REFUSED),
    ("INT", "\u0663", REFUSED),
    ("INT", "2147483648", REFUSED),
    ("INT", "1e999999999", REFUSED),
    ("INT", "true", REFUSED),
    ("SMALLINT", "40000", REFUSED),
    ("BIGINT", "9223372036854775807", 2**63 - 1),
    ("BIGINT", "9223372036854775808", REFUSED),
    ("DOUBLE", "1.5e3", 1500.0),
    ("DOUBLE", "-Infinity", -INF),
    ("DOUBLE", "1e400", REFUSED),
    ("DOUBLE", "0x1p3", REFUSED),
    ("DOUBLE", "nan(1)", REFUSED),
    ("DOUBLE", "1_0", REFUSED),
    ("DECIMAL(12,2)", "0.125", Decimal("0.13")),
    ("DECIMAL(12,2)", "-1.0049999999999999999999", Decimal("-1.00")),
    ("DECIMAL(18,2)", "1234567890123456.78", Decimal("1234567890123456.78")),
    ("DECIMAL(12,2)", "12345678901.00", REFUSED),
    ("DECIMAL(12,2)", "1x", REFUSED),
    ("DECIMAL(12,2)", "nan", REFUSED),
    ("DATE", "2020-01-02", dt.date(2020, 1, 2)),
    ("DATE", "2020-01-02x", REFUSED),
    ("DATE", "2020-02-30", REFUSED),
    ("DATE", "2020-01-02 10:00:00", REFUSED),
    ("DATE", "0000-01-01", REFUSED),
    ("DATE", "10000-01-01", REFUSED),
    ("DATE", "infinity", REFUSED),
    ("TIMESTAMP", "2020-01-02 03:04:05", dt.datetime(2020, 1, 2, 3, 4, 5)),
    ("TIMESTAMP", "2020-01-02 03:04:05+02:00", dt.datetime(2020, 1, 2, 1, 4, 5)),
    ("TIMESTAMP", "2020-01-02T03:04:05Z", dt.datetime(2020, 1, 2, 3, 4, 5)),
    ("TIMESTAMP", "2020-01-02 03:04:05 Europe/Paris", REFUSED),
    ("TIMESTAMP", "2020-01-02 25:00:00", REFUSED),
    ("TIMESTAMP(0)", "1999-12-31 23:59:58.5", dt.datetime(1999, 12, 31, 23, 59, 58)),
    ("BOOLEAN", "yes", True),
    ("BOOLEAN", "0", False),
    ("BOOLEAN", "2", REFUSED),
    ("VARCHAR", "2.50", "2.50"),
    ("VARCHAR(3)", "abcd", REFUSED),
]


@pytest.mark.parametrize(("type", "text", "expected"), TEXTS)
@pytest.mark.parametrize("header", [True, False])
def test_text_of_csv(
    db: Database, tmp_path: Path, type: str, text: str, expected: Any, header: bool
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f'c,d\n"{text}",1\n' if header else f'"{text}",1\n')
    db.execute(f"CREATE TABLE t (c {type}, d INT)")
    if expected is REFUSED:
        with pytest.raises(DataError, match=r"row 1 for t: column c"):
            db.execute(f"COPY t FROM '{path}'")
        assert db.query("SELECT * FROM t").num_rows == 0
    else:
        db.execute(f"COPY t FROM '{path}'")
        assert value(db) == expected


@pytest.mark.parametrize(
    ("type", "text", "expected"),
    [text for text in TEXTS if text[0].startswith(("DECIMAL", "DATE", "TIME", "VARCHAR"))],
)
def test_text_of_tuples_is_taken_alike(db: Database, type: str, text: str, expected: Any) -> None:
    db.execute(f"CREATE TABLE t (c {type})")
    if expected is REFUSED:
        with pytest.raises(DataError):
            db.insert("t", [(text,)])
    else:
        db.insert("t", [(text,)])
        assert value(db) == expected


def test_the_row_of_a_long_file(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{i},2020-01-02,{i}.25" for i in range(300_000)]
    db.execute("CREATE TABLE t (a INT, b DATE, c DECIMAL(12,1))")
    for broken, column in (("250000,2020-01-02x,1", "b"), ("2.5,2020-01-02,1", "a")):
        path.write_text("\n".join(["a,b,c", *lines[:250_000], broken, *lines[250_001:]]) + "\n")
        with pytest.raises(DataError, match=f"row 250001 for t: column {column} is"):
            db.execute(f"COPY t FROM '{path}'")
    path.write_text("\n".join(["a,b,c", *lines]) + "\n")
    columns = Column("a", INTEGER), Column("b", DATE), Column("c", DECIMAL(12, 1))
    start = time.process_time()
    read_file(str(path), "csv", Relation("t", columns))
    assert time.process_time() - start < 1.5 * slack()
    db.execute(f"COPY t FROM '{path}'")
    assert db.query("SELECT COUNT(*) AS n, SUM(c) AS s FROM t").to_pylist() == [
        {"n": 300_000, "s": sum(Decimal(i) + Decimal("0.3") for i in range(300_000))}
    ]


def test_no_null_where_none_may_be(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("c,d\n1,1\n,2\n")
    db.execute("CREATE TABLE t (c INT NOT NULL, d INT)")
    with pytest.raises(DataError, match="row 2 for t: NULL in column c"):
        db.execute(f"COPY t FROM '{path}'")


JSON = [
    ("INT", "2"),
    ("INT", "2.0"),
    ("INT", "2.5"),
    ("INT", '"2"'),
    ("INT", "true"),
    ("INT", "2147483648"),
    ("INT", "[1]"),
    ("BIGINT", "9223372036854775808"),
    ("DOUBLE", "2"),
    ("DOUBLE", "1e400"),
    ("DOUBLE", '"2"'),
    ("DECIMAL(18,2)", "1234567890123456.78"),
    ("DECIMAL(12,2)", "1.0049999999999999999"),
    ("DECIMAL(12,2)", '"0.125"'),
    ("DECIMAL(12,2)", '"1x"'),
    ("DATE", '"2020-01-02"'),
    ("DATE", '"2020-01-02x"'),
    ("DATE", "5"),
    ("TIMESTAMP", '"2020-01-02 03:04:05+02:00"'),
    ("TIMESTAMP", '"2020-01-02 03:04:05"'),
    ("TIMESTAMP", "1577934245"),
    ("BOOLEAN", "true"),
    ("BOOLEAN", '"true"'),
    ("BOOLEAN", "1"),
    ("VARCHAR", '"a\\n\\"b"'),
    ("VARCHAR", "5"),
    ("VARCHAR", "null"),
    ("VARCHAR", '"\\ud800"'),
    ("VARCHAR(3)", '"abcd"'),
]


@pytest.mark.parametrize(("type", "text"), JSON)
@pytest.mark.parametrize("form", ['{"c": %s}\n', '[{"c": %s}]', '{\n"c": %s\n}\n'])
def test_json_is_taken_as_tuples_are(
    db: Database, tmp_path: Path, type: str, text: str, form: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(form % text)
    db.execute(f"CREATE TABLE t (c {type})")
    given = json.loads(text, parse_float=decimal.Decimal)
    try:
        db.insert("t", [(given,)])
    except DataError:
        with pytest.raises(DataError, match="row 1 for t: column c"):
            db.execute(f"COPY t FROM '{path}'")
        assert db.query("SELECT * FROM t").num_rows == 0
    else:
        db.execute(f"COPY t FROM '{path}'")
        first, second = db.query("SELECT * FROM t").to_pydict()["c"]
        assert first == second


def test_options_of_copy(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1;x\n")
    db.execute("CREATE TABLE options (c INT, s VARCHAR)")
    for header in ("HEADER false", "HEADER FALSE", "HEADER 'off'", "NULL '-'"):
        db.execute(f"COPY options FROM '{path}' ({header}, DELIMITER ';')")
    assert db.query("SELECT COUNT(*) AS n FROM options").to_pylist() == [{"n": 4}]
    for option in ("DELIMITER ''", "NULL NULL", "DELIMITER NULL", "HEADER NULL"):
        with pytest.raises(ViewletError):
            db.execute(f"COPY options FROM '{path}' ({option})")


def test_json_files_of_many_forms(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (c INT, d DATE)")
    (tmp_path / "1.json").write_text('{"c": 1, "d": "2020-01-02"}\n\n{"d": null}\n')
    (tmp_path / "2.json").write_text('[{"c": 2.0}]\n{"c": 3}')
    (tmp_path / "3.json").write_text("")
    db.execute(f"COPY t FROM '{tmp_path}/*.json' (FORMAT json)")
    (tmp_path / "4.json.gz").write_bytes(gzip.compress(b'{"c": 4}\n'))
    db.execute(f"COPY t FROM '{tmp_path}/4.json.gz' (FORMAT json)")
    assert sorted(db.query("SELECT c FROM t WHERE c IS NOT NULL")["c"].to_pylist()) == [1, 2, 3, 4]
    assert db.query("SELECT * FROM t").num_rows == 5
    with pytest.raises(DataError, match="t has no column C"):
        (tmp_path / "5.json").write_text('{"C": 1}\n')
        db.execute(f"COPY t FROM '{tmp_path}/5.json'")
    with pytest.raises(DataError, match="t has no column x"):
        (tmp_path / "5.json").write_text('[{"c": 1, "x": [{}]}]')
        db.execute(f"COPY t FROM '{tmp_path}/5.json'")
    with pytest.raises(RangeError, match=r"row 1 for t: column c: .* out of range"):
        (tmp_path / "5.json").write_text('{"c": 1' + 5000 * "0" + "}")
        db.execute(f"COPY t FROM '{tmp_path}/5.json'")
    for text in (
        '{"c": 1, "c": 2}',
        "{",
        "5",
        "null",
        '{"c": 1} null',
        '[{"c": 1}',
        '{"c": 1} x',
        "[" * 100_000,
    ):
        (tmp_path / "5.json").write_text(text)
        with pytest.raises(DataError):
            db.execute(f"COPY t FROM '{tmp_path}/5.json' (FORMAT json)")
    with pytest.raises(ViewletError):
        db.execute(f"COPY t FROM '{tmp_path}/none*.json' (FORMAT json)")


@pytest.mark.parametrize(
    ("type", "values"),
    [
        ("INT", ["5"]),
        ("INT", [2.5]),
        ("DATE", ["2020-01-02x"]),
        ("VARCHAR", [5]),
        ("BOOLEAN", [1]),
        ("DATE", [dt.datetime(2020, 1, 2, 3)]),
    ],
)
def test_parquet_is_taken_as_tuples_are(
    db: Database, tmp_path: Path, type: str, values: list[Any]
) -> None:
    pyarrow.parquet.write_table(pa.table({"c": values}), tmp_path / "t.parquet")
    db.execute(f"CREATE TABLE t (c {type})")
    with pytest.raises(DataError, match=r"row 1 for t: column c"):
        db.execute(f"COPY t FROM '{tmp_path}/t.parquet'")


def test_an_empty_file_has_no_rows(db: Database, tmp_path: Path) -> None:
    db.execute("CREATE TABLE t (c INT NOT NULL, s VARCHAR)")
    for name in ("t.csv", "t.tbl", "t.json"):
        (tmp_path / name).write_text("")
        assert db.execute(f"COPY t FROM '{tmp_path}/{name}'") == 0
    assert db.query("SELECT * FROM t").num_rows == 0


def test_a_number_out_of_range_says_so(db: Database, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("c\n1\n99999999999\n")
    db.execute("CREATE TABLE t (c INT)")
    with pytest.raises(RangeError, match=r"row 2 for t: column c: .*out of range for INTEGER"):
        db.execute(f"COPY t FROM '{tmp_path}/t.csv'")


CSV_LINES = [
    ("k,s\n1,a\n2\n3,c\n", r"line 3 has 1 field, and not 2 \(k, s\)"),
    ("k,s\n1,a\n2,b,c\n", r"line 3 has 3 fields, and not 2 \(k, s\)"),
    ("1,a\n2\n", r"line 2 has 1 field, and not 2 \(k, s\)"),
    ("1,a,9\n2,b,9\n", r"line 1 has 3 fields, and not 2 \(k, s\)"),
    ('k,s\n1,"a\n2,b\n', r"line 2, with the fields 2 \(k, s\): a quote is not closed"),
    ('1,"a\n\n2,b\n', r"line 1, with the fields 2 \(k, s\): a quote is not closed"),
    ('1,a\n2,"b', r"line 2, with the fields 2 \(k, s\): a quote is not closed"),
    ('1,"a"b\n', r"line 1, .* text follows the closing one"),
    ("k,s,k\n1,a,2\n", r"the header has a name twice: k, s, k"),
    ("k,x\n1,a\n", r"t has no column x"),
    ('k,s\n"",a\n', r"row 1 for t: column k is INTEGER, and '' is not"),
]


@pytest.mark.parametrize(("text", "message"), CSV_LINES)
def test_broken_lines_of_csv(db: Database, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    db.execute("CREATE TABLE t (k INT, s VARCHAR)")
    with pytest.raises(DataError, match=message):
        db.execute(f"COPY t FROM '{path}'")
    assert db.query("SELECT * FROM t").num_rows == 0


def test_an_empty_field_in_quotes_is_an_empty_string(db: Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    db.execute("CREATE TABLE t (k INT, s VARCHAR)")
    lines = '1,""\r\n2,\r\n,"a""b\n, c"\r\n'
    for text in (lines, "k,s\r\n" + lines, '\ufeff"k",s\r\n' + lines):
        path.write_bytes(text.encode())
        db.execute(f"DELETE FROM t; COPY t FROM '{path}'")
        rows = [tuple(row.values()) for row in db.query("SELECT * FROM t").to_pylist()]
        assert sorted(rows, key=repr) == [(1, ""), (2, None), (None, 'a"b\n, c')]
    path.write_text('1,-\n2,"-"\n3,\n')
    db.execute(f"DELETE FROM t; COPY t FROM '{path}' (NULL '-')")
    rows = [tuple(row.values()) for row in db.query("SELECT * FROM t ORDER BY k").to_pylist()]
    assert rows == [(1, None), (2, "-"), (3, "")]
