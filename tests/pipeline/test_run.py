"""`viewlet run` as a process would be run, stopped, killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.interfaces import kinds
from tests.interfaces.kinds import SHOPS

from viewlet.errors import ViewletError
from viewlet.pipeline.run import RunSettings, run_file
from viewlet.pipeline.sinks import WEIGHT, SnapshotFile

SOURCE = Path(__file__).parents[2] / "src"

PIPELINE = (
    SHOPS
    + """\
INSERT INTO json 'now.json' WITH (mode = 'snapshot') SELECT * FROM totals;
"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "shops.csv").write_text("id,name\n1,ada\n2,bob\n")
    (tmp_path / "p.sql").write_text(PIPELINE)
    yield tmp_path


def add(name: str, rows: str) -> None:
    """A file that appears whole."""
    Path("in", f".{name}").write_text(rows)
    Path("in", f".{name}").rename(Path("in", name))


def run(text: str | None = None, **settings: object) -> None:
    chosen = {"engine": "local", "once": True, **settings}
    run_file(
        Path("p.sql"),
        Path("p.sql").read_text() if text is None else text,
        Path("p.state"),
        RunSettings(**chosen),  # type: ignore[arg-type]
    )


def mirrored(folder: str = "out") -> dict[str, tuple[str, int]]:
    """The view that the files of changes add up to; a row that comes twice is an error."""
    rows: dict[tuple[str, str, int], int] = {}
    for file in sorted(Path(folder).glob("*.parquet")):
        for row in parquet.read_table(file).to_pylist():
            key = (row["name"], str(row["total"]), row["n"])
            rows[key] = rows.get(key, 0) + row[WEIGHT]
    assert set(rows.values()) <= {0, 1}, rows
    return {name: (total, n) for (name, total, n), weight in rows.items() if weight}


def test_a_second_run_goes_on(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add("a.csv", "1,9.5\n1,0.50\n2,3\n")
    run()
    assert mirrored() == {"ada": ("10.00", 2), "bob": ("3.00", 1)}
    add("b.csv", "2,0.25\n")
    run()
    assert mirrored() == {"ada": ("10.00", 2), "bob": ("3.25", 2)}
    assert '"total": "3.25"' in Path("now.json").read_text()
    run()
    assert len(list(Path("out").iterdir())) == 2
    shown = capsys.readouterr().err
    assert "batch 2, 1 rows" in shown
    assert "0 batches, 0 rows" in shown


def test_restart_begins_anew(folder: Path) -> None:
    add("a.csv", "1,1\n")
    run()
    run(restart=True)
    assert mirrored() == {"ada": ("1.00", 1)}


def test_a_changed_pipeline_does_not_take_old_state(folder: Path) -> None:
    add("a.csv", "1,1\n")
    run()
    with pytest.raises(ViewletError, match="--restart"):
        run(PIPELINE.replace("COUNT(*)", "COUNT(price)"))
    more = PIPELINE + "INSERT INTO csv 'more.csv' WITH (mode = 'snapshot') SELECT * FROM totals;"
    add("b.csv", "1,1\n")
    run(more)  # another sink is no other state
    assert "ada" in Path("more.csv").read_text()


def test_a_pipeline_that_has_read_nothing_may_be_changed(folder: Path) -> None:
    run()
    add("a.csv", "1,1\n")
    run(PIPELINE.replace("COUNT(*)", "COUNT(price)"))
    assert mirrored() == {"ada": ("1.00", 1)}


def test_a_bad_file_stops_the_run_and_counts_for_nothing(folder: Path) -> None:
    add("a.csv", "1,1\n")
    run()
    add("b.csv", "1,two\n")
    with pytest.raises(ViewletError, match=r"b\.csv"):
        run()
    Path("in/b.csv").unlink()
    add("c.csv", "1,2\n")
    run()
    assert mirrored() == {"ada": ("3.00", 2)}


def test_a_failing_sink_gets_the_batch_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sink has the batch, the other fails: the views must not be ahead of it next time."""
    add("a.csv", "1,1\n")
    run()
    add("b.csv", "1,2\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(SnapshotFile, "write", full)
        with pytest.raises(ViewletError, match="No space left"):
            run()
    run()
    assert mirrored() == {"ada": ("3.00", 2)}
    assert '"total": "3.00"' in Path("now.json").read_text()


def test_weights_delete(folder: Path) -> None:
    text = """
    CREATE TABLE t (a INT, b VARCHAR) FROM json 'in' WITH (weight = 'w');
    CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a;
    INSERT INTO csv 'now.csv' WITH (mode = 'snapshot') SELECT * FROM v;
    """
    add("a.json", '{"a": 1, "b": "x", "w": 2, "c": 0}\n{"a": 2, "w": 1}\n')
    run(text)
    add("b.json", '{"a": 1, "b": "x", "w": -1}\n{"a": 2, "w": -1}\n')
    run(text)
    assert Path("now.csv").read_text() == '"a","n"\n1,1\n'


def test_arrow_parquet_and_filled_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """
    CREATE TABLE t (a INT, b INT) FROM arrow 'in';
    CREATE TABLE u (b INT, c VARCHAR) FROM 'u.parquet';
    CREATE TABLE w (c VARCHAR, d DOUBLE);
    INSERT INTO w VALUES ('x', 0.5), ('y', 2);
    CREATE VIEW v AS SELECT c, SUM(a * d) AS total
      FROM t JOIN u ON t.b = u.b JOIN w USING (c) GROUP BY c;
    """
    table = pa.table({"b": [1, 2], "a": [10, 20]})
    with pa.OSFile("in/a.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    parquet.write_table(pa.table({"b": [1, 2], "c": ["x", "y"]}), "u.parquet")
    run(text)
    shown = capsys.readouterr().out
    assert "+ c=x, total=5.0" in shown
    assert "+ c=y, total=40.0" in shown


def test_lines_of_a_socket(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = f"""
        CREATE STREAM s (a INT, b DOUBLE) FROM socket '127.0.0.1:{server.getsockname()[1]}';
        CREATE VIEW v AS SELECT SUM(b) AS total FROM s;
        """

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"1,2.5\n2,0.5\n")

        thread = threading.Thread(target=serve)
        thread.start()
        run(text)
        thread.join()
    assert "+ total=3.0" in capsys.readouterr().out


def test_every_source_and_sink(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds.write_sources()
    with kinds.lines() as port, kinds.hooks() as (url, posted):
        run(kinds.pipeline(port, url))
    kinds.check_sinks(capsys.readouterr().out, posted)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ("1,two\n", "", "row 1 for sales: column price is DECIMAL(12,2), and 'two' is not"),
        ("1,2,3\n4,5\n", "", "line 1 has 3 fields, and not 2 ("),
        ("x,y\n1,2\n", " WITH (header = true)", "has none of the columns of sales"),
    ],
)
def test_a_bad_csv_file_says_what_is_wrong(
    rows: str, options: str, message: str, folder: Path
) -> None:
    add("a.csv", rows)
    with pytest.raises(ViewletError) as raised:
        run(PIPELINE.replace("csv 'in'", f"csv 'in'{options}"))
    assert str(raised.value).startswith("in/a.csv")
    assert message in str(raised.value)
    assert "hint: " in str(raised.value)


def test_state_that_cannot_be_kept_is_one_error(folder: Path) -> None:
    Path("file").touch()
    with pytest.raises(
        ViewletError, match=r"cannot keep its state in file/x.*\nhint: .*checkpoint"
    ):
        run_file(Path("p.sql"), PIPELINE, Path("file/x"), RunSettings("local"))


def test_a_sink_that_cannot_be_written_has_its_place(folder: Path) -> None:
    add("a.csv", "1,1\n")
    with pytest.raises(ViewletError, match=r"line \d+, column 13: cannot write to parquet"):
        run(PIPELINE.replace("parquet 'out'", "parquet '/proc/out'"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE TABLE t (a INT) FROM csv 'no';\nCREATE VIEW v AS SELECT a FROM t", "line 1, c"),
        ("CREATE TABLE t (a INT) FROM kafka 't'; CREATE VIEW v AS SELECT a FROM t", "engine spark"),
        ("CREATE TABLE t (a INT); CREATE VIEW v AS\nSELECT b FROM t", "line 2, column 8"),
        (
            "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t;"
            "INSERT INTO csv 'o' WITH (mode = 'x') SELECT * FROM v",
            "there is no mode x",
        ),
        (
            "CREATE TABLE t (a INT) FROM csv 'in' WITH (heder = true);"
            "CREATE VIEW v AS SELECT a FROM t",
            "csv has no option heder\nhint: did you mean header?",
        ),
        (
            "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t;"
            "INSERT INTO console WITH (row = 3) SELECT * FROM v",
            "console has no option row",
        ),
        (
            "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t;"
            "INSERT INTO delta 'o' SELECT * FROM v",
            "has no sink delta",
        ),
        (
            "CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t;\nINSERT INTO t VALUES ('x')",
            "column a is INTEGER",
        ),
    ],
)
def test_a_bad_pipeline_leaves_nothing_behind(text: str, message: str, folder: Path) -> None:
    with pytest.raises(ViewletError) as raised:
        run(text)
    assert message in str(raised.value)
    assert not Path("p.state/CURRENT").exists()


# --- as a process ---------------------------------------------------------------------------------


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "viewlet.cli", "run", "p.sql", "--engine=local"]
    return subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def wait_for(process: subprocess.Popen[str], files: int, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while len(list(Path("out").glob("*.parquet"))) < files:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_saves_and_the_next_run_goes_on(folder: Path) -> None:
    add("a.csv", "1,1\n")
    process = start()
    wait_for(process, 1)
    add("b.csv", "1,2\n")
    wait_for(process, 2)
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 0, shown
    assert "stopped; run it again to go on" in shown
    add("c.csv", "2,4\n")
    run()
    assert mirrored() == {"ada": ("3.00", 2), "bob": ("4.00", 1)}
    assert len(list(Path("out").iterdir())) == 3


def test_a_killed_run_counts_nothing_twice(folder: Path) -> None:
    """No checkpoint after the first rows: all of them are read again, into the same files."""
    add("a.csv", "1,1\n")
    process = start("--every", "1000")
    wait_for(process, 1)
    add("b.csv", "1,2\n")
    wait_for(process, 2)
    process.kill()
    process.communicate()
    add("c.csv", "2,4\n")
    run()
    assert mirrored() == {"ada": ("3.00", 2), "bob": ("4.00", 1)}


def test_two_runs_cannot_share_a_directory(folder: Path) -> None:
    add("a.csv", "1,1\n")
    process = start()
    wait_for(process, 1)
    with pytest.raises(ViewletError, match="another run uses"):
        run()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0
