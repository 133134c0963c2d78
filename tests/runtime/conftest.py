"""One Spark session for all quick tests of a process; programmes travel by value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.runtime import programs

from viewlet.runtime.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(programs)
    session = spark_session(cores=2)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
