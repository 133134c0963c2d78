"""The queries of other clients, word for word, and what drivers need beside them."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import struct
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

import viewlet
from tests.server.running import SHOP, Serving, serving
from viewlet.errors import ViewletError
from viewlet.frontend.catalog_text import statement_texts
from viewlet.frontend.parameter_types import parameter_types
from viewlet.server.pg_copy_options import CopyFormat, copy_format
from viewlet.server.pg_parameters import literal
from viewlet.server.pg_types import ARRAYS, INT4, NUMERIC, TEXT, TIMESTAMPTZ, binary_value

QUERIES = Path(__file__).parent / "queries"
TEXTS = {
    f"{file.stem}-{number}": text.strip()
    for file in sorted(QUERIES.glob("*.sql"))
    for number, text in enumerate(statement_texts(file.read_text()))
}


@pytest.fixture(scope="module")
def shop() -> Iterator[Serving]:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        database.insert(
            "sales",
            {
                "id": [1], "shop": ["north"], "price": ["9.50"], "paid": [True],
                "moment": [dt.datetime(2024, 1, 2, 3, 4, 5)], "weight": [1.5], "day": [None],
            },
        )  # fmt: skip
        with serving(database) as served:
            yield served


def connect(served: Serving) -> psycopg.Connection:
    place = f"host=127.0.0.1 port={served.pg_port} user=viewlet dbname=viewlet"
    return psycopg.connect(place, autocommit=True)


@pytest.mark.parametrize("name", TEXTS)
def test_queries_of_other_clients(shop: Serving, name: str) -> None:
    """As a simple query, and prepared with an answer in binary."""
    text = TEXTS[name].encode()
    with connect(shop) as connection:
        simple = connection.pgconn.exec_(text)
        assert simple.error_message == b"", name
        prepared = connection.pgconn.prepare(b"p", text)
        assert prepared.error_message == b"", name
        result = connection.pgconn.exec_prepared(b"p", [], result_format=1)
        assert result.error_message == b"", name
        assert (result.nfields, result.ntuples) == (simple.nfields, simple.ntuples)


def test_what_clients_find(shop: Serving) -> None:
    with connect(shop) as connection:

        def rows(name: str) -> list[tuple[Any, ...]]:
            return connection.execute(sql.SQL(TEXTS[name])).fetchall()  # type: ignore[arg-type]

        assert {row[0] for row in rows("grafana-2")} == {"sales", "clicks", "totals", "heavy"}
        assert ("price", "numeric") in rows("grafana-3")
        assert rows("grafana-5") == [(Decimal(1704164640), 1.5)] or rows("grafana-5")[0][1] == 1.5
        assert {row[2] for row in rows("jdbc-2")} >= {"sales", "totals"}
        columns = next(name for name, text in TEXTS.items() if "a.atttypid,a.attnotnull" in text)
        assert [row[3] for row in rows(columns)][:3] == ["id", "shop", "price"]
        definition = connection.execute("SELECT definition FROM pg_matviews").fetchall()
        assert any("SUM(price)" in text for (text,) in definition)


RELATIONS = {
    "sales": {"id": "INTEGER", "shop": "VARCHAR", "price": "DECIMAL(12,2)", "day": "DATE"},
    "clicks": {"shop": "VARCHAR", "n": "BIGINT"},
}


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("SELECT 1 FROM sales WHERE id = $1 AND shop LIKE $2", ["INTEGER", "VARCHAR"]),
        ("SELECT 1 FROM sales s WHERE s.price BETWEEN $2 AND $1", ["DECIMAL", "DECIMAL"]),
        ("INSERT INTO sales (shop, id) VALUES ($1, $2), ($3, $4)", ["VARCHAR", "INTEGER"] * 2),
        ("INSERT INTO clicks SELECT $1, $2", ["VARCHAR", "BIGINT"]),
        ("UPDATE sales SET day = $1, price = price + $2", ["DATE", "DECIMAL"]),
        ("SELECT 1 FROM sales WHERE id = ANY($1) LIMIT $2", ["INTEGER[]", "BIGINT"]),
        ("SELECT $1::date, $2", ["DATE", None]),
        ("SELECT oid FROM pg_type WHERE oid = any($1::oid[])", ["OID[]"]),
        ("SELECT 1 FROM sales HAVING COUNT(*) > $1 AND SUM(id) < $2", ["BIGINT"] * 2),
        ("SELECT 1 FROM sales WHERE (id, shop) IN (($1, $2))", ["INTEGER", "VARCHAR"]),
        ("SELECT x FROM (SELECT n + 1 AS x FROM clicks) q WHERE x = $1", ["BIGINT"]),
        ("SELECT $1 +", [None]),
    ],
)  # fmt: skip
def test_types_of_parameters(text: str, types: list[str | None]) -> None:
    assert parameter_types(text, RELATIONS) == types


def test_arrays_as_parameters(shop: Serving) -> None:
    with connect(shop) as connection:
        for values in ([1, 7], [], [7], [None, 1]):
            query = "SELECT id FROM sales WHERE id = ANY(%s)"
            assert connection.execute(query, (values,)).fetchall() == [(1,)] * (1 in values)
        names = ["north", 'a "b\\', "NULL", "x,y"]
        query = "SELECT shop FROM sales WHERE shop = ANY(%b)"
        assert connection.execute(query, (names,)).fetchall() == [("north",)]
    content = binary_value(names, ARRAYS[TEXT])
    assert content is not None
    expected = "ARRAY['north', 'a \"b\\', 'NULL', 'x,y']"
    assert literal(content, ARRAYS[TEXT], 1) == expected
    assert literal(b'{north,"a \\"b\\\\","NULL","x,y"}', ARRAYS[TEXT], 0) == expected


@pytest.mark.parametrize(
    ("content", "oid", "format"),
    [
        (struct.pack("!iii", 2, 0, INT4), ARRAYS[INT4], 1),
        (struct.pack("!iiIii", 1, 0, INT4, 10**9, 1), ARRAYS[INT4], 1),
        (struct.pack("!iiIiii", 1, 0, INT4, 1, 1, -9), ARRAYS[INT4], 1),
        (b"", ARRAYS[INT4], 1),
        (b"1,2", ARRAYS[INT4], 0),
        (b"{1,x}", ARRAYS[INT4], 0),
        (b'{"a', ARRAYS[TEXT], 0),
        (struct.pack("!hhHHh", 1, 32767, 0, 2, 1), NUMERIC, 1),
        (struct.pack("!q", 2**63 - 1), TIMESTAMPTZ, 1),
    ],
)
def test_parameters_that_are_none(content: bytes, oid: int, format: int) -> None:
    with pytest.raises(ViewletError):
        literal(content, oid, format)


def test_zones_of_drivers(shop: Serving) -> None:
    """JDBC writes a zone behind dates and times whose columns it does not know."""
    with connect(shop) as connection:
        run = connection.pgconn.exec_params
        insert = b"INSERT INTO sales (id, shop, day, moment) VALUES ($1, 'z', $2, $3)"
        values = [b"700", b"2024-02-03 +00", b"2024-02-03 04:05:06.5+02"]
        assert run(insert, values).error_message == b""
        aware = dt.datetime(2024, 2, 3, 4, tzinfo=dt.timezone(dt.timedelta(hours=2)))
        query = "SELECT day, moment, %s::timestamp FROM sales WHERE id = 700"
        assert connection.execute(query, (aware,)).fetchone() == (
            dt.date(2024, 2, 3),
            dt.datetime(2024, 2, 3, 4, 5, 6, 500_000),
            dt.datetime(2024, 2, 3, 2),
        )
        connection.execute("DELETE FROM sales WHERE id = 700")


@pytest.mark.parametrize("format", ["text", "csv", "binary"])
def test_copy_there_and_back(format: str) -> None:
    """What COPY TO writes in a format, COPY FROM reads as the same rows."""
    rows = [
        (1, "", Decimal("-0.05"), dt.date(1969, 12, 31), dt.datetime(1960, 1, 2, 3, 4, 5, 6)),
        (2, 'a,"b"\n\\.\t', None, None, None),
        (3, "\\N", Decimal("9999999999.99"), dt.date(9999, 12, 31), dt.datetime(1, 1, 1)),
        (4, "NULL", Decimal(0), dt.date(1, 1, 1), dt.datetime(2000, 1, 1)),
        (5, "é\r", Decimal("1234.5"), None, None),
    ]
    columns = "(id, shop, price, day, moment)"
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(database) as served, connect(served) as connection:
            connection.cursor().executemany(
                f"INSERT INTO sales {columns} VALUES (%s, %s, %s, %s, %s)",  # type: ignore[arg-type]
                rows,
            )
            with connection.cursor().copy(
                f"COPY sales {columns} TO STDOUT (FORMAT {format})"
            ) as out:
                content = b"".join(bytes(part) for part in out)
            connection.execute("DELETE FROM sales")
            text = f"COPY public.sales {columns} FROM STDIN WITH (FORMAT {format})"
            with connection.cursor().copy(text) as copy:  # type: ignore[arg-type]
                copy.write(content)
            query = f"SELECT {columns[1:-1]} FROM sales ORDER BY id"
            assert connection.execute(query).fetchall() == rows  # type: ignore[arg-type]
            broken = pytest.raises((errors.DataException, errors.SyntaxError))
            if format != "text":
                with broken, connection.cursor().copy(text) as copy:  # type: ignore[arg-type]
                    copy.write(content[: len(content) // 2] + b'"x')


def test_csv_as_it_is_asked_for(shop: Serving) -> None:
    with connect(shop) as connection:
        query = "SELECT id, shop, day FROM sales"
        text = f"COPY ({query}) TO STDOUT WITH CSV HEADER DELIMITER ';' NULL '-'"
        with connection.cursor().copy(text) as copy:  # type: ignore[arg-type]
            assert b"".join(map(bytes, copy)) == b"id;shop;day\n1;north;-\n"
        with pytest.raises(errors.FeatureNotSupported, match="FREEZE"):
            connection.cursor().copy("COPY sales FROM STDIN (FREEZE)").__enter__()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", CopyFormat()),
        ("WITH (FORMAT csv, HEADER true)", CopyFormat("csv", ",", "", has_header=True)),
        ("CSV HEADER", CopyFormat("csv", ",", "", has_header=True)),
        ("(FORMAT 'csv', HEADER false, NULL 'csv')", CopyFormat("csv", ",", "csv")),
        ("WITH DELIMITER AS E'\\t' NULL AS ''", CopyFormat(null="")),
        ("BINARY", CopyFormat("binary")),
    ],
)
def test_options_of_copy(text: str, expected: CopyFormat) -> None:
    assert copy_format(text) == expected


def test_columns_of_a_stream(shop: Serving) -> None:
    """asyncpg and ADBC ask for them before they send rows, though a stream keeps none."""
    with connect(shop) as connection:
        for text in (b'SELECT "shop", "n" FROM "public"."clicks"', b"SELECT * FROM clicks LIMIT 1"):
            connection.pgconn.prepare(b"", text)
            connection.pgconn.send_describe_prepared(b"")
            while connection.pgconn.is_busy():  # to wait inside of libpq would hold the server up
                time.sleep(0.01)
                connection.pgconn.consume_input()
            described = connection.pgconn.get_result()
            assert described is not None
            assert connection.pgconn.get_result() is None
            assert [described.fname(at) for at in range(2)] == [b"shop", b"n"]
            assert [described.ftype(at) for at in range(2)] == [25, 20]


def test_asyncpg(shop: Serving) -> None:
    asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")

    async def run() -> None:
        connection = await asyncpg.connect(
            host="127.0.0.1", port=shop.pg_port, user="viewlet", database="viewlet"
        )
        row = (50, "x", Decimal("1.50"), dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 2), 0.5, True)
        insert = (
            "INSERT INTO sales (id, shop, price, day, moment, weight, paid) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7)"
        )
        assert await connection.execute(insert, *row) == "INSERT 0 1"
        assert tuple(await connection.fetchrow("SELECT * FROM sales WHERE id = $1", 50)) == row
        found = await connection.fetch("SELECT id FROM sales WHERE id = ANY($1)", [50, 51])
        assert [record["id"] for record in found] == [50]
        copied = await connection.copy_records_to_table("clicks", records=[("a", 1), ("b", None)])
        assert copied == "COPY 2"
        sink = io.BytesIO()
        await connection.copy_from_query("SELECT 1 AS a", output=sink, format="csv", header=True)
        assert sink.getvalue() == b"a\n1\n"
        async with connection.transaction():
            assert [
                r["id"] async for r in connection.cursor("SELECT id FROM sales ORDER BY 1")
            ] == [1, 50]
        await connection.execute("DELETE FROM sales WHERE id = $1", 50)
        await connection.close()

    asyncio.run(run())


def test_adbc(shop: Serving) -> None:
    """Arrow over the wire: ADBC's driver reads COPY's binary format."""
    adbc = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="ADBC is not installed")
    place = f"postgresql://viewlet@127.0.0.1:{shop.pg_port}/viewlet"
    with adbc.connect(place) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, shop, weight FROM sales")
        table = cursor.fetch_arrow_table()
        assert table.to_pylist() == [{"id": 1, "shop": "north", "weight": 1.5}]
        cursor.adbc_ingest("clicks", table.select(["shop"]), mode="append")
        connection.commit()
        assert connection.adbc_get_table_schema("totals").names == ["shop", "total", "n"]


def test_statements_are_logged(shop: Serving, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="viewlet.server"), connect(shop) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(errors.UndefinedTable):
            connection.execute("SELECT * FROM nowhere")
    lines = [json.loads(record.getMessage()) for record in caplog.records]
    logged = [(line["request"], line["status"]) for line in lines if line["protocol"] == "pg"]
    assert logged == [("SELECT", "ok"), ("SELECT", "42P01")]
