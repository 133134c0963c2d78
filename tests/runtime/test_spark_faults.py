"""Faults under the SQL engine on two executors: the views equal the sums of what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.sql_programs import expected
from tests.runtime.test_faults import Driver, master

__all__ = ["master"]  # the fixture: a standalone master with two workers

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = list(range(5))
Start = Callable[..., Driver]


@pytest.fixture
def drive(master: str, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "faults").mkdir()
    started: list[Driver] = []

    def start(**changes: Any) -> Driver:
        order = {
            "master": master,
            "checkpoint": str(tmp_path / "checkpoint"),
            "faults": str(tmp_path / "faults"),
            "state_dir": "state",  # relative: below the executor's own directory
            "batches": BATCHES,
        }
        started.append(Driver(order | changes, "tests.runtime.sql_driver"))
        return started[-1]

    yield start
    for driver in started:
        if driver.process.poll() is None:
            driver.kill()


def check(said: dict[str, Any]) -> list[str]:
    assert said["sums"] == expected(BATCHES)
    notes: list[str] = said["incidents"]
    return notes


@pytest.mark.parametrize("stage", [0, 1])
def test_an_executor_killed_in_a_batch(drive: Start, stage: int) -> None:
    notes = check(drive(orders={"2": [f"kill-executor-1-{stage}"]}).finish())
    assert any("rebuil" in note for note in notes), notes


@pytest.mark.parametrize("fault", ["raise", "exit"])
def test_a_task_fails_after_it_changed_its_state(drive: Start, fault: str) -> None:
    notes = check(drive(orders={"1": [f"{fault}-0-1"], "3": [f"{fault}-1-0"]}).finish())
    assert any("rebuil" in note for note in notes), notes


def test_a_driver_killed_between_batches(drive: Start) -> None:
    first = drive()
    first.wait_for("step", 2)
    first.kill()
    check(drive().finish())


def test_a_driver_killed_in_a_batch(drive: Start, tmp_path: Path) -> None:
    first = drive(orders={"2": ["hang-0-1"]})
    first.wait_for("step", 1)
    deadline = time.monotonic() + 60
    while not (tmp_path / "faults" / "done-hang-0-1").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.kill()
    check(drive().finish())


def test_damaged_local_state(drive: Start, tmp_path: Path) -> None:
    """Array files cut short and overwritten between two drivers on the same disks."""
    place = tmp_path / "state"
    first = drive(batches=[0, 1, 2], state_dir=str(place))
    first.wait_for("step", 2)
    first.kill()
    files = sorted(place.rglob("*.array"))
    assert files
    for number, file in enumerate(files):
        if number % 2:
            file.unlink()
        else:
            file.write_bytes(b"nothing")
    notes = check(drive(state_dir=str(place)).finish())
    assert any("rebuil" in note for note in notes), notes


def test_a_damaged_checkpoint_is_said(drive: Start, tmp_path: Path) -> None:
    """With local state and every change log lost, restoring fails and names what is damaged."""
    first = drive(batches=[0, 1])
    first.wait_for("step", 1)
    first.kill()
    logs = [f for f in (tmp_path / "checkpoint").rglob("*") if f.is_file() and "log" in str(f)]
    assert logs
    for file in logs:
        file.write_bytes(b"nothing")
    with pytest.raises(AssertionError, match=r"lost|damaged|cannot be read"):
        drive().finish()
