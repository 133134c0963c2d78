"""SQL text -> what its statements do: definitions, changes of rows, or an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from viewlet.errors import DataError, Position, StateError, ViewletError
from viewlet.frontend.maintenance_options import AlterView, Complete, RefreshView, seconds_of
from viewlet.frontend.parse import parse, parse_with_parameters
from viewlet.frontend.statements import (
    AlterTable,
    CreateRelation,
    CreateTableAs,
    CreateView,
    Drop,
    Inspect,
    Merge,
    ReplaceQuery,
    Select,
    SetOption,
    Statement,
    TransactionStatement,
    TransactionVerb,
    Truncate,
)
from viewlet.interfaces.arguments import sql_of
from viewlet.interfaces.current_rows import CurrentRows
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.ddl import DefinitionChanges
from viewlet.interfaces.dml import Change, DataStatement, effect_of, returned
from viewlet.interfaces.inspection_tables import inspected
from viewlet.interfaces.merge_rows import merge_effect, truncate_effect
from viewlet.interfaces.progress import waiting
from viewlet.interfaces.query_positions import moved, within
from viewlet.interfaces.reads import Reads
from viewlet.interfaces.table_from_rows import table_of_rows
from viewlet.interfaces.transaction import OpenTransaction
from viewlet.interfaces.writes import Writes
from viewlet.schema import Relation, shown_value


class StatementExecutor:
    """Runs the statements of a text in order, under one lock."""

    def __init__(
        self, state: DatabaseState, definitions: DefinitionChanges, writes: Writes, reads: Reads
    ) -> None:
        self._state = state
        self._definitions = definitions
        self._writes = writes
        self._reads = reads
        self._definers: dict[type, Callable[[Any], None]] = {
            CreateRelation: definitions.create_relation,
            Drop: definitions.drop,
            AlterTable: definitions.alter_table,
            ReplaceQuery: definitions.replace_query,
            AlterView: definitions.alter_view,
            RefreshView: definitions.refresh_view,
            Complete: definitions.complete,
        }

    def run(self, text: str, parameters: Any = None) -> Any:
        """The last statement's result: a table, a number of rows, or None."""
        statements, values = parse_with_parameters(sql_of(text), parameters)
        self._writes.wait_for_room()
        self._writes.shared.settle()
        result: Any = None
        with self._state.lock:
            before = self._state.transaction
            try:
                for group in _grouped(statements):
                    is_view = isinstance(group[0], CreateView)
                    with waiting("compiling views" if is_view else "executing"):
                        result = self._run(group, values)
            except BaseException:
                if before is None and self._state.transaction is not None:
                    self.end(TransactionVerb.ROLLBACK)  # nobody else knows of it
                raise
        return result

    def refresh(self, view: str) -> None:
        """REFRESH MATERIALIZED VIEW view"""
        with self._state.lock:
            self._state.definitions.view(view)
            self._definitions.refresh_view(RefreshView(view, Position(1, 1)))

    def expect(self, relation: str, rows: float, within: float | str | None) -> None:
        """So many rows of a relation are to come."""
        state = self._state
        is_number = isinstance(rows, int | float) and not isinstance(rows, bool)
        if not is_number or not 0 <= rows < float("inf"):
            raise DataError(f"rows={shown_value(rows)}", hint="say how many rows are expected")
        with state.lock:
            name = state.definitions.relation(relation).name
            if name in state.definitions.complete and rows:
                raise StateError(
                    f"{name} is complete, and no more rows will come",
                    hint="expect rows of relations that still change",
                )
            self._definitions.expect(name, rows, seconds_of(within))

    def complete(self, relation: str) -> None:
        """ALTER TABLE relation COMPLETE"""
        with self._state.lock:
            is_stream = self._state.definitions.relation(relation).is_stream
            kind = "STREAM" if is_stream else "TABLE"
            self._definitions.complete(Complete(relation, kind, Position(1, 1)))

    def define(self, text: str) -> None:
        """Run statements that define something; StateError for any other, before it is run."""
        for statement in parse(text):
            if not isinstance(statement, CreateView) and type(statement) not in self._definers:
                raise StateError(f"{type(statement).__name__.upper()} is not a definition")
        self.run(text)

    def _run(self, group: Sequence[Statement], values: Mapping[str, Any]) -> Any:
        first = group[0]
        if isinstance(first, CreateView):
            views = [statement for statement in group if isinstance(statement, CreateView)]
            return self._definitions.create_views(views)
        define = self._definers.get(type(first))
        if define is not None:
            return define(first)
        if isinstance(first, CreateTableAs):
            return self._create_table_as(first, values)
        if isinstance(first, Inspect):
            return inspected(first, self._state)
        if isinstance(first, SetOption):
            return None
        if isinstance(first, TransactionStatement):
            return self._change_transaction(first)
        if isinstance(first, Select):
            try:
                return self._reads.answer(first.text, values)
            except ViewletError as error:
                raise within(error, first.position) from None
        assert isinstance(first, DataStatement | Merge | Truncate)
        transaction = self._state.transaction
        with transaction.statement() if transaction is not None else nullcontext():
            return self._change(first, values)

    def _change_transaction(self, statement: TransactionStatement) -> None:
        try:
            if statement.verb is TransactionVerb.BEGIN:
                self.begin()
            else:
                self.end(statement.verb)
        except ViewletError as error:
            raise moved(error, statement.position) from None

    def _change(
        self, statement: DataStatement | Merge | Truncate, values: Mapping[str, Any]
    ) -> Any:
        """A statement that changes rows; what RETURNING asks for, or how many there were."""
        rows = CurrentRows(self._state, self._reads, values, statement.position)
        answer = None
        if isinstance(statement, Truncate):
            relations = [self._relation(name, statement.position) for name in statement.tables]
            effect = truncate_effect(relations, statement.position, rows)
        elif isinstance(statement, Merge):
            relation = self._relation(statement.table, statement.position)
            effect = merge_effect(statement, relation, rows)
        else:
            effect = effect_of(statement, self._relation(statement.table, statement.position), rows)
            answer = returned(statement, effect, rows)
        self._writes.apply_batch(effect.changes, deletes_cascade=effect.deletes_cascade)
        return effect.count if answer is None else answer

    def _create_table_as(self, statement: CreateTableAs, values: Mapping[str, Any]) -> int | None:
        """The table with its rows; if they cannot be its rows, there is none."""
        if statement.if_not_exists and statement.name in self._state.definitions.relations:
            return None
        source = CurrentRows(self._state, self._reads, values, statement.position)
        rows = source.query(statement.query, {})
        declaration = table_of_rows(statement, rows)
        source.stored(declaration.relation, rows)
        self._definitions.create_relation(declaration)
        if not statement.with_data or not rows.num_rows:
            return 0
        try:
            return self._writes.apply_batch([Change(statement.name, rows)])
        except BaseException:
            self._definitions.drop(Drop("table", statement.name, statement.position))
            raise

    def _relation(self, name: str, position: Position) -> Relation:
        try:
            return self._state.definitions.relation(name)
        except ViewletError as error:
            raise moved(error, position) from None

    # Transactions.

    def begin(self) -> OpenTransaction:
        """Changes of this thread wait for `end`."""
        with self._state.lock:
            self._state.refuse_while_delivering()
            if self._state.transaction is not None:
                raise StateError(
                    "a transaction has begun already", hint="COMMIT or ROLLBACK it first"
                )
            transaction = OpenTransaction()
            self._state.transactions[threading.get_ident()] = transaction
            return transaction

    def end(self, verb: TransactionVerb) -> None:
        """Apply what waits as one batch, or forget it; an error of COMMIT has changed nothing."""
        with self._state.lock:
            transaction = self._state.transactions.pop(threading.get_ident(), None)
            if transaction is None:
                raise StateError(f"{verb.value} without a transaction", hint="say BEGIN first")
            if verb is TransactionVerb.COMMIT:
                if transaction.is_failed:
                    raise StateError(
                        "a statement of this transaction has failed, and all were rolled back",
                        hint="begin again",
                    )
                if transaction.batches:
                    self._writes.commit(transaction)


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
