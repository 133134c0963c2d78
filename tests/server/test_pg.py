"""The PostgreSQL wire as its clients use it: psql, psycopg, SQLAlchemy, Grafana's queries."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from psycopg import errors, sql
from sqlalchemy import MetaData, create_engine, inspect

import viewlet
from tests.pace import slack
from tests.server.running import SHOP, Serving, serving
from viewlet.frontend.catalog_text import parameters_of, with_parameters, without_public


@pytest.fixture
def shop() -> Iterator[Serving]:
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        database.insert("sales", [{"id": 1, "shop": "north", "price": "9.50", "paid": True}])
        with serving(database) as served:
            yield served


def connect(served: Serving, **options: object) -> psycopg.Connection:
    place = f"host=127.0.0.1 port={served.pg_port} user=viewlet dbname=viewlet"
    return psycopg.connect(place, **options)  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql(shop: Serving) -> None:
    def psql(*commands: str) -> str:
        arguments = ["psql", "-X", "-h", "127.0.0.1", "-p", str(shop.pg_port), "-U", "viewlet"]
        for command in commands:
            arguments += ["-c", command]
        run = subprocess.run([*arguments, "viewlet"], capture_output=True, text=True, timeout=60)
        return run.stdout + run.stderr

    assert "public | clicks | table" in psql("\\dt")
    assert "public | totals | materialized view" in psql("\\d")
    described = psql("\\d sales")
    assert "price  | numeric(12,2)" in described
    assert "not null" in described
    assert "total  | numeric(38,2)" in psql("\\d totals")
    assert "viewlet" in psql("\\l")
    assert "north |  9.50 | 1" in psql("SELECT * FROM totals")
    assert "INSERT 0 1" in psql("INSERT INTO sales (id, shop, price) VALUES ('2', 'x', '1')")
    wrong = psql("SELECT 1;\nSELECT * FROM total")
    assert "there is no table or view total" in wrong
    wrong = psql("CREATE VIEW w AS\nSELECT nope FROM sales")
    assert "LINE 2: SELECT nope" in wrong


def test_psycopg_reads_and_writes(shop: Serving) -> None:
    row = (7, "o'x $1", Decimal("-0.05"), dt.date(1999, 12, 31), dt.datetime(2024, 2, 29, 1, 2, 3))
    with connect(shop, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO sales (id, shop, price, day, moment, weight, paid) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (*row, 0.1, True),
        )
        query = "SELECT * FROM sales WHERE id = %s"
        for is_binary in (False, True):
            with connection.cursor(binary=is_binary) as cursor:
                for _ in range(8):  # after five times it is prepared
                    found = cursor.execute(query, (7,)).fetchone()
                    assert found == (*row, 0.1, True)
                assert cursor.execute(query, (8,)).fetchall() == []
        with connection.cursor(binary=True) as cursor:
            numbers = (
                "SELECT 12345678.9012::DECIMAL(20,4) AS a, 0::DECIMAL(5,2) AS b, -3::BIGINT AS c"
            )
            found = cursor.execute(numbers).fetchone()
            assert found == (Decimal("12345678.9012"), Decimal("0.00"), -3)
        assert connection.execute("UPDATE sales SET paid = false WHERE id = 7").rowcount == 1
        assert connection.execute("DELETE FROM sales WHERE id = 7").rowcount == 1


def test_transactions_are_one_batch(shop: Serving) -> None:
    seen: list[int] = []
    shop.database.subscribe("totals", lambda batch: seen.append(len(batch.inserted)))
    with connect(shop) as connection:
        for number in range(5):
            connection.execute("INSERT INTO sales (id, shop) VALUES (%s, 'a')", (10 + number,))
        with pytest.raises(errors.FeatureNotSupported, match="COMMIT first"):
            connection.execute("SELECT * FROM totals")
        with pytest.raises(errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert seen == []
        for number in range(5):
            connection.execute("INSERT INTO sales (id, shop) VALUES (%s, 'a')", (10 + number,))
        with connection.transaction(force_rollback=True):
            connection.execute("INSERT INTO sales (id, shop) VALUES (99, 'gone')")
        connection.commit()
        assert seen == [1]
        assert connection.execute("SELECT n FROM totals WHERE shop = 'a'").fetchone() == (5,)
        connection.execute("INSERT INTO sales (id, shop) VALUES (10, 'again')")
        with pytest.raises(errors.UniqueViolation):
            connection.commit()
    assert "gone" not in shop.database.view("totals")


def test_copy(shop: Serving) -> None:
    with connect(shop, autocommit=True) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY sales (id, shop, price, paid) FROM STDIN") as copy:
            copy.write_row((20, "t\tab\\", None, True))
            copy.write_row((21, "line\nbreak", Decimal("3.5"), False))
        with cursor.copy("COPY sales (id, shop) FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write('id,shop\n22,"a,""b"""\n')
        text = "COPY sales (id, shop) FROM STDIN"
        short = pytest.raises(errors.DataException, match="line 1 has 1 values")
        with short, cursor.copy(text) as copy:
            copy.write(b"23\n")
        with pytest.raises(errors.UniqueViolation), cursor.copy(text) as copy:
            copy.write(b"24\ta\n24\tb\n")
        query = "SELECT id, shop, price, paid FROM sales WHERE id > 1 ORDER BY id"
        rows = cursor.execute(query).fetchall()
        assert rows == [
            (20, "t\tab\\", None, True),
            (21, "line\nbreak", Decimal("3.50"), False),
            (22, 'a,"b"', None, None),
        ]
        with cursor.copy(f"COPY ({query}) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "numeric", "bool"])
            assert list(copy.rows()) == rows


def test_cursors(shop: Serving) -> None:
    shop.database.insert("sales", [{"id": n, "shop": "s"} for n in range(2, 12)])
    with connect(shop) as connection, connection.cursor(name="c") as cursor:
        cursor.execute("SELECT id FROM sales ORDER BY id")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        assert len(cursor.fetchall()) == 8


def test_subscribe(shop: Serving) -> None:
    """A snapshot, then every change; rebuilt from both, the view is as the database has it."""
    state: dict[tuple[object, ...], int] = {}
    with connect(shop, autocommit=True) as connection:
        stream = connection.cursor().stream("SUBSCRIBE TO totals WITH (PROGRESS)")
        first = next(stream)
        assert (first[1], first[2], first[3:]) == (False, 1, ("north", Decimal("9.50"), 1))
        state[first[3:]] = 1

        def write() -> None:
            for number in range(100, 150):
                shop.database.insert("sales", {"id": [number], "shop": [f"s{number % 3}"]})

        writer = threading.Thread(target=write)
        writer.start()
        last = None
        for row in stream:
            if row[1]:
                writer.join(0.001)
                last = row[0]
                if last == shop.database._state.version and not writer.is_alive():
                    break
                continue
            state[row[3:]] = state.get(row[3:], 0) + row[2]
        connection.cancel_safe()
        with pytest.raises(errors.QueryCanceled):
            list(stream)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    kept = {row for row, weight in state.items() if weight}
    assert kept == {tuple(row) for row in shop.database.view("totals").rows()}


def test_sqlalchemy(shop: Serving) -> None:
    engine = create_engine(f"postgresql+psycopg://viewlet@127.0.0.1:{shop.pg_port}/viewlet")
    try:
        found = inspect(engine)
        assert set(found.get_table_names()) == {"sales", "clicks"}
        assert set(found.get_materialized_view_names()) == {"totals", "heavy"}
        assert found.get_pk_constraint("sales")["constrained_columns"] == ["id"]
        metadata = MetaData()
        metadata.reflect(engine, views=True)
        totals = metadata.tables["totals"]
        assert str(totals.c.total.type) == "NUMERIC(38, 2)"
        with engine.begin() as connection:
            connection.execute(metadata.tables["sales"].insert(), [{"id": 5, "shop": "five"}])
        with engine.connect() as connection:
            query = sqlalchemy.select(totals.c.shop, totals.c.n).where(totals.c.n >= 1)
            assert set(connection.execute(query)) == {("north", 1), ("five", 1)}
    finally:
        engine.dispose()


GRAFANA = (
    'SELECT floor(extract(epoch from moment)/60)*60 AS "time", avg(weight) AS w FROM sales '
    "WHERE moment BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T00:00:00Z' GROUP BY 1 ORDER BY 1",
    'SELECT "shop" AS metric, total FROM "public"."totals" LIMIT 50',
    "SELECT quote_ident(table_name) FROM information_schema.tables WHERE quote_ident(table_schema) "
    "NOT IN ('information_schema', 'pg_catalog') ORDER BY 1",
    'SELECT quote_ident(column_name) AS "column", data_type AS "type" '
    "FROM information_schema.columns WHERE quote_ident(table_name) = 'sales'",
    "SELECT current_setting('server_version_num')::int/100 AS version",
)


@pytest.mark.parametrize("text", GRAFANA)
def test_grafana(shop: Serving, text: str) -> None:
    with connect(shop, autocommit=True) as connection:
        connection.execute(sql.SQL(text)).fetchall()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "COPY sales FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM pg_class, read_text('/etc/passwd')",
        "SELECT * FROM pg_catalog.read_text('/etc/passwd')",
        "SELECT content FROM read_blob('/etc/hostname')",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/viewlet-test'",
        "COPY (SELECT * FROM read_text('/etc/passwd')) TO STDOUT",
        "SELECT * FROM glob('/etc/*')",
        "SELECT getenv('HOME')",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
    ],
)
def test_no_file_is_read(shop: Serving, text: str) -> None:
    with connect(shop, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(sql.SQL(text)).fetchall()  # type: ignore[arg-type]
        assert "root" not in str(caught.value)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_password_and_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
        ],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip("openssl is not there to make a certificate")
    with viewlet.connect("interpreter") as database:
        database.execute(SHOP)
        with serving(
            database, token="correct-horse", certificate=certificate, private_key=key
        ) as s:
            with connect(s, password="correct-horse", sslmode="require") as connection:
                assert connection.execute("SELECT COUNT(*) FROM totals").fetchone() == (0,)
            for options in (
                {"password": "wrong-horse", "sslmode": "require"},
                {"password": "correct-horse", "sslmode": "disable"},
            ):
                with pytest.raises(psycopg.OperationalError):
                    connect(s, **options)


def test_parameters() -> None:
    text = "SELECT '$1', \"$2\", $1, $12 -- $3\n, $q$ $1 $q$ /* $4 */"
    assert parameters_of(text) == 12
    bound = with_parameters(text, [f"<{n}>" for n in range(1, 13)])
    assert bound == "SELECT '$1', \"$2\", <1>, <12> -- $3\n, $q$ $1 $q$ /* $4 */"
    assert without_public("SELECT 'public.x' FROM public.v") == "SELECT 'public.x' FROM        v"


def test_prepare_and_execute(shop: Serving) -> None:
    """In SQL, as people type it into psql; drivers do so by messages, with the same names."""

    def refused(text: str) -> str:
        with pytest.raises(psycopg.Error) as caught:
            wire.execute(text)
        return f"{caught.value.sqlstate}: {caught.value}"

    with connect(shop, autocommit=True, cursor_factory=psycopg.ClientCursor) as wire:
        wire.execute("PREPARE put AS INSERT INTO sales (id, shop, price, day) VALUES ($1,$2,$3,$4)")
        wire.execute("EXECUTE put (2, 'o''x (', '1.25', DATE '2026-03-01')")
        assert wire.execute("EXECUTE put(3,'south',-0.5,NULL)").statusmessage == "INSERT 0 1"
        wire.execute("PREPARE some (int, numeric(12,2)) AS SELECT id, day FROM sales"
                     " WHERE id >= $1 AND price < $2 ORDER BY id -- $3")  # fmt: skip
        assert wire.execute("EXECUTE some (1 + 1, 9)").fetchall() == [
            (2, dt.date(2026, 3, 1)),
            (3, None),
        ]
        assert wire.execute("execute some ('2', '0')").fetchall() == [(3, None)]
        with wire.transaction():
            wire.execute("EXECUTE put (4, 'x', 1, NULL)")
            assert "reading after changes" in refused("EXECUTE some (1, 1)")
            wire.execute("ROLLBACK")
        assert wire.execute("SELECT COUNT(*) FROM sales").fetchone() == (3,)
        assert "2 parameters, and EXECUTE gives 1" in refused("EXECUTE some (1)")
        assert "not a whole number" in refused("EXECUTE some ('a', 1)")
        assert "no prepared statement 'none'" in refused("EXECUTE none")
        assert "already" in refused("PREPARE some AS SELECT 1")
        assert "only statements that read" in refused("PREPARE a AS EXECUTE some (1, 1)")
        assert "PREPARE is not understood" in refused("PREPARE a SELECT 1")
        for values in ("(1)) OR (1, 1)", "((1, 1)", "(1,)", "(1, 1", "1, 1"):
            assert "42601" in refused(f"EXECUTE some {values}")
        assert wire.execute("DEALLOCATE PREPARE some").statusmessage == "DEALLOCATE"
        assert "no prepared statement" in refused("DEALLOCATE some")
        wire.pgconn.prepare(b"by message", b"SELECT shop FROM sales WHERE id = $1")
        assert wire.execute('EXECUTE "by message" (3)').fetchone() == ("south",)
        assert wire.execute("DEALLOCATE ALL").statusmessage == "DEALLOCATE ALL"
        assert "no prepared statement" in refused("EXECUTE put (9, 'x', 1, NULL)")
    with connect(shop, autocommit=True) as wire:  # every statement as messages
        wire.execute("PREPARE one AS SELECT id FROM sales WHERE shop = $1")
        assert wire.execute("EXECUTE one ('north')").fetchall() == [(1,)]
        assert wire.execute("EXECUTE one (%s)", ["south"]).fetchall() == [(3,)]


def test_merge_and_truncate(shop: Serving) -> None:
    with connect(shop, autocommit=True) as connection:
        merged = connection.execute(
            "MERGE INTO sales USING (VALUES (1, 'south'), (2, 'west')) AS n (id, shop)"
            " ON sales.id = n.id WHEN MATCHED THEN UPDATE SET shop = n.shop"
            " WHEN NOT MATCHED THEN INSERT (id, shop) VALUES (n.id, n.shop)"
        )
        assert merged.statusmessage == "MERGE 2"
        shops = connection.execute("SELECT shop FROM sales ORDER BY id").fetchall()
        assert shops == [("south",), ("west",)]
        assert connection.execute("TRUNCATE sales").statusmessage == "TRUNCATE TABLE"
        assert connection.execute("SELECT COUNT(*) FROM totals").fetchone() == (0,)


LONG = "SELECT COUNT(*) FROM range(200000) a, range(200000) b WHERE a.range * b.range % 7 = 3"


@pytest.mark.parametrize(
    "text", [LONG, LONG.replace("FROM", "FROM pg_class,"), f"COPY ({LONG}) TO STDOUT"]
)
def test_a_query_is_canceled(shop: Serving, text: str) -> None:
    with connect(shop, autocommit=True) as connection:
        ending = threading.Timer(0.3, connection.cancel_safe)
        ending.start()
        began = time.monotonic()
        with pytest.raises(errors.QueryCanceled):
            connection.execute(sql.SQL(text))  # type: ignore[arg-type]
        assert time.monotonic() - began < 5 * slack()
        ending.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_copy_is_canceled(shop: Serving) -> None:
    with connect(shop, autocommit=True) as connection:
        with (
            pytest.raises(errors.QueryCanceled),
            connection.cursor().copy("COPY clicks FROM STDIN") as copy,
        ):
            copy.write(b"north\t1\n")
            connection.cancel_safe()
            time.sleep(0.3)
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("text", [LONG, "SUBSCRIBE TO totals"])
def test_a_client_that_has_gone_ends_what_it_asked_for(shop: Serving, text: str) -> None:
    """Nobody will hear of it: a query must not compute on, and SUBSCRIBE must not listen on."""

    def runs() -> bool:
        return shop.gateway.running > 0 or shop.database._subscribers.count("totals") > 0

    connection = connect(shop, autocommit=True)
    connection.pgconn.send_query(text.encode())
    wait(runs)
    connection.close()
    wait(lambda: not runs())


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10 * slack()
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
