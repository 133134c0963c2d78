"""The clauses around a query's rows: select list, WITH, ORDER BY, LIMIT, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet.calculus.query import OrderItem
from viewlet.errors import ParseError, ResolutionError, TypingError, UnsupportedError
from viewlet.frontend.context import Needed
from viewlet.frontend.scope import CommonTable, Scope
from viewlet.frontend.syntax import did_you_mean, fault, walk_level
from viewlet.frontend.types import Typed


@dataclass(frozen=True)
class Item:
    """An output column: an expression still to be lowered, or a column that * stood for."""

    name: str
    node: exp.Expr
    column: Typed | None = None


def output_items(select: exp.Select, scope: Scope) -> list[Item]:
    """The select list with its names, * replaced by the columns it means."""
    items: list[Item] = []
    for number, node in enumerate(select.expressions, 1):
        table = None
        inner = node.unalias()
        if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            table, inner = inner.table, inner.this
        if isinstance(inner, exp.Star):
            if inner.args.get("except_") or inner.args.get("replace"):
                raise fault(UnsupportedError, "* EXCEPT and * REPLACE are not supported", inner)
            items += [Item(name, node, typed) for name, typed in scope.star(table, node)]
        else:
            items.append(Item(_output_name(node, number), inner))
    if not items:
        raise fault(ParseError, "SELECT without columns", select)
    return items


def _output_name(node: exp.Expr, number: int) -> str:
    """The alias, the column's name, or the function's, as PostgreSQL names it."""
    if node.alias:
        return node.alias
    inner = node.unalias()
    while isinstance(inner, exp.Paren | exp.Cast | exp.Filter):
        inner = inner.this
    if isinstance(inner, exp.Column):
        return inner.name
    if isinstance(inner, exp.Case):
        return "case"
    if isinstance(inner, exp.Func) and not isinstance(inner, exp.Connector):
        return inner.sql_name().lower()
    return f"column{number}"


def needed_columns(select: exp.Select) -> Needed:
    """The column names that occur anywhere in a SELECT; all where a * or a NATURAL join does."""
    names: set[str] = set()
    for node in select.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            return None
        if isinstance(node, exp.Join):
            if node.method:
                return None
            names.update(column.name for column in node.args.get("using") or ())
        if isinstance(node, exp.Column):
            names.add(node.name)
    return frozenset(names)


def qualifiers(select: exp.Select) -> frozenset[str]:
    """The table names that stand before a column or a * anywhere in a SELECT."""
    return frozenset(column.table for column in select.find_all(exp.Column))


def common_tables(query: exp.Expr, outer: Scope | None) -> Scope | None:
    """The scope around a query after its WITH clause; each table sees those before it."""
    with_ = query.args.get("with_")
    if with_ is None:
        return outer
    known: dict[str, CommonTable] = {}
    for table in with_.expressions:
        name = table.alias
        if name in known:
            raise fault(ResolutionError, f"WITH names {name} twice", table)
        uses_itself = any(t.name == name for t in table.this.find_all(exp.Table))
        if with_.args.get("recursive") and uses_itself:
            raise fault(
                UnsupportedError,
                f"recursive table {name} is not supported",
                table,
                "unroll it to the depth that you need, with joins",
            )
        alias = table.args["alias"]
        columns = tuple(column.name for column in alias.columns)
        known[name] = CommonTable(table.this, columns, Scope(parent=outer, common=dict(known)))
    return Scope(parent=outer, common=known)


_REFUSED = {
    "qualify": ("QUALIFY", "filter a grouped subquery instead"),
    "windows": ("WINDOW", "join with a grouped subquery instead"),
    "locks": ("FOR UPDATE", None),
    "laterals": ("LATERAL", "write a plain join"),
    "pivots": ("PIVOT", "use SUM(CASE WHEN ... END)"),
    "sample": ("TABLESAMPLE", None),
    "into": ("SELECT INTO", "use CREATE MATERIALIZED VIEW"),
    "connect": ("CONNECT BY", None),
}


def check_supported(select: exp.Select) -> None:
    """Refuse the clauses that views cannot have."""
    for clause, (name, hint) in _REFUSED.items():
        found = select.args.get(clause)
        if found:
            place = found[0] if isinstance(found, list) else found
            raise fault(UnsupportedError, f"{name} is not supported", place, hint)
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise fault(
            UnsupportedError,
            "DISTINCT ON is not supported",
            distinct,
            "use GROUP BY with MIN or MAX",
        )
    group = select.args.get("group")
    if group is not None:
        for kind in ("rollup", "cube", "grouping_sets"):
            if group.args.get(kind):
                raise _rollup(group)
        for key in group.expressions:
            if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise _rollup(key)


def _rollup(node: exp.Expr) -> Exception:
    return fault(
        UnsupportedError,
        "ROLLUP, CUBE and GROUPING SETS are not supported",
        node,
        "write one view for each grouping, or UNION ALL of them",
    )


def refuse_limit(query: exp.Expr) -> None:
    """LIMIT in a subquery: which rows it keeps is not a matter of the data alone."""
    for clause in ("limit", "offset", "fetch"):
        found = query.args.get(clause)
        if found is not None:
            raise fault(
                UnsupportedError,
                f"{clause.upper()} in a subquery is not supported",
                found,
                "put ORDER BY and LIMIT on the view, or select MIN or MAX",
            )


def limit_of(query: exp.Expr) -> tuple[int | None, int]:
    """LIMIT and OFFSET of a view."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    count = None
    if isinstance(limit, exp.Fetch):
        count = _whole(limit.args.get("count"), limit, "FETCH")
    elif limit is not None and not isinstance(limit.expression, exp.Null):
        count = _whole(limit.expression, limit, "LIMIT")
    return count, _whole(offset.expression, offset, "OFFSET") if offset is not None else 0


def _whole(node: exp.Expr | None, place: exp.Expr, what: str) -> int:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    raise fault(TypingError, f"{what} needs a whole number", place)


def order_of(query: exp.Expr, items: Sequence[Item]) -> tuple[OrderItem, ...]:
    """ORDER BY by output position, output name, or an expression of the select list."""
    order = query.args.get("order")
    if order is None:
        return ()
    result = []
    for ordered in order.expressions:
        column = _ordered_column(ordered.this, items)
        descending = bool(ordered.args.get("desc"))
        first = ordered.args.get("nulls_first")
        result.append(OrderItem(column, descending, descending if first is None else bool(first)))
    return tuple(result)


def _ordered_column(node: exp.Expr, items: Sequence[Item]) -> int:
    names = [item.name for item in items]
    if isinstance(node, exp.Literal) and not node.is_string:
        if node.name.isdigit() and 1 <= int(node.name) <= len(items):
            return int(node.name) - 1
        raise fault(
            ResolutionError,
            f"ORDER BY {node.name} is not a column of the result",
            node,
            f"positions are 1 to {len(items)}",
        )
    if isinstance(node, exp.Column) and not node.table:
        matches = [i for i, name in enumerate(names) if name == node.name]
        if len(matches) > 1:
            raise fault(ResolutionError, f"ORDER BY {node.name} is ambiguous", node)
        if matches:
            return matches[0]
    for position, item in enumerate(items):
        if _same(node, item):
            return position
    hint = "add the expression to the select list, with a name"
    if isinstance(node, exp.Column):
        hint = did_you_mean(node.name, names) or hint
    raise fault(UnsupportedError, "ORDER BY needs a column of the select list", node, hint)


def _same(node: exp.Expr, item: Item) -> bool:
    if isinstance(node, exp.Column) and isinstance(item.node, exp.Column):
        tables = {node.table, item.node.table} - {""}
        return node.name == item.node.name and len(tables) <= 1
    if item.column is not None:
        return isinstance(node, exp.Column) and node.name == item.name
    return node == item.node


def has_subquery(node: exp.Expr) -> bool:
    """Whether a query is anywhere in the expression."""
    return any(True for part in walk_level(node) for _ in part.find_all(exp.Query))
