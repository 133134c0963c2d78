"""FROM: relations, derived tables, views and the joins between them.

    R JOIN S ON p         R * S * {p}
    R LEFT JOIN S ON p    that, and  R * (n := Sum[](S' * {p'})) * {n = 0}, S's columns NULL
    R RIGHT JOIN S ON p   the mirror image;  FULL has both

S' is S under fresh names: its variables must not be taken for those which the branch binds to NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from viewlet.calculus.expr import Expr, Rel, cond, lift, product_of, sum_of
from viewlet.errors import ResolutionError, UnsupportedError
from viewlet.frontend.blocks import (
    UNIT,
    Branch,
    Table,
    crossed,
    extended,
    renamed,
    summed,
)
from viewlet.frontend.context import Lowering, Needed
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.scalars import Constants
from viewlet.frontend.scope import Scope, Source
from viewlet.frontend.syntax import COMMA, did_you_mean, fault
from viewlet.frontend.types import Typed, comparison, convert, meeting_type
from viewlet.functions import NULL, Const, Ref, ScalarExpr, apply


class From:
    """Lowers the FROM clause of one SELECT into branches and a scope."""

    def __init__(self, lowering: Lowering, scope: Scope, needed: Needed) -> None:
        self.lowering = lowering
        self.variables = lowering.variables
        self.scope = scope
        self.needed = needed

    def lower(self, first: exp.Expr, joins: Sequence[exp.Join]) -> tuple[Branch, ...]:
        """Items between commas are lowered each with its own joins, then crossed."""
        branches: tuple[Branch, ...] = UNIT
        groups: list[tuple[exp.Expr, list[exp.Join]]] = [(first, [])]
        for join in joins:
            if _is_comma(join):
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        whole = self.scope
        for item, chain in groups:
            # ON sees only the items of its own chain, as in PostgreSQL.
            self.scope = Scope(parent=whole.parent, common=whole.common)
            part = self.item(item)
            for join in chain:
                part = self.join(part, join)
            for source in self.scope.sources:
                whole.add(source, item)
            whole.merged.update(self.scope.merged)
            whole.hidden |= self.scope.hidden
            branches = crossed(branches, part)
        self.scope = whole
        return branches

    # Items.

    def item(self, node: exp.Expr) -> tuple[Branch, ...]:
        """One FROM item; its columns join the scope."""
        if isinstance(node, exp.Lateral) or node.args.get("lateral"):
            raise fault(UnsupportedError, "LATERAL is not supported", node, "write a plain join")
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Func):
                raise fault(UnsupportedError, "table functions are not supported", node)
            branches = self.table(node)
            for join in node.args.get("joins") or ():
                branches = self.join(branches, join)
            return branches
        if isinstance(node, exp.Values):
            return self._add(node, self.values(node))
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):
                return self._parenthesised(node)
            outer = Scope(parent=self.scope.parent, common=self.scope.common)
            needed = None if _column_aliases(node) else self.needed
            return self._add(node, self.lowering.query(self.lowering, node.this, outer, needed))
        raise fault(UnsupportedError, "this cannot stand in FROM", node)

    def _parenthesised(self, node: exp.Subquery) -> tuple[Branch, ...]:
        """(a JOIN b ON p), which is not a derived table unless it has a name"""
        inner = From(
            self.lowering, Scope(parent=self.scope.parent, common=self.scope.common), self.needed
        )
        branches = inner.item(node.this)
        if node.alias:
            columns = tuple(inner.scope.star(None, node))
            return self._add(node, Table(branches, columns))
        for source in inner.scope.sources:
            self.scope.add(source, node)
        self.scope.merged.update(inner.scope.merged)
        self.scope.hidden |= inner.scope.hidden
        for join in node.args.get("joins") or ():
            branches = self.join(branches, join)
        return branches

    def table(self, node: exp.Table) -> tuple[Branch, ...]:
        """A common table, a view or a relation, in this order."""
        name = node.name
        if node.args.get("sample") is not None:
            raise fault(UnsupportedError, "TABLESAMPLE is not supported", node)
        if node.db:
            raise fault(
                UnsupportedError,
                f"schemas are not supported: {node.db}.{name}",
                node,
                f"write {name}",
            )
        common = self.scope.common_table(name)
        needed = None if _column_aliases(node) else self.needed
        if common is not None:
            needed = None if common.columns else needed
            table = self.lowering.query(self.lowering, common.query, common.scope, needed)
            return self._add(node, _with_names(table, common.columns, node))
        if name in self.lowering.views:
            return self._add(node, self._view(name, node, needed))
        if name not in self.lowering.catalog:
            known = (*self.lowering.catalog.relations, *self.lowering.views)
            raise fault(
                ResolutionError, f"no table, stream or view {name}", node, did_you_mean(name, known)
            )
        relation = self.lowering.catalog[name]
        alias = node.alias_or_name
        columns = tuple(
            (
                column.name,
                Typed(
                    Ref(self.variables.fresh(f"{alias}_{column.name}", nullable=column.nullable)),
                    column.type,
                ),
            )
            for column in relation.columns
        )
        names = tuple(c.scalar.name for _, c in columns if isinstance(c.scalar, Ref))
        table = Table((Branch((Rel(relation.name, names),)),), columns)
        return self._add(node, table, key=relation.key)

    def _view(self, name: str, node: exp.Expr, needed: Needed) -> Table:
        view = self.lowering.views[name]
        if name in self.lowering.open_views:
            raise fault(ResolutionError, f"view {name} uses itself", node)
        inner = Lowering(
            self.lowering.catalog,
            self.lowering.views,
            self.lowering.query,
            self.variables,
            (*self.lowering.open_views, name),
        )
        table = inner.query(inner, view.select, None, None if view.columns else needed)
        return _with_names(table, view.columns, node)

    def values(self, node: exp.Values) -> Table:
        """VALUES (1, 'a'), (2, 'b') -> a branch for each row"""
        rows = [[Constants().lower(e) for e in row.expressions] for row in node.expressions]
        if len({len(row) for row in rows}) != 1:
            raise fault(ResolutionError, "VALUES lists have different lengths", node)
        columns = []
        for position, values in enumerate(zip(*rows, strict=True)):
            type_ = meeting_type(values, node, "VALUES")
            name = f"column{position + 1}"
            nullable = any(v.scalar == NULL for v in values)
            variable = self.variables.fresh(f"values_{name}", nullable=nullable)
            columns.append((name, Typed(Ref(variable), type_)))
        branches = []
        for row in rows:
            bindings: dict[str, ScalarExpr] = {}
            for value, (_, column) in zip(row, columns, strict=True):
                assert isinstance(column.scalar, Ref)
                bindings[column.scalar.name] = convert(value, column.type, node).scalar
            branches.append(Branch((), bindings))
        return Table(tuple(branches), tuple(columns))

    def _add(self, node: exp.Expr, table: Table, key: tuple[str, ...] = ()) -> tuple[Branch, ...]:
        alias = node.alias_or_name
        renamed_ = _with_names(table, _column_aliases(node), node)
        if not alias:
            alias = self.variables.fresh("unnamed")
        self.scope.add(Source(alias, renamed_.columns, key), node)
        return renamed_.branches

    # Joins.

    def join(self, left: tuple[Branch, ...], node: exp.Join) -> tuple[Branch, ...]:
        side = (node.side or "").upper()
        kind = (node.kind or "").upper()
        if kind in ("SEMI", "ANTI") or side in ("SEMI", "ANTI"):
            raise fault(
                UnsupportedError, f"{kind or side} JOIN is not supported", node, "use [NOT] EXISTS"
            )
        if (node.method or "").upper() not in ("", "NATURAL"):
            raise fault(UnsupportedError, f"{node.method} JOIN is not supported", node)
        before = list(self.scope.sources)
        right = self.item(node.this)
        added = self.scope.sources[len(before) :]
        if side in ("LEFT", "FULL"):
            right = self._nullable_sources(added, right)
            added = self.scope.sources[len(before) :]
        if side in ("RIGHT", "FULL"):
            left = self._nullable_sources(before, left)
            before = self.scope.sources[: len(before)]
        factors = self._on(node, before, added, side)
        both = extended(self.variables, crossed(left, right), factors)
        if side in ("LEFT", "FULL"):
            both += self._unmatched(left, right, factors, added)
        if side in ("RIGHT", "FULL"):
            both += self._unmatched(right, left, factors, before)
        return both

    def _on(
        self, node: exp.Join, before: Sequence[Source], added: Sequence[Source], side: str
    ) -> list[Expr]:
        on, using = node.args.get("on"), node.args.get("using")
        if (node.method or "").upper() == "NATURAL":
            left_names = [c for s in before for c, _ in s.columns]
            right_names = [c for s in added for c, _ in s.columns]
            shared = [n for n in dict.fromkeys(left_names) if n in right_names]
            return [self._merge(n, before, added, side, node) for n in shared]
        if using:
            return [self._merge(c.name, before, added, side, c) for c in using]
        if on is None:
            if (node.kind or "").upper() == "CROSS":
                return []
            raise fault(
                UnsupportedError, "the join has no condition", node, "add ON ..., or CROSS JOIN"
            )
        return RowScalars(self.lowering, self.scope).conditions(on)

    def _merge(
        self,
        name: str,
        before: Sequence[Source],
        added: Sequence[Source],
        side: str,
        node: exp.Expr,
    ) -> Expr:
        """USING (name): the condition, and one column for both that SELECT * shows first."""
        a = self._side_column(name, before, node, use_merged=True)
        b = self._side_column(name, added, node, use_merged=False)
        if side == "FULL":
            target = meeting_type([a, b], node, "USING")
            parts = (convert(v, target, node).scalar for v in (a, b))
            merged = Typed(apply("coalesce", *parts), target)
        else:
            merged = b if side == "RIGHT" else a
        self.scope.merged[name] = merged
        self.scope.hidden |= {(s.alias, name) for s in (*before, *added) if s.find(name)}
        return cond(comparison("=", a, b, node).scalar)

    def _side_column(
        self, name: str, sources: Sequence[Source], node: exp.Expr, use_merged: bool
    ) -> Typed:
        if use_merged and name in self.scope.merged:
            return self.scope.merged[name]
        found = [typed for s in sources for typed in s.find(name)]
        if len(found) != 1:
            state = "is ambiguous" if found else "is not there"
            owners = ", ".join(s.alias for s in sources)
            raise fault(ResolutionError, f"USING: column {name} {state} in {owners}", node)
        return found[0]

    def _nullable_sources(
        self, sources: Sequence[Source], branches: tuple[Branch, ...]
    ) -> tuple[Branch, ...]:
        """Give a variable to each column that is not one already, so that it can be bound to NULL.

        A constant or COALESCE column of a derived table is NULL too in a row that only the other
        side of an outer join has.
        """
        extra: dict[str, ScalarExpr] = {}
        known: dict[ScalarExpr, ScalarExpr] = {}

        def named(alias: str, name: str, typed: Typed) -> Typed:
            if isinstance(typed.scalar, Ref):
                return typed
            if typed.scalar not in known:
                nullable = self.variables.can_be_null(typed.scalar)
                variable = self.variables.fresh(f"{alias}_{name}", nullable=nullable)
                known[typed.scalar] = Ref(variable)
                extra[variable] = typed.scalar
            return Typed(known[typed.scalar], typed.type)

        for source in sources:
            columns = tuple((n, named(source.alias, n, t)) for n, t in source.columns)
            at = self.scope.sources.index(source)
            self.scope.sources[at] = Source(source.alias, columns, source.key)
        for name, typed in self.scope.merged.items():
            if typed.scalar in known:
                self.scope.merged[name] = Typed(known[typed.scalar], typed.type)
        if not extra:
            return branches
        return tuple(
            Branch(
                b.factors, {**b.bindings, **{v: b.resolve(scalar) for v, scalar in extra.items()}}
            )
            for b in branches
        )

    def _unmatched(
        self,
        kept: tuple[Branch, ...],
        missing: tuple[Branch, ...],
        factors: Sequence[Expr],
        sources: Sequence[Source],
    ) -> tuple[Branch, ...]:
        """kept * (n := Sum[](missing' * on')) * {n = 0}, the missing side's columns NULL"""
        nulls: dict[str, ScalarExpr] = {
            typed.scalar.name: NULL
            for source in sources
            for _, typed in source.columns
            if isinstance(typed.scalar, Ref)
        }
        self.variables.nulled |= nulls.keys()
        result: list[Branch] = []
        for branch in kept:
            twins = [renamed(self.variables, other) for other in missing]
            body = sum_of(*(summed(self.variables, (), (twin,), *factors) for twin in twins))
            count = self.variables.fresh("matches")
            none = product_of(lift(count, body), cond(apply("=", Ref(count), Const(0))))
            for extended_ in extended(self.variables, (branch,), [none]):
                bindings = {**extended_.bindings, **nulls}
                result.append(Branch(extended_.factors, bindings))
        return tuple(result)


def _is_comma(join: exp.Join) -> bool:
    return bool(join.meta_get(COMMA))


def _column_aliases(node: exp.Expr) -> tuple[str, ...]:
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias):
        return tuple(column.name for column in alias.columns)
    return ()


def _with_names(table: Table, names: tuple[str, ...], node: exp.Expr) -> Table:
    """The table under other column names: fewer names leave the rest as they are."""
    if not names:
        return table
    if len(names) > len(table.columns):
        raise fault(
            ResolutionError, f"{len(names)} column names for {len(table.columns)} columns", node
        )
    kept = [name for name, _ in table.columns[len(names) :]]
    typed = [t for _, t in table.columns]
    return Table(table.branches, tuple(zip((*names, *kept), typed, strict=True)))
