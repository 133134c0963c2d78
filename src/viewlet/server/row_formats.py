"""Rows as bytes: bodies of requests -> rows for the database, tables -> bodies of answers.

application/json, x-ndjson, jsonl    objects or lists, one a line, or one list of them
text/csv                             with a header line, unless ?header=false
application/vnd.apache.arrow.stream  record batches
application/vnd.apache.parquet       answers alone
"""

from __future__ import annotations

import decimal
import io
import json
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from viewlet.engine.values.arrow import arrow_type
from viewlet.errors import DataError
from viewlet.interfaces.json_values import json_row, json_text
from viewlet.schema import Kind, Relation

if TYPE_CHECKING:
    import pyarrow as pa

ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
CSV = "text/csv"
JSON_LINES = ("application/json", "application/x-ndjson", "application/jsonl")
MEDIA_TYPES = {"json": "application/json", "csv": CSV, "arrow": ARROW, "parquet": PARQUET}
MAX_LINE = 16 * 2**20


def read_rows(
    kind: str,
    body: io.RawIOBase | IO[bytes],
    relation: Relation,
    size: int,
    has_header: bool,
    *,
    is_whole: bool = False,
) -> Iterator[Any]:
    """The rows of a body in batches of about `size`, in shapes that `insert` takes.

    `is_whole`: all of the body is there, so that JSON may be one text over many lines.
    """
    if is_whole and kind == "application/json":
        return _json_text(body, relation, size)
    if kind in JSON_LINES:
        return _json_rows(body, relation, size)
    if kind == CSV:
        return _csv_rows(body, relation, has_header)
    if kind == ARROW:
        return _arrow_rows(body)
    known = ", ".join((*JSON_LINES, CSV, ARROW))
    raise DataError(f"cannot read rows of type {kind or 'none'}", hint=f"Content-Type is {known}")


def _json_text(body: Any, relation: Relation, size: int) -> Iterator[Any]:
    """One object, or a list of rows, over any number of lines; else a row a line."""
    try:
        value = json.loads(body.read(), parse_float=decimal.Decimal, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        body.seek(0)
        return _json_rows(body, relation, size)  # which says what is wrong where
    is_many = isinstance(value, list) and all(isinstance(row, dict | list) for row in value)
    rows = [
        _json_row(row, relation, _doubles(relation), 1) for row in (value if is_many else [value])
    ]
    return iter([rows] if rows else [])


def _doubles(relation: Relation) -> dict[str, int]:
    return {c.name: at for at, c in enumerate(relation.columns) if c.type.kind is Kind.DOUBLE}


def _json_rows(body: Any, relation: Relation, size: int) -> Iterator[Any]:
    doubles = _doubles(relation)
    rows: list[Any] = []
    for number, line in enumerate(_lines(body), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_float=decimal.Decimal, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"line {number} is not JSON: {error}",
                hint="write one object or list a line, or one list of them in a line",
            ) from None
        is_many = isinstance(value, list) and all(isinstance(row, dict | list) for row in value)
        for row in value if is_many else [value]:
            rows.append(_json_row(row, relation, doubles, number))
        if len(rows) >= size:
            yield rows
            rows = []
    if rows:
        yield rows


def _json_row(row: Any, relation: Relation, doubles: dict[str, int], line: int) -> Any:
    """A row with its strings for DOUBLE as numbers: JSON has no NaN and no infinities."""
    if isinstance(row, dict):
        for name in doubles.keys() & row.keys():
            row[name] = _double(row[name])
        return row
    if isinstance(row, list):
        for at in doubles.values():
            if at < len(row):
                row[at] = _double(row[at])
        return tuple(row)
    raise DataError(
        f"line {line} is no row of {relation.name}", hint='a row is {"a": 1, ...} or [1, ...]'
    )


def _double(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return float(value)
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no value of JSON; write it as a string")


def _lines(body: Any) -> Iterator[bytes]:
    reader = io.BufferedReader(body, 2**16)
    while line := reader.readline(MAX_LINE):
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            raise DataError(f"a line is longer than {MAX_LINE} bytes", hint="write one row a line")
        yield line


def _csv_rows(body: Any, relation: Relation, has_header: bool) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    types = {column.name: arrow_type(column.type) for column in relation.columns}
    try:
        reader = csv.open_csv(
            body,
            read_options=csv.ReadOptions(
                column_names=None if has_header else list(types), use_threads=False
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        for batch in reader:
            if batch.num_rows:
                yield pa.Table.from_batches([batch])
    except pa.ArrowException as error:
        if "Empty CSV file" not in str(error):
            raise DataError(f"not rows of {relation.name} as CSV: {error}") from None


def _arrow_rows(body: Any) -> Iterator[Any]:
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(body) as reader:
            for batch in reader:
                batch.validate(full=True)  # what a stranger says of his buffers
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
    except pa.ArrowException as error:
        raise DataError(f"not an Arrow stream: {error}") from None


def one_batch(parts: Sequence[Any]) -> Any:
    """Parts of one body as rows of one batch."""
    if all(isinstance(part, list) for part in parts):
        return [row for part in parts for row in part]
    import pyarrow as pa

    return pa.concat_tables(parts)


def json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """A table's rows as JSON can have them."""
    return [json_row(row.keys(), row.values()) for row in table.to_pylist()]


def written(table: pa.Table, format: str) -> bytes:
    """A table as csv, arrow or parquet; DataError where the format cannot hold it."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    sink = io.BytesIO()
    try:
        if format == "csv":
            csv.write_csv(table, sink)
        elif format == "arrow":
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            parquet.write_table(table, sink)
    except (pa.ArrowException, NotImplementedError) as error:
        raise DataError(f"the rows cannot be written as {format}: {error}") from None
    return sink.getvalue()


def json_body(value: Any) -> bytes:
    """The body of an answer in JSON."""
    return json_text(value).encode()
