"""JSON files -> Arrow: one object after the other, or an array of objects.

Arrow reads objects of plainly written values, a line each. Whatever it refuses is read again by
Python, whose numbers keep their digits, and taken value by value as tuples are.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from viewlet.engine.values.arrow import arrow_type
from viewlet.errors import DataError
from viewlet.interfaces.text_columns import typed_table, typed_values
from viewlet.schema import Kind, Relation, shown_value

if TYPE_CHECKING:
    import pyarrow as pa


def read_json_files(paths: Sequence[str], relation: Relation) -> pa.Table:
    """The relation's columns, NULL where they are missing, and whatever else is named."""
    import pyarrow as pa

    try:
        texts = pa.concat_tables([_plain_objects(path, relation) for path in paths])
    except pa.ArrowException:
        return _by_definition(paths, relation)
    return typed_table(texts, relation)


def _plain_objects(path: str, relation: Relation) -> pa.Table:
    """An object a line, read by Arrow; dates and timestamps stay text."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    schema = pa.schema(
        [
            (
                column.name,
                pa.string()
                if column.type.kind in (Kind.DATE, Kind.TIMESTAMP)
                else arrow_type(column.type),
            )
            for column in relation.columns
        ]
    )
    options = arrow_json.ParseOptions(schema, unexpected_field_behavior="infer")
    with pa.input_stream(path, compression="detect") as file:
        return arrow_json.read_json(file, parse_options=options)


def _by_definition(paths: Sequence[str], relation: Relation) -> pa.Table:
    import pyarrow as pa

    rows = [row for path in paths for row in _objects(_text_of(path))]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise DataError(
                f"row {number} for {relation.name} is {shown_value(row)}, and not an object",
                hint='write {"column": value, ...}, one after the other or in an array',
            )
    columns = [
        typed_values((row.get(column.name) for row in rows), column, relation)
        for column in relation.columns
    ]
    others = sorted({name for row in rows for name in row} - set(relation.names))
    columns += [pa.nulls(len(rows))] * len(others)
    return pa.Table.from_arrays(columns, names=[*relation.names, *others])


def _text_of(path: str) -> str:
    import pyarrow as pa

    with pa.input_stream(path, compression="detect") as file:
        data = file.read()
    try:
        return str(data, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"it is not in UTF-8: {error}") from None


def _objects(text: str) -> Iterator[Any]:
    """The values of a text; those of an array one by one."""
    decoder = json.JSONDecoder(
        parse_float=decimal.Decimal, parse_int=_whole_number, object_pairs_hook=_object
    )
    position = _next(text, 0)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError, ValueError) as error:
            raise DataError(f"it is not JSON: {shown_value(error)}") from None
        if isinstance(value, list):
            yield from value
        else:
            yield value
        position = _next(text, position)


def _whole_number(text: str) -> int | decimal.Decimal:
    """Python refuses to read some thousands of digits as an int."""
    return int(text) if len(text) < 40 else decimal.Decimal(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"an object names {shown_value(twice)} twice")
    return members


def _next(text: str, position: int) -> int:
    """The position of the next character that is no blank."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position
