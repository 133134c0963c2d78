"""A Spark cluster on loopback for tests: a master, two workers, and drivers that can be killed.

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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from viewlet.engine.partitions.session import ensure_java

ROOT = Path(__file__).parents[2]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1s",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def await_port(port: int) -> None:
    """A busy machine takes its time to start a master; a driver gives up sooner."""
    until(lambda: _answers(port), "the master did not start", 120)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(holds: Callable[[], bool], else_say: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, else_say
        time.sleep(0.01)


@contextmanager
def standalone(home: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    import pyspark

    ensure_java()
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    deploy = "org.apache.spark.deploy"
    worker = ["worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir"]
    commands = {
        "127.0.0.1": [["master.Master", "--port", str(port)], [*worker, str(home / "1"), url]],
        "127.0.0.2": [[*worker, str(home / "2"), url]],
    }
    # A machine that stands still for a minute is slow, not lost.
    settings = {
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.worker.timeout=600",
    }
    running = [
        subprocess.Popen(
            [launcher, f"{deploy}.{kind}", "--host", host, "--webui-port", "0", *options],
            env=os.environ | settings | {"SPARK_LOCAL_IP": host},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for host, daemons in commands.items()
        for kind, *options in daemons
    ]
    try:
        await_port(port)
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(30)


class Driver:
    """A driver process, and what it has said so far."""

    def __init__(self, module: str, order: dict[str, Any]) -> None:
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
        _, problems = self.process.communicate()
        raise AssertionError(problems[-4000:])

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


@contextmanager
def drivers(module: str, order: dict[str, Any]) -> Iterator[Start]:
    """Starts drivers with changes to their order; those that still run in the end are killed."""
    started: list[Driver] = []

    def start(**changes: Any) -> Driver:
        started.append(Driver(module, order | changes))
        return started[-1]

    try:
        yield start
    finally:
        for driver in started:
            if driver.process.poll() is None:
                driver.kill()


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of its own with so much room, in memory; skips where mounting is denied."""
    import pytest

    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)],
        capture_output=True,
        text=True,
    )
    if made.returncode:
        pytest.skip(f"a file system cannot be mounted here: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_disk(place: Path) -> Path:
    """Take all the room that is left; the file that has it."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast
