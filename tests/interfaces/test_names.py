"""Names of users never meet: nor each other, nor what viewlet calls its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.errors import ResolutionError, ViewletError

AFTER_ROWS = """
import json, viewlet
db = viewlet.connect("local")
db.execute("CREATE STREAM s (a INT); CREATE STREAM s_1 (a INT, b INT)")
db.execute("CREATE VIEW v AS SELECT SUM(a) AS n FROM s")
db.insert("s", (1,))
db.execute("CREATE VIEW w AS SELECT SUM(a) AS n FROM s")
db.execute("CREATE VIEW x AS SELECT a, SUM(b) AS n FROM s_1 GROUP BY a")
db.insert("s", (2,))
db.insert("s_1", (5, 6))
db.insert("s", [(3,), (4,)])
db.insert("s_1", [(5, 7), (6, 8)])
print(json.dumps([sorted(db.view(name).rows()) for name in "vwx"]))
"""


def test_an_epoch_of_a_stream_is_not_another_stream() -> None:
    """s after its first rows and s_1: a crash while both were on_s_1."""
    run = subprocess.run([sys.executable, "-c", AFTER_ROWS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [[[10]], [[9]], [[5, 13], [6, 8]]]


COLUMNS = [
    *("a b", "a_b", "a", "a_null", "a_low", "a-null", "a_1", "row_a", "weight"),
    *("load", "store", "find", "plus", "np", "range", "max", "for", "in", "None", "__builtins__"),
    *("state", "control", "row", "done", "skip", "zero", "ranks", "low", "high", "count"),
    *("column", "column_0", "nulls_1", "text", "text_0", "table_0", "map", "map_v", "records_v"),
    *("ﬁ", "fi", "x²", "x2", "große", "日本", "日本語", " ", "1", "%", "a'b", "Δa", "e\u0301", "é"),
    *("x" * 300, "x" * 300 + "y", "at1", "p1", "by1", "total_1", "s_1", "s@1"),
]


def view_rows(engine: str, statements: list[str], rows: dict[str, list[tuple[Any, ...]]]) -> Any:
    """All views after rows have come one by one, and in a batch, and some of them gone."""
    db = viewlet.connect(engine)
    views = []
    for statement in statements:
        db.execute(statement)
        if statement.startswith("CREATE VIEW"):
            views.append(statement.split('"')[1])
    for name, relation_rows in rows.items():
        db.insert(name, relation_rows[0])
        db.insert(name, relation_rows[1:])
        db.delete(name, relation_rows[-1:])
    results = [sorted(db.view(view).rows(), key=repr) for view in views]
    db.close()
    return results


def same(statements: list[str], rows: dict[str, list[tuple[Any, ...]]]) -> None:
    assert view_rows("local", statements, rows) == view_rows("interpreter", statements, rows)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_two_columns_whose_letters_are_the_same() -> None:
    same(
        [
            'CREATE STREAM s ("a b" INT, a_b INT, c INT)',
            'CREATE VIEW "v" AS SELECT c, SUM("a b") AS x, SUM(a_b) AS y FROM s GROUP BY c',
        ],
        {"s": [(1, 10, 0), (2, 20, 0), (3, 30, 1), (4, 40, 1)]},
    )


def test_a_column_and_whether_another_is_null() -> None:
    same(
        [
            "CREATE STREAM s (a INT, a_null INT NOT NULL, c INT)",
            'CREATE VIEW "v" AS SELECT c, SUM(a) AS x, SUM(a_null) AS y, SUM(a * a_null) AS z '
            "FROM s GROUP BY c",
        ],
        {"s": [(1, 10, 0), (None, 20, 0), (2, 0, 0), (3, 30, 1), (7, 7, 7)]},
    )


def test_columns_of_any_name() -> None:
    """Words of Python and of kernels, letters that Python writes alike, and very long ones."""
    declared = ", ".join(f"{quoted(name)} INT" for name in COLUMNS)
    sums = ", ".join(f"SUM({quoted(name)}) AS n{i}" for i, name in enumerate(COLUMNS))
    width = len(COLUMNS)
    rows = [
        tuple(None if (i + j) % 7 == 0 else (i + 1) * 100 + j for j in range(width))
        for i in range(4)
    ]
    same(
        [f"CREATE STREAM s ({declared})", f'CREATE VIEW "v" AS SELECT {sums} FROM s'],
        {"s": rows},
    )


RELATIONS = ["row", "map", "column", "text", "state", "load", "for", "on_row", "each_row", "np"]


@pytest.mark.slow
def test_relations_of_any_name() -> None:
    """Each joined with itself and with the next, under names that kernels use too."""
    statements = [
        f"CREATE TABLE {quoted(name)} (a INT, a_1 INT, {quoted(name)} VARCHAR)"
        for name in RELATIONS
    ]
    for one, two in zip(RELATIONS, [*RELATIONS[1:], RELATIONS[0]], strict=True):
        left, right = quoted(one), quoted(two)
        statements.append(
            f"CREATE VIEW {quoted(f'{one}_1')} AS SELECT {left}.a, SUM({right}.a_1) AS n, "
            f"COUNT(*) AS c FROM {left} JOIN {right} ON {left}.a = {right}.a "
            f"WHERE {left}.{left} <> 'x' AND {right}.{right} <> 'y' GROUP BY {left}.a"
        )
    rows = {
        name: [(k % 2, i + k, "xyz"[(i + k) % 3]) for k in range(5)]
        for i, name in enumerate(RELATIONS)
    }
    same(statements, rows)


OWN = ["buffer_2", "buffer_3", "memo_0", "m_r", "d_m_r", "m_s", "d_m_s", "d_r_batch_1", "a b", "ﬁ"]
"""What auxiliary maps, buffers and memos are called where nobody else is."""


def test_views_of_any_name() -> None:
    """Views that need buffers and memos, under the names of these."""
    statements = ["CREATE TABLE r (a INT, b INT, t VARCHAR)", "CREATE TABLE s (b INT, c INT)"]
    kinds = [
        "SELECT a FROM r WHERE a < (SELECT SUM(c) FROM s WHERE s.b = r.b)",
        "SELECT b, SUM(c) AS n FROM s GROUP BY b",
        "SELECT a, MIN(b) AS m FROM r WHERE EXISTS (SELECT a FROM r r2 WHERE r2.b < r.b "
        "GROUP BY a HAVING SUM(r2.b) > 1) GROUP BY a",
        "SELECT t || CAST(a AS VARCHAR) AS x, COUNT(*) AS n FROM r GROUP BY 1",
    ]
    for i, name in enumerate(OWN):
        statements.append(f"CREATE VIEW {quoted(name)} AS {kinds[i % len(kinds)]}")
    same(
        statements,
        {
            "r": [(1, 1, "x"), (9, 1, "y"), (2, 2, "x"), (3, 3, "z"), (1, 5, "x")],
            "s": [(1, 5), (2, 6), (1, 1), (3, 9), (2, 2)],
        },
    )


def test_a_view_of_the_name_of_a_buffer() -> None:
    """In the order in which they failed: the map's change is kept in a buffer that is planned."""
    same(
        [
            "CREATE TABLE r (a INT, b INT)",
            "CREATE TABLE s (b INT, c INT)",
            'CREATE VIEW "w" AS SELECT a FROM r WHERE a < (SELECT SUM(c) FROM s WHERE s.b = r.b)',
            'CREATE VIEW "d_m_s" AS SELECT b, SUM(c) AS n FROM s GROUP BY b',
        ],
        {"r": [(1, 1), (9, 1), (4, 2), (1, 1)], "s": [(1, 5), (2, 6), (2, 1), (1, 1)]},
    )


@pytest.mark.parametrize("engine", ["interpreter", "local"])
def test_epochs_of_a_stream_are_restored(engine: str, tmp_path: Path) -> None:
    """Views made at different times see the same rows afterwards, whatever they are called."""
    db = viewlet.connect(engine)
    db.execute("CREATE STREAM s (a INT)")
    db.execute("CREATE TABLE s_1 (a INT)")
    expected: dict[str, int] = {}
    for number, view in enumerate(("s@1", "s@2", "s@3")):
        db.execute(f'CREATE VIEW "{view}" AS SELECT SUM(a) AS n FROM s')
        expected = {**expected, view: 0}
        if number == 1:
            db.execute('CREATE VIEW "s@1@1" AS SELECT n FROM "s@1"')
            expected["s@1@1"] = expected["s@1"]
        db.insert("s", (10**number,))
        expected = {name: n + 10**number for name, n in expected.items()}
    db.checkpoint(str(tmp_path))
    db.close()
    again = viewlet.restore(str(tmp_path))
    again.execute('CREATE VIEW "s@4" AS SELECT SUM(a) AS n FROM s')
    again.insert("s", [(1000,), (2000,)])
    again.insert("s_1", (5,))
    expected = {**expected, "s@4": 0}
    expected = {name: n + 3000 for name, n in expected.items()}
    assert {name: again.view(name).rows() for name in expected} == {
        name: [(n,)] for name, n in expected.items()
    }
    again.close()


@pytest.mark.parametrize("engine", ["local", "interpreter"])
def test_names_that_differ_in_case_alone_are_refused(engine: str) -> None:
    """DuckDB, which answers ad-hoc queries, takes them for one name: r's rows for those of "R"."""
    with viewlet.connect(engine) as db:
        db.execute('CREATE TABLE r (a INT, b INT, "Ä" INT, "ä" INT)')
        for sql in (
            'CREATE TABLE "R" (a INT)',
            'CREATE VIEW "R" AS SELECT a FROM r',
            'CREATE TABLE t (a INT, "A" INT)',
            'CREATE VIEW v AS SELECT a, b AS "A" FROM r',
        ):
            with pytest.raises(ResolutionError) as caught:
                db.execute(sql)
            assert caught.value.position is not None
        db.insert("r", (1, 2, 3, 4))
        assert db.query('SELECT "Ä", "ä" FROM r').to_pylist() == [{"Ä": 3, "ä": 4}]


@pytest.mark.parametrize(
    "sql",
    [
        'CREATE VIEW v AS SELECT a AS "" FROM r',
        'CREATE VIEW v AS SELECT x.a FROM r AS "" JOIN r x ON TRUE',
        'CREATE VIEW "" AS SELECT a FROM r',
        'CREATE TABLE t ("" INT)',
    ],
)
def test_names_that_are_empty_are_refused(sql: str) -> None:
    with viewlet.connect("interpreter") as db:
        db.execute("CREATE TABLE r (a INT)")
        with pytest.raises(ViewletError) as caught:
            db.execute(sql)
        assert caught.value.position is not None
