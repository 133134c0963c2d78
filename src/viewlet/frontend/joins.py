"""FROM: relations, derived tables, views and the joins between them.

    R JOIN S ON p         R * S * {p}
    R LEFT JOIN S ON p    that, and  R * (n := Sum[](S' * {p'})) * {n = 0}, S's columns NULL
    R RIGHT JOIN S ON p   the mirror image;  FULL has both

S' is S under fresh names: its variables must not be taken for those which the branch binds to NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from viewlet.calculus.expr import Expr, Rel, cond, exists_of, lift, product_of, sum_of
from viewlet.errors import ParseError, ResolutionError, UnsupportedError
from viewlet.frontend.context import Lowering, Needed
from viewlet.frontend.joined import (
    MOST_INNER_PRODUCTS,
    MOST_PRODUCTS,
    NOTHING,
    Joined,
    Renaming,
    as_inner_view,
    both_sides,
    is_crowded,
    is_searched,
    most_products,
    product_count,
    side_of,
)
from viewlet.frontend.lateral import lateral
from viewlet.frontend.nested import RowScalars
from viewlet.frontend.possible_terms import possible_terms
from viewlet.frontend.products import Branch, Table, crossed, extended, renamed, summed
from viewlet.frontend.scalars import Constants
from viewlet.frontend.scope import Scope, Source, numbered, unnumbered
from viewlet.frontend.syntax import COMMA, did_you_mean, fault, plain_name
from viewlet.frontend.temporal_joins import check_temporal_join
from viewlet.frontend.types import Typed, comparison, convert, meeting_type
from viewlet.functions import NULL, Apply, Const, Ref, ScalarExpr, apply
from viewlet.schema import Kind


class From:
    """Lowers the FROM clause of one SELECT into branches and a scope."""

    def __init__(
        self,
        lowering: Lowering,
        scope: Scope,
        needed: Needed,
        tables: frozenset[str] = frozenset(),
        where: exp.Expr | None = None,
    ) -> None:
        """`needed` and `tables` are the names that the SELECT mentions, `where` is its own."""
        self.lowering = lowering
        self.variables = lowering.variables
        self.scope = scope
        self.needed = needed
        self.tables = tables
        self.where = where

    def lower(self, first: exp.Expr, joins: Sequence[exp.Join]) -> tuple[Branch, ...]:
        """The rows of all items between commas, crossed; their names go to the scope."""
        joined_items = self._chains(first, joins)
        self.scope.sources = list(joined_items.sources)
        self.scope.columns = list(joined_items.columns)
        return joined_items.branches

    def _chains(self, first: exp.Expr, joins: Sequence[exp.Join]) -> Joined:
        """a JOIN b, c JOIN d: each chain by itself, because ON sees only what is in its own."""
        joined_items, chain = NOTHING, self._single(first)
        most = most_products(side_of(join) for join in joins)
        for join in joins:
            if _is_comma(join) and isinstance(join.this, exp.Lateral):
                joined_items, chain = NOTHING, self._crossed(joined_items, chain, first)
                chain, first = lateral(self, chain, join, is_comma=True), join.this
            elif _is_comma(join):
                joined_items = self._crossed(joined_items, chain, first)
                chain, first = self._single(join.this), join.this
            else:
                chain = self.join(chain, join, most)
        return self._crossed(joined_items, chain, first)

    def _crossed(self, left: Joined, right: Joined, node: exp.Expr) -> Joined:
        right = possible_terms(self.lowering, self.scope_of(right), right, self.where)
        if is_crowded(left, right, "", MOST_INNER_PRODUCTS):
            left, right = self.with_variables(left), self.with_variables(right)
        left, right, _ = self._few_products(left, right, "", MOST_INNER_PRODUCTS, [], node)
        names = both_sides(left, right, node)
        return replace(names, branches=crossed(left.branches, right.branches))

    def scope_of(self, joined: Joined) -> Scope:
        """What ON can name."""
        return Scope(
            parent=self.scope.parent,
            sources=list(joined.sources),
            columns=list(joined.columns),
            common=self.scope.common,
        )

    # Items.

    def item(self, node: exp.Expr) -> Joined:
        """One FROM item with its own joins: in parentheses, or b in a JOIN b JOIN c ON p ON q."""
        joins = node.args.get("joins")
        return self._chains(node, joins) if joins else self._single(node)

    def _single(self, node: exp.Expr) -> Joined:
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Values):
                return self.named_item(node, self.values(node.this))
            return self.table(node)
        if isinstance(node, exp.Values):
            return self.named_item(node, self.values(node))
        if isinstance(node, exp.Subquery):
            if _is_parenthesized_join(node):
                return self._parenthesized(node)
            outer = Scope(parent=self.scope.parent, common=self.scope.common)
            needed = None if _column_aliases(node) else self.needed
            return self.named_item(
                node, self.lowering.query(self.lowering, node.this, outer, needed)
            )
        raise fault(UnsupportedError, "this cannot stand in FROM", node)

    def _parenthesized(self, node: exp.Subquery) -> Joined:
        """(a JOIN b ON p): a and b stay known by their names unless the whole has one."""
        inner = self
        if _column_aliases(node):
            # Somebody needs the columns by names that they do not have in here.
            inner = From(self.lowering, self.scope, None, self.tables)
        joined = inner.item(node.this)
        if node.alias:
            return self.named_item(node, Table(joined.branches, joined.columns))
        return joined

    def table(self, node: exp.Table) -> Joined:
        """A common table, a view or a relation, in this order."""
        name = plain_name(node)
        common = self.scope.common_table(name)
        needed = None if _column_aliases(node) else self.needed
        if common is not None:
            needed = None if common.columns else needed
            table = self.lowering.query(self.lowering, common.query, common.scope, needed)
            return self.named_item(node, _with_names(table, common.columns, node))
        if name in self.lowering.views:
            return self.named_item(node, self._view(name, node, needed))
        if name not in self.lowering.catalog:
            candidates = (*self.lowering.catalog.relations, *self.lowering.views)
            raise fault(
                ResolutionError,
                f"no table, stream or view {name}",
                node,
                did_you_mean(name, candidates),
            )
        relation = self.lowering.catalog[name]
        check_temporal_join(node, relation)
        alias = node.alias_or_name
        columns = tuple(
            (
                column.name,
                Typed(
                    Ref(
                        self.variables.fresh(
                            f"{alias}_{column.name}",
                            nullable=column.nullable,
                            double=column.type.kind is Kind.DOUBLE,
                        )
                    ),
                    column.type,
                ),
            )
            for column in relation.columns
        )
        names = tuple(c.scalar.name for _, c in columns if isinstance(c.scalar, Ref))
        table = Table((Branch((Rel(relation.name, names),)),), columns)
        return self.named_item(node, table, key=relation.key)

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
            self.lowering.inner,
        )
        if needed is not None:
            needed = None if view.columns else unnumbered(needed)
        table = inner.query(inner, view.select, None, needed)
        names = numbered(name for name, _ in table.columns)
        return _with_names(table, (*view.columns, *names[len(view.columns) :]), node)

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

    def named_item(self, node: exp.Expr, table: Table, key: tuple[str, ...] = ()) -> Joined:
        named = _with_names(table, _column_aliases(node), node)
        names = [name for name, _ in table.columns]
        key = tuple(named.columns[names.index(name)][0] for name in key)
        alias = node.alias_or_name or self.variables.fresh("unnamed")
        return Joined(named.branches, (Source(alias, named.columns, key),), named.columns)

    # Joins.

    def join(self, left: Joined, node: exp.Join, most: int) -> Joined:
        """left [LEFT|RIGHT|FULL] JOIN right ON|USING ..., as branches of products"""
        kind = (node.kind or "").upper()
        if kind in ("SEMI", "ANTI"):
            return self._filtered(left, node, kind == "ANTI")
        side = side_of(node)
        _check_words(node, side)
        if isinstance(node.this, exp.Lateral):
            return lateral(self, left, node)
        right = self.item(node.this)
        crowded = is_crowded(left, right, side, most)
        if crowded or side in ("LEFT", "FULL"):
            right = self.with_variables(right)
        if crowded or side in ("RIGHT", "FULL"):
            left = self.with_variables(left)
        names = both_sides(left, right, node.this)
        factors, columns = self.condition(node, left, right, names, side)
        left, right, renamings = self._few_products(left, right, side, most, factors, node)
        for renaming in renamings:
            factors = [renaming.expr(factor) for factor in factors]
            columns = renaming.columns(columns)
        matched = extended(self.variables, crossed(left.branches, right.branches), factors)
        only_left = self.unmatched(left, right, factors) if side in ("LEFT", "FULL") else ()
        only_right = self.unmatched(right, left, factors) if side in ("RIGHT", "FULL") else ()
        sources = (*left.sources, *right.sources)
        if side == "FULL":
            return self._with_merged(Joined((*matched, *only_left), sources, columns), only_right)
        return Joined((*matched, *only_left, *only_right), sources, columns)

    def _filtered(self, left: Joined, node: exp.Join, is_anti: bool) -> Joined:
        """left SEMI JOIN right ON p: left * Exists(Sum[](right * {p}));  ANTI: where none is"""
        if side_of(node) not in ("", "LEFT"):
            raise fault(
                ParseError,
                f"{side_of(node)} {node.kind} JOIN is not a join",
                node,
                "exchange sides",
            )
        right = self.item(node.this)
        names = both_sides(left, right, node.this)
        factors, _ = self.condition(node, left, right, names, "")
        tests: list[Expr] = []
        matches = summed(self.variables, (), right.branches, *factors)
        if is_anti:
            count = self.variables.fresh("matches")
            tests = [lift(count, matches), cond(apply("=", Ref(count), Const(0)))]
        else:
            tests = [exists_of(matches)]
        return replace(left, branches=extended(self.variables, left.branches, tests))

    def _with_merged(self, joined: Joined, only_right: tuple[Branch, ...]) -> Joined:
        """COALESCE(a.k, b.k) of a FULL JOIN ... USING (k) as a variable: a.k, and b.k in rows that
        only the right side has. A later join on k can then be looked up.
        """
        merged: dict[str, tuple[ScalarExpr, ScalarExpr]] = {}
        columns: list[tuple[str, Typed]] = []
        for name, typed in joined.columns:
            if isinstance(typed.scalar, Apply):
                left, right = typed.scalar.arguments
                nullable = any(map(self.variables.can_be_null, (left, right)))
                variable = self.variables.fresh(name, nullable=nullable)
                merged[variable] = (left, right)
                typed = Typed(Ref(variable), typed.type)
            columns.append((name, typed))
        branches = tuple(
            Branch(b.factors, {**b.bindings, **{v: b.resolve(s[at]) for v, s in merged.items()}})
            for at, part in enumerate((joined.branches, only_right))
            for b in part
        )
        return Joined(branches, joined.sources, tuple(columns))

    def _few_products(
        self,
        left: Joined,
        right: Joined,
        side: str,
        most: int,
        factors: Sequence[Expr],
        node: exp.Expr,
    ) -> tuple[Joined, Joined, list[Renaming]]:
        """The sides of a join, those of many terms as views if there would be too many products,
        or if their rows could not be found otherwise.
        """
        renamings: list[Renaming] = []
        sides = [left, right]
        for at in sorted((0, 1), key=lambda at: -len(sides[at].branches)):
            searched = bool(side) and is_searched(sides[at], factors)
            crowded = is_crowded(sides[0], sides[1], side, most)
            if len(sides[at].branches) > 1 and (crowded or searched):
                columns = list(self._needed_columns(sides[at]))
                inner_view = as_inner_view(self.lowering, sides[at], columns, factors)
                if inner_view is not None:
                    sides[at], renaming = inner_view
                    renamings.append(renaming)
        crowded = is_crowded(sides[0], sides[1], side, most)
        if crowded and product_count(sides[0], sides[1], side) > MOST_PRODUCTS:
            raise fault(
                UnsupportedError,
                f"this join has more than {MOST_PRODUCTS} cases",
                node,
                "make a view of some of the joined tables first, and join that",
            )
        return sides[0], sides[1], renamings

    def _needed_columns(self, side: Joined) -> Iterator[tuple[str, Typed]]:
        """The columns of a side that somebody can name: those that USING merged, by table only."""
        by_table = [c for s in side.sources if s.alias in self.tables for c in s.columns]
        for name, typed in (*by_table, *side.columns):
            if self.needed is None or name in self.needed:
                yield name, typed

    def condition(
        self, node: exp.Join, left: Joined, right: Joined, names: Joined, side: str
    ) -> tuple[list[Expr], tuple[tuple[str, Typed], ...]]:
        """The factors of ON, USING or NATURAL, and the columns of the join."""
        on, using = node.args.get("on"), node.args.get("using")
        shared_names: list[tuple[str, exp.Expr]] | None = None
        if (node.method or "").upper() == "NATURAL":
            shared = dict.fromkeys(name for name, _ in left.columns if right.named(name))
            shared_names = [(name, node) for name in shared]
        elif using:
            shared_names = [(column.name, column) for column in using]
        if shared_names is not None:
            return self._merged(shared_names, left, right, side)
        if on is not None:
            return RowScalars(self.lowering, self.scope_of(names)).conditions(on), names.columns
        if (node.kind or "").upper() == "CROSS":
            return [], names.columns
        raise fault(
            UnsupportedError, "the join has no condition", node, "add ON ..., or CROSS JOIN"
        )

    def _merged(
        self, names: Sequence[tuple[str, exp.Expr]], left: Joined, right: Joined, side: str
    ) -> tuple[list[Expr], tuple[tuple[str, Typed], ...]]:
        """USING (k): {left.k = right.k}, and one column k for both, which * shows first."""
        factors: list[Expr] = []
        merged: dict[str, Typed] = {}
        for name, node in names:
            if name in merged:
                raise fault(ResolutionError, f"USING names {name} twice", node)
            a, b = _only(name, left, node), _only(name, right, node)
            factors.append(cond(comparison("=", a, b, node).scalar))
            if side == "FULL":
                target = meeting_type([a, b], node, "USING")
                parts = (convert(v, target, node).scalar for v in (a, b))
                merged[name] = Typed(apply("coalesce", *parts), target)
            else:
                merged[name] = b if side == "RIGHT" else a
        unmerged = [(n, typed) for n, typed in (*left.columns, *right.columns) if n not in merged]
        return factors, (*merged.items(), *unmerged)

    def with_variables(self, joined: Joined) -> Joined:
        """Give a variable to each column that is not one already.

        It can then be bound to NULL: a constant or COALESCE column of a derived table is NULL too
        in a row that only the other side of an outer join has. And a view has a key for it.
        """
        extra: dict[str, ScalarExpr] = {}
        references: dict[ScalarExpr, ScalarExpr] = {}

        def named(alias: str, name: str, typed: Typed) -> Typed:
            if isinstance(typed.scalar, Ref):
                return typed
            if typed.scalar not in references:
                nullable = self.variables.can_be_null(typed.scalar)
                variable = self.variables.fresh(f"{alias}_{name}", nullable=nullable)
                references[typed.scalar] = Ref(variable)
                extra[variable] = typed.scalar
            return Typed(references[typed.scalar], typed.type)

        sources = tuple(
            Source(s.alias, tuple((n, named(s.alias, n, t)) for n, t in s.columns), s.key)
            for s in joined.sources
        )
        if not extra:
            return joined
        columns = tuple(
            (name, Typed(references.get(typed.scalar, typed.scalar), typed.type))
            for name, typed in joined.columns
        )
        branches = tuple(
            Branch(
                b.factors, {**b.bindings, **{v: b.resolve(scalar) for v, scalar in extra.items()}}
            )
            for b in joined.branches
        )
        return Joined(branches, sources, columns)

    def unmatched(
        self, present: Joined, missing: Joined, factors: Sequence[Expr]
    ) -> tuple[Branch, ...]:
        """present * (n := Sum[](missing' * on')) * {n = 0}, the missing side's columns NULL"""
        columns = (*(c for s in missing.sources for c in s.columns), *missing.columns)
        nulls: dict[str, ScalarExpr] = {
            typed.scalar.name: NULL for _, typed in columns if isinstance(typed.scalar, Ref)
        }
        self.variables.nulled |= nulls.keys()
        result: list[Branch] = []
        for branch in present.branches:
            twins = [renamed(self.variables, other) for other in missing.branches]
            body = sum_of(*(summed(self.variables, (), (twin,), *factors) for twin in twins))
            count = self.variables.fresh("matches")
            none = product_of(lift(count, body), cond(apply("=", Ref(count), Const(0))))
            for extended_ in extended(self.variables, (branch,), [none]):
                bindings = {**extended_.bindings, **nulls}
                result.append(Branch(extended_.factors, bindings))
        return tuple(result)


def _check_words(join: exp.Join, side: str) -> None:
    """OUTER needs a side, and INNER and CROSS have none; NATURAL has no condition of its own."""
    if join.method and (join.args.get("on") or join.args.get("using")):
        raise fault(
            ParseError,
            "NATURAL JOIN has no ON and no USING",
            join,
            "leave NATURAL out, or the condition",
        )
    kind = (join.kind or "").upper()
    if kind and (kind == "OUTER") != bool(side):
        raise fault(
            ParseError,
            f"{side} {kind} JOIN is not a join".lstrip(),
            join,
            "write JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN or CROSS JOIN",
        )


def _only(name: str, side: Joined, node: exp.Expr) -> Typed:
    """The one column of a side that USING can mean."""
    matches = side.named(name)
    if len(matches) != 1:
        state = "is ambiguous" if matches else "is not there"
        owners = ", ".join(s.alias for s in side.sources)
        raise fault(ResolutionError, f"USING: column {name} {state} in {owners}", node)
    return matches[0]


def _is_parenthesized_join(node: exp.Subquery) -> bool:
    """(a JOIN b ...) and ((SELECT ...) x JOIN b ...), but not ((SELECT ...))"""
    inner = node.this
    if isinstance(inner, exp.Subquery):
        return bool(inner.alias or inner.args.get("joins")) or _is_parenthesized_join(inner)
    return isinstance(inner, exp.Table)


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
    remaining_names = [name for name, _ in table.columns[len(names) :]]
    typed = [t for _, t in table.columns]
    return Table(table.branches, tuple(zip((*names, *remaining_names), typed, strict=True)))
