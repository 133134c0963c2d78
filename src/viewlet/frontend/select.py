"""The clauses around a query's rows: select list, WITH, ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from viewlet.calculus.query import OrderItem
from viewlet.errors import ParseError, ResolutionError, UnsupportedError
from viewlet.frontend import top_rows
from viewlet.frontend.context import Lowering, Needed
from viewlet.frontend.scope import CommonTable, Scope
from viewlet.frontend.syntax import did_you_mean, fault, walk_level
from viewlet.frontend.types import Typed


@dataclass(frozen=True)
class Item:
    """An output column: an expression still to be lowered, or a column that * stood for.

    `is_hidden`: ORDER BY alone names it.
    """

    name: str
    node: exp.Expr
    column: Typed | None = None
    is_hidden: bool = False


def output_items(select: exp.Select, scope: Scope) -> list[Item]:
    """The select list with its names, * replaced by the columns it means."""
    items: list[Item] = []
    for number, node in enumerate(select.expressions, 1):
        table = None
        inner = node.unalias()
        if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            table, inner = inner.table, inner.this
        if isinstance(inner, exp.Star):
            items += _star_items(inner, node, scope.star(table, node))
        else:
            items.append(Item(_output_name(node, number), inner))
    if not items:
        raise fault(ParseError, "SELECT without columns", select)
    return items


def _star_items(star: exp.Star, node: exp.Expr, columns: Sequence[tuple[str, Typed]]) -> list[Item]:
    """* EXCEPT (a) REPLACE (b + 1 AS b) RENAME (c AS d)"""
    names = [name for name, _ in columns]
    left_out = {part.name for part in star.args.get("except_") or ()}
    replaced = {part.alias: part.this for part in star.args.get("replace") or ()}
    renamed = {part.this.name: part.alias for part in star.args.get("rename") or ()}
    for name in (*left_out, *replaced, *renamed):
        if name not in names:
            raise fault(ResolutionError, f"* has no column {name}", node, did_you_mean(name, names))
    items = []
    for name, typed in columns:
        if name in replaced:
            items.append(Item(name, replaced[name]))
        elif name not in left_out:
            items.append(Item(renamed.get(name, name), node, typed))
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


def common_tables(lowering: Lowering, query: exp.Expr, outer: Scope | None) -> Scope | None:
    """The scope around a query after its WITH clause; each table sees those before it."""
    with_ = query.args.get("with_")
    if with_ is None:
        return outer
    tables: dict[str, CommonTable] = {}
    for table in with_.expressions:
        name = table.alias
        if name in tables:
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
        tables[name] = CommonTable(table.this, columns, Scope(parent=outer, common=dict(tables)))
    used = {table.name for table in query.find_all(exp.Table)}
    for name, table in tables.items():
        if name not in used:
            lowering.query(lowering.apart(), table.query, table.scope, None)
    return Scope(parent=outer, common=tables)


def limit_of(query: exp.Expr) -> tuple[int | None, int]:
    """LIMIT and OFFSET of a view."""
    if (query.args.get("limit") or query.args.get("offset")) and query.args.get("order") is None:
        _refuse_order_below(query)
    return top_rows.limit_of(query)


def _refuse_order_below(query: exp.Expr) -> None:
    """SELECT * FROM (SELECT ... ORDER BY a) LIMIT 3: rows of a subquery are in no order."""
    source = query.args.get("from_")
    below = source.this if isinstance(source, exp.From) else None
    while isinstance(below, exp.Subquery):
        order = below.args.get("order") or below.this.args.get("order")
        if order is not None:
            raise fault(
                UnsupportedError,
                "ORDER BY of a subquery does not decide which rows LIMIT takes",
                order,
                "write ORDER BY beside LIMIT",
            )
        below = below.this


def order_of(
    query: exp.Expr, items: Sequence[Item], scope: Scope | None = None
) -> tuple[tuple[OrderItem, ...], list[Item]]:
    """ORDER BY by positions of the select list and after it, and the items that come after it.

    Those are expressions that are not selected; they need the scope of the SELECT that they are of.
    """
    order = query.args.get("order")
    result: list[OrderItem] = []
    hidden: list[Item] = []
    for ordered in order.expressions if order is not None else ():
        column = _ordered_column(ordered.this, items)
        if column is None:
            if scope is None:
                raise _not_selected(ordered.this, items)
            item = Item("sort_key", _with_names_replaced(ordered.this, items, scope), None, True)
            column = len(items) + len(hidden)
            hidden.append(item)
        descending = bool(ordered.args.get("desc"))
        first = ordered.args.get("nulls_first")
        result.append(OrderItem(column, descending, descending if first is None else bool(first)))
    return tuple(result), hidden


def _with_names_replaced(node: exp.Expr, items: Sequence[Item], scope: Scope) -> exp.Expr:
    """ORDER BY n + 1 over SELECT COUNT(*) AS n -> COUNT(*) + 1; columns come before output names"""
    names = {item.name: item.node for item in items if item.column is None}

    def replaced(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or part.table or part.name not in names:
            return part
        return part if scope.owns(part) else exp.Paren(this=names[part.name].copy())

    return node.copy().transform(replaced)


def _ordered_column(node: exp.Expr, items: Sequence[Item]) -> int | None:
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
    return next((position for position, item in enumerate(items) if _same(node, item)), None)


def _not_selected(node: exp.Expr, items: Sequence[Item]) -> Exception:
    """DISTINCT and UNION have no rows beside the selected columns."""
    hint = "add the expression to the select list, with a name"
    if isinstance(node, exp.Column):
        hint = did_you_mean(node.name, [item.name for item in items]) or hint
    return fault(UnsupportedError, "ORDER BY needs a column of the select list", node, hint)


def _same(node: exp.Expr, item: Item) -> bool:
    if isinstance(node, exp.Column) and isinstance(item.node, exp.Column):
        return is_same_column(node, item.node)
    if item.column is not None:
        return isinstance(node, exp.Column) and node.name == item.name
    return node == item.node


def is_same_column(one: exp.Column, other: exp.Column) -> bool:
    """a and r.a, if there is one table"""
    return one.name == other.name and len({one.table, other.table} - {""}) <= 1


def has_subquery(node: exp.Expr) -> bool:
    """Whether a query is anywhere in the expression."""
    return any(True for part in walk_level(node) for _ in part.find_all(exp.Query))
