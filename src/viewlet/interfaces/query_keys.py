"""What an ad-hoc query says of a source's rows before it reads them: columns that equal constants.

    SELECT total FROM v WHERE k = 7 AND total > 5       k: 7
    SELECT * FROM v WHERE k IN (7, 8) AND s = $name     k: 7 or 8, s: the parameter

Where these are all keys of a view or a table, its rows are looked up and no others are read. Only
what DuckDB compares without converting the column counts: integers, strings and dates with values
of their own kind. The query still runs as it is, over fewer rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from viewlet.interfaces.query_scope import nodes
from viewlet.schema import Column, Kind

_MOST = 64
"""Keys that are looked up one by one."""

_KINDS = {Kind.INTEGER: int, Kind.BIGINT: int, Kind.VARCHAR: str, Kind.DATE: dt.date}


def keys_read(
    tree: Any, source: str, columns: list[Column], parameters: Mapping[str, Any]
) -> list[tuple[Any, ...]] | None:
    """The keys, of these columns, that rows of a source must have to count in the query.

    None if it reads the source more than once, or does not say all of the columns.
    """
    select = _only_select(tree, source)
    if select is None or not columns:
        return None
    said = dict(_equalities(select, source, parameters))
    choices = []
    for column in columns:
        values = said.get(column.name.lower())
        kind = _KINDS.get(column.type.kind)
        if values is None or kind is None or any(type(value) is not kind for value in values):
            return None
        choices.append(list(dict.fromkeys(values)))
    keys = list(product(*choices))
    return keys if len(keys) <= _MOST else None


def _only_select(tree: Any, source: str) -> Any:
    """The SELECT that reads the source and nothing else in its FROM."""
    uses = sum(
        node.get("type") == "BASE_TABLE" and node["table_name"].lower() == source.lower()
        for node in nodes(tree)
    )
    if uses != 1 or any(
        item["key"].lower() == source.lower()
        for node in nodes(tree)
        for item in node.get("cte_map", {}).get("map", ())
    ):
        return None
    for node in nodes(tree):
        table = node.get("from_table") if node.get("type") == "SELECT_NODE" else None
        if table and table["type"] == "BASE_TABLE" and table["table_name"].lower() == source:
            odd = table.get("sample") or table.get("at_clause") or table.get("column_name_alias")
            return None if odd or node.get("sample") else node
    return None


def _equalities(
    select: Any, source: str, parameters: Mapping[str, Any]
) -> Iterator[tuple[str, list[Any]]]:
    names = {source.lower(), (select["from_table"].get("alias") or source).lower()}
    pending = [select.get("where_clause")]
    while pending:
        condition = pending.pop()
        if not isinstance(condition, dict):
            continue
        kind = condition.get("type")
        if kind == "CONJUNCTION_AND":
            pending += condition["children"]
        elif kind == "COMPARE_EQUAL":
            sides = condition["left"], condition["right"]
            for reference, constant in (sides, sides[::-1]):
                column, value = _column(reference, names), _value(constant, parameters)
                if column is not None and value is not None:
                    yield column, [value]
        elif kind == "COMPARE_IN":
            reference, *constants = condition["children"]
            column = _column(reference, names)
            values = [_value(constant, parameters) for constant in constants]
            if column is not None and None not in values:
                yield column, values


def _column(node: Any, names: set[str]) -> str | None:
    """The column of the source that is meant."""
    if node.get("class") != "COLUMN_REF":
        return None
    *qualifier, column = (part.lower() for part in node["column_names"])
    return column if not qualifier or (len(qualifier) == 1 and qualifier[0] in names) else None


def _value(node: Any, parameters: Mapping[str, Any]) -> Any:
    """What a constant or parameter stands for; None where that is not plain to see."""
    if node.get("class") == "PARAMETER":
        return parameters.get(node["identifier"])
    literal = node.get("literal") if node.get("class") == "CONSTANT" else None
    if literal is not None and literal.get("kind") == "INTEGER":
        return int(literal["text"])
    if literal is not None and literal.get("kind") == "STRING":
        return str(literal["text"])
    if node.get("class") == "CAST" and (node.get("type_expr") or {}).get("type_name") == "DATE":
        text = _value(node["child"], parameters)
        try:
            return dt.date.fromisoformat(text) if isinstance(text, str) else None
        except ValueError:
            return None
    return None
