"""SQL as PostgreSQL's clients send it -> what it does to the database.

Beside viewlet's own statements there are those of a session: transactions, settings, cursors, COPY
from and to the client, SUBSCRIBE. viewlet has no transactions of several statements. In one,
changes of rows wait, and COMMIT applies them as one atomic batch; what they would have changed
cannot be read before that, so reading is refused instead of giving an old answer. Definitions take
effect at once, and are refused after changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from viewlet.engine.values.arrow import arrow_type
from viewlet.errors import (
    CanceledError,
    ParseError,
    ResolutionError,
    StateError,
    UnsupportedError,
    ViewletError,
)
from viewlet.frontend.catalog_text import without_public
from viewlet.frontend.statements import (
    Copy,
    Delete,
    Insert,
    Inspect,
    Merge,
    Select,
    SetOption,
    TransactionStatement,
    Truncate,
    Update,
)
from viewlet.interfaces.cancellation import Cancellation
from viewlet.interfaces.current_rows import CurrentRows
from viewlet.interfaces.dml import Change, DataStatement, Effect, effect_of, returned
from viewlet.interfaces.merge_rows import merge_effect, truncate_effect
from viewlet.schema import Relation
from viewlet.server.gateway import Gateway
from viewlet.server.pg_catalog import WireCatalog
from viewlet.server.pg_copy_options import CopyFormat, copy_format
from viewlet.server.pg_parameters import typed_rows
from viewlet.server.pg_prepared import PreparedStatements
from viewlet.server.pg_shapes import SETTINGS
from viewlet.server.pg_tags import Definition, definition_tag
from viewlet.server.pg_types import plain_name

if TYPE_CHECKING:
    import pyarrow as pa


RowStatement = DataStatement | Merge | Truncate
"""What changes rows."""


@dataclass
class Answer:
    """What a statement gave: rows, of which some may have been sent, and the tag of its end."""

    tag: str
    table: pa.Table | None = None
    sent: int = 0


@dataclass(frozen=True)
class CopyIn:
    """COPY table FROM STDIN: rows follow."""

    relation: Relation
    columns: tuple[str, ...]
    format: CopyFormat


@dataclass(frozen=True)
class CopyOut:
    """COPY (query) TO STDOUT."""

    table: pa.Table | None
    format: CopyFormat
    subscribe: SubscribeTo | None = None


@dataclass(frozen=True)
class SubscribeTo:
    """SUBSCRIBE TO view: its changes, for as long as the client listens."""

    view: str
    has_snapshot: bool
    has_progress: bool


Outcome = Answer | CopyIn | CopyOut | SubscribeTo


@dataclass
class WaitingChanges:
    """The state of one session between BEGIN and its end."""

    is_open: bool = False
    is_failed: bool = False
    changes: list[Change] = field(default_factory=list)
    savepoints: list[tuple[str, int]] = field(default_factory=list)
    """Names, and how many changes there were."""
    deletes_cascade: bool = True

    @property
    def status(self) -> bytes:
        """As ReadyForQuery says it."""
        return b"E" if self.is_failed else b"T" if self.is_open else b"I"

    def end(self) -> list[Change]:
        """Over; the changes that were waiting."""
        changes = self.changes
        self.is_open, self.is_failed, self.changes, self.savepoints = False, False, [], []
        self.deletes_cascade = True
        return changes

    def index_of(self, name: str) -> int:
        """Where a savepoint is in the list; an error if there is none."""
        indexes = [at for at, (known, _) in enumerate(self.savepoints) if known == name]
        if not indexes:
            raise ResolutionError(f"there is no savepoint {name}")
        return indexes[-1]


_NAME = r'("(?:[^"]|"")+"|\w+)'
_PUBLIC = r'(?:"?public"?\s*\.\s*)?'
_COPY = re.compile(rf"COPY\s+{_PUBLIC}{_NAME}\s*(\([^)]*\))?\s+FROM\s+STDIN\b(.*)$", re.I | re.S)
_COPY_OUT = re.compile(r"COPY\s+(.*?)\s+TO\s+STDOUT\b(.*)$", re.I | re.S)
_DECLARE = re.compile(rf"DECLARE\s+{_NAME}\s+(?:[\w\s]*?)CURSOR\b.*?\bFOR\s+(.*)$", re.I | re.S)
_FETCH = re.compile(
    rf"FETCH\s+(?:FORWARD\s+)?(?:(ALL|NEXT|\d+)\s+)?(?:(?:FROM|IN)\s+)?{_NAME}$", re.I
)
_CLOSE = re.compile(rf"CLOSE\s+(ALL|{_NAME})$", re.I)
_ROLLBACK_TO = re.compile(
    rf"ROLLBACK\s+(?:WORK\s+|TRANSACTION\s+)?TO\s+(?:SAVEPOINT\s+)?{_NAME}$", re.I
)
_STREAM = re.compile(
    rf"SELECT\s+((?:\*|{_NAME}(?:\s*,\s*{_NAME})*))\s+FROM\s+{_PUBLIC}{_NAME}"
    r"(?:\s+LIMIT\s+\d+)?\s*;?$",
    re.I,
)
"""SELECT a, b FROM r: what clients ask of a stream."""
_SUBSCRIBE = re.compile(
    rf"SUBSCRIBE\s+(?:TO\s+)?{_PUBLIC}{_NAME}\s*(?:WITH\s*\((.*)\))?$", re.I | re.S
)


class PgStatements:
    """Runs the statements of one session; every call blocks."""

    def __init__(self, gateway: Gateway, catalog: WireCatalog) -> None:
        self._gateway = gateway
        self._catalog = catalog
        self.transaction = WaitingChanges()
        self.cursors: dict[str, Answer] = {}
        self.prepared = PreparedStatements(catalog.column_types)
        self._cancellation: Cancellation | None = None
        self._words: dict[str, Callable[[str], Outcome]] = {
            "BEGIN": self._begin,
            "START": self._begin,
            "COMMIT": self._commit,
            "END": self._commit,
            "ROLLBACK": self._rollback,
            "ABORT": self._rollback,
            "SAVEPOINT": self._savepoint,
            "RELEASE": self._release,
            "SET": lambda text: Answer("SET"),
            "RESET": lambda text: Answer("RESET"),
            "DISCARD": self._discard,
            "PREPARE": self._prepare,
            "EXECUTE": lambda text: self.run(self.prepared.text_of(text), self._cancellation),
            "DEALLOCATE": lambda text: Answer(self.prepared.deallocate(text)),
            "SHOW": self._show,
            "DECLARE": self._declare,
            "FETCH": self._fetch,
            "CLOSE": self._close,
            "COPY": self._copy,
            "SUBSCRIBE": self._subscribe,
        }

    def run(self, text: str, cancellation: Cancellation | None = None) -> Outcome:
        """One statement; what it reads may be canceled."""
        self._cancellation = cancellation
        stripped = text.strip()
        word = re.match(r"\w*", stripped)
        first = word.group().upper() if word else ""
        if self.transaction.is_failed and first not in ("ROLLBACK", "ABORT", "COMMIT", "END"):
            raise StateError("the transaction has failed", hint="end it with ROLLBACK")
        handle = self._words.get(first)
        return handle(stripped) if handle is not None else self._run_statement(text)

    def describe(self, text: str, cancellation: Cancellation) -> pa.Table | None:
        """None of the rows of a statement that only reads, to know its columns; None for others."""
        word = re.match(r"\s*(\w+)", text)
        first = word.group(1).upper() if word else ""
        if first == "EXECUTE":
            return self.describe(self.prepared.text_of(text), cancellation)
        if first == "FETCH":
            match = _FETCH.match(text.strip())
            cursor = self.cursors.get(plain_name(match.group(2))) if match else None
            return cursor.table.slice(0, 0) if cursor and cursor.table is not None else None
        stream = _STREAM.match(text.strip())
        if stream is not None and (columns := self._stream_columns(stream)) is not None:
            return columns
        if first in ("SELECT", "WITH", "VALUES"):
            columns_alone = f"SELECT * FROM (\n{text.strip().rstrip(';')}\n) AS q LIMIT 0"
            try:
                return self._described(columns_alone, cancellation)
            except (CanceledError, StateError):
                raise
            except ViewletError:
                pass  # a query that cannot stand in another one, or is wrong: with its own places
        if first in ("SELECT", "WITH", "VALUES", "TABLE", "SHOW"):
            return self._described(text, cancellation)
        return None

    def _stream_columns(self, match: re.Match[str]) -> pa.Table | None:
        """Of a stream no rows are kept, but clients ask for its columns before they send some."""
        name, definitions = (
            plain_name(match.groups()[-1]),
            self._gateway.database._state.definitions,
        )
        if name not in self._gateway.database.tables or not definitions.relation(name).is_stream:
            return None
        relation = definitions.relation(name)
        listed = [plain_name(column.strip()) for column in match.group(1).split(",")]
        columns = relation.columns if listed == ["*"] else [*map(relation.column, listed)]
        fields = [(column.name, arrow_type(column.type)) for column in columns]
        import pyarrow as pa

        return pa.schema(fields).empty_table()

    def _described(self, text: str, cancellation: Cancellation) -> pa.Table | None:
        outcome = self.run(text, cancellation)
        return outcome.table if isinstance(outcome, Answer) else None

    # --- transactions and settings ----------------------------------------------------------------

    def _begin(self, text: str) -> Answer:
        self.transaction.is_open = True
        return Answer("BEGIN")

    def _commit(self, text: str) -> Answer:
        has_failed = self.transaction.is_failed
        deletes_cascade = self.transaction.deletes_cascade
        changes = self.transaction.end()
        self.cursors.clear()
        if has_failed:
            return Answer("ROLLBACK")
        if changes:
            self._gateway.apply(changes, deletes_cascade=deletes_cascade)
        return Answer("COMMIT")

    def _rollback(self, text: str) -> Answer:
        match = _ROLLBACK_TO.match(text)
        if match is not None:
            transaction = self.transaction
            index = transaction.index_of(plain_name(match.group(1)))
            del transaction.changes[transaction.savepoints[index][1] :]
            del transaction.savepoints[index + 1 :]
            transaction.is_failed = False
            return Answer("ROLLBACK")
        self.transaction.end()
        self.cursors.clear()
        return Answer("ROLLBACK")

    def _savepoint(self, text: str) -> Answer:
        if not self.transaction.is_open:
            raise StateError("a savepoint needs a transaction", hint="BEGIN first")
        name = plain_name(text.split(None, 1)[-1].strip())
        self.transaction.savepoints.append((name, len(self.transaction.changes)))
        return Answer("SAVEPOINT")

    def _release(self, text: str) -> Answer:
        name = plain_name(re.sub(r"^RELEASE\s+(SAVEPOINT\s+)?", "", text, flags=re.I).strip())
        del self.transaction.savepoints[self.transaction.index_of(name) :]
        return Answer("RELEASE")

    def _discard(self, text: str) -> Answer:
        self.prepared.clear()
        self.cursors.clear()
        return Answer("DISCARD ALL")

    def _prepare(self, text: str) -> Answer:
        self.prepared.prepare(text)
        return Answer("PREPARE")

    def _show(self, text: str) -> Answer:
        import pyarrow as pa

        name = text[4:].strip().strip('"').replace(" ", "_").lower()
        known = {setting.lower(): value for setting, value in SETTINGS.items()}
        if name == "transaction_isolation_level":
            name = "transaction_isolation"
        if name == "all":
            return Answer("SHOW", pa.table({"name": [*known], "setting": [*known.values()]}))
        if re.match(r"(tables|views|streams|columns|create)(_|$)", name):
            return self._run_statement(text)
        if name not in known:
            raise ResolutionError(f"there is no setting {name}")
        return Answer("SHOW", pa.table({name: [known[name]]}))

    # --- cursors and COPY -------------------------------------------------------------------------

    def _declare(self, text: str) -> Answer:
        match = _DECLARE.match(text)
        if match is None:
            raise ParseError("DECLARE is not understood", hint="DECLARE c CURSOR FOR SELECT ...")
        if not self.transaction.is_open and not re.search(r"\bWITH\s+HOLD\b", text, re.I):
            raise StateError("a cursor needs a transaction", hint="BEGIN first, or say WITH HOLD")
        self.cursors[plain_name(match.group(1))] = Answer("FETCH", self._read(match.group(2)))
        return Answer("DECLARE CURSOR")

    def _fetch(self, text: str) -> Answer:
        match = _FETCH.match(text)
        cursor = self.cursors.get(plain_name(match.group(2))) if match else None
        if match is None or cursor is None or cursor.table is None:
            raise ResolutionError("there is no such cursor", hint="FETCH 100 FROM c")
        count = match.group(1) or "1"
        rest = cursor.table.num_rows - cursor.sent
        limit = rest if count.upper() == "ALL" else 1 if count.upper() == "NEXT" else int(count)
        rows = cursor.table.slice(cursor.sent, min(limit, rest))
        cursor.sent += rows.num_rows
        return Answer(f"FETCH {rows.num_rows}", rows)

    def _close(self, text: str) -> Answer:
        match = _CLOSE.match(text)
        if match is None:
            raise ParseError("CLOSE is not understood", hint="CLOSE c")
        if match.group(1).upper() == "ALL":
            self.cursors.clear()
        elif self.cursors.pop(plain_name(match.group(1)), None) is None:
            raise ResolutionError("there is no such cursor")
        return Answer("CLOSE CURSOR")

    def _copy(self, text: str) -> Outcome:
        match = _COPY.match(text)
        if match is not None:
            self._gateway.check_writable()
            relation = self._gateway.database._state.definitions.relation(
                plain_name(match.group(1))
            )
            listed = (match.group(2) or "")[1:-1]
            columns = tuple(plain_name(name.strip()) for name in listed.split(",") if name.strip())
            for column in columns:
                relation.column(column)
            return CopyIn(relation, columns or relation.names, copy_format(match.group(3)))
        out = _COPY_OUT.match(text)
        if out is None:
            return self._run_statement(text)
        format = copy_format(out.group(2))
        source = out.group(1).strip()
        if not source.startswith("("):
            name, _, chosen = source.partition("(")
            rows = self._read(f"SELECT {chosen.strip().removesuffix(')') or '*'} FROM {name}")
            return CopyOut(rows, format)
        inner = source[1:-1].strip()
        if inner[:9].upper() == "SUBSCRIBE":
            if format != CopyFormat():
                raise UnsupportedError("SUBSCRIBE inside of COPY has no options: it writes text")
            return CopyOut(None, format, self._subscribe(inner))
        return CopyOut(self._read(inner), format)

    def _subscribe(self, text: str) -> SubscribeTo:
        match = _SUBSCRIBE.match(text)
        if match is None:
            raise ParseError(
                "SUBSCRIBE is not understood", hint="SUBSCRIBE TO v [WITH (PROGRESS, SNAPSHOT)]"
            )
        options = {}
        for option in filter(None, map(str.strip, (match.group(2) or "").split(","))):
            name, _, value = option.partition("=")
            options[name.strip().upper()] = value.strip().upper() not in ("FALSE", "0", "OFF")
        if options.keys() - {"PROGRESS", "SNAPSHOT"}:
            raise ParseError("SUBSCRIBE has the options PROGRESS and SNAPSHOT")
        view = plain_name(match.group(1))
        self._gateway.database.view(view)
        return SubscribeTo(view, options.get("SNAPSHOT", True), options.get("PROGRESS", False))

    # --- statements of viewlet --------------------------------------------------------------------

    def _read(self, text: str) -> pa.Table:
        """A SELECT of catalogs, or of tables and views."""
        if self.transaction.changes:
            raise UnsupportedError(
                "reading after changes in one transaction is not supported",
                hint="COMMIT first, or turn on autocommit",
            )
        answer = self._catalog.query(text, self._cancellation)
        if answer is not None:
            return answer
        text = without_public(text)
        if re.match(r"\s*TABLE\s", text, re.I):
            text = re.sub(r"^(\s*)TABLE\b", r"\1SELECT * FROM", text, flags=re.I)
        return self._gateway.query(text, self._cancellation)

    def _run_statement(self, text: str) -> Answer:
        first = re.match(r"\s*(\w+)", text)
        if first and first.group(1).upper() in ("SELECT", "WITH", "VALUES", "TABLE"):
            table = self._read(text)
            return Answer(f"SELECT {table.num_rows}", table)
        text = without_public(text)
        statements = self._gateway.statements(text)
        if not statements:
            return Answer("")
        ((statement, part),) = statements
        if isinstance(statement, Definition):
            if self.transaction.changes:
                raise UnsupportedError(
                    "definitions after changes in one transaction are not supported",
                    hint="COMMIT first, or turn on autocommit",
                )
            self._gateway.database.execute(part)
            return Answer(definition_tag(statement))
        if isinstance(statement, Inspect):
            table = self._gateway.database.execute(part)
            return Answer(f"SELECT {table.num_rows}", table)
        if isinstance(statement, SetOption):
            return Answer("SET")
        assert not isinstance(statement, Select | TransactionStatement)
        return self._change(statement)

    def _change(self, statement: RowStatement) -> Answer:
        is_waiting = bool(self.transaction.changes)
        if is_waiting and _reads_rows(statement):
            raise UnsupportedError(
                "reading after changes in one transaction is not supported",
                position=statement.position,
                hint="COMMIT first, or turn on autocommit",
            )
        database = self._gateway.database
        with database._state.lock:
            effect, table = self._effect(statement)
            changes = effect.changes
            if self.transaction.is_open:
                self.transaction.changes += changes
                self.transaction.deletes_cascade &= effect.deletes_cascade
            else:
                self._gateway.apply(changes, deletes_cascade=effect.deletes_cascade)
        if isinstance(statement, Truncate):
            return Answer("TRUNCATE TABLE")
        return Answer(f"{_TAGS.get(type(statement), 'INSERT 0')} {effect.count}", table)

    def _effect(self, statement: RowStatement) -> tuple[Effect, pa.Table | None]:
        """What a statement changes, and what it returns."""
        database = self._gateway.database
        rows = CurrentRows(database._state, database._reads, {}, statement.position)
        relation_of = database._state.definitions.relation
        if isinstance(statement, Truncate):
            relations = [relation_of(name) for name in statement.tables]
            return truncate_effect(relations, statement.position, rows), None
        relation = relation_of(statement.table)
        if isinstance(statement, Merge):
            return merge_effect(statement, relation, rows), None
        effect = effect_of(statement, relation, rows)
        table = returned(statement, effect, rows)
        if isinstance(statement, Insert) and statement.conflict is None:
            changes = [Change(c.relation, typed_rows(c.rows, relation)) for c in effect.changes]
            effect = replace(effect, changes=changes)
        return effect, table

    def copied(self, changes: list[Change]) -> None:
        """The rows of a COPY that has come to its end."""
        if self.transaction.is_open:
            self.transaction.changes += changes
        else:
            self._gateway.apply(changes)


_TAGS: dict[type, str] = {Update: "UPDATE", Delete: "DELETE", Merge: "MERGE"}


def _reads_rows(statement: RowStatement) -> bool:
    """Whether what a statement does hangs on rows that are there."""
    if isinstance(statement, Insert):
        return statement.conflict is not None
    return not isinstance(statement, Copy)
