"""Checkpoints: a stated format that later versions read, and damage that is always found out."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.engine.durable.power import CuttableDisk, PowerCut
from tests.interfaces.test_durable import contents, workload

import viewlet
from viewlet.engine.durable.disk import Disk
from viewlet.engine.durable.sealed_directory import seal_directory
from viewlet.errors import StateError
from viewlet.interfaces.database import Database
from viewlet.interfaces.saved_database import write_checkpoint

ENGINES = ["interpreter", "local"]


def filled(engine: str, tmp_path: Path) -> Database:
    db = viewlet.connect(engine, path=tmp_path / "original")
    for _ in workload(db):
        pass
    return db


@pytest.mark.parametrize("engine", ENGINES)
def test_a_checkpoint_comes_back(engine: str, tmp_path: Path) -> None:
    db = filled(engine, tmp_path)
    db.checkpoint(str(tmp_path / "saved"))
    again = viewlet.restore(str(tmp_path / "saved"))
    assert contents(again) == contents(db)
    for database in (db, again):
        database.insert("s", [(1, 0.5), (4, 2.5)])
        database.delete("r", (3, "g0"))
    assert contents(again) == contents(db)


def test_tables_are_arrow_files_that_anybody_reads(tmp_path: Path) -> None:
    db = filled("local", tmp_path)
    directory = Path(db.checkpoint(str(tmp_path / "saved")))
    rows = pa.ipc.open_file(directory / "tables" / "0.arrow").read_all().to_pylist()
    assert {(row["a"], row["b"]) for row in rows} == {
        (row["a"], row["b"]) for row in db.query("SELECT a, b FROM r").to_pylist()
    }


def edit(directory: Path, name: str, old: str, new: str) -> None:
    """Change a file as another version would have written it, and seal the directory again."""
    path = directory / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    (directory / "MANIFEST").unlink()
    seal_directory(Disk(), directory)


def test_maps_of_another_version_are_made_again_from_tables(tmp_path: Path) -> None:
    db = viewlet.connect()
    db.execute(
        "CREATE TABLE t (a INT, b INT); CREATE VIEW v AS SELECT a, SUM(b) s FROM t GROUP BY a"
    )
    db.insert("t", [(i % 3, i) for i in range(10)])
    directory = Path(db.checkpoint(str(tmp_path)))
    edit(directory, "maps/maps.json", '"format": 1', '"format": 99')
    assert contents(viewlet.restore(str(tmp_path))) == contents(db)
    edit(directory, "maps/maps.json", "on t:", "upon t:")
    assert contents(viewlet.restore(str(tmp_path))) == contents(db)


def test_what_streams_brought_cannot_be_made_again(tmp_path: Path) -> None:
    db = viewlet.connect()
    db.execute("CREATE STREAM s (a INT); CREATE VIEW v AS SELECT COUNT(*) AS n FROM s")
    db.insert("s", (1,))
    directory = Path(db.checkpoint(str(tmp_path)))
    edit(directory, "maps/maps.json", '"format": 1', '"format": 99')
    with pytest.raises(StateError, match="only they have what came of the streams s"):
        viewlet.restore(str(tmp_path))


def test_a_program_of_another_plan_is_moved_to_this_one(tmp_path: Path) -> None:
    """The planner of a later version makes other maps: those that are equal move."""
    db = viewlet.connect()
    db.execute(
        "CREATE STREAM s (a INT, b INT); CREATE VIEW v AS SELECT a, SUM(b) AS t FROM s GROUP BY a"
    )
    db.insert("s", [(i % 4, i) for i in range(20)])
    directory = Path(db.checkpoint(str(tmp_path)))
    about = json.loads((directory / "maps" / "maps.json").read_text())
    renamed = about["program"].replace("v[", "other[").replace("from v.", "from other.")
    about["program"] = renamed.replace("view other[", "view v[")
    about["maps"] = {"other": about["maps"]["v"]}
    (directory / "maps" / "maps.json").write_text(json.dumps(about))
    (directory / "MANIFEST").unlink()
    seal_directory(Disk(), directory)
    assert contents(viewlet.restore(str(tmp_path))) == contents(db)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_damage_is_found_out(engine: str, tmp_path: Path) -> None:
    """Flipped bits, cuts, files that are gone or too many: one StateError that names the file."""
    db = filled(engine, tmp_path)
    whole = tmp_path / "whole"
    db.checkpoint(str(whole))
    draw = random.Random(7)
    files = sorted(path for path in whole.rglob("*") if path.is_file())
    for trial in range(60):
        copy = tmp_path / f"copy-{trial}"
        shutil.copytree(whole, copy)
        path = copy / draw.choice(files).relative_to(whole)
        data = bytearray(path.read_bytes())
        kind = draw.choice(["flip", "cut", "gone", "stranger", "empty"])
        if kind == "flip" and data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
        elif kind == "cut" and data:
            path.write_bytes(data[: draw.randrange(len(data))])
        elif kind == "stranger" and path.parent != copy:
            (path.parent / "stranger").write_bytes(b"x")
        elif kind == "empty" and data:
            path.write_bytes(b"")
        else:
            path.unlink()
        with pytest.raises(StateError) as caught:
            viewlet.restore(str(copy))
        assert "checkpoint" in str(caught.value)
        shutil.rmtree(copy)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_power_cut_leaves_the_checkpoint_before(engine: str, tmp_path: Path) -> None:
    db = filled(engine, tmp_path)
    before = contents(db)
    for calls in range(200):
        folder = tmp_path / f"cut-{calls}"
        folder.mkdir()
        root = folder / "saved"
        write_checkpoint(str(root), db._checkpoints.contents())
        disk = CuttableDisk(folder, calls)
        for path in [root, *root.rglob("*")]:
            if path.is_dir():
                disk._record_directory(path)
            else:
                disk._contents[path.stat().st_ino] = path.read_bytes()
        finished = True
        try:
            write_checkpoint(str(root), db._checkpoints.contents(), disk)
        except PowerCut:
            finished = False
        after = tmp_path / f"after-{calls}"
        disk.survive(after)
        disk.close()
        assert contents(viewlet.restore(str(after / "saved"))) == before, f"cut after {calls}"
        shutil.rmtree(folder)
        shutil.rmtree(after)
        if finished:
            return
    pytest.fail("a checkpoint takes fewer calls")
