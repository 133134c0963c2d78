"""Faults of the stateful-partition service on two executors, each with a disk of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.engine.programs import Reference, batch, parent_of
from tests.engine.standalone import SPECULATION, Start, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES = list(range(6))
DRIVER = "tests.engine.driver"
ORDER = {"stages": 2, "batches": BATCHES}


def check(said: dict[str, Any], version: int = len(BATCHES)) -> list[str]:
    reference = Reference()
    for number in BATCHES:
        reference.apply(batch(number))
    assert {int(k): v for k, v in said["sums"].items()} == reference.expected()
    assert said["version"] == version
    notes: list[str] = said["incidents"]
    return notes


def test_two_executors_without_faults(drive: Start) -> None:
    said = drive().finish()
    assert check(said) == []
    assert said["executors"] == 2


@pytest.mark.parametrize(("stages", "stage"), [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2)])
def test_an_executor_killed_in_a_step(drive: Start, stages: int, stage: int) -> None:
    """(3, 2) loses the shuffle output of a stage that has changed its state already."""
    said = drive(stages=stages, orders={"3": [f"kill-executor-1-{stage}"]}).finish()
    assert any("rebuilt from the beginning" in note for note in check(said))


def test_an_executor_killed_between_steps(drive: Start, tmp_path: Path) -> None:
    driver = drive(pause_before=3)
    places = driver.wait_for("places")["places"]
    os.kill(parent_of(places[1]), signal.SIGKILL)
    (tmp_path / "faults" / "go").touch()
    said = driver.finish()
    assert any("partition 1: state of tick 6 rebuilt" in note for note in check(said))


@pytest.mark.parametrize("undo", [True, False])
@pytest.mark.parametrize("fault", ["raise", "exit"])
def test_a_task_fails_after_it_changed_its_state(drive: Start, fault: str, undo: bool) -> None:
    said = drive(undo=undo, orders={"2": [f"{fault}-0-1"], "4": [f"{fault}-1-1"]}).finish()
    notes = check(said)
    note_text = "undone by the program" if undo else "rebuilding"
    assert any(note_text in note or "rebuilt" in note for note in notes)


def test_speculative_duplicates(drive: Start) -> None:
    said = drive(settings=SPECULATION, orders={"2": ["hang-0-1"], "4": ["hang-1-0"]}).finish()
    check(said)
    assert said["killed"] >= 1, "nothing was speculated"


@pytest.mark.parametrize("shared", [True, False])
def test_a_driver_killed_between_steps(drive: Start, tmp_path: Path, shared: bool) -> None:
    state = str(tmp_path / "state") if shared else "state"
    first = drive(state_dir=state)
    first.wait_for("step", 2)
    first.kill()
    second = drive(state_dir=state)
    assert second.wait_for("started")["started"] in (3, 4, 5, 6)
    check(second.finish())


def test_a_driver_killed_in_a_step(drive: Start, tmp_path: Path) -> None:
    first = drive(orders={"3": ["hang-0-1"]}, state_dir=str(tmp_path / "state"))
    first.wait_for("step", 2)
    until((tmp_path / "faults" / "done-hang-0-1").exists, "the task did not come to its fault")
    first.kill()
    second = drive(state_dir=str(tmp_path / "state"))
    assert second.wait_for("started")["started"] == 3
    check(second.finish())
