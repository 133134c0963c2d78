"""COPY's formats: what a client sends -> columns of values, and rows -> what it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError
from viewlet.interfaces.dml import Change
from viewlet.schema import Kind
from viewlet.server.pg_copy_binary import HEAD, TRAILER, binary_lines, binary_rows
from viewlet.server.pg_copy_options import CopyFormat
from viewlet.server.pg_parameters import typed
from viewlet.server.pg_statements import CopyIn
from viewlet.server.pg_types import text_value, wire_columns

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1_000
TEXT_FORMAT = CopyFormat()
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SPECIAL = re.compile(r"[\r\n]|^\\\.$")
_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def copied_rows(copy: CopyIn, data: bytes) -> list[Change]:
    """Everything that a client sent, as one change; DataError with the line that is wrong."""
    kinds = [copy.relation.column(name).type.kind for name in copy.columns]
    columns: list[list[Any]] = [[] for _ in copy.columns]
    for number, values in enumerate(_rows(copy, data, kinds), 1):
        if len(values) != len(columns):
            raise DataError(
                f"line {number} has {len(values)} values for {len(columns)} columns of "
                f"{copy.relation.name}"
            )
        for column, value, kind in zip(columns, values, kinds, strict=True):
            column.append(None if value is None else typed(value, kind))
    if not columns or not columns[0]:
        return []
    return [Change(copy.relation.name, dict(zip(copy.columns, columns, strict=True)))]


def _rows(copy: CopyIn, data: bytes, kinds: list[Kind]) -> Iterable[list[str | None]]:
    if copy.format.kind == "binary":
        return binary_lines(data, kinds)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"the rows are not UTF-8: {error.reason}") from None
    return _csv_lines(copy, text) if copy.format.kind == "csv" else _text_lines(copy, text)


def _text_lines(copy: CopyIn, text: str) -> list[list[str | None]]:
    format = copy.format
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    rows = []
    for line in lines[1:] if format.has_header else lines:
        line = line.removesuffix("\r")
        if line == "\\.":
            break
        rows.append(
            [
                None if value == format.null else _unescaped(value)
                for value in line.split(format.delimiter)
            ]
        )
    return rows


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape.group(1), escape.group(1)), value)


def _csv_lines(copy: CopyIn, text: str) -> list[list[str | None]]:
    """A field in quotes is no NULL, whatever stands in it."""
    format = copy.format
    quote, delimiter = re.escape(format.quote), re.escape(format.delimiter)
    field = re.compile(
        rf"(?:{quote}([^{quote}]*(?:{quote}{quote}[^{quote}]*)*){quote}|([^{quote}{delimiter}\r\n]*))"
        rf"({delimiter}|\r\n|\n|\r|\Z)"
    )
    rows: list[list[str | None]] = []
    row: list[str | None] = []
    at = 0
    while at < len(text) or row:
        match = field.match(text, at)
        if match is None:
            raise DataError(f"line {len(rows) + 1} is not CSV: a quote where none belongs")
        quoted, plain, end = match.groups()
        if quoted is not None:
            row.append(quoted.replace(2 * format.quote, format.quote))
        else:
            row.append(None if plain == format.null else plain)
        at = match.end()
        if end == format.delimiter:
            continue
        if quoted is None and len(row) == 1 and plain == "\\.":
            break
        if quoted is not None or plain or len(row) > 1 or len(copy.columns) == 1:
            rows.append(row)
        row = []
    return rows[1:] if format.has_header else rows


def copy_messages(table: pa.Table, format: CopyFormat) -> Iterator[bytes]:
    """The rows of an answer as COPY TO sends them, each in a message.

    As from PostgreSQL, the signature of the binary format is in the message of what follows it:
    ADBC's driver counts on that.
    """
    columns = wire_columns(table.schema)
    before = HEAD if format.kind == "binary" else b""
    if format.has_header:
        yield _line(table.column_names, format)
    for start in range(0, table.num_rows, ROWS_AT_ONCE):
        part = table.slice(start, ROWS_AT_ONCE)
        if format.kind == "binary":
            rows = iter(binary_rows(part, columns))
        else:
            lists = [part.column(at).to_pylist() for at in range(part.num_columns)]
            listed = zip(*lists, strict=True) if lists else [()] * part.num_rows
            rows = (_line(list(row), format) for row in listed)
        for row in rows:
            yield before + row
            before = b""
    if format.kind == "binary":
        yield before + TRAILER


def _line(values: list[Any], format: CopyFormat) -> bytes:
    if format.kind != "csv":
        return copy_line(values, format)
    parts = []
    special = {format.delimiter, format.quote}
    for value in values:
        encoded = text_value(value)
        text = None if encoded is None else encoded.decode()
        if text is None:
            parts.append(format.null)
        elif text == format.null or _SPECIAL.search(text) or special & {*text}:
            doubled = text.replace(format.quote, 2 * format.quote)
            parts.append(f"{format.quote}{doubled}{format.quote}")
        else:
            parts.append(text)
    return (format.delimiter.join(parts) + "\n").encode()


def copy_line(values: list[Any], format: CopyFormat = TEXT_FORMAT) -> bytes:
    """One row as text."""
    parts = []
    for value in values:
        text = text_value(value)
        if text is None:
            parts.append(format.null)
        else:
            written = text.decode().translate(_WRITTEN)
            if format.delimiter != "\t":
                written = written.replace(format.delimiter, "\\" + format.delimiter)
            parts.append(written)
    return (format.delimiter.join(parts) + "\n").encode()
