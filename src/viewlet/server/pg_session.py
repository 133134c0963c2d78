"""One client of the PostgreSQL wire: startup, password, then messages until it leaves.

    simple      Q: statements of a text, one after the other
    extended    P, B, D, E, C, H, S: prepared statements and portals, in binary where asked for
    copy        d, c, f: rows of COPY ... FROM STDIN

An error of the family is an ErrorResponse with its SQLSTATE and place; after one, everything up to
the next Sync is skipped. What is no message ends the connection.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from viewlet.errors import (
    CanceledError,
    DataError,
    ParseError,
    RangeError,
    ResolutionError,
    StateError,
    TypingError,
    UnsupportedError,
    ViewletError,
)
from viewlet.frontend.catalog_text import is_prepare, statement_texts, with_parameters
from viewlet.interfaces.cancellation import Cancellation
from viewlet.server import pg_messages as wire
from viewlet.server.feeds import Feeds
from viewlet.server.gateway import Gateway
from viewlet.server.pg_catalog import WireCatalog
from viewlet.server.pg_copy import copied_rows, copy_line, copy_messages
from viewlet.server.pg_messages import MessageReader, WireError
from viewlet.server.pg_parameters import literal, null_of
from viewlet.server.pg_statements import Answer, CopyIn, CopyOut, Outcome, PgStatements, SubscribeTo
from viewlet.server.pg_stream import MessageStream
from viewlet.server.pg_types import (
    BOOL,
    INT8,
    TEXT,
    WireColumn,
    binary_value,
    has_binary,
    text_value,
    wire_columns,
)

ROWS_AT_ONCE = 1_000
STATES: tuple[tuple[type[ViewletError], str], ...] = (
    (ParseError, "42601"),
    (ResolutionError, "42P01"),
    (TypingError, "42804"),
    (UnsupportedError, "0A000"),
    (RangeError, "22003"),
    (DataError, "22000"),
    (StateError, "25P02"),
    (CanceledError, "57014"),
)


Report = Callable[[str, str, str, float], None]
"""Told of each statement: the protocol, its first word, how it ended, and its seconds."""


@dataclass
class Portal:
    """A statement with its parameters, and its answer once it has run."""

    text: str
    formats: tuple[int, ...]
    answer: Answer | None = None
    outcome: Outcome | None = None


@dataclass
class PgSession:
    """The state of one connection after its startup."""

    gateway: Gateway
    feeds: Feeds
    catalog: WireCatalog
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    report: Report
    secret: int = field(default_factory=lambda: secrets.randbits(31))

    def __post_init__(self) -> None:
        self._statements = PgStatements(self.gateway, self.catalog)
        self._prepared = self._statements.prepared
        self._portals: dict[str, Portal] = {}
        self._is_skipping = False
        self._word, self._status = "", "ok"
        self._canceled = asyncio.Event()
        self._cancellation = Cancellation()
        self.stream = MessageStream(self.reader, self.cancel)

    def cancel(self) -> None:
        """End the query, COPY or SUBSCRIBE that runs, if one does."""
        self._canceled.set()
        self._cancellation.cancel()

    # --- messages ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the client leaves."""
        self._ready()
        while True:
            await self.writer.drain()
            letter, content = await self.stream.read()
            if letter == b"X":
                return
            began, self._status, self._word = time.perf_counter(), "ok", ""
            try:
                await self._handle(letter, content)
            except ViewletError as error:
                self._fail(error)
                if letter == b"Q":
                    self._ready()
                else:
                    self._is_skipping = True
            if self._word:
                self.report("pg", self._word, self._status, time.perf_counter() - began)

    async def _handle(self, letter: bytes, content: bytes) -> None:
        message = MessageReader(content)
        if letter == b"S":
            self._is_skipping = False
            if not self._statements.transaction.is_open:
                self._portals.clear()
            self._ready()
        elif letter == b"Q":
            self._is_skipping = False
            await self._query(message.string())
            self._ready()
        elif self._is_skipping or letter == b"H":
            return
        elif letter == b"P":
            name, text = message.string(), message.string()
            self._prepared.put(name, text, message.counted("I"))
            self.send(wire.PARSE_COMPLETE)
        elif letter == b"B":
            self._bind(message)
        elif letter == b"D":
            await self._describe(*self._named(message))
        elif letter == b"E":
            portal = self._portal(message.string())
            await self._execute(portal, message.numbers("i")[0])
        elif letter == b"C":
            kind, name = self._named(message)
            if kind == "S":
                self._prepared.drop(name)
            else:
                self._portals.pop(name, None)
            self.send(wire.CLOSE_COMPLETE)
        elif letter in (b"d", b"c", b"f"):
            return  # what a client still sends of a COPY that has failed
        else:
            raise WireError(f"there is no message {letter!r}")

    def send(self, content: bytes) -> None:
        """To the client, at the next chance."""
        self.writer.write(content)

    def _ready(self) -> None:
        self.send(wire.ready(self._statements.transaction.status))

    def _fail(self, error: ViewletError, text: str = "") -> None:
        self._status = state_of(error)
        if self._statements.transaction.is_open:
            self._statements.transaction.is_failed = True
        self.send(error_message(error, text))

    def _named(self, message: MessageReader) -> tuple[str, str]:
        (kind,) = message.numbers("B")
        letter = chr(kind)
        if letter not in ("S", "P"):
            raise WireError("neither a statement nor a portal")
        return letter, message.string()

    # --- the simple protocol ----------------------------------------------------------------------

    async def _query(self, text: str) -> None:
        parts = statement_texts(text)
        if not parts:
            self.send(wire.EMPTY_QUERY)
        for part in parts:
            try:
                outcome = await self._run(part)
            except ViewletError as error:
                self._fail(error, text)
                return
            if isinstance(outcome, Answer):
                if outcome.table is not None:
                    self._send_description(outcome.table, ())
                await self._send_rows(outcome, (), 0)
            else:
                await self._converse(outcome)

    async def _run(self, text: str) -> Outcome:
        self._renew()
        self._word = (text.split(None, 1) or [""])[0][:20].upper()
        return await self.gateway.compute(self._statements.run, text, self._cancellation)

    def _renew(self) -> None:
        """What was canceled before is nothing to the statement that begins."""
        if self._canceled.is_set():
            self._canceled = asyncio.Event()
            self._cancellation = Cancellation()

    async def _converse(self, outcome: CopyIn | CopyOut | SubscribeTo) -> None:
        if isinstance(outcome, CopyIn):
            await self._copy_in(outcome)
        elif isinstance(outcome, SubscribeTo):
            await self._subscribe(outcome, is_copy=False)
        elif outcome.subscribe is not None:
            await self._subscribe(outcome.subscribe, is_copy=True)
        else:
            assert outcome.table is not None
            is_binary = int(outcome.format.kind == "binary")
            self.send(wire.copy_response(b"H", outcome.table.num_columns, is_binary))
            for row in copy_messages(outcome.table, outcome.format):
                self._cancellation.check()
                self.send(wire.message(b"d", row))
                await self.writer.drain()
            self.send(wire.COPY_DONE + wire.command_complete(f"COPY {outcome.table.num_rows}"))

    # --- the extended protocol --------------------------------------------------------------------

    def _bind(self, message: MessageReader) -> None:
        name, statement_name = message.string(), message.string()
        prepared = self._prepared[statement_name]
        formats = message.counted("h")
        (count,) = message.numbers("h")
        if count < 0:
            raise WireError("a count is negative")
        literals = []
        for at in range(count):
            format = formats[at] if at < len(formats) else formats[0] if len(formats) == 1 else 0
            oid = prepared.oids[at] if at < len(prepared.oids) else 0
            literals.append(literal(message.value(), oid, format))
        text = prepared.text
        if not is_prepare(text):
            text = with_parameters(text, literals)
        self._portals[name] = Portal(text, message.counted("h"))
        self.send(wire.BIND_COMPLETE)

    def _portal(self, name: str) -> Portal:
        """A portal, or the cursor of this name."""
        cursor = self._statements.cursors.get(name)
        if cursor is not None and name not in self._portals:
            return Portal("", (), cursor, cursor)
        if name not in self._portals:
            raise ResolutionError(f"there is no portal {name[:60]!r}")
        return self._portals[name]

    async def _describe(self, kind: str, name: str) -> None:
        if kind == "P":
            portal = self._portal(name)
            await self._run_portal(portal)
            if portal.answer is not None and portal.answer.table is not None:
                self._send_description(portal.answer.table, portal.formats)
            else:
                self.send(wire.NO_DATA)
            return
        prepared = self._prepared[name]
        self.send(wire.parameter_description([oid or TEXT for oid in prepared.oids]))
        text = prepared.text
        if not is_prepare(text):
            text = with_parameters(text, list(map(null_of, prepared.oids)))
        self._renew()
        table = await self.gateway.compute(self._statements.describe, text, self._cancellation)
        if table is None:
            self.send(wire.NO_DATA)
        else:
            self._send_description(table, ())

    async def _run_portal(self, portal: Portal) -> None:
        if portal.outcome is None:
            parts = statement_texts(portal.text)
            if len(parts) > 1:
                raise ParseError("a prepared statement is one statement")
            portal.outcome = await self._run(parts[0]) if parts else Answer("")
            if isinstance(portal.outcome, Answer):
                portal.answer = portal.outcome

    async def _execute(self, portal: Portal, limit: int) -> None:
        await self._run_portal(portal)
        if portal.answer is not None:
            await self._send_rows(portal.answer, portal.formats, max(limit, 0))
        elif portal.outcome is not None and not isinstance(portal.outcome, Answer):
            await self._converse(portal.outcome)

    # --- rows -------------------------------------------------------------------------------------

    def _send_description(self, table: pa.Table, formats: Sequence[int]) -> None:
        columns = wire_columns(table.schema)
        described = [c.described(_format(formats, at, c)) for at, c in enumerate(columns)]
        self.send(wire.row_description(described))

    async def _send_rows(self, answer: Answer, formats: Sequence[int], limit: int) -> None:
        """Those that were not sent, up to a limit; 0 is none."""
        table = answer.table
        if table is None:
            self.send(wire.command_complete(answer.tag) if answer.tag else wire.EMPTY_QUERY)
            return
        columns = wire_columns(table.schema)
        stop = min(table.num_rows, answer.sent + limit) if limit else table.num_rows
        while answer.sent < stop:
            part = table.slice(answer.sent, min(ROWS_AT_ONCE, stop - answer.sent))
            self.send(b"".join(data_rows(part, columns, formats)))
            answer.sent += part.num_rows
            await self.writer.drain()
            self._cancellation.check()
        is_cut = bool(limit) and answer.sent < table.num_rows
        self.send(wire.PORTAL_SUSPENDED if is_cut else wire.command_complete(answer.tag))

    async def _copy_in(self, copy: CopyIn) -> None:
        is_binary = int(copy.format.kind == "binary")
        self.send(wire.copy_response(b"G", len(copy.columns), is_binary))
        await self.writer.drain()
        data = bytearray()
        while True:
            letter, content = await self._read_unless_canceled()
            if letter == b"d":
                data += content
                if len(data) > self.gateway.settings.max_body:
                    raise DataError(
                        f"COPY has more than {self.gateway.settings.max_body} bytes",
                        hint="send less at once, or raise --max-body",
                    )
            elif letter == b"c":
                break
            elif letter == b"f":
                raise DataError("COPY was given up by the client")
            elif letter not in b"HS":
                raise WireError("a message inside of COPY")
        changes = await self.gateway.run(copied_rows, copy, bytes(data))
        if changes:
            await self.gateway.compute(self._statements.copied, changes)
        count = len(next(iter(changes[0].rows.values()))) if changes else 0
        self.send(wire.command_complete(f"COPY {count}"))

    async def _read_unless_canceled(self) -> tuple[bytes, bytes]:
        canceled = asyncio.ensure_future(self._canceled.wait())
        reading = asyncio.ensure_future(self.stream.read())
        try:
            await asyncio.wait((reading, canceled), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            raise CanceledError("canceled on request")
        finally:
            canceled.cancel()
            reading.cancel()

    async def _subscribe(self, requested: SubscribeTo, is_copy: bool) -> None:
        """Rows with their version and weight, until the client cancels."""
        view = self.gateway.database.view(requested.view)
        head = [WireColumn("_version", INT8)]
        if requested.has_progress:
            head.append(WireColumn("_progressed", BOOL))
        head.append(WireColumn("_weight", INT8))
        schema = await self.gateway.run(lambda: self.gateway.snapshot(requested.view)[1].schema)
        columns = [*head, *wire_columns(schema)]
        if is_copy:
            self.send(wire.copy_response(b"H", len(columns)))
        else:
            self.send(wire.row_description([column.described(0) for column in columns]))
        blank = [None] * len(view.columns)
        listening = self.gateway.database.watch(
            requested.view, snapshot=True, capacity=1_000, full="coalesce"
        )
        is_first = True
        async with listening as watch:
            canceled = asyncio.ensure_future(self._canceled.wait())
            try:
                while not canceled.done() and not self.stream.has_ended:
                    following = asyncio.ensure_future(anext(watch))
                    gone = {following, canceled}
                    await asyncio.wait(gone, return_when=asyncio.FIRST_COMPLETED)
                    if not following.done():
                        following.cancel()
                        break
                    batch = following.result()
                    is_shown = requested.has_snapshot or not is_first
                    is_first = False
                    rows = [(row, -1) for row in batch.deleted] + [(r, 1) for r in batch.inserted]
                    for row, weight in rows if is_shown else ():
                        start = [batch.version, False, weight]
                        self._send_change(
                            [*(start if requested.has_progress else (start[0], weight)), *row],
                            is_copy,
                        )
                    if requested.has_progress:
                        self._send_change([batch.version, True, None, *blank], is_copy)
                    await self.writer.drain()
            finally:
                canceled.cancel()
        raise CanceledError("canceled on request")

    def _send_change(self, values: list[Any], is_copy: bool) -> None:
        if is_copy:
            self.send(wire.message(b"d", copy_line(values)))
        else:
            self.send(wire.data_row([text_value(value) for value in values]))


def _format(formats: Sequence[int], at: int, column: WireColumn) -> int:
    requested = formats[at] if at < len(formats) else formats[0] if len(formats) == 1 else 0
    return 1 if requested == 1 and has_binary(column.oid) else 0


def data_rows(
    table: pa.Table, columns: Sequence[WireColumn], formats: Sequence[int]
) -> list[bytes]:
    """The rows of a table as messages."""
    texts = []
    for at, column in enumerate(columns):
        values = table.column(at).to_pylist()
        if _format(formats, at, column):
            texts.append([binary_value(value, column.oid) for value in values])
        else:
            texts.append([text_value(value) for value in values])
    return [wire.data_row(row) for row in zip(*texts, strict=True)] or [wire.data_row([])] * (
        table.num_rows if not columns else 0
    )


def error_message(error: ViewletError, text: str = "") -> bytes:
    """ErrorResponse; with the place where the text of the query is known."""
    code = state_of(error)
    values = {"S": "ERROR", "V": "ERROR", "C": code, "M": error.message, "H": error.hint or ""}
    if error.position is not None and text:
        lines = text.split("\n")[: error.position.line - 1]
        values["P"] = str(sum(len(line) + 1 for line in lines) + error.position.column)
    return wire.fields(b"E", values)


def state_of(error: ViewletError) -> str:
    """The SQLSTATE of an error."""
    code = next((code for kind, code in STATES if isinstance(error, kind)), "XX000")
    if error.message.partition(": ")[2].startswith("duplicate primary key") or (
        error.message.startswith("duplicate primary key")
    ):
        code = "23505"
    return code
