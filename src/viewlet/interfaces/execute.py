"""SQL text -> what its statements do: definitions, changes of rows, or an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from viewlet.errors import Position, StateError, ViewletError
from viewlet.frontend.maintenance_options import AlterView, RefreshView
from viewlet.frontend.parse import parse, parse_with_parameters
from viewlet.frontend.statements import (
    CreateRelation,
    CreateView,
    Drop,
    Select,
    Statement,
)
from viewlet.interfaces.arguments import sql_of
from viewlet.interfaces.current_rows import CurrentRows
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.ddl import DefinitionChanges
from viewlet.interfaces.dml import effect_of, returned
from viewlet.interfaces.progress import waiting
from viewlet.interfaces.query_positions import moved, within
from viewlet.interfaces.reads import Reads
from viewlet.interfaces.writes import Writes


class StatementExecutor:
    """Runs the statements of a text in order, under one lock."""

    def __init__(
        self, state: DatabaseState, definitions: DefinitionChanges, writes: Writes, reads: Reads
    ) -> None:
        self._state = state
        self._definitions = definitions
        self._writes = writes
        self._reads = reads

    def run(self, text: str, parameters: Any = None) -> Any:
        """The last statement's result: a table, a number of rows, or None."""
        statements, values = parse_with_parameters(sql_of(text), parameters)
        self._writes.wait_for_room()
        self._writes.shared.settle()
        result: Any = None
        with self._state.lock:
            for group in _grouped(statements):
                is_view = isinstance(group[0], CreateView)
                with waiting("compiling views" if is_view else "executing"):
                    result = self._run(group, values)
        return result

    def refresh(self, view: str) -> None:
        """REFRESH MATERIALIZED VIEW view"""
        with self._state.lock:
            self._state.definitions.view(view)
            self._definitions.refresh_view(RefreshView(view, Position(1, 1)))

    def define(self, text: str) -> None:
        """Run statements that define something; StateError for any other, before it is run."""
        for statement in parse(text):
            if not isinstance(
                statement, CreateRelation | CreateView | AlterView | RefreshView | Drop
            ):
                raise StateError(f"{type(statement).__name__.upper()} is not a definition")
        self.run(text)

    def _run(self, group: Sequence[Statement], values: Mapping[str, Any]) -> Any:
        first = group[0]
        if isinstance(first, CreateView):
            views = [statement for statement in group if isinstance(statement, CreateView)]
            return self._definitions.create_views(views)
        if isinstance(first, CreateRelation):
            return self._definitions.create_relation(first)
        if isinstance(first, Drop):
            return self._definitions.drop(first)
        if isinstance(first, AlterView):
            return self._definitions.alter_view(first)
        if isinstance(first, RefreshView):
            return self._definitions.refresh_view(first)
        if isinstance(first, Select):
            try:
                return self._reads.answer(first.text, values)
            except ViewletError as error:
                raise within(error, first.position) from None
        try:
            relation = self._state.definitions.relation(first.table)
        except ViewletError as error:
            raise moved(error, first.position) from None
        rows = CurrentRows(self._state, self._reads, values, first.position)
        effect = effect_of(first, relation, rows)
        answer = returned(first, effect, rows)
        self._writes.apply_batch(effect.changes)
        return effect.count if answer is None else answer


def _grouped(statements: Sequence[Statement]) -> Iterator[list[Statement]]:
    """Views that follow each other form one group, every other statement its own."""
    group: list[Statement] = []
    for statement in statements:
        if group and not (isinstance(group[-1], CreateView) and isinstance(statement, CreateView)):
            yield group
            group = []
        group.append(statement)
    if group:
        yield group
