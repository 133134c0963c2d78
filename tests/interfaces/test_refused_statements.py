"""A statement that is refused changes nothing: definitions, rows, views, and the version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.frontend.test_errors import CASES
from tests.frontend.test_features import CATALOG

import viewlet
from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.errors import Position, ViewletError
from viewlet.frontend.statements import CreateRelation
from viewlet.frontend.table_text import table_text


@pytest.fixture(scope="module")
def db() -> Iterator[viewlet.Database]:
    with viewlet.connect(engine="interpreter") as database:
        for relation in CATALOG:
            database.execute(table_text(CreateRelation(relation, Position(1, 1), "")))
        database.insert("r", {"a": 1, "b": 2})
        database.execute("CREATE VIEW rows_of_r AS SELECT a, b FROM r")
        yield database


def state_of(db: viewlet.Database) -> Any:
    state = db._state
    tables = {
        relation.name: to_arrow(
            table_columns(relation), state.engine.table(relation.name)
        ).to_pylist()
        for relation in state.definitions.tables()
    }
    return state.version, tables, db.tables, db.views, db.view("rows_of_r").rows()


@pytest.mark.parametrize("case", [c for c in CASES if not c.text.startswith("CREATE VIEW")])
def test_nothing_changes(db: viewlet.Database, case: Any) -> None:
    before = state_of(db)
    with pytest.raises(ViewletError):
        db.execute(case.text)
    assert state_of(db) == before
