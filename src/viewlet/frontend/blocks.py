"""One SELECT -> its rows: FROM and WHERE, groups, windows, the select list.

    Exists(Sum[g](Q)) * (s := Sum[g](Q * e)) * (m := min v in Sum[g, v](Q)) * {having}

are the rows of a grouped query; without GROUP BY the Exists is left out, because then there is
always one row.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from sqlglot import exp

from viewlet.calculus.expr import Expr, cond, exists_of
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.frontend.aggregates import (
    Grouped,
    Lifts,
    columns_outside,
    has_aggregate,
    has_extreme,
    has_window,
    not_grouped,
)
from viewlet.frontend.context import Lowering, Needed
from viewlet.frontend.greatest_rows import with_greatest_rows
from viewlet.frontend.grouping_sets import Grouping, groupings_of
from viewlet.frontend.joins import From
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.products import UNIT, Branch, Table, extended, keyed, summed
from viewlet.frontend.scope import Scope
from viewlet.frontend.select import (
    Item,
    has_subquery,
    needed_columns,
    output_items,
    qualifiers,
)
from viewlet.frontend.setops import united
from viewlet.frontend.syntax import conjuncts_of, fault, walk_level
from viewlet.frontend.top_rows import (
    with_bounds_inside,
)
from viewlet.frontend.types import Typed
from viewlet.frontend.window_functions import Windows, with_windows
from viewlet.frontend.windows_over_sets import windows_outside
from viewlet.functions import NULL, Ref, ScalarExpr


@dataclass(frozen=True)
class Correlation:
    """own = outer in WHERE: a column of the block, and an expression over the rows around it."""

    own: exp.Expr
    test: exp.Expr


@dataclass(frozen=True)
class SelectBlock:
    """FROM and WHERE of a SELECT, and its select list.

    `ties` are conditions that come after its windows, whose partitions they are between: what the
    rows around choose is a whole partition, and the windows are the same for all of them.
    """

    select: exp.Select
    scope: Scope
    branches: tuple[Branch, ...]
    items: list[Item]
    grouping: Grouping | None = None
    ties: tuple[Correlation, ...] = ()

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
        return [item for item in self.selected if item.column or not has_aggregate(item.node)]

    @property
    def selected(self) -> list[Item]:
        """The items that are columns of the result."""
        return [item for item in self.items if not item.is_hidden]


def block_rows(
    lowering: Lowering, block: SelectBlock, outer: Scope | None, needed: Needed
) -> Table:
    """The rows of a SELECT before DISTINCT: one UNION ALL of them for each grouping."""
    groupings = groupings_of(block.select)
    if groupings is None:
        return select_rows(lowering, block, needed)
    if has_windows(block):
        over = windows_outside(
            block.select,
            block.items,
            lambda key: _group_item(key, block).node,
            lambda column: not_grouped(column) if block.scope.owns(column) else None,
        )
        return select_rows(lowering, from_where(lowering, over, outer), needed)
    tables = []
    hidden = [item for item in block.items if item.is_hidden]
    for grouping in groupings:
        rows = from_where(lowering, block.select, outer)
        tables.append(
            _grouped_rows(
                lowering, replace(rows, grouping=grouping, items=[*rows.items, *hidden]), needed
            )
        )
    return united(lowering, block.select, tables)


def from_where(lowering: Lowering, select: exp.Select, outer: Scope | None) -> SelectBlock:
    """FROM and WHERE of a SELECT, as branches of products and the scope of its names"""
    select = with_bounds_inside(select)
    select = with_greatest_rows(lowering.catalog, select, outer)
    scope = Scope(parent=outer)
    branches: tuple[Branch, ...] = UNIT
    from_, where = select.args.get("from_"), select.args.get("where")
    if from_ is not None:
        tables = qualifiers(select)
        clause = From(lowering, scope, needed_columns(select), tables, where and where.this)
        branches = clause.lower(from_.this, select.args.get("joins") or ())
    items = output_items(select, scope)
    if where is None:
        return SelectBlock(select, scope, branches, items)
    ties: tuple[Correlation, ...] = ()
    if outer is not None and not is_grouped(SelectBlock(select, scope, branches, items)):
        ties = _ties(select, scope)
    tests = {id(tie.test) for tie in ties}
    scalars, factors = RowScalars(lowering, scope), []
    for part in conjuncts_of(where.this):
        if id(part) not in tests:
            factors += scalars.conditions(part)
    return SelectBlock(
        select, scope, extended(lowering.variables, branches, factors), items, None, ties
    )


def _ties(select: exp.Select, scope: Scope) -> tuple[Correlation, ...]:
    """The equalities of WHERE between rows of a query with windows and the rows around it."""
    qualify = select.args.get("qualify")
    nodes = [*select.expressions, *([qualify.this] if qualify is not None else [])]
    if not any(map(has_window, nodes)):
        return ()
    ties = []
    for part in conjuncts_of(select.args["where"].this):
        if not isinstance(part, exp.EQ) or has_subquery(part):
            continue
        sides = (part.left, part.right)
        owned = [{scope.owns(c) for c in side.find_all(exp.Column)} for side in sides]
        if {True} in owned and {False} in owned:
            ties.append(Correlation(sides[owned.index({True})], part))
    return tuple(ties)


def select_rows(lowering: Lowering, block: SelectBlock, needed: Needed) -> Table:
    """The rows of a SELECT before DISTINCT. Items that nobody needs are left out where they cost
    something: aggregates and subqueries."""
    if is_grouped(block):
        return _grouped_rows(lowering, block, needed)
    scalars = RowScalars(lowering, block.scope)
    if has_windows(block):
        ties = tuple(scalars.lower(tie.own) for tie in block.ties)
        scalars.windows = Windows(lowering, _named(block), block.scope, block.branches, ties)
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


def has_windows(block: SelectBlock) -> bool:
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


def _named(block: SelectBlock) -> dict[str, exp.Window]:
    """The windows of the WINDOW clause."""
    return {window.this.name: window for window in block.select.args.get("windows") or ()}


def _qualified(block: SelectBlock, scalars: RowScalars) -> list[Expr]:
    """QUALIFY as factors, where output names may stand for their expressions."""
    qualify = block.select.args.get("qualify")
    ties = [test for tie in block.ties for test in scalars.conditions(tie.test)]
    if qualify is None:
        return ties
    names = {item.name: item.node for item in block.items if item.column is None}

    def expand(node: exp.Expr) -> exp.Expr:
        is_name = isinstance(node, exp.Column) and not node.table and node.name in names
        if is_name and isinstance(node, exp.Column) and not block.scope.owns(node):
            return names[node.name].copy()
        return node

    condition = qualify.this.copy().transform(expand)
    before = scalars.take_prelude()
    tests: list[Expr] = []
    for part in conjuncts_of(condition):
        windows = [node for node in walk_level(part) if isinstance(node, exp.Window)]
        if any(has_subquery(window) for window in windows):
            # What windows are made of belongs to their rows, not to the test of them.
            tests.append(cond(scalars.boolean(part, "QUALIFY").scalar))
            before += scalars.take_prelude()
        else:
            tests += scalars.conditions(part)
    scalars.prelude = before + scalars.prelude
    return [*tests, *ties]


def _row_key(block: SelectBlock) -> tuple[str, ...] | None:
    """The variables of a declared key, where the rows are those of one relation."""
    if len(block.scope.sources) != 1 or len(block.branches) != 1:
        return None
    (source,) = block.scope.sources
    key = [typed.scalar for name in source.key for typed in source.find(name)]
    names = tuple(scalar.name for scalar in key if isinstance(scalar, Ref))
    return names if names and len(names) == len(key) else None


def _grouped_rows(lowering: Lowering, block: SelectBlock, needed: Needed) -> Table:
    groups = bound_groups(lowering, block)
    branches, keys = groups.branches, groups.keys
    total = block.is_total
    factors: list[Expr] = []
    if not total:
        factors.append(exists_of(summed(lowering.variables, keys, branches)))
    sink = Lifts(lowering.variables, factors)
    scalars = Grouped(lowering, block.scope, branches, groups.scalars, keys, total, sink)
    if has_windows(block):
        scalars.windows = Windows(lowering, _named(block), block.scope, branches)
    columns = []
    for item in block.items:
        if needed is None or item.name in needed:
            columns.append((item.name, item_value(scalars, item)))
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
    return Table(rows, tuple(columns), groups.written)


@dataclass(frozen=True)
class BoundGroups:
    """GROUP BY: the block with its keys bound, each key's scalar before and after, and the keys.

    `written` are those that the text names, where other columns follow from them.
    """

    branches: tuple[Branch, ...]
    scalars: list[tuple[ScalarExpr, Typed]]
    keys: tuple[str, ...]
    written: tuple[ScalarExpr, ...] | None = None


def bound_groups(lowering: Lowering, block: SelectBlock) -> BoundGroups:
    """The groups of a block; of one without GROUP BY there is one."""
    group = block.select.args.get("group")
    if group is None:
        return BoundGroups(block.branches, [], ())
    scalars = RowScalars(lowering, block.scope)
    grouping = block.grouping
    absent = [_group_value(scalars, node, block) for node in (grouping.absent if grouping else ())]
    scalars.take_prelude()
    if group.args.get("all"):
        columns = [(item.name, _value(scalars, item)) for item in block.plain_items]
    else:
        nodes = grouping.keys if grouping else group.expressions
        columns = [_group_value(scalars, node, block) for node in nodes]
    count = len(columns)
    columns += _determined(block, columns, {typed.scalar for _, typed in absent})
    prepared = extended(lowering.variables, block.branches, scalars.take_prelude())
    branches, bound, keys = keyed(lowering.variables, prepared, columns)
    nulls = [(typed.scalar, Typed(NULL, typed.type)) for _, typed in absent]
    groups = [(before.scalar, after) for (_, before), after in zip(columns, bound, strict=True)]
    written = None
    if grouping is None and (count < len(columns) or has_windows(block)):
        written = tuple(dict.fromkeys(typed.scalar for typed in bound[:count]))
    return BoundGroups(branches, [*nulls, *groups], keys, written)


def _group_value(scalars: RowScalars, node: exp.Expr, block: SelectBlock) -> tuple[str, Typed]:
    item = _group_item(node, block)
    if has_aggregate(item.node) and item.column is None:
        raise fault(UnsupportedError, "aggregates cannot stand in GROUP BY", node)
    return item.name, _value(scalars, item)


def _value(scalars: RowScalars, item: Item) -> Typed:
    return item.column if item.column is not None else scalars.lower(item.node)


def _determined(
    block: SelectBlock, columns: Sequence[tuple[str, Typed]], absent: Set[ScalarExpr]
) -> list[tuple[str, Typed]]:
    """Columns that a grouped primary key determines may be used as if they were grouped.

    Keys of other grouping sets stay NULL, whatever determines them.
    """
    grouped = {typed.scalar for _, typed in columns}
    having = block.select.args.get("having")
    nodes = [*(item.node for item in block.items), *([having] if having is not None else [])]
    used = {name for node in nodes for name in columns_outside(node)}
    determined = []
    for source in block.scope.sources:
        key = [typed.scalar for name in source.key for typed in source.find(name)]
        if key and grouped.issuperset(key):
            determined += [
                (name, typed)
                for name, typed in source.columns
                if name in used and typed.scalar not in grouped and typed.scalar not in absent
            ]
    return determined


def _group_item(node: exp.Expr, block: SelectBlock) -> Item:
    """A position, an input column, an output name, or an expression."""
    selected = block.selected
    if isinstance(node, exp.Literal) and not node.is_string:
        if node.name.isdigit() and 1 <= int(node.name) <= len(selected):
            return selected[int(node.name) - 1]
        raise fault(
            ResolutionError,
            f"GROUP BY {node.name} is not a column of the result",
            node,
            f"positions are 1 to {len(selected)}",
        )
    if isinstance(node, exp.Column):
        if not node.table and not block.scope.owns(node):
            named = [item for item in selected if item.name == node.name]
            if len(named) == 1:
                return named[0]
        return Item(node.name, node)
    return Item("key", node)


def item_value(scalars: Grouped, item: Item) -> Typed:
    """An item of a grouped query."""
    if item.column is not None:
        return scalars.group_key(item.column, item.node)
    return scalars.lower(item.node)


def is_grouped(block: SelectBlock) -> bool:
    """GROUP BY, HAVING, or an aggregate in the select list."""
    select = block.select
    return (
        select.args.get("group") is not None
        or select.args.get("having") is not None
        or any(has_aggregate(item.node) for item in block.items)
    )


def needs_rows(block: SelectBlock) -> bool:
    """Whether its groups are no sums: MIN and MAX, and subqueries whose rows have to be counted."""
    having = block.select.args.get("having")
    nodes = [item.node for item in block.items] + ([having.this] if having is not None else [])
    return any(has_extreme(node) or _has_counted_subquery(node) for node in nodes)


def _has_counted_subquery(node: exp.Expr) -> bool:
    """(SELECT b FROM s) as a value: an error of the batch that brings its second row."""
    return any(
        isinstance(part, exp.Subquery)
        and not isinstance(part.parent, exp.In | exp.Exists | exp.Any | exp.All)
        and not _is_one_row(part)
        for part in walk_level(node)
    )


def _is_one_row(node: exp.Expr) -> bool:
    while isinstance(node, exp.Subquery):
        node = node.this
    is_aggregate = any(map(has_aggregate, node.expressions))
    return isinstance(node, exp.Select) and is_aggregate and node.args.get("group") is None


def is_distinct(query: exp.Expr) -> bool:
    """SELECT DISTINCT, and set operations without ALL."""
    return query.args.get("distinct") is not None
