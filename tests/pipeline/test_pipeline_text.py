"""The text of `viewlet run`: what it says, and where it is wrong."""

from __future__ import annotations

import pytest

from viewlet.errors import ViewletError
from viewlet.frontend.statements import CreateRelation, CreateView, Insert
from viewlet.pipeline.pipeline_text import parse_definitions, parse_pipeline

VIEW = "CREATE VIEW v AS SELECT 1 AS x; "

PIPELINE = """
CREATE TABLE region (id INT PRIMARY KEY, name VARCHAR)
  FROM csv 'regions.csv' WITH (static = true, header = true);
CREATE STREAM files (a INT, b DECIMAL(12,2)) FROM 'in/*.json' WITH (maxFilesPerTrigger = 1);
CREATE STREAM topic (a INT) FROM kafka 't'
  WITH (kafka.bootstrap.servers = 'h:1', 'startingOffsets' = 'earliest');
CREATE STREAM other (a INT) WITH (format = 'rate', rowsPerSecond = 4);
CREATE STREAM own ("from" INT) FROM "org.example.Source" WITH (low = -1);
CREATE TABLE small (a INT);
INSERT INTO small VALUES (1);
CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM files;
INSERT INTO console SELECT * FROM v;
INSERT INTO parquet 'out' WITH (mode = 'snapshot') SELECT n + 1 AS m FROM v WHERE n > 1;
INSERT INTO TABLE db.x SELECT * FROM v;
INSERT INTO webhook 'http://x' WITH w AS (SELECT n FROM v) SELECT * FROM w;
"""


def test_every_part_is_found() -> None:
    pipeline = parse_pipeline(PIPELINE)
    endpoints = {
        s.relation: (s.endpoint.format, s.endpoint.path, s.endpoint.options)
        for s in pipeline.sources
    }
    assert endpoints == {
        "region": ("csv", "regions.csv", {"header": "true"}),
        "files": ("json", "in/*.json", {"maxFilesPerTrigger": "1"}),
        "topic": (
            "kafka",
            "t",
            {"kafka.bootstrap.servers": "h:1", "startingOffsets": "earliest"},
        ),
        "other": ("rate", None, {"rowsPerSecond": "4"}),
        "own": ("org.example.Source", None, {"low": "-1"}),
    }
    static = {
        declaration.relation.name: declaration.relation.static for declaration in pipeline.relations
    }
    assert static["region"] and not static["small"]
    assert [filling.statement.table for filling in pipeline.fillings] == ["small"]
    assert [view.name for view in pipeline.views] == ["v", "sink_2", "sink_4"]
    assert [(s.view, s.endpoint.format, s.endpoint.path) for s in pipeline.sinks] == [
        ("v", "console", None),
        ("sink_2", "parquet", "out"),
        ("v", "table", "db.x"),
        ("sink_4", "webhook", "http://x"),
    ]
    assert pipeline.sinks[1].endpoint.option("MODE") == "snapshot"


def test_texts_are_plain_sql() -> None:
    """What the database executes has no trace of the places."""
    pipeline = parse_pipeline(PIPELINE)
    assert pipeline.relations[0].text.endswith("name VARCHAR) WITH (static = true)")
    assert pipeline.relations[1].text == "CREATE STREAM files (a INT, b DECIMAL(12,2))"


def test_fillings_keep_their_place() -> None:
    (filling,) = parse_pipeline(PIPELINE).fillings
    line = filling.text.splitlines().index("INSERT INTO small VALUES (1)")
    assert PIPELINE.splitlines()[line] == "INSERT INTO small VALUES (1);"


def test_explain_reads_pipelines_and_other_files() -> None:
    kinds = [type(statement) for statement in parse_definitions(PIPELINE)]
    assert kinds.count(CreateRelation) == 6
    assert kinds.count(CreateView) == 3
    assert kinds.count(Insert) == 1


def test_a_table_may_be_called_console() -> None:
    text = "CREATE TABLE console (a INT); INSERT INTO console VALUES (1);" + VIEW
    pipeline = parse_pipeline(text)
    assert len(pipeline.fillings) == 1 and not pipeline.sinks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t FROM csv 'x'", "line 1, column 16: the columns are missing"),
        ("CREATE TABLE t (a INT) FORM csv 'x'", "line 1, column 24: unexpected 'FORM'"),
        ("CREATE TABLE t (a INT)\nFROM", "line 2, column 5: after FROM a format and a path"),
        ("CREATE TABLE t (a INT) FROM 'x'", "line 1, column 29: the format of 'x' is not known"),
        ("CREATE TABLE t (a INT) FROM (x)", "line 1, column 29: unexpected '('"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (header)", "column 49: unexpected ')'"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (b=)", "column 45: unexpected ')'"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (= 1)", "column 43: unexpected '='"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (a=1 b=2)", "column 47: unexpected 'b'"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (a=1, A=2)", "option A is given twice"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (a=1", "the statement ends too early"),
        ("CREATE TABLE t (a INT) FROM csv 'x' again", "column 37: unexpected 'again'"),
        ("CREATE TABLE t (a INT) FROM csv 'x' WITH (static = maybe)", "static is 'maybe'"),
        ("CREATE STREAM t (a INT) FROM csv 'x' WITH (static = true)", "a stream cannot be static"),
        ("CREATE TABLE t (a INT", "line 1, column"),
        ("CREATE TABLE t (a INT) FROM csv 'x", "is not closed"),
        ("INSERT INTO console SELECT * FROM v", "line 1, column 21: there is no view v before"),
        (VIEW + "INSERT INTO consol SELECT * FROM v", "did you mean console?"),
        (VIEW + "INSERT INTO console", "the query is missing"),
        (VIEW + "INSERT INTO console DELETE FROM v", "a sink takes a query, not DELETE"),
        (VIEW + "INSERT INTO 'out' SELECT * FROM v", "the format of 'out' is not known"),
        (VIEW + "DROP VIEW v", "DROP has no place in a pipeline"),
        ("", "the pipeline has no view"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ViewletError) as raised:
        parse_pipeline(text)
    assert message in str(raised.value)
