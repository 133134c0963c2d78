"""The command line, as a process would use it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import viewlet
from viewlet.cli import app, main
from viewlet.pipeline.run import RunSettings
from viewlet.program.text import parse_program

VIEWS = """
CREATE TABLE r (a INT NOT NULL, b INT);
CREATE STREAM s (b INT, c DECIMAL(12,2));
CREATE MATERIALIZED VIEW v AS
SELECT r.a, SUM(s.c) AS total FROM r JOIN s ON r.b = s.b GROUP BY r.a;
"""


@pytest.fixture
def views(tmp_path: Path) -> Path:
    file = tmp_path / "views.sql"
    file.write_text(VIEWS)
    return file


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_version() -> None:
    assert output("--version") == f"viewlet {viewlet.__version__}\n"


def test_program_reads_back(views: Path) -> None:
    program = parse_program(output("explain", str(views)))
    assert {relation.name for relation in program.relations} == {"r", "s"}
    assert {trigger.relation for trigger in program.triggers} == {"r", "s"}
    assert "v" in {map.name for map in program.maps}


def test_sql_reads_back(views: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.sql"
    again.write_text(output("explain", str(views), "--stage", "sql"))
    assert output("explain", str(again)) == output("explain", str(views))


def test_calculus(views: Path) -> None:
    text = output("explain", str(views), "--stage", "calculus")
    assert "relation r(a: INTEGER not null, b: INTEGER)" in text
    assert "view v[" in text


def test_kernels(views: Path) -> None:
    text = output("explain", str(views), "--stage", "kernels")
    assert "def on_r(" in text
    compile(text, "kernels", "exec")


def test_json(views: Path) -> None:
    report = json.loads(output("explain", str(views), "--format", "json"))
    program = parse_program(report["text"])
    assert report["counts"]["maps"] == len(program.state)
    assert report["counts"]["statements"] == sum(len(t.statements) for t in program.triggers)
    assert report["views"][0]["columns"] == [
        {"name": "a", "type": "INTEGER"},
        {"name": "total", "type": "DECIMAL(38,2)"},
    ]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("CREATE VIEW v AS\nSELECT x FROM nope", [], "line 2, column 15"),
        ("SELECT 1", [], "SELECT cannot be explained"),
        ("CREATE TABLE t (a INT)", [], "has no view to explain\nhint: add CREATE MATERIALIZED"),
        ("CREATE VIEW v AS SELEC 1", [], "line 1, column 18: 'SELEC' does not start"),
        ("CREATE MATERIALIZED VEIW v AS SELECT 1", [], "column 21: CREATE cannot be followed by"),
        ("DROP TABEL t", [], "hint: did you mean TABLE?"),
        ("CREATE TABLE t a INT", [], "CREATE ... cannot be read"),
        ("GRANT ALL", [], "GRANT is not a statement of viewlet"),
    ],
)
def test_errors_are_one_message(
    text: str,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "bad.sql"
    file.write_text(text)
    monkeypatch.setattr(sys, "argv", ["viewlet", "explain", str(file), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("viewlet: ")
    assert message in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "/nowhere/x.sql"], "cannot read /nowhere/x.sql: No such file"),
        (["bench", "chess"], "there is no workload chess"),
    ],
)
def test_a_process_ends_with_1(arguments: list[str], message: str) -> None:
    source = Path(__file__).parents[1] / "src"
    run = subprocess.run(
        [sys.executable, "-m", "viewlet.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(source)},
    )
    assert run.returncode == 1
    assert message in run.stderr
    assert "Traceback" not in run.stderr


def ended(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """What the command says when it ends with 1."""
    monkeypatch.setattr(sys, "argv", ["viewlet", *arguments])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as raised:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert raised.value.code == 1
    return capsys.readouterr().err


def test_the_next_step(
    views: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a hand does wrong at a prompt, and what it is told."""
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe\x00")
    nowhere = str(tmp_path / "views.sql" / "x.json")
    for arguments, message in (
        (["explain", str(tmp_path / "view.sql")], f"did you mean {views}?"),
        (["explain", str(tmp_path)], "Is a directory\nhint: "),
        (["explain", str(tmp_path / "binary.sql")], "it is not UTF-8 text\nhint: "),
        (["run", str(views), "--conf", "spark.x"], "hint: write --conf spark.NAME=VALUE"),
        (["run", str(views), "--conf", "master=local"], "is no setting of Spark"),
        (["bench", "linalg", "--sf", "1"], "does not take --sf\nhint: viewlet bench linalg"),
        (["bench", "tpch", "--json", nowhere], f"cannot write {nowhere}"),
        (["bench", "tpch", "--compare", nowhere], "cannot read figures from"),
        (["bench", "tpch", "--growth", "x"], "x is no number\nhint: "),
    ):
        assert message in ended(arguments, monkeypatch, capsys), arguments


def test_a_full_disk_is_one_line(
    views: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "p.state/x")

    monkeypatch.setattr("viewlet.pipeline.run.run_file", full)
    shown = ended(["run", str(views)], monkeypatch, capsys)
    assert shown == "viewlet: p.state/x: No space left on device\n"


def test_settings_of_spark_reach_the_run(views: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[RunSettings] = []
    monkeypatch.setattr("viewlet.pipeline.run.run_file", lambda *args: settings.append(args[3]))
    output("run", str(views), "--conf", "spark.a=1", "--conf", "spark.b=x=y", "--once")
    assert settings == [RunSettings("spark", True, conf={"spark.a": "1", "spark.b": "x=y"})]


def test_the_shell_completes() -> None:
    for words, number, expected in (
        ("viewlet ex", "1", "explain"),
        ("viewlet bench tp", "2", "tpch\ntpcds"),
        ("viewlet run --engine l", "3", "local"),
    ):
        environment = {
            "COMP_WORDS": words,
            "COMP_CWORD": number,
            "_VIEWLET_COMPLETE": "complete_bash",
        }
        shown = CliRunner().invoke(app, [], prog_name="viewlet", env=environment)
        assert shown.stdout.strip() == expected
