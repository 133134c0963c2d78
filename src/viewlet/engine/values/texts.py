"""Strings that are text: what cannot be written as UTF-8 is an error of its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from viewlet.engine.values.row_errors import InRow
from viewlet.errors import DataError
from viewlet.schema import Column, check_text


def check_texts(values: Sequence[str | None], column: Column) -> None:
    """InRow for the first string with a lone surrogate; all at once where there is none."""
    try:
        "".join(filter(None, values)).encode()
    except UnicodeEncodeError:
        for place, value in enumerate(values):
            try:
                check_text(value or "")
            except ValueError as error:
                raise InRow(place, not_text(column, value, error)) from None


def check_arrow_texts(values: Any, column: Column) -> None:
    """The same for an Arrow array of strings, whose bytes may be anything."""
    import pyarrow as pa

    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        large = pa.types.is_large_string(values.type)
        raw = values.view(pa.large_binary() if large else pa.binary())
        for place in range(len(raw)):
            data = raw[place].as_py()
            try:
                (data or b"").decode()
            except UnicodeDecodeError as problem:
                raise InRow(place, not_text(column, data, problem)) from None
        raise DataError(f"column {column.name} is damaged: {error}") from None


def not_text(column: Column, value: object, error: ValueError) -> DataError:
    """The error for a string that is no Unicode text."""
    return DataError(
        f"column {column.name} is {column.type}, and {value!a:.80} is not: {error}",
        hint="give Unicode text; bytes have to be decoded first",
    )
