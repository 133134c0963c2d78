"""One Spark session for all quick tests of a process, one small cluster for those with faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine import programs
from tests.engine.standalone import Start, drivers, standalone

from viewlet.engine.partitions.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(programs)
    session = spark_session(cores=2)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("standalone")) as url:
        yield url


@pytest.fixture
def drive(request: pytest.FixtureRequest, master: str, tmp_path: Path) -> Iterator[Start]:
    """Starts drivers of the test module's kind: its DRIVER, with its ORDER."""
    (tmp_path / "faults").mkdir()
    order = {
        "master": master,
        "checkpoint": str(tmp_path / "checkpoint"),
        "faults": str(tmp_path / "faults"),
        "state_dir": "state",  # relative: below the executor's own directory
    }
    with drivers(request.module.DRIVER, order | request.module.ORDER) as start:
        yield start
