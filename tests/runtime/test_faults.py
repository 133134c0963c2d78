"""Faults on a real cluster: a standalone master and two workers with one executor each, loopback.

The workers are the hosts 127.0.0.1 and 127.0.0.2, and executors keep their state in directories of
their own, as on two machines: a partition that moves has nothing but the checkpoint.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.programs import Reference, batch, parent_of

from viewlet.runtime.session import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
BATCHES = list(range(6))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """A busy machine takes its time to start a master; a driver gives up sooner."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the master did not start")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import pyspark

    ensure_java()
    home = tmp_path_factory.mktemp("standalone")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    worker = ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir"]
    commands = {
        "127.0.0.1": [["master.Master", "--port", str(port)], [*worker, str(home / "1"), url]],
        "127.0.0.2": [[*worker, str(home / "2"), url]],
    }
    running = [
        subprocess.Popen(
            [launcher, f"{deploy}.{kind}", "--host", host, "--webui-port", "0", *options],
            env=os.environ | {"SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for host, daemons in commands.items()
        for kind, *options in daemons
    ]
    await_port(port)
    yield url
    for process in reversed(running):
        process.terminate()
        process.wait(30)


class Driver:
    """A driver process, and what it has said so far."""

    def __init__(self, order: dict[str, Any], module: str = "tests.runtime.driver") -> None:
        env = os.environ | {
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(order)],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, key: str, value: Any = None) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            said: dict[str, Any] = json.loads(line)
            if key in said and (value is None or said[key] == value):
                return said
        assert self.process.stderr is not None
        raise AssertionError(self.process.stderr.read()[-4000:])

    def kill(self) -> None:
        """The whole driver at once, its JVM with it, as when a machine is lost."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def finish(self) -> dict[str, Any]:
        said = self.wait_for("sums")
        _, problems = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, problems[-4000:]
        return said


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
            "stages": 2,
            "batches": BATCHES,
        }
        started.append(Driver(order | changes))
        return started[-1]

    yield start
    for driver in started:
        if driver.process.poll() is None:
            driver.kill()


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
    wanted = "undone by the programme" if undo else "rebuilding"
    assert any(wanted in note or "rebuilt" in note for note in notes)


def test_speculative_duplicates(drive: Start) -> None:
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "300ms",
    }
    said = drive(settings=settings, orders={"2": ["hang-0-1"], "4": ["hang-1-0"]}).finish()
    notes = check(said)
    assert any("rebuilt" in note for note in notes)  # the copy ran where the state was not


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
    deadline = time.monotonic() + 30
    while not (tmp_path / "faults" / "done-hang-0-1").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.kill()
    second = drive(state_dir=str(tmp_path / "state"))
    assert second.wait_for("started")["started"] == 3
    check(second.finish())
