"""CREATE and DROP: new definitions -> a program -> the engine, and only then the database's."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet.engine.values.batching import Batch
from viewlet.errors import UnsupportedError
from viewlet.frontend.maintenance_options import AlterView, Complete, RefreshView
from viewlet.frontend.statements import (
    AlterTable,
    CreateRelation,
    CreateView,
    Drop,
    ReplaceQuery,
)
from viewlet.frontend.user_functions import user_functions_of
from viewlet.interfaces.altered_tables import altered
from viewlet.interfaces.checkpoints import Checkpoints
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import Definitions, unknown
from viewlet.interfaces.delivery import Subscribers
from viewlet.interfaces.journal import STATEMENT
from viewlet.interfaces.ticks import Ticks
from viewlet.interfaces.view_maintenance import ViewMaintenance, other_modes
from viewlet.program.reshape import NO_RESHAPES, Reshapes


class DefinitionChanges:
    """Each call changes a copy of the definitions and installs it, or changes nothing."""

    def __init__(
        self,
        state: DatabaseState,
        checkpoints: Checkpoints,
        subscribers: Subscribers,
        maintenance: ViewMaintenance,
    ) -> None:
        self._state = state
        self._checkpoints = checkpoints
        self._subscribers = subscribers
        self._maintenance = maintenance
        self.ticks: Ticks

    def create_relation(self, statement: CreateRelation) -> None:
        """CREATE TABLE or STREAM; a table that is replaced starts empty, whatever its shape."""
        definitions = self._state.definitions.copy()
        name = statement.relation.name
        is_replacing = name in definitions.relations
        if definitions.add_relation(statement):
            record = self._prepare([statement.text])
            if is_replacing:
                self._install(self._state.definitions, without=name)
            self._install(definitions)
            self._record(record)

    def create_views(self, statements: Sequence[CreateView]) -> None:
        """CREATE VIEW of several views at once: one program, all of them or none."""
        before = self._state.definitions
        definitions = before.copy()
        try:
            for statement in statements:
                self._refuse_functions(statement)
                definitions.add_view(statement)
            record = self._prepare([statement.text for statement in statements])
            self._install(definitions)
            filled = self._fill(before)
        except RecursionError:
            raise UnsupportedError(
                f"view {statements[-1].name} is nested too deeply",
                position=statements[-1].position,
                hint="make a view of some part of it first, and use that",
            ) from None
        self._record(record)
        self.ticks.record(filled)
        self._end_changed(before)

    def replace_query(self, statement: ReplaceQuery) -> None:
        """ALTER MATERIALIZED VIEW v AS query: maps that say the same stay."""
        before = self._state.definitions
        definitions = before.copy()
        self._refuse_functions(statement.view)
        definitions.replace_view(statement.view)
        record = self._prepare([statement.text])
        self._install(definitions)
        filled = self._fill(before)
        self._record(record)
        self.ticks.record(filled)
        self._end_changed(before)

    def _refuse_functions(self, statement: CreateView) -> None:
        """Functions of users are in this process, and executors are others."""
        used = user_functions_of(statement)
        if used and self._state.engine_name == "spark":
            raise UnsupportedError(
                f"{used[0]} is a function of this process, which Spark's executors do not have",
                position=statement.position,
                hint="compute the column before the rows come in, or connect with engine='local'",
            )

    def _fill(self, before: Definitions) -> Sequence[tuple[str, Batch]]:
        """Give relations of valid rows that are new the rows of their tables."""
        new = self._state.definitions.valid_rows().keys() - before.valid_rows().keys()
        if not new or self.ticks.is_replaying:
            return ()
        try:
            return self.ticks.fill(frozenset(new))
        except BaseException:
            self._install(before)
            raise

    def _end_changed(self, before: Definitions) -> None:
        """Views with another query: whoever heard of the old one would miss how they differ."""
        for name, view in self._state.definitions.views.items():
            if name in before.views and view.query != before.views[name].query:
                self._subscribers.end(name)

    def alter_view(self, statement: AlterView) -> None:
        """ALTER MATERIALIZED VIEW: when its work is done from now on."""
        definitions = self._state.definitions.copy()
        definitions.alter_view(statement)
        record = self._prepare([statement.text])
        with other_modes([statement.name]):
            self._install(definitions)
        self._record(record)

    def alter_table(self, statement: AlterTable) -> None:
        """ALTER TABLE: the rows stay, and so does what the maps of views hold of them."""
        state = self._state
        state.refuse_in_transaction("a change of definitions")
        sizes = state.engine.table_sizes()
        compared = [
            v for v in state.definitions.valid_rows().values() if v.source == statement.name
        ]
        if compared:
            users = ", ".join(state.definitions.users_of(statement.name))
            raise UnsupportedError(
                f"{statement.name} cannot be altered while views compare its rows with NOW()",
                position=statement.position,
                hint=f"first drop {users}",
            )
        has_rows = statement.name in sizes and sizes[statement.name].records > 0
        after = altered(statement, state.definitions, has_rows=has_rows)
        if after.reshape is None:
            return
        record = self._prepare([statement.text])
        self._install(after.definitions, reshapes={statement.name: after.reshape})
        self._record(record)

    def refresh_view(self, statement: RefreshView) -> None:
        """REFRESH MATERIALIZED VIEW; a log repeats it: the view may wait for nothing else."""
        state = self._state
        if statement.name not in state.definitions.views:
            raise unknown("view", statement.name, state.definitions.views, statement.position)
        state.refuse_while_delivering()
        record = self._prepare([statement.text])
        self._maintenance.refresh(statement.name)
        self._record(record)

    def complete(self, statement: Complete) -> None:
        """ALTER TABLE r COMPLETE: views that wait for it are refreshed, and what only its changes
        need goes.
        """
        state = self._state
        state.refuse_while_delivering()
        state.refuse_in_transaction("a change of definitions")
        definitions = state.definitions.copy()
        definitions.end_changes(statement)
        record = self._prepare([statement.text])
        before = state.definitions
        try:
            state.define(definitions)
            self._maintenance.complete(statement.name)
        except BaseException:
            state.define(before)
            raise
        state.version += 1
        self._record(record)

    def expect(self, relation: str, rows: float, seconds: float | None) -> None:
        """So many rows of a relation are to come: intermittent views keep what these need."""
        self._maintenance.intermittent.expect(relation, rows, seconds)

    def drop(self, statement: Drop) -> None:
        """DROP TABLE, STREAM or VIEW; with a view its subscriptions end."""
        definitions = self._state.definitions.copy()
        if not definitions.drop(statement):
            return
        record = self._prepare([statement.text])
        self._install(definitions)
        self._record(record)
        if statement.kind == "view":
            self._subscribers.end(statement.name)

    def _prepare(self, texts: Sequence[str]) -> bytes:
        """What a durable database will write, with room for it; nothing elsewhere."""
        journal = self._state.journal
        return journal.prepare_statements(texts) if journal is not None else b""

    def _record(self, record: bytes) -> None:
        journal = self._state.journal
        if journal is not None:
            journal.wait(journal.record(STATEMENT, record))

    def _install(
        self, definitions: Definitions, without: str = "", reshapes: Reshapes = NO_RESHAPES
    ) -> None:
        """Compile all views and hand the program to the engine; `without` loses its rows."""
        state = self._state
        state.refuse_while_delivering()
        state.refuse_in_transaction("a change of definitions")
        self._checkpoints.write_if_due()
        program = self._maintenance.intermittent.whole
        modes = self._maintenance.modes(definitions)
        if definitions.views != state.definitions.views:
            self._maintenance.prepare(definitions, modes)
            program = self._maintenance.compile(definitions, modes)
        self._maintenance.install(definitions, modes, program, without, reshapes)
        self._maintenance.adopt(definitions, modes)
        state.define(definitions)
        state.version += 1
        self.ticks.watch()
        self._checkpoints.follow_definitions()
