"""Errors of single values in a column, with the place that the batch's error will name."""

from __future__ import annotations

from viewlet.errors import DataError, RangeError
from viewlet.schema import Column, shown_value


class InRow(Exception):
    """A value that does not fit, with its place in the column."""

    def __init__(self, row: int, cause: DataError) -> None:
        super().__init__(row)
        self.row = row
        self.cause = cause


def null_error(row: int, column: Column) -> InRow:
    """NULL where the column has none."""
    return InRow(row, DataError(f"NULL in column {column.name}, which is NOT NULL"))


def range_error(row: int, column: Column, value: object, hint: str | None = None) -> InRow:
    """A value beyond the range of the column's type."""
    text = f"column {column.name}: {shown_value(value)} is out of range for {column.type}"
    return InRow(row, RangeError(text, hint=hint))


def not_text(column: Column, value: object, error: ValueError) -> DataError:
    """The error for a string that is no Unicode text."""
    return DataError(
        f"column {column.name} is {column.type}, and {value!a:.80} is not: {error}",
        hint="give Unicode text; bytes have to be decoded first",
    )
