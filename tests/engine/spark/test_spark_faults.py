"""Faults under the SQL engine on two executors: the views equal the sums of what was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.engine.sql_programs import expected
from tests.engine.standalone import SPECULATION, Start, fill_disk, small_disk, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = list(range(5))
DRIVER = "tests.engine.sql_driver"
ORDER = {"batches": BATCHES}


def check(said: dict[str, Any], *texts: str) -> None:
    """The views are right, and of what went wrong each of these was said."""
    assert said["sums"] == expected(BATCHES)
    for text in texts:
        assert any(text in note for note in said["incidents"]), said["incidents"]


def test_executors_killed_in_batches(drive: Start) -> None:
    """Before and after a shuffle; the second one is lost while the first has just come back."""
    orders = {"1": ["kill-executor-1-0"], "3": ["kill-executor-0-1"]}
    check(drive(orders=orders).finish(), "partition 0: state of", "partition 1: state of")


def test_tasks_fail_after_they_changed_their_state(drive: Start) -> None:
    orders = {"1": ["raise-0-1"], "2": ["raise-1-0"], "3": ["exit-0-1"], "4": ["exit-1-0"]}
    said = drive(orders=orders).finish()
    check(said, "was torn", "rebuilt from")
    assert sum("was torn" in note for note in said["incidents"]) == 4, said["incidents"]


def test_speculative_duplicates(drive: Start) -> None:
    """Copies of tasks that hang run where the state is not; whoever is second is ended."""
    said = drive(settings=SPECULATION, orders={"1": ["hang-0-1"], "3": ["hang-1-0"]}).finish()
    check(said)
    assert said["killed"] >= 1, "nothing was speculated"


def test_drivers_killed_between_and_in_batches(drive: Start, tmp_path: Path) -> None:
    first = drive()
    first.wait_for("step", 1)
    first.kill()
    second = drive(orders={"3": ["hang-0-1"]})
    second.wait_for("step", 2)
    until((tmp_path / "faults" / "done-hang-0-1").exists, "the task did not come to its fault")
    second.kill()
    check(drive().finish(), "rebuilt from")


def test_damaged_local_state_and_a_damaged_commit(drive: Start, tmp_path: Path) -> None:
    """Between two drivers on the same disks arrays are cut short or go, and the newest commit is
    cut: its batch is lost, which is said, and comes again from the stream."""
    directory = tmp_path / "state"
    first = drive(batches=[0, 1, 2], state_dir=str(directory))
    first.wait_for("step", 2)
    first.kill()
    files = sorted(directory.rglob("*.array"))
    assert files
    for number, file in enumerate(files):
        if number % 2:
            file.unlink()
        else:
            file.write_bytes(b"nothing")
    newest = max((tmp_path / "checkpoint").rglob("commits/*"), key=lambda file: file.name)
    newest.write_bytes(newest.read_bytes()[:-1])
    check(
        drive(state_dir=str(directory)).finish(), "rebuilding it", "rebuilt from", "commit was lost"
    )


def test_a_damaged_checkpoint_is_said(drive: Start, tmp_path: Path) -> None:
    """With local state and every change log lost, restoring fails and names what is damaged."""
    first = drive(batches=[0, 1])
    first.wait_for("step", 1)
    first.kill()
    logs = list((tmp_path / "checkpoint").rglob("log/*"))
    assert logs
    for file in logs:
        file.write_bytes(b"nothing")
    said = drive().wait_for("refused")
    assert "its state is lost" in said["refused"]
    assert "/log/" in said["refused"], "the damaged files are not named"


def test_full_disks(drive: Start, tmp_path: Path) -> None:
    """First under the state, then under the change logs, then when the driver commits: each time
    the batch is refused, is no part of the views, and is taken once there is room."""
    with (
        small_disk(tmp_path / "local", "24m") as local,
        small_disk(tmp_path / "shared", "24m") as shared,
    ):
        driver = drive(
            state_dir=str(local / "state"),
            checkpoint=str(shared / "checkpoint"),
            pause_before=[1, 2],
            full_at_commit=3,
        )
        for number, disk, why in (
            (1, local, "hint: free space there"),
            (2, shared, "hint: make room"),
            (3, shared, "cannot write commits/"),
        ):
            if number < 3:
                driver.wait_for("paused", number)
                fill_disk(disk)
                (tmp_path / "faults" / "go").touch()
            refused = driver.wait_for("refused")
            assert refused["step"] == number
            assert "No space left on device" in refused["refused"]
            assert why in refused["refused"]
            assert refused["rows"] == expected(BATCHES[:number])["total"]
            (disk / "ballast").unlink()
            (tmp_path / "faults" / "again").touch()
        check(driver.finish(), "was torn")
