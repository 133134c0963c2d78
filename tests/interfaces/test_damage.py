"""A part of `python -m tests.interfaces.damage 1000`, and what a lost CURRENT must not destroy."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interfaces.damage import damage_often, durable_database

import viewlet
from viewlet.errors import StateError


def test_damaged_files_are_found_out_or_change_nothing(tmp_path: Path) -> None:
    counts = damage_often(110, 17, tmp_path)
    assert sum(counts.values()) == 110
    assert sum(count for (_, outcome), count in counts.items() if outcome == "found") > 40


def files(directory: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_without_current_a_database_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    subject = durable_database(tmp_path / "db", "local")
    pointer = (subject.files / "CURRENT").read_bytes()
    (subject.files / "CURRENT").unlink()
    before = files(subject.files)
    with pytest.raises(StateError, match=r"CURRENT is gone, and log-\d+ is there"):
        viewlet.connect(subject.files)
    assert files(subject.files) == before
    (subject.files / "CURRENT").write_bytes(pointer)
    assert subject.read(subject.files) == subject.expected


def test_a_log_whose_end_was_zeroed_is_not_a_shorter_one(tmp_path: Path) -> None:
    subject = durable_database(tmp_path / "db", "local")
    last = max(subject.files.glob("log-*"))
    data = last.read_bytes()
    used = len(data.rstrip(b"\0"))
    last.write_bytes(data[: used // 2] + bytes(len(data) - used // 2))
    with pytest.raises(StateError, match=last.name):
        viewlet.connect(subject.files)


def test_a_crash_before_the_first_record_leaves_a_new_database(tmp_path: Path) -> None:
    viewlet.connect(tmp_path / "db").close()
    (tmp_path / "db" / "CURRENT").unlink()
    with viewlet.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE t (a INT)")
        db.insert("t", (1,))
    with viewlet.connect(tmp_path / "db") as db:
        assert db.query("SELECT a FROM t").to_pylist() == [{"a": 1}]
