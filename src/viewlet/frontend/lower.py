"""SELECT -> bags of rows, and a view -> its Query.

An aggregate query inside of another, or with MIN or MAX, is lowered to rows:

    Exists(Sum[g](Q)) * (s := Sum[g](Q * e)) * (m := min v in Sum[g, v](Q)) * {having}

without the Exists where there is no GROUP BY, because then there is always one row. At the top of a
view, an aggregate query without MIN and MAX becomes components over the group keys instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.calculus.expr import Expr, NestedValue, exists_of
from viewlet.calculus.query import COUNT, OutputColumn, Query, ViewKind
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.frontend.aggregates import (
    Components,
    Grouped,
    Lifts,
    has_aggregate,
    has_extreme,
    has_window,
)
from viewlet.frontend.context import Lowering, Needed
from viewlet.frontend.grouping_sets import Grouping, groupings_of
from viewlet.frontend.joins import From
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.products import UNIT, Branch, Table, extended, keyed, summed
from viewlet.frontend.scope import Scope, numbered
from viewlet.frontend.select import (
    Item,
    common_tables,
    has_subquery,
    limit_of,
    needed_columns,
    order_of,
    output_items,
    qualifiers,
)
from viewlet.frontend.setops import by_name, distinct_rows, set_operation, united
from viewlet.frontend.statements import CreateView
from viewlet.frontend.syntax import fault
from viewlet.frontend.top_rows import (
    has_ties,
    with_bounds_inside,
    without_distinct_on,
    without_limit,
)
from viewlet.frontend.types import Typed
from viewlet.frontend.window_functions import Windows, with_windows
from viewlet.functions import NULL, Ref, ScalarExpr
from viewlet.schema import VARCHAR, Catalog, Kind, folded_name


def lower_view(statement: CreateView, catalog: Catalog, views: Mapping[str, CreateView]) -> Query:
    """The Query of a view; other views that it reads are inlined."""
    lowering = Lowering(catalog, views, lower_query, open_views=(statement.name,))
    query = statement.select
    while isinstance(query, exp.Subquery) and not _modifiers(query):
        query = query.this
    outer = common_tables(lowering, query, None)
    query = _with_first_rows(query)
    if isinstance(query, exp.Select):
        block = from_where(lowering, query, outer)
        is_plain = not _distinct(query) and not _has_extremes(block) and not has_windows(block)
        if _is_grouped(block) and is_plain and groupings_of(query) is None:
            return _grouped_view(statement, lowering, block)
        table, items = _rows(lowering, block, outer, None), block.items
        kind = ViewKind.GROUP if _distinct(query) else ViewKind.BAG
    else:
        table = _top_set_operation(lowering, query, outer)
        items = [Item(name, query, typed) for name, typed in table.columns]
        kind = ViewKind.GROUP if query.args.get("distinct") else ViewKind.BAG
    branches, columns, keys = keyed(lowering.variables, table.branches, table.columns)
    count = summed(lowering.variables, keys, branches)
    return _query(statement, lowering, kind, keys, ((COUNT, count),), items, columns, query)


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
    table = _rows(lowering, block, outer, None if _distinct(query) else needed)
    return distinct_rows(lowering, table) if _distinct(query) else table


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


# --- one SELECT -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """FROM and WHERE of a SELECT, and its select list."""

    select: exp.Select
    scope: Scope
    branches: tuple[Branch, ...]
    items: list[Item]
    grouping: Grouping | None = None

    @property
    def is_total(self) -> bool:
        """Whether all rows are one group, which is there without rows as well."""
        if self.grouping is not None:
            return not self.grouping.keys
        group = self.select.args.get("group")
        return group is None or bool(group.args.get("all") and not self.plain_items)

    @property
    def plain_items(self) -> list[Item]:
        """The items without aggregates: what GROUP BY ALL groups by."""
        return [item for item in self.items if item.column or not has_aggregate(item.node)]


def _rows(lowering: Lowering, block: Block, outer: Scope | None, needed: Needed) -> Table:
    """The rows of a SELECT before DISTINCT: one UNION ALL of them for each grouping."""
    groupings = groupings_of(block.select)
    if groupings is None:
        return select_rows(lowering, block, needed)
    tables = []
    for grouping in groupings:
        rows = from_where(lowering, block.select, outer)
        tables.append(_grouped_rows(lowering, replace(rows, grouping=grouping), needed))
    return united(lowering, block.select, tables)


def from_where(lowering: Lowering, select: exp.Select, outer: Scope | None) -> Block:
    """FROM and WHERE of a SELECT, as branches of products and the scope of its names"""
    select = with_bounds_inside(select)
    scope = Scope(parent=outer)
    branches: tuple[Branch, ...] = UNIT
    from_, where = select.args.get("from_"), select.args.get("where")
    if from_ is not None:
        tables = qualifiers(select)
        clause = From(lowering, scope, needed_columns(select), tables, where and where.this)
        branches = clause.lower(from_.this, select.args.get("joins") or ())
    if where is not None:
        factors = RowScalars(lowering, scope).conditions(where.this)
        branches = extended(lowering.variables, branches, factors)
    return Block(select, scope, branches, output_items(select, scope))


def select_rows(lowering: Lowering, block: Block, needed: Needed) -> Table:
    """The rows of a SELECT before DISTINCT. Items that nobody needs are left out where they cost
    something: aggregates and subqueries."""
    if _is_grouped(block):
        return _grouped_rows(lowering, block, needed)
    scalars = RowScalars(lowering, block.scope)
    if has_windows(block):
        scalars.windows = Windows(lowering, _named(block), block.scope, block.branches)
    columns = []
    for item in block.items:
        if item.column is not None:
            columns.append((item.name, item.column))
        elif needed is None or item.name in needed or not _is_costly(item.node):
            columns.append((item.name, scalars.lower(item.node)))
    tests = _qualified(block, scalars)
    branches = extended(lowering.variables, block.branches, scalars.take_prelude())
    if isinstance(scalars.windows, Windows):
        key = _row_key(block)
        branches = with_windows(lowering, scalars.windows, branches, columns, tests, key)
    return Table(branches, tuple(columns))


def _is_costly(node: exp.Expr) -> bool:
    return has_subquery(node) or has_window(node)


def has_windows(block: Block) -> bool:
    """Whether a window function is in the select list or in QUALIFY."""
    qualify = block.select.args.get("qualify")
    nodes = [item.node for item in block.items if item.column is None]
    choice = any(map(has_window, nodes))
    if qualify is not None and not choice and not has_window(qualify.this):
        raise fault(
            UnsupportedError,
            "QUALIFY needs a window function",
            qualify,
            "write WHERE or HAVING instead",
        )
    return qualify is not None or choice


def _named(block: Block) -> dict[str, exp.Window]:
    """The windows of the WINDOW clause."""
    return {window.this.name: window for window in block.select.args.get("windows") or ()}


def _qualified(block: Block, scalars: RowScalars) -> list[Expr]:
    """QUALIFY as factors, where output names may stand for their expressions."""
    qualify = block.select.args.get("qualify")
    if qualify is None:
        return []
    names = {item.name: item.node for item in block.items if item.column is None}

    def expand(node: exp.Expr) -> exp.Expr:
        is_name = isinstance(node, exp.Column) and not node.table and node.name in names
        if is_name and isinstance(node, exp.Column) and not block.scope.owns(node):
            return names[node.name].copy()
        return node

    condition = qualify.this.copy().transform(expand)
    before = scalars.take_prelude()
    tests = scalars.conditions(condition)
    scalars.prelude = before + scalars.prelude
    return tests


def _row_key(block: Block) -> tuple[str, ...] | None:
    """The variables of a declared key, where the rows are those of one relation."""
    if len(block.scope.sources) != 1 or len(block.branches) != 1:
        return None
    (source,) = block.scope.sources
    key = [typed.scalar for name in source.key for typed in source.find(name)]
    names = tuple(scalar.name for scalar in key if isinstance(scalar, Ref))
    return names if names and len(names) == len(key) else None


def _grouped_rows(lowering: Lowering, block: Block, needed: Needed) -> Table:
    branches, groups, keys = _groups(lowering, block)
    total = block.is_total
    factors: list[Expr] = []
    if not total:
        factors.append(exists_of(summed(lowering.variables, keys, branches)))
    sink = Lifts(lowering.variables, factors)
    scalars = Grouped(lowering, block.scope, branches, groups, keys, total, sink)
    if has_windows(block):
        scalars.windows = Windows(lowering, _named(block), block.scope, branches)
    columns = []
    for item in block.items:
        if needed is None or item.name in needed:
            columns.append((item.name, _item_value(scalars, item)))
            factors += scalars.take_prelude()
    having = block.select.args.get("having")
    if having is not None:
        factors += scalars.conditions(having.this)
    tests = _qualified(block, scalars)
    factors += scalars.take_prelude()
    rows = extended(lowering.variables, (Branch(),), factors)
    if isinstance(scalars.windows, Windows):
        rows = with_windows(
            lowering, scalars.windows, rows, columns, tests, None if total else keys
        )
    return Table(rows, tuple(columns))


def _groups(
    lowering: Lowering, block: Block
) -> tuple[tuple[Branch, ...], list[tuple[ScalarExpr, Typed]], tuple[str, ...]]:
    """GROUP BY: the block with its keys bound, each key's scalar before and after, and the keys."""
    group = block.select.args.get("group")
    if group is None:
        return block.branches, [], ()
    scalars = RowScalars(lowering, block.scope)
    grouping = block.grouping
    absent = [_group_value(scalars, node, block) for node in (grouping.absent if grouping else ())]
    scalars.take_prelude()
    if group.args.get("all"):
        columns = [(item.name, _value(scalars, item)) for item in block.plain_items]
    else:
        nodes = grouping.keys if grouping else group.expressions
        columns = [_group_value(scalars, node, block) for node in nodes]
    columns += _determined(block, columns)
    prepared = extended(lowering.variables, block.branches, scalars.take_prelude())
    branches, bound, keys = keyed(lowering.variables, prepared, columns)
    nulls = [(typed.scalar, Typed(NULL, typed.type)) for _, typed in absent]
    groups = [(before.scalar, after) for (_, before), after in zip(columns, bound, strict=True)]
    return branches, [*nulls, *groups], keys


def _group_value(scalars: RowScalars, node: exp.Expr, block: Block) -> tuple[str, Typed]:
    item = _group_item(node, block)
    if has_aggregate(item.node) and item.column is None:
        raise fault(UnsupportedError, "aggregates cannot stand in GROUP BY", node)
    return item.name, _value(scalars, item)


def _value(scalars: RowScalars, item: Item) -> Typed:
    return item.column if item.column is not None else scalars.lower(item.node)


def _determined(block: Block, columns: Sequence[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
    """Columns that a grouped primary key determines may be used as if they were grouped."""
    grouped = {typed.scalar for _, typed in columns}
    having = block.select.args.get("having")
    nodes = [*(item.node for item in block.items), *([having] if having is not None else [])]
    used = {column.name for node in nodes for column in node.find_all(exp.Column)}
    determined = []
    for source in block.scope.sources:
        key = [typed.scalar for name in source.key for typed in source.find(name)]
        if key and grouped.issuperset(key):
            determined += [
                (name, typed)
                for name, typed in source.columns
                if name in used and typed.scalar not in grouped
            ]
    return determined


def _group_item(node: exp.Expr, block: Block) -> Item:
    """A position, an input column, an output name, or an expression."""
    if isinstance(node, exp.Literal) and not node.is_string:
        if node.name.isdigit() and 1 <= int(node.name) <= len(block.items):
            return block.items[int(node.name) - 1]
        raise fault(
            ResolutionError,
            f"GROUP BY {node.name} is not a column of the result",
            node,
            f"positions are 1 to {len(block.items)}",
        )
    if isinstance(node, exp.Column):
        if not node.table and not block.scope.owns(node):
            named = [item for item in block.items if item.name == node.name]
            if len(named) == 1:
                return named[0]
        return Item(node.name, node)
    return Item("key", node)


def _item_value(scalars: Grouped, item: Item) -> Typed:
    if item.column is not None:
        return scalars.group_key(item.column, item.node)
    return scalars.lower(item.node)


def _is_grouped(block: Block) -> bool:
    select = block.select
    return (
        select.args.get("group") is not None
        or select.args.get("having") is not None
        or any(has_aggregate(item.node) for item in block.items)
    )


def _has_extremes(block: Block) -> bool:
    having = block.select.args.get("having")
    nodes = [item.node for item in block.items] + ([having.this] if having is not None else [])
    return any(has_extreme(node) for node in nodes)


def _distinct(query: exp.Expr) -> bool:
    return query.args.get("distinct") is not None


def _modifiers(query: exp.Expr) -> bool:
    return any(query.args.get(clause) for clause in ("order", "limit", "offset", "with_"))


# --- views ----------------------------------------------------------------------------------------


def _grouped_view(statement: CreateView, lowering: Lowering, block: Block) -> Query:
    branches, groups, keys = _groups(lowering, block)
    total = block.is_total
    sink = Components(lowering.variables)
    sink.names[summed(lowering.variables, keys, branches)] = COUNT
    scalars = Grouped(lowering, block.scope, branches, groups, keys, total, sink)
    columns = [_item_value(scalars, item) for item in block.items]
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
        lets=lets,
        having=test,
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
    lets: tuple[NestedValue, ...] = (),
    having: ScalarExpr | None = None,
) -> Query:
    names = _column_names(statement, items)
    limit, offset = limit_of(query)
    return Query(
        statement.name,
        kind,
        keys,
        components,
        tuple(
            OutputColumn(
                name,
                VARCHAR if typed.type.kind is Kind.NULL else typed.type,
                lowering.variables.can_be_null(typed.scalar),
                typed.scalar,
            )
            for name, typed in zip(names, columns, strict=True)
        ),
        lets,
        having,
        order_of(query, items),
        limit,
        offset,
        tuple(lowering.inner),
        statement.plan,
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
