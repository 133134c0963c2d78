from collections.abc import Iterator

import pytest
from tests.oracle.harness import new_database

from viewlet.interfaces.database import Database

ENGINES = ("interpreter", "local")
"""Engines that the whole public surface is tested on."""


@pytest.fixture(params=ENGINES)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with new_database(request.param) as database:
        yield database
