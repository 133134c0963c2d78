"""Files of rows -> Arrow, read with a relation's types: for COPY and for the sources of `run`.

What a file says is taken as a tuple with the same values would be. DuckDB finds the lines and
fields of a CSV file, and leaves them text (text_columns.py says what they stand for); it reads
Parquet, too. It is a DuckDB of its own, which runs no user's SQL: that of queries reads no files.
"""

from __future__ import annotations

import csv
import glob
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError, Position, ViewletError
from viewlet.interfaces.adhoc import duckdb_connection, guarded, quoted
from viewlet.interfaces.json_files import read_json_files
from viewlet.interfaces.text_columns import TRUTHS, typed_table
from viewlet.schema import Relation

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("arrow", "csv", "json", "parquet", "tbl")
OPTIONS = ("header", "delimiter", "sep", "nullvalue")
"""What a reader of CSV can be told; the rest is found out."""


def read_file(
    path: str,
    format: str,
    relation: Relation,
    position: Position | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.Table:
    """All columns that the file has, those of the relation with its types."""
    if format not in FORMATS:
        raise DataError(
            f"cannot read {format} files",
            position=position,
            hint=f"formats are {', '.join(FORMATS)}",
        )
    if not _paths(path):
        raise DataError(
            f"there is no file {path}",
            position=position,
            hint="paths are relative to where the process was started",
        )
    try:
        if format == "arrow":
            return _read_arrow(path, position)
        if format == "parquet":
            return _query(f"SELECT * FROM read_parquet({_text(path)})")
        if format == "json":
            return read_json_files(_paths(path), relation)
        return _read_csv(path, format, relation, options or {})
    except OSError as problem:
        reason = problem.strerror or problem
        raise DataError(f"cannot read {path}: {reason}", position=position) from None


def _query(text: str) -> pa.Table:
    return guarded(lambda: _reader().cursor().sql(text).to_arrow_table())


@lru_cache(1)
def _reader() -> Any:
    """The process's DuckDB for files."""
    return duckdb_connection()


def _read_csv(path: str, format: str, relation: Relation, options: Mapping[str, str]) -> pa.Table:
    """CSV with or without a header; tbl is CSV with bars, as dbgen writes it.

    A first line that names a column of the table is a header.
    """
    options_by_name = {name.lower(): value for name, value in options.items()}
    delimiter = options_by_name.get(
        "delimiter", options_by_name.get("sep", "|" if format == "tbl" else ",")
    )
    if not delimiter:
        raise DataError("the delimiter is empty", hint="write a character, as in DELIMITER ';'")
    first = _first_line(path)
    if not first and not any(Path(file).stat().st_size for file in _paths(path)):
        return _no_rows(relation)
    words = _fields(first, delimiter)
    names = {column.name for column in relation.columns}
    header_option = options_by_name.get("header")
    is_named = any(word.strip().lower() in map(str.lower, names) for word in words)
    header = is_named if header_option is None else _truth("header", header_option)
    fields = words if header else list(relation.names)
    if not header and first.endswith(delimiter) and len(words) > len(fields):
        fields.append("_end")
    if len(set(fields)) < len(fields):
        raise DataError(f"the header has a name twice: {', '.join(fields)}")
    types = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in fields)
    arguments = (
        f"auto_detect = false, header = {str(header).lower()}, columns = {{{types}}}, "
        f"delim = {_text(delimiter)}, quote = '\"', escape = '\"', allow_quoted_nulls = false"
    )
    if "nullvalue" in options_by_name:
        arguments += f", nullstr = {_text(options_by_name['nullvalue'])}"
    selected = ", ".join(map(quoted, words if header else relation.names))
    try:
        texts = _query(f"SELECT {selected} FROM read_csv({_text(path)}, {arguments})")
    except ViewletError as error:
        raise _line_error(error.message, fields) from None
    return typed_table(texts, relation)


_FIELD_COUNT = re.compile(r"expected number of columns: \d+ found: (\d+)", re.IGNORECASE)


def _line_error(message: str, fields: list[str]) -> DataError:
    """line 3: expected Number of Columns: 2 Found: 1 -> line 3 has 1 field, and not 2 (a, b)"""
    start, _, what = message.partition(": ")
    if not start.startswith("line "):
        return DataError(f"the file cannot be read: {message}")
    field_count = _FIELD_COUNT.search(what)
    names = f"{len(fields)} ({', '.join(fields)})"
    if field_count is not None:
        count = field_count[1]
        return DataError(
            f"{start} has {count} field{'s' * (count != '1')}, and not {names}",
            hint="WITH (delimiter = ';', header = true) says how the file is written",
        )
    if "quote" in what.lower():
        return DataError(
            f"{start}, with the fields {names}: a quote is not closed, or text follows "
            "the closing one",
            hint='a quote inside of quotes is written twice: "say ""yes"""',
        )
    return DataError(f"{start}, with the fields {names}: {what}")


def _fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line."""
    if len(delimiter) > 1:
        return [field.strip().strip('"') for field in line.split(delimiter)]
    return next(csv.reader([line], delimiter=delimiter), [])


def _no_rows(relation: Relation) -> pa.Table:
    """What is in an empty file."""
    import pyarrow as pa

    return pa.table({column.name: pa.array([], pa.null()) for column in relation.columns})


def _read_arrow(path: str, position: Position | None) -> pa.Table:
    """Arrow IPC, as a file or as a stream."""
    import pyarrow as pa

    with pa.memory_map(path) as file:
        try:
            return pa.ipc.open_file(file).read_all()
        except pa.ArrowInvalid:
            file.seek(0)
        try:
            return pa.ipc.open_stream(file).read_all()
        except pa.ArrowInvalid as error:
            raise DataError(f"{path} is not an Arrow file: {error}", position=position) from None


def _truth(option: str, text: str) -> bool:
    truth = TRUTHS.get(text.strip().lower())
    if truth is None:
        raise DataError(f"{option} is {text!r}", hint=f"write {option} = true or false")
    return truth


def _text(value: Any) -> str:
    """A SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


def _paths(path: str) -> list[str]:
    """The file, or the files that a pattern matches."""
    return [path] if Path(path).exists() else sorted(glob.iglob(path))  # noqa: PTH207


def _first_line(path: str) -> str:
    """Of the first file."""
    paths = _paths(path)
    if not paths:
        return ""
    with Path(paths[0]).open(encoding="utf-8-sig", errors="replace") as file:
        return file.readline().rstrip("\r\n")
