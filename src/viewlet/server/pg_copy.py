"""COPY's text and CSV: a client's lines -> columns of values, and rows -> lines."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError
from viewlet.interfaces.dml import Change
from viewlet.server.pg_statements import CopyIn, typed
from viewlet.server.pg_types import text_value

if TYPE_CHECKING:
    import pyarrow as pa

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def copied_rows(copy: CopyIn, data: bytes) -> list[Change]:
    """Everything that a client sent, as one change; DataError with the line that is wrong."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"the rows are not UTF-8: {error.reason}") from None
    lines = _csv_lines(copy, text) if copy.format == "csv" else _text_lines(copy, text)
    kinds = [copy.relation.column(name).type.kind for name in copy.columns]
    columns: list[list[Any]] = [[] for _ in copy.columns]
    for number, values in enumerate(lines, 1):
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


def _text_lines(copy: CopyIn, text: str) -> list[list[str | None]]:
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    rows = []
    for line in lines[1:] if copy.has_header else lines:
        line = line.removesuffix("\r")
        if line == "\\.":
            break
        rows.append(
            [
                None if value == copy.null else _unescaped(value)
                for value in line.split(copy.delimiter)
            ]
        )
    return rows


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape.group(1), escape.group(1)), value)


def _csv_lines(copy: CopyIn, text: str) -> list[list[str | None]]:
    try:
        rows = list(
            csv.reader(io.StringIO(text, newline=""), delimiter=copy.delimiter, strict=True)
        )
    except csv.Error as error:
        raise DataError(f"the rows are not CSV: {error}") from None
    rows = rows[1:] if copy.has_header else rows
    return [[None if value == copy.null else value for value in row] for row in rows if row]


def copy_lines(table: pa.Table) -> list[bytes]:
    """Rows as COPY TO writes them."""
    return [copy_line(list(row.values())) for row in table.to_pylist()]


def copy_line(values: list[Any]) -> bytes:
    """One row as text."""
    parts = []
    for value in values:
        text = text_value(value)
        parts.append(b"\\N" if text is None else text.decode().translate(_WRITTEN).encode())
    return b"\t".join(parts) + b"\n"
