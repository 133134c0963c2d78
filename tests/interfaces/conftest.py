from collections.abc import Iterator

import pytest
from tests.oracle.harness import new_database
from tests.oracle.naive import compile_naively

from viewlet.interfaces.api import Database

ENGINES = ("interpreter",)
"""Engines that the whole public surface is tested on."""


@pytest.fixture(params=ENGINES)
def db(request: pytest.FixtureRequest) -> Iterator[Database]:
    with new_database(request.param, compile_naively) as database:
        yield database
