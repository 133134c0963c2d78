"""Files that appear and lines that are sent."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from viewlet.errors import ViewletError
from viewlet.pipeline.sources import FileFeed, Lines


def put(path: Path, age: int) -> None:
    path.write_text("1\n")
    os.utime(path, (1_000_000 - age, 1_000_000 - age))


def test_a_folder_hands_out_each_file_once_oldest_first(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", age=1)
    put(tmp_path / "b.csv", age=2)
    for name in (".hidden", "_SUCCESS", "c.csv.tmp"):
        put(tmp_path / name, age=3)
    files = FileFeed(str(tmp_path), "csv", limit=1)
    assert files.may_grow
    assert [Path(p).name for p in files.new()] == ["b.csv"]
    assert [Path(p).name for p in files.new()] == ["a.csv"]
    assert files.new() == []
    put(tmp_path / "d.csv", age=0)
    again = FileFeed(str(tmp_path), "csv")
    again.resume(files.progress())
    assert [Path(p).name for p in again.new()] == ["d.csv"]


def test_patterns_and_single_files(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", age=0)
    put(tmp_path / "a.txt", age=0)
    assert [Path(p).suffix for p in FileFeed(str(tmp_path / "*.csv"), "csv").new()] == [".csv"]
    one = FileFeed(str(tmp_path / "a.txt"), "csv")
    assert not one.may_grow
    assert len(one.new()) == 1


def test_what_is_not_there() -> None:
    with pytest.raises(ViewletError, match="there is no file or folder"):
        FileFeed("/nowhere/at/all", "csv")
    with pytest.raises(ViewletError, match="is not an address"):
        Lines("here", "csv")
    with pytest.raises(ViewletError, match="cannot connect to"):
        Lines("127.0.0.1:1", "csv")


def test_lines_until_the_server_closes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        lines = Lines(f"127.0.0.1:{server.getsockname()[1]}", "csv")
        connection, _ = server.accept()
        connection.sendall(b"1,2\n\n3,4\r\n5,")
        connection.sendall(b"6\n")
        connection.close()
        received: list[str] = []
        deadline = time.monotonic() + 10
        while not lines.ended and time.monotonic() < deadline:
            received += lines.new()
        assert received + lines.new() == ["1,2", "3,4", "5,6"]
        lines.close()
