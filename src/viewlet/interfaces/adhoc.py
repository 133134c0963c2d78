"""Ad-hoc SQL over tables and views: DuckDB reads them as Arrow, at one consistent point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from viewlet.errors import ParseError, ResolutionError, TypingError, ViewletError
from viewlet.interfaces.definitions import unknown

if TYPE_CHECKING:
    import pyarrow as pa

Source = tuple["pa.Schema", Callable[[], "pa.Table"]]
"""What a name stands for: its columns, and its rows when they are needed."""

_SETTINGS = (
    # A live view's division by zero is NULL, and so is an ad-hoc query's.
    "SET error_on_division_by_zero = false",
    "SET ieee_floating_point_ops = false",
    # A misspelt table must not find a Python variable of that name.
    "SET python_enable_replacements = false",
    "SET preserve_insertion_order = true",
    "SET threads = 2",
)


class AdHoc:
    """One private DuckDB; it holds nothing between queries."""

    def __init__(self) -> None:
        self._connection: Any = None

    def query(
        self, text: str, sources: Mapping[str, Source], streams: frozenset[str] = frozenset()
    ) -> pa.Table:
        connection = self._open()
        registered = []
        try:
            for name, (schema, _) in sources.items():
                connection.register(name, schema.empty_table())
                registered.append(name)
            for name in sorted(self._names(text, sources, streams)):
                connection.register(name, sources[name][1]())
            return _guarded(lambda: connection.execute(text).to_arrow_table())
        finally:
            for name in registered:
                connection.unregister(name)

    def _names(
        self, text: str, sources: Mapping[str, Source], streams: frozenset[str]
    ) -> frozenset[str]:
        """The sources that a query reads."""
        named = {name.lower() for name in _guarded(lambda: self._open().get_table_names(text))}
        for stream in sorted(named & streams):
            raise ResolutionError(
                f"{stream} is a stream, and its rows are not kept",
                hint=f"query a view over {stream}, or declare it with CREATE TABLE",
            )
        found = frozenset(name for name in sources if name.lower() in named)
        lost = named - {name.lower() for name in found}
        for name in sorted(lost):
            if "." not in name:  # else a file, which DuckDB reads itself
                raise unknown("table or view", name, sources)
        return found

    def _open(self) -> Any:
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect()
            for setting in _SETTINGS:
                self._connection.execute(setting)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _guarded(call: Callable[[], Any]) -> Any:
    """DuckDB's errors as ours."""
    import duckdb

    try:
        return call()
    except duckdb.ParserException as error:
        raise ParseError(_first_line(error)) from None
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        raise ResolutionError(_first_line(error)) from None
    except (duckdb.ConversionException, duckdb.OutOfRangeException) as error:
        raise TypingError(_first_line(error)) from None
    except duckdb.Error as error:
        raise ViewletError(_first_line(error)) from None


def _first_line(error: Exception) -> str:
    """Binder Error: message -> message"""
    line = str(error).strip().splitlines()[0]
    return line.partition("Error: ")[2] or line
