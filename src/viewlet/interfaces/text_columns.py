"""Columns of text, as files have them -> Arrow columns of a relation's types, by one rule.

`value_of_text` says what a text stands for; what a column takes of it says `schema.encode`, as for
every other way in. Arrow's own casts read the chunks whose texts are all written plainly, and only
texts that the rule reads alike; a chunk with any other text is read by the rule, one by one.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from viewlet.engine.values.arrow import arrow_type
from viewlet.errors import DataError
from viewlet.schema import Column, Kind, Relation, decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?(inf|infinity)|nan", re.IGNORECASE)
TRUTHS = dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "off", "0"), False
)
"""How PostgreSQL lets truths be written."""


def value_of_text(text: str, column: Column) -> Any:
    """What `encode` is given for a text in a file; the text itself where it stands for nothing.

    2 -> 2, 2.50 -> Decimal("2.50"), yes -> True; dates, DECIMALs and strings as in tuples.
    """
    kind, bare = column.type.kind, text.strip()
    if kind is Kind.BOOLEAN:
        return TRUTHS.get(bare.lower(), text)
    if kind is Kind.DOUBLE and _NOT_FINITE.fullmatch(bare):
        return float(bare)
    if kind in (Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE) and _NUMBER.fullmatch(bare):
        return decimal.Decimal(bare)
    return text


def typed_table(texts: pa.Table, relation: Relation) -> pa.Table:
    """Columns of text that the relation has, with its types; all others as they are."""
    import pyarrow as pa

    columns = {column.name: column for column in relation.columns}
    typed = [
        _typed(texts[name], columns[name], relation) if name in columns else texts[name]
        for name in texts.column_names
    ]
    return pa.Table.from_arrays(typed, names=texts.column_names)


def typed_values(
    values: Iterable[Any], column: Column, relation: Relation, first_row: int = 1
) -> pa.Array:
    """Values for a column as it holds them, by the definition; an error names row and column."""
    import pyarrow as pa

    values_stored: list[Any] = []
    for row, value in enumerate(values, first_row):
        try:
            values_stored.append(decode(encode(value, column), column.type))
        except DataError as error:
            text = f"row {row} for {relation.name}: {error.message}"
            raise type(error)(text, hint=error.hint) from None
    return pa.array(values_stored, arrow_type(column.type))


def _typed(texts: pa.ChunkedArray, column: Column, relation: Relation) -> pa.ChunkedArray:
    import pyarrow as pa

    if column.type.kind is Kind.VARCHAR or not pa.types.is_string(texts.type):
        return texts
    for target in _arrow_types(column):
        typed = _cast(texts, column, target)
        if typed is not None:
            return typed
    target = arrow_type(column.type)
    chunks, row = [], 1
    for chunk in texts.chunks:
        typed = _cast(chunk, column, target)
        if typed is None:
            values = [
                None if text is None else value_of_text(text, column) for text in chunk.to_pylist()
            ]
            typed = typed_values(values, column, relation, row)
        chunks.append(typed)
        row += len(chunk)
    return pa.chunked_array(chunks, target)


_MORE_DIGITS = 8
"""Behind the point, of texts that a DECIMAL column rounds."""


def _arrow_types(column: Column) -> list[pa.DataType]:
    """What all texts of a column may be cast to at once, the narrowest first."""
    import pyarrow as pa

    types = [arrow_type(column.type)]
    if column.type.kind is Kind.DECIMAL:
        types.append(pa.decimal128(38, column.type.scale + _MORE_DIGITS))
    return types


def _cast(texts: Any, column: Column, target: pa.DataType) -> Any:
    """The texts by Arrow's cast; None where one of them may mean something else to the rule."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type.kind
    try:
        typed = texts.cast(target)
    except pa.ArrowException:
        return None
    if kind in (Kind.INTEGER, Kind.BIGINT):
        # Arrow reads 0x1f as a number.
        is_read_alike = not pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py()
    elif kind is Kind.DOUBLE:
        # Arrow makes inf of 1e400, and NaN of more than `nan`.
        is_read_alike = pc.all(pc.is_finite(typed)).as_py() is not False
    else:
        is_read_alike = True
    return typed if is_read_alike else None
