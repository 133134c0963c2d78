"""SELECT -> bags of rows, and a view -> its Query.

An aggregate query inside of another, or with MIN or MAX, is lowered to rows (blocks.py). At the top
of a view, one without MIN and MAX becomes components over the group keys instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from viewlet.calculus.expr import Expr, NestedValue
from viewlet.calculus.query import COUNT, OutputColumn, Query, ViewKind
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.frontend.aggregates import (
    Components,
    Grouped,
)
from viewlet.frontend.blocks import (
    SelectBlock,
    block_rows,
    bound_groups,
    from_where,
    has_windows,
    is_distinct,
    is_grouped,
    item_value,
    needs_rows,
)
from viewlet.frontend.context import Lowering, Needed
from viewlet.frontend.grouping_sets import groupings_of
from viewlet.frontend.joins import From
from viewlet.frontend.products import Table, keyed, summed
from viewlet.frontend.scope import Scope, numbered
from viewlet.frontend.select import (
    Item,
    common_tables,
    limit_of,
    order_of,
)
from viewlet.frontend.setops import by_name, distinct_rows, set_operation, united
from viewlet.frontend.statements import CreateView
from viewlet.frontend.syntax import fault
from viewlet.frontend.top_rows import (
    has_ties,
    without_distinct_on,
    without_limit,
)
from viewlet.frontend.types import Typed
from viewlet.functions import Ref, ScalarExpr
from viewlet.garbage import no_collection
from viewlet.schema import VARCHAR, Catalog, Kind, folded_name


@no_collection()
def lower_view(statement: CreateView, catalog: Catalog, views: Mapping[str, CreateView]) -> Query:
    """The Query of a view; other views that it reads are inlined."""
    lowering = Lowering(catalog, views, lower_query, open_views=(statement.name,))
    query = statement.select
    while isinstance(query, exp.Subquery) and not _modifiers(query):
        query = query.this
    outer = common_tables(lowering, query, None)
    query = _with_first_rows(query)
    scope = None
    if isinstance(query, exp.Select):
        block = _with_order(from_where(lowering, query, outer))
        is_plain = not is_distinct(query) and not needs_rows(block) and not has_windows(block)
        if is_grouped(block) and is_plain and groupings_of(query) is None:
            return _grouped_view(statement, lowering, block)
        table, items = block_rows(lowering, block, outer, None), block.items
        scope = None if is_distinct(query) else block.scope
        kind = ViewKind.GROUP if is_distinct(query) else ViewKind.BAG
    else:
        table = _top_set_operation(lowering, query, outer)
        items = [Item(name, query, typed) for name, typed in table.columns]
        kind = ViewKind.GROUP if query.args.get("distinct") else ViewKind.BAG
    branches, columns, keys = keyed(lowering.variables, table.branches, table.columns)
    count = summed(lowering.variables, keys, branches)
    components = ((COUNT, count),)
    group = None
    if kind is ViewKind.BAG and table.group is not None:
        bound = zip(table.columns, columns, strict=True)
        variables = {before.scalar: typed.scalar for (_, before), typed in bound}
        if variables.keys() >= set(table.group):
            group = _variables([variables[scalar] for scalar in table.group])
    return _query(
        statement,
        lowering,
        kind,
        keys,
        components,
        items,
        columns,
        query,
        scope=scope,
        group=group,
    )


def _variables(group: Sequence[ScalarExpr] | None) -> tuple[str, ...] | None:
    """What tells groups apart; constants do not."""
    if group is None:
        return None
    return tuple(scalar.name for scalar in group if isinstance(scalar, Ref))


def _with_order(block: SelectBlock) -> SelectBlock:
    """The block with what its ORDER BY names beside the select list; DISTINCT has no such rows."""
    if is_distinct(block.select):
        return block
    _, hidden = order_of(block.select, block.items, block.scope)
    return replace(block, items=[*block.items, *hidden])


def lower_query(lowering: Lowering, query: exp.Expr, outer: Scope | None, needed: Needed) -> Table:
    """A query inside of another: its rows."""
    while isinstance(query, exp.Subquery):
        outer = common_tables(lowering, query, outer)
        query = _limited(query)
    outer = common_tables(lowering, query, outer)
    query = without_limit(without_distinct_on(query))
    if isinstance(query, exp.SetOperation):
        return _set_operation(lowering, query, outer)
    if isinstance(query, exp.Values):
        return From(lowering, Scope(parent=outer), None).values(query)
    if not isinstance(query, exp.Select):
        raise fault(UnsupportedError, "this is not a query", query)
    block = from_where(lowering, query, outer)
    table = block_rows(lowering, block, outer, None if is_distinct(query) else needed)
    return distinct_rows(lowering, table) if is_distinct(query) else table


def _limited(query: exp.Subquery) -> exp.Expr:
    """(q) LIMIT 3 -> (SELECT * FROM (q) LIMIT 3), (q) -> q"""
    below: exp.Expr = query.this
    if query.args.get("limit") is None and query.args.get("offset") is None:
        return below
    inner = exp.Subquery(this=below.copy(), alias=exp.TableAlias(this=exp.to_identifier("q")))
    clauses = {name: query.args.get(name) for name in ("order", "limit", "offset")}
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=inner), **clauses)


def _with_first_rows(query: exp.Expr) -> exp.Expr:
    """A view's query; its own ORDER BY and LIMIT stay for the reader, unless there are ties."""
    query = without_distinct_on(query)
    if not has_ties(query):
        return query
    order = query.args.get("order")
    query = without_limit(query)
    if order is not None and isinstance(query, exp.Select):
        query.set("order", order.copy())
    return query


def _set_operation(lowering: Lowering, query: exp.SetOperation, outer: Scope | None) -> Table:
    left = lower_query(lowering, query.this, outer, None)
    right = lower_query(lowering, query.expression, outer, None)
    if query.args.get("by_name"):
        left, right = by_name(query, left, right)
    return set_operation(lowering, query, left, right)


def _top_set_operation(lowering: Lowering, query: exp.Expr, outer: Scope | None) -> Table:
    """At the top of a view UNION needs no Exists: a record is there while its count is not 0."""
    if isinstance(query, exp.Union) and query.args.get("distinct"):
        left, right = (
            lower_query(lowering, side, outer, None) for side in (query.this, query.expression)
        )
        if query.args.get("by_name"):
            left, right = by_name(query, left, right)
        return united(lowering, query, [left, right])
    if isinstance(query, exp.SetOperation):
        return _set_operation(lowering, query, outer)
    return lower_query(lowering, query, outer, None)


def _grouped_view(statement: CreateView, lowering: Lowering, block: SelectBlock) -> Query:
    groups = bound_groups(lowering, block)
    branches, keys = groups.branches, groups.keys
    total = block.is_total
    sink = Components(lowering.variables)
    sink.names[summed(lowering.variables, keys, branches)] = COUNT
    scalars = Grouped(lowering, block.scope, branches, groups.scalars, keys, total, sink)
    columns = [item_value(scalars, item) for item in block.items]
    having = block.select.args.get("having")
    test = scalars.boolean(having.this, "HAVING").scalar if having is not None else None
    lets = tuple(f for f in scalars.take_prelude() if isinstance(f, NestedValue))
    components = tuple((name, body) for body, name in sink.names.items())
    kind = ViewKind.TOTAL if total else ViewKind.GROUP
    return _query(
        statement,
        lowering,
        kind,
        keys,
        components,
        block.items,
        columns,
        block.select,
        scope=block.scope,
        lets=lets,
        having=test,
        group=_variables(groups.written),
    )


def _query(
    statement: CreateView,
    lowering: Lowering,
    kind: ViewKind,
    keys: tuple[str, ...],
    components: tuple[tuple[str, Expr], ...],
    items: Sequence[Item],
    columns: Sequence[Typed],
    query: exp.Expr,
    *,
    scope: Scope | None = None,
    lets: tuple[NestedValue, ...] = (),
    having: ScalarExpr | None = None,
    group: tuple[str, ...] | None = None,
) -> Query:
    selected = [item for item in items if not item.is_hidden]
    names = _column_names(statement, selected)
    names += [item.name for item in items if item.is_hidden]
    order, _ = order_of(query, selected, scope)
    limit, offset = limit_of(query)
    output = tuple(
        OutputColumn(
            name,
            VARCHAR if typed.type.kind is Kind.NULL else typed.type,
            lowering.variables.can_be_null(typed.scalar),
            typed.scalar,
        )
        for name, typed in zip(names, columns, strict=True)
    )
    return Query(
        statement.name,
        kind,
        keys,
        components,
        output[: len(selected)],
        lets,
        having,
        order,
        limit,
        offset,
        tuple(lowering.inner),
        statement.plan,
        output[len(selected) :],
        group,
    )


def _column_names(statement: CreateView, items: Sequence[Item]) -> list[str]:
    names = numbered(item.name for item in items)
    if len(statement.columns) > len(names):
        raise ResolutionError(
            f"view {statement.name} names {len(statement.columns)} columns and has {len(names)}",
            position=statement.position,
        )
    names[: len(statement.columns)] = statement.columns
    folded = [folded_name(name) for name in names]
    for position, name in enumerate(names):
        if folded[position] in folded[:position]:
            raise fault(
                ResolutionError,
                f"column {name} is twice in the result",
                items[position].node,
                "give one of them another name with AS",
            )
    return names


def _modifiers(query: exp.Expr) -> bool:
    return any(query.args.get(clause) for clause in ("order", "limit", "offset", "with_"))
