"""Tables of the outside world <-> columns: Arrow, pandas, polars, or a dict of NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pyarrow as pa

from viewlet.errors import DataError, TypingError
from viewlet.signals.batches import Array, Columns, Ints
from viewlet.signals.clock import time_ticks


def kind_of(table: Any) -> str:
    """arrow, pandas, polars, columns or spark; anything else is an error."""
    if isinstance(table, pa.Table | pa.RecordBatch):
        return "arrow"
    if isinstance(table, Mapping):
        return "columns"
    module = type(table).__module__.split(".")[0]
    if module in ("pandas", "polars"):
        return module
    if module == "pyspark":
        return "spark"
    raise TypingError(
        f"cannot read events from {type(table).__name__}",
        hint="pass a pyarrow Table, a pandas or polars DataFrame, or a dict of columns",
    )


def read(table: Any, names: list[str] | None) -> dict[str, Array]:
    """The named columns (all of them when names is None) as NumPy arrays, copied only if needed."""
    kind = kind_of(table)
    if kind == "columns":
        present = list(table)
    elif kind == "arrow":
        present = list(table.schema.names)
    else:
        present = [str(name) for name in table.columns]
    column_names = present if names is None else names
    for name in column_names:
        if name not in present:
            raise DataError(
                f"the input has no column {name}", hint=f"its columns are {', '.join(present)}"
            )
    return {name: _column(table, kind, name) for name in column_names}


def zone_of(table: Any, name: str) -> str | None:
    """The time zone of a column of instants; None if it has none, or is of something else."""
    kind = kind_of(table)
    if kind == "arrow":
        zone = getattr(table.schema.field(name).type, "tz", None)
    elif kind == "spark":
        is_instant = table.schema[name].dataType.typeName() == "timestamp"
        zone = "UTC" if is_instant else None
    elif kind == "pandas":
        zone = getattr(table[name].dtype, "tz", None)
    elif kind == "polars":
        zone = getattr(table[name].dtype, "time_zone", None)
    else:
        column = table[name]
        is_aware = len(column) > 0 and getattr(column[0], "tzinfo", None) is not None
        zone = "UTC" if is_aware else None
    return None if zone is None else str(zone)


def _column(table: Any, kind: str, name: str) -> Array:
    if kind == "columns":
        return _moments(np.asarray(table[name]))
    if kind == "pandas" and getattr(table[name].dtype, "tz", None) is not None:
        return np.asarray(table[name].dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if kind == "arrow":
        column = table.column(table.schema.names.index(name))
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        return _from_arrow(column)
    return np.asarray(table[name].to_numpy())


def _moments(column: Array) -> Array:
    """Python's datetimes as NumPy's, those with a time zone in UTC."""
    if column.dtype != object or not len(column) or not isinstance(column.flat[0], datetime):
        return column
    plain = [
        value.astimezone(UTC).replace(tzinfo=None) if getattr(value, "tzinfo", None) else value
        for value in column
    ]
    return np.array(plain, "M8[us]")


def _from_arrow(column: Any) -> Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_struct(column.type) and {f.name for f in column.type} == {"re", "im"}:
        real, imaginary = (_from_arrow(column.field(part)) for part in ("re", "im"))
        return real + 1j * imaginary
    if pa.types.is_fixed_size_list(column.type):
        return _from_arrow(column.flatten()).reshape(-1, column.type.list_size)
    if pa.types.is_floating(column.type) and column.null_count:
        column = column.fill_null(float("nan"))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def times(column: Array, name: str, tick: str | None = None) -> Ints:
    """A time column as integer ticks: integers, whole floats, or datetimes in a unit."""
    if tick is not None and column.dtype.kind == "M":
        return cast(Ints, time_ticks(column, tick, name))
    if column.dtype == np.int64:
        return column
    if column.dtype.kind in "iu":
        return column.astype(np.int64)
    if column.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(column))
        if len(bad):
            raise DataError(
                f"row {bad[0]} has no time ({name} is {column[bad[0]]})", hint="drop such rows"
            )
        ticks = column.astype(np.int64)
        bad = np.flatnonzero(ticks != column)
        if len(bad):
            raise DataError(
                f"the time {column[bad[0]]} in {name} (row {bad[0]}) is not a whole number",
                hint="count time in ticks: multiply by the ticks per unit and round",
            )
        return ticks
    raise TypingError(
        f"the time column {name} is {column.dtype}", hint="use integers, whole floats or timestamps"
    )


def payload(column: Array, name: str) -> Array:
    """A payload column: numbers as they are, strings as fixed-width text."""
    if column.dtype.kind in "fciubM":
        return column
    if column.dtype.kind == "U":
        return column
    if column.dtype == object:
        if all(isinstance(value, str) for value in column[:1]):
            return column.astype(str)
        try:
            return column.astype(np.float64)
        except (TypeError, ValueError):
            pass
    raise TypingError(
        f"the payload column {name} is {column.dtype}", hint="use numbers, booleans or strings"
    )


def write(columns: Columns, kind: str, zones: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Columns as a table of the same kind as the input was; `zones` of those that are instants."""
    if kind == "columns":
        return columns
    if kind == "pandas":
        import pandas as pd

        frame = pd.DataFrame({name: list(c) if c.ndim > 1 else c for name, c in columns.items()})
        for name, zone in zones.items():
            frame[name] = frame[name].dt.tz_localize("UTC").dt.tz_convert(zone)
        return frame
    if kind == "polars":
        import polars as pl

        return pl.from_arrow(to_arrow(columns, zones))
    return to_arrow(columns, zones)


def to_arrow(columns: Columns, zones: Mapping[str, str] = MappingProxyType({})) -> pa.Table:
    """Complex values become struct<re, im>, arrays per hop become fixed-size lists."""
    arrays = {name: _to_arrow(column) for name, column in columns.items()}
    for name, zone in zones.items():
        unit = np.datetime_data(columns[name].dtype)[0]
        arrays[name] = arrays[name].cast(pa.timestamp(unit, zone))
    return pa.table(arrays)


def _to_arrow(column: Array) -> pa.Array:
    if column.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(
            _to_arrow(np.ascontiguousarray(column).reshape(-1)), column.shape[1]
        )
    if column.dtype.kind == "c":
        return pa.StructArray.from_arrays(
            [pa.array(np.ascontiguousarray(part)) for part in (column.real, column.imag)],
            ["re", "im"],
        )
    if column.dtype.kind in "OU":
        return pa.array(column, pa.string())
    return pa.array(column)
