"""Files of rows -> Arrow, read with a relation's types: for COPY and for the sources of `run`.

DuckDB reads all formats but Arrow's own, so a DECIMAL in a CSV or JSON file never passes through a
binary fraction. It is a DuckDB of its own, which runs no user's SQL: that of queries reads no
files.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewlet.errors import DataError, Position, ViewletError
from viewlet.interfaces.adhoc import duckdb_connection, guarded, quoted
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
    plain = not any(character in path for character in "*?[:")
    if plain and not Path(path).exists():
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
        types = ", ".join(f"{_text(c.name)}: '{c.type}'" for c in relation.columns)
        if format == "json":
            return _query(f"SELECT * FROM read_json({_text(path)}, columns = {{{types}}})")
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
    first = _first_line(path)
    words = {word.strip().strip('"').lower() for word in first.split(delimiter)}
    named = [column for column in relation.columns if column.name.lower() in words]
    header_option = options_by_name.get("header")
    header = header_option.lower() == "true" if header_option is not None else bool(named)
    types = [f"{_text(c.name)}: '{c.type}'" for c in (named if header else relation.columns)]
    if header:
        arguments = f"header = true, types = {{{', '.join(types)}}}" if types else "header = true"
        names = "*"
    else:
        if first.endswith(delimiter):
            types.append("'_end': 'VARCHAR'")
        arguments = f"header = false, columns = {{{', '.join(types)}}}"
        names = ", ".join(map(quoted, relation.names))
    arguments += f", delim = {_text(delimiter)}"
    if "nullvalue" in options_by_name:
        arguments += f", nullstr = {_text(options_by_name['nullvalue'])}"
    try:
        return _query(f"SELECT {names} FROM read_csv({_text(path)}, {arguments})")
    except ViewletError as error:
        if "sniffing" not in error.message:
            raise
        raise DataError(
            f"the lines do not have the {len(relation.columns)} columns of {relation.name}, "
            f"separated by {delimiter!r}",
            hint="WITH (delimiter = ';', header = true) says how the file is written",
        ) from None


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


def _text(value: Any) -> str:
    """A SQL string."""
    return "'" + str(value).replace("'", "''") + "'"


def _first_line(path: str) -> str:
    """Of the file, or of the first file that a pattern matches."""
    first_path = path if Path(path).exists() else min(glob.iglob(path), default="")  # noqa: PTH207
    if not first_path:
        return ""
    with Path(first_path).open(encoding="utf-8", errors="replace") as file:
        return file.readline().rstrip("\r\n")
