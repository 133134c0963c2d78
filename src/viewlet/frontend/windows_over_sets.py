"""Windows over grouping sets: the groups become a query of their own, and the windows are over it.

    SELECT a, SUM(x), RANK() OVER (ORDER BY SUM(x)) FROM r GROUP BY ROLLUP (a)
        -> SELECT key_1 AS a, value_1 AS sum, RANK() OVER (ORDER BY value_1)
           FROM (SELECT a AS key_1, SUM(x) AS value_1 FROM r GROUP BY ROLLUP (a))

Without sets a window stands over the groups as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from viewlet.frontend.grouping_sets import leaves_of
from viewlet.frontend.nested import OVER_ONLY
from viewlet.frontend.order_aggregates import is_order_aggregate
from viewlet.frontend.select import Item, is_same_column

_CLAUSES = ("from_", "joins", "where", "group", "having")
"""What is of the groups; the other clauses are of the rows that the windows give."""


def windows_outside(
    select: exp.Select,
    items: Sequence[Item],
    key_of: Callable[[exp.Expr], exp.Expr],
    refused: Callable[[exp.Column], Exception | None],
) -> exp.Select:
    """The query with its groups in a subquery.

    `key_of` says what an element of GROUP BY means, `refused` what is wrong with another column.
    """
    inner = exp.Select(**{name: _copy(select.args.get(name)) for name in _CLAUSES})
    for leaf in leaves_of(inner):
        leaf.replace(key_of(leaf).copy())
    captured = _Captured([key_of(leaf) for leaf in leaves_of(select)], refused)
    outer: list[exp.Expr] = []
    for item in items:
        value = captured.outside(item.node)
        outer.append(exp.alias_(value, exp.to_identifier(item.name, quoted=True)))
    qualify = select.args.get("qualify")
    result = exp.Select(expressions=outer)
    if qualify is not None:
        names = {item.name: item.node for item in items}
        result.set("qualify", exp.Qualify(this=captured.outside(_expanded(qualify.this, names))))
    named = select.args.get("windows") or ()
    result.set("windows", [captured.outside(window) for window in named])
    inner.set("expressions", [exp.alias_(node, name) for name, node in captured.columns.items()])
    alias = exp.TableAlias(this=exp.to_identifier("groups"))
    result.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    return result


def _copy(clause: object) -> object:
    if isinstance(clause, list):
        return [part.copy() for part in clause]
    return clause.copy() if isinstance(clause, exp.Expr) else clause


def _expanded(node: exp.Expr, names: dict[str, exp.Expr]) -> exp.Expr:
    """QUALIFY may name what the select list computes."""

    def expand(part: exp.Expr) -> exp.Expr:
        is_name = isinstance(part, exp.Column) and not part.table and part.name in names
        return names[part.name].copy() if is_name else part

    return node.copy().transform(expand)


class _Captured:
    """The values of groups that stand in windows and beside them."""

    def __init__(
        self, keys: Sequence[exp.Expr], refused: Callable[[exp.Column], Exception | None]
    ) -> None:
        self._keys = keys
        self._refused = refused
        self.columns: dict[str, exp.Expr] = {}

    def outside(self, node: exp.Expr) -> exp.Expr:
        """An expression over groups -> the same over the columns of the subquery."""
        root = exp.Paren(this=node.copy())
        self._replace(root.this)
        outside: exp.Expr = root.this
        return outside

    def _replace(self, node: exp.Expr) -> None:
        key = next((key for key in self._keys if _is_same(node, key)), None)
        if key is not None or _is_of_group(node):
            name = self._name(key if key is not None else node)
            column = exp.column(exp.to_identifier(name))
            column.meta.update(node.meta)
            node.replace(column)
            return
        error = self._refused(node) if isinstance(node, exp.Column) else None
        if error is not None:
            raise error
        if not isinstance(node, exp.Query):
            for child in list(node.iter_expressions()):
                self._replace(child)

    def _name(self, node: exp.Expr) -> str:
        for name, known in self.columns.items():
            if known == node:
                return name
        name = f"value_{len(self.columns) + 1}"
        self.columns[name] = node.copy()
        return name


def _is_same(node: exp.Expr, key: exp.Expr) -> bool:
    if isinstance(node, exp.Column) and isinstance(key, exp.Column):
        return is_same_column(node, key)
    return node == key


def _is_of_group(node: exp.Expr) -> bool:
    """An aggregate that is not over a window itself, or GROUPING."""
    if isinstance(node, exp.Grouping):
        return True
    if isinstance(node, exp.Filter | exp.WithinGroup) or is_order_aggregate(node):
        return not isinstance(node.parent, exp.Window) or node.arg_key != "this"
    if not isinstance(node, exp.AggFunc) or isinstance(node, OVER_ONLY):
        return False
    return not isinstance(node.parent, exp.Window) or node.arg_key != "this"
