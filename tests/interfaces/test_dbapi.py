"""PEP 249 over a database: rows, transactions, errors; and SQLAlchemy on top of it."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa

import viewlet
from viewlet import dbapi

SCHEMA = """
CREATE TABLE sales (id INT PRIMARY KEY, shop VARCHAR, price DECIMAL(12,2), day DATE);
CREATE MATERIALIZED VIEW totals AS SELECT shop, SUM(price) AS total FROM sales GROUP BY shop;
"""


@pytest.fixture
def connection() -> Iterator[dbapi.Connection]:
    with viewlet.connect("interpreter") as database:
        database.execute(SCHEMA)
        yield dbapi.connect(database=database)


def test_rows_as_python_has_them(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    day = dbapi.Date(2024, 2, 29)
    cursor.execute("INSERT INTO sales VALUES (?, ?, ?, ?)", [1, "north", Decimal("9.50"), day])
    assert cursor.rowcount == 1
    assert cursor.description is None
    connection.commit()
    cursor.execute("SELECT * FROM sales WHERE shop = :shop", {"shop": "north"})
    assert cursor.fetchall() == [(1, "north", Decimal("9.50"), dt.date(2024, 2, 29))]
    assert cursor.fetchone() is None
    assert cursor.description is not None
    kinds = [dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME]
    assert [column[0] for column in cursor.description] == ["id", "shop", "price", "day"]
    assert [column[1] == kind for column, kind in zip(cursor.description, kinds, strict=True)] == [
        True
    ] * 4
    assert list(cursor.execute("SELECT total FROM totals")) == [(Decimal("9.50"),)]


def test_pages_of_rows(connection: dbapi.Connection) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO sales (id) VALUES (?)", [[n] for n in range(5)])
        assert cursor.rowcount == 5
        connection.commit()
        cursor.execute("SELECT id FROM sales ORDER BY id")
        assert cursor.fetchmany(2) == [(0,), (1,)]
        assert cursor.fetchmany() == [(2,)]
        assert cursor.fetchall() == [(3,), (4,)]
    with pytest.raises(dbapi.InterfaceError, match="closed"):
        cursor.execute("SELECT 1")


def test_a_transaction_is_one_batch(connection: dbapi.Connection) -> None:
    database = connection.database
    seen: list[viewlet.ViewBatch] = []
    database.subscribe("totals", seen.append)
    connection.execute("INSERT INTO sales VALUES (1, 'a', 1, NULL)")
    connection.execute("INSERT INTO sales VALUES (2, 'a', 2, NULL)")
    others: list[int] = []
    reader = threading.Thread(target=lambda: others.append(len(database.view("totals"))))
    reader.start()
    reader.join()
    assert (others, seen) == ([0], [])
    connection.commit()
    assert [row.total for batch in seen for row in batch.inserted] == [Decimal(3)]
    connection.execute("DELETE FROM sales")
    connection.rollback()
    assert len(connection.execute("SELECT * FROM sales").fetchall()) == 2
    with pytest.raises(ZeroDivisionError), connection:
        connection.execute("DELETE FROM sales")
        raise ZeroDivisionError
    assert len(connection.execute("SELECT * FROM sales").fetchall()) == 2


def test_every_statement_is_a_batch_with_autocommit(connection: dbapi.Connection) -> None:
    own = dbapi.connect(database=connection.database, autocommit=True)
    own.execute("INSERT INTO sales VALUES (1, 'a', 1, NULL)")
    assert connection.execute("SELECT total FROM totals").fetchone() == (Decimal(1),)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT * FROM nothing", dbapi.ProgrammingError),
        ("INSERT INTO sales (id) VALUES (1), (1)", dbapi.IntegrityError),
        ("INSERT INTO sales (id) VALUES (99999999999)", dbapi.DataError),
        ("CREATE TABLE t (a GEOMETRY)", dbapi.Error),
    ],
)
def test_errors_are_of_their_kind(
    connection: dbapi.Connection, sql: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        connection.execute(sql)
        connection.commit()
    connection.rollback()
    assert connection.execute("SELECT * FROM sales").fetchall() == []


def test_a_database_on_disk(tmp_path: Path) -> None:
    with dbapi.connect(tmp_path / "shop.viewlet", engine="interpreter") as connection:
        connection.execute(SCHEMA)
        connection.execute("INSERT INTO sales (id, shop) VALUES (1, 'a')")
        connection.commit()
        connection.execute("INSERT INTO sales (id, shop) VALUES (2, 'b')")
        connection.rollback()
    connection.close()
    with pytest.raises(dbapi.InterfaceError):
        connection.cursor()
    again = dbapi.connect(tmp_path / "shop.viewlet", engine="interpreter")
    assert again.execute("SELECT shop FROM totals").fetchall() == [("a",)]
    again.close()


def test_sqlalchemy_reads_writes_and_reflects(connection: dbapi.Connection) -> None:
    sa.dialects.registry.register("viewlet", "viewlet.dbapi.alchemy", "AlchemyDialect")
    database = connection.database
    engine = sa.create_engine("viewlet://", creator=lambda: dbapi.connect(database=database))
    sales = sa.Table("sales", sa.MetaData(), autoload_with=engine)
    assert [(c.name, str(c.type)) for c in sales.columns][2] == ("price", "DECIMAL(12, 2)")
    assert [c.name for c in sales.primary_key] == ["id"]
    with engine.begin() as session:
        rows = [{"id": 1, "shop": "a", "price": 2}, {"id": 2, "shop": None, "price": None}]
        session.execute(sa.insert(sales), rows)
        session.execute(sa.insert(sales).values(id=3, shop="it's", price=Decimal("0.5")))
    with engine.connect() as session:
        session.execute(sa.delete(sales))
        session.rollback()
        query = sa.select(sales.c.shop).where(sales.c.price > 1).order_by(sales.c.id).limit(5)
        assert session.execute(query).scalars().all() == ["a"]
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["sales"]
    assert inspector.get_view_names() == ["totals"]
    assert inspector.has_table("totals")
    assert "SUM(price)" in (inspector.get_view_definition("totals") or "")
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("nothing", sa.MetaData(), autoload_with=engine)
    with pytest.raises(sa.exc.IntegrityError), engine.begin() as session:
        session.execute(sa.insert(sales), [{"id": 1}])
    engine.dispose()


def test_threads_of_an_engine_share_a_database_on_disk(tmp_path: Path) -> None:
    sa.dialects.registry.register("viewlet", "viewlet.dbapi.alchemy", "AlchemyDialect")
    url = f"viewlet:///{tmp_path / 'shop.viewlet'}?synchronous=off"
    for attempt in range(2):
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE IF NOT EXISTS r (a INT UNIQUE)"))
            connection.execute(sa.text("INSERT INTO r VALUES (:a)"), {"a": attempt})
        errors: list[Exception] = []

        def work(number: int, engine: sa.Engine = engine, errors: list[Exception] = errors) -> None:
            try:
                with engine.begin() as connection:
                    connection.execute(sa.text("INSERT INTO r VALUES (:a)"), {"a": number})
                    connection.execute(sa.text("DELETE FROM r WHERE a = :a"), {"a": number})
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(100 + n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sa.inspect(engine).get_unique_constraints("r") == []
        engine.dispose()
    with viewlet.connect(tmp_path / "shop.viewlet") as database:
        assert database.query("SELECT COUNT(*) AS n FROM r").to_pylist() == [{"n": 2}]
