"""What an ad-hoc query may name: tables and views, its own WITH names, and functions of values.

The query's text is judged by DuckDB's own syntax tree, so that nothing is read otherwise than it
runs. Table functions are allowed by name, since DuckDB has many that read files, take addresses of
memory, or change how it runs; a new one is refused until somebody has looked at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from viewlet.errors import ParseError, Position, ResolutionError, UnsupportedError
from viewlet.interfaces.definitions import unknown

_ROW_FUNCTIONS = frozenset(
    ("generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest")
)
"""Table functions that make rows of their arguments alone."""

_FILE_FUNCTIONS = frozenset(
    (
        "glob",
        "parquet_file_metadata",
        "parquet_kv_metadata",
        "parquet_metadata",
        "parquet_scan",
        "parquet_schema",
        "read_blob",
        "read_csv",
        "read_csv_auto",
        "read_json",
        "read_json_auto",
        "read_json_objects",
        "read_json_objects_auto",
        "read_ndjson",
        "read_ndjson_auto",
        "read_ndjson_objects",
        "read_parquet",
        "read_text",
        "sniff_csv",
    )
)
"""Table functions that read files, where that is allowed."""

_REFUSED_SCALARS = frozenset(("current_setting", "getenv", "getvariable", "write_log"))
"""Functions of something else than values: the process and its settings."""


def sources_read(
    tree: Any, text: str, sources: Iterable[str], streams: frozenset[str], files: bool
) -> list[str]:
    """The sources that a query reads, sorted; an error where it names anything else.

    `tree` is the JSON that DuckDB makes of `text`; with `files` a query may read these too.
    """
    statements = tree["statements"]
    if len(statements) != 1:
        raise ParseError(
            f"{len(statements)} statements where one SELECT belongs",
            hint="query() takes one SELECT",
        )
    own_names = {
        item["key"].lower()
        for node in nodes(tree)
        for item in node.get("cte_map", {}).get("map", ())
    }
    named = {name.lower() for name in sources}
    tables: dict[str, int] = {}
    for node in nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            _check_table_function(node, text, files)
        elif node.get("type") == "SHOW_REF" and node.get("table_name"):
            raise _refused("SHOW", node, text, "query() reads tables and views")
        elif node.get("type") == "BASE_TABLE":
            tables.setdefault(_table_name(node, text), node.get("query_location", -1))
        elif str(node.get("function_name")).lower() in _REFUSED_SCALARS:
            hint = "query() computes with the values of tables and views"
            raise _refused(f"{node['function_name']}()", node, text, hint)
    for name in sorted(tables.keys() - own_names - named):
        position = position_at(text, tables[name])
        if name in streams:
            raise ResolutionError(
                f"{name} is a stream, and its rows are not kept",
                position=position,
                hint=f"query a view over {name}, or declare it with CREATE TABLE",
            )
        if not (files and "." in name):  # else a file, which DuckDB reads itself
            raise unknown("table or view", name, sources, position)
    return sorted(name for name in sources if name.lower() in tables)


def parameters_read(tree: Any) -> set[str]:
    """The names of the parameters in a query: those of $p1 and $n_low"""
    return {node["identifier"] for node in nodes(tree) if node.get("class") == "PARAMETER"}


def _check_table_function(node: Any, text: str, files: bool) -> None:
    name = str((node.get("function") or {}).get("function_name")).lower()
    if name in _ROW_FUNCTIONS or (files and name in _FILE_FUNCTIONS):
        return
    hint = "query() reads tables and views"
    if name in _FILE_FUNCTIONS:
        hint = "load the file with COPY t FROM, or say connect(files=True) to let queries read any"
    raise _refused(f"{name}()", node, text, hint)


def _table_name(node: Any, text: str) -> str:
    name: str = node["table_name"]
    if node.get("schema_name") or node.get("catalog_name"):
        raise _refused(f"a schema before {name}", node, text, "tables and views have plain names")
    return name.lower()


def _refused(what: str, node: Any, text: str, hint: str) -> UnsupportedError:
    position = position_at(text, node.get("query_location", -1))
    return UnsupportedError(f"{what} is not allowed in a query", position=position, hint=hint)


def position_at(text: str, offset: int) -> Position | None:
    """Line and column of a byte of the text; None for an offset that is not in it."""
    data = text.encode()
    if not 0 <= offset <= len(data):
        return None
    before = data[:offset].decode(errors="replace")
    return Position(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of the tree."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending += node.values()
        elif isinstance(node, list):
            pending += node
