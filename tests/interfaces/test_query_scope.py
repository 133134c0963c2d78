"""What SQL text can reach: tables and views, and no file, process or setting of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import viewlet
from viewlet import ViewletError
from viewlet.interfaces.database import Database

SECRET = "the secret of another user"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.csv").write_text(f"a\n{SECRET}\n")
    (tmp_path / "secret.json").write_text(f'{{"a": "{SECRET}"}}\n')
    return tmp_path


@pytest.fixture
def db() -> Iterator[Database]:
    with viewlet.connect() as database:
        database.execute("CREATE TABLE r (a VARCHAR, b INT)")
        database.execute("CREATE VIEW v AS SELECT b, COUNT(*) AS n FROM r GROUP BY b")
        database.insert("r", [("x", 1), ("y", 2)])
        yield database


READING = [
    "SELECT * FROM read_csv('{path}')",
    "SELECT * FROM read_csv_auto('{path}')",
    "SELECT content AS a, 1 AS b FROM read_text('{path}')",
    "SELECT * FROM read_blob('{path}')",
    "SELECT * FROM sniff_csv('{path}')",
    "SELECT file, 1 FROM glob('{folder}/*')",
    "SELECT * FROM '{path}'",
    'SELECT * FROM "{path}"',
    "SELECT * FROM 'file://{path}'",
    "FROM '{path}'",
    "TABLE '{path}'",
    "SELECT * FROM r, LATERAL read_text('{path}') t",
    "SELECT * FROM r JOIN '{path}' f ON true",
    "SELECT a, (SELECT ANY_VALUE(content) FROM read_text('{path}')) FROM r",
    "SELECT * FROM r WHERE EXISTS (SELECT * FROM read_text('{path}'))",
    "SELECT * FROM (SELECT * FROM (SELECT * FROM '{path}'))",
    "WITH k AS (SELECT * FROM '{path}') SELECT * FROM k",
    "WITH RECURSIVE k AS (SELECT 1 UNION ALL SELECT 2 FROM '{path}') SELECT * FROM k",
    # A WITH name elsewhere in the query must not excuse a file of that name.
    "SELECT * FROM '{path}' WHERE 1 IN (WITH \"{path}\" AS (SELECT 1) SELECT 1)",
    "SELECT * FROM main.read_text('{path}')",
    "SELECT * FROM system.main.read_text('{path}')",
    "SELECT * FROM Read_Text('{path}')",
    "SELECT * FROM \"read_text\"('{path}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{path}'')')",
    "SELECT * FROM query_table('{path}')",
    "SELECT * FROM query_table(['r', '{path}'])",
    "DESCRIBE SELECT * FROM '{path}'",
    "SUMMARIZE '{path}'",
    "SELECT * FROM (DESCRIBE '{path}')",
    "SELECT 1 UNION ALL SELECT 2 FROM '{path}'",
    "VALUES ((SELECT content FROM read_text('{path}')))",
    "PIVOT '{path}' ON a",
    "SELECT * FROM '{path}' PIVOT (COUNT(*) FOR a IN ('x'))",
    "SELECT * FROM read_json('{folder}/secret.json')",
    "SELECT * FROM read_duckdb('{path}')",
    "SELECT * FROM parquet_metadata('{path}')",
    "SELECT json_serialize_sql('SELECT 1'), * FROM json_execute_serialized_sql("
    "json_serialize_sql('SELECT * FROM read_text(''{path}'')'))",
]

REACHING = [
    "SELECT * FROM arrow_scan(1::UBIGINT::POINTER, 1::UBIGINT::POINTER, 1::UBIGINT::POINTER)",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM python_map_function(1, 2)",
    "SELECT * FROM enable_logging(storage_path = '{folder}/log')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM pragma_database_size()",
    "SELECT * FROM checkpoint()",
    "SELECT getenv('HOME')",
    "SELECT current_setting('temp_directory')",
    "SELECT write_log('x')",
    "SELECT * FROM information_schema.enabled_roles",
    "SELECT * FROM system.information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM duckdb_tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM main.r",
    "SHOW TABLES",
    "SELECT * FROM (SHOW ALL TABLES)",
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.csv'",
    "COPY r TO '{folder}/out.csv'",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/other.db'",
    "ATTACH '{folder}/other.db' AS o; SELECT * FROM o.t",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{path}'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA enable_external_access = true",
    "CALL pragma_version()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE MACRO abs(x) AS 0",
    "INSERT INTO r VALUES ('z', 3)",
    "DELETE FROM r",
    "WITH gone AS (DELETE FROM r RETURNING *) SELECT * FROM gone",
    "CREATE SECRET s (TYPE s3)",
    "CHECKPOINT",
    "EXPLAIN ANALYZE SELECT * FROM r",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SELECT ?",
    "SELECT $name",
    "",
    ";",
    "-- nothing",
    "SELECT 1\0; COPY (SELECT 1) TO '{folder}/out.csv'",
    "SELECT '\ud800'",
]


def shown(statement: str, folder: Path) -> str:
    return statement.replace("{path}", f"{folder}/secret.csv").replace("{folder}", str(folder))


@pytest.mark.parametrize("statement", READING + REACHING)
def test_query_reaches_nothing_else(db: Database, folder: Path, statement: str) -> None:
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(ViewletError) as refused:
        print(db.query(shown(statement, folder)))
    assert SECRET not in str(refused.value)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert db.query("SELECT a, b FROM r ORDER BY b").to_pylist() == [
        {"a": "x", "b": 1},
        {"a": "y", "b": 2},
    ]


@pytest.mark.parametrize("statement", [text for text in READING if text.startswith("SELECT")])
def test_statements_read_no_files(db: Database, folder: Path, statement: str) -> None:
    query = shown(statement, folder)
    for text in (
        query,
        f"INSERT INTO r {query}",
        f"INSERT INTO r (a) {query}",
        f"UPDATE r SET a = ({query})",
        f"UPDATE r SET b = 1 WHERE a IN ({query})",
        f"DELETE FROM r WHERE a IN ({query})",
        f"INSERT INTO r VALUES (({query}), 1)",
        f"CREATE VIEW w AS {query}",
    ):
        with pytest.raises(ViewletError):
            db.execute(text)
    assert db.query("SELECT COUNT(*) AS n FROM r").to_pylist() == [{"n": 2}]


def test_python_variables_are_no_tables(db: Database) -> None:
    import pyarrow as pa

    hidden = pa.table({"a": [1]})
    with pytest.raises(ViewletError, match="there is no table or view hidden"):
        db.query("SELECT * FROM hidden")
    assert hidden.num_rows == 1


def test_what_is_refused_is_shown_with_its_place(db: Database) -> None:
    with pytest.raises(ViewletError) as refused:
        db.query("SELECT 'ä',\n  * FROM r, read_text('/etc/hostname')")
    assert str(refused.value) == (
        "line 2, column 13: read_text() is not allowed in a query\n"
        "hint: load the file with COPY t FROM, or say connect(files=True) to let queries read any"
    )


def test_queries_over_values_still_run(db: Database) -> None:
    for text in (
        "SELECT * FROM range(3)",
        "SELECT * FROM generate_series(1, 3)",
        "SELECT UNNEST([1, 2, 3])",
        "SELECT * FROM unnest([1, 2, 3])",
        "FROM v",
        "SUMMARIZE r",
        "DESCRIBE r",
        "SELECT * FROM r WHERE a IN (WITH r AS (SELECT 'x' AS a) SELECT a FROM r)",
        'WITH "secret.csv" AS (SELECT 1) SELECT * FROM "secret.csv"',
        "SELECT * FROM R JOIN V USING (b)",
    ):
        assert db.query(text).num_rows > 0, text


def test_copy_and_the_switch_read_files(folder: Path) -> None:
    with viewlet.connect(files=True) as db:
        db.execute("CREATE TABLE r (a VARCHAR)")
        for text in (
            f"SELECT a FROM '{folder}/secret.csv'",
            f"SELECT a FROM read_csv('{folder}/secret.csv')",
            f"SELECT a FROM read_json('{folder}/secret.json')",
        ):
            assert db.query(text).to_pylist() == [{"a": SECRET}]
        db.execute(f"INSERT INTO r SELECT * FROM '{folder}/secret.csv'")
        with pytest.raises(ViewletError):
            db.query("SELECT * FROM arrow_scan(1, 2, 3)")
        with pytest.raises(ViewletError):
            db.query("SET enable_external_access = false")
        folder_of = db.checkpoint(str(folder / "saved"))
        assert folder_of
    for files in (False, True):
        with viewlet.restore(str(folder / "saved"), files=files) as again:
            text = f"SELECT a FROM '{folder}/secret.csv'"
            if files:
                assert again.query(text).num_rows == 1
            else:
                with pytest.raises(ViewletError):
                    again.query(text)
                again.execute(f"COPY r FROM '{folder}/secret.csv'")


def test_copy_of_odd_files_is_an_error_of_ours(db: Database, folder: Path) -> None:
    (folder / "latin.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    (folder / "folder.csv").mkdir()
    (folder / "empty.arrow").write_bytes(b"")
    (folder / "cut.parquet").write_bytes(b"PAR1")
    (folder / "odd.json").write_text('{"a": [')
    for name in ("latin.csv", "folder.csv", "empty.arrow", "cut.parquet", "odd.json"):
        with pytest.raises(ViewletError):
            db.execute(f"COPY r FROM '{folder}/{name}'")
    for url in ("https://localhost/x.csv", "s3://bucket/x.parquet", "hf://x/y.csv"):
        with pytest.raises(ViewletError):
            db.execute(f"COPY r FROM '{url}'")
    assert db.query("SELECT COUNT(*) AS n FROM r").to_pylist() == [{"n": 2}]
