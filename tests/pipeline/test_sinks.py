"""Where changes go, and what happens to them when batches are done again."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from viewlet.errors import ViewletError
from viewlet.pipeline import sinks
from viewlet.pipeline.sinks import WEIGHT, ChangeFiles, Console, SnapshotFile, Webhook

CHANGES = pa.table(
    {
        "day": [date(2024, 1, 1), None],
        "total": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(12, 2)),
        WEIGHT: [-1, 1],
    }
)
NOW = pa.table({"total": [3, 4]})


@pytest.mark.parametrize("format", sinks.FILES)
def test_files_of_changes(format: str, tmp_path: Path) -> None:
    sink = ChangeFiles(str(tmp_path / "out"), format)
    sink.begin()
    for batch in (1, 2, 3):
        sink.write(batch, CHANGES, lambda: NOW)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"changes-{n:09d}.{format}" for n in (1, 2, 3)]
    with pytest.raises(ViewletError, match="changes of another run"):
        sink.begin()
    sink.resume(2)
    assert len(list((tmp_path / "out").iterdir())) == 2
    first = tmp_path / "out" / names[0]
    if format == "parquet":
        assert parquet.read_table(first) == CHANGES
    elif format == "arrow":
        assert pa.ipc.open_file(first).read_all() == CHANGES
    elif format == "csv":
        assert csv.read_csv(first).column_names == CHANGES.column_names
    else:
        lines = [json.loads(line) for line in first.read_text().splitlines()]
        assert lines[0] == {"day": "2024-01-01", "total": "1.50", WEIGHT: -1}
        assert lines[1]["day"] is None


def test_a_snapshot_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "now.parquet"
    sink = SnapshotFile(str(path), "parquet")
    sink.write(1, CHANGES, lambda: CHANGES)
    sink.write(2, CHANGES, lambda: NOW)
    assert parquet.read_table(path) == NOW
    assert [p.name for p in tmp_path.iterdir()] == ["now.parquet"]


def test_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("")
    with pytest.raises(ViewletError, match="changes go to a folder"):
        ChangeFiles(str(file), "csv")
    with pytest.raises(ViewletError, match="a snapshot is one file"):
        SnapshotFile(str(tmp_path), "csv")


def test_console() -> None:
    out = io.StringIO()
    Console("v", "changes", out, 1).write(3, CHANGES, lambda: NOW)
    assert out.getvalue().splitlines() == [
        "v in batch 3: 2 changes",
        "  - day=2024-01-01, total=1.50",
        "    ... and 1 more",
    ]
    out = io.StringIO()
    Console("v", "snapshot", out, 5).write(3, CHANGES, lambda: NOW)
    assert out.getvalue().splitlines()[1:] == ["    total=3", "    total=4"]


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any], list[int]]]:
    """A web server that answers with the given codes, then 200, and keeps what it got."""
    got: list[Any] = []
    codes: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = codes.pop(0) if codes else 200
            if code == 200:
                got.append((json.loads(body), self.headers["X-Token"]))
            self.send_response(code)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", got, codes
    server.shutdown()
    thread.join()
    server.server_close()


def test_webhook(server: tuple[str, list[Any], list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks.time, "sleep", lambda _: None)
    url, got, codes = server
    sink = Webhook("v", "changes", url, {"X-Token": "t"})
    codes.append(503)
    sink.write(7, CHANGES, lambda: NOW)
    ((body, token),) = got
    assert token == "t"
    assert (body["view"], body["batch"], body["mode"]) == ("v", 7, "changes")
    assert body["rows"][0] == {"day": "2024-01-01", "total": "1.50", WEIGHT: -1}
    codes.extend([500, 500, 500])
    with pytest.raises(ViewletError, match="batch 8 of v could not be sent"):
        sink.write(8, CHANGES, lambda: NOW)
    with pytest.raises(ViewletError, match="is not a web address"):
        Webhook("v", "changes", "ftp://x", {})
