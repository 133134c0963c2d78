"""The rows of tables as statements read them: by SQL, and by primary key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.engine.values.arrow import table_columns, to_arrow
from viewlet.engine.values.batching import make_batch
from viewlet.errors import Position, ViewletError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.keyed_rows import rows_by_key
from viewlet.interfaces.query_positions import moved
from viewlet.interfaces.reads import Reads
from viewlet.schema import Relation

if TYPE_CHECKING:
    import pyarrow as pa


class CurrentRows:
    """What dml.py asks of the database, with the values of a statement's parameters."""

    def __init__(
        self, state: DatabaseState, reads: Reads, values: Mapping[str, Any], position: Position
    ) -> None:
        """`position`: of the statement, whose errors have it."""
        self.values = values
        self._position = position
        self._state = state
        self._reads = reads

    def query(self, text: str, extra: Mapping[str, Callable[[], pa.Table]]) -> pa.Table:
        """Run SQL over tables, views, and rows under more names."""
        try:
            return self._reads.answer(text, self.values, extra)
        except ViewletError as error:
            raise moved(error, self._position) from None

    def stored(self, relation: Relation, rows: Any) -> pa.Table:
        """Rows of any shape as the relation will hold them."""
        return to_arrow(table_columns(relation), make_batch(relation, rows))

    def by_key(self, relation: Relation, rows: pa.Table) -> tuple[list[bool], pa.Table]:
        """Which rows have a key that the table has, and the table's rows with those keys."""
        engine, batch = self._state.engine, make_batch(relation, rows)
        transaction = self._state.transaction
        if transaction is not None:
            is_there, old = transaction.by_key(engine, relation, batch)
        else:
            is_there, old = rows_by_key(engine, relation, batch)
        return is_there.tolist(), to_arrow(table_columns(relation), old)
