"""The maps that a plan keeps: allocated by what they hold, so that equal views meet.

Thesis 3.1.1 finds duplicate views by structural equality. Here a map is known by the canonical form
of its *skeleton*, the product of atoms and conditions without its values: aggregates over the same
rows and keys become columns of one map.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from viewlet.calculus.expr import (
    Cond,
    Expr,
    MapRef,
    Rel,
    Value,
    factors_of,
    map_columns,
    product_of,
    relations,
    transform,
    walk,
)
from viewlet.calculus.query import Plan
from viewlet.calculus.rewrite import Names as FreshVariables
from viewlet.calculus.rewrite import canonical, is_scalar_sum, project, rename
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import Names, all_names
from viewlet.calculus.text import to_text
from viewlet.functions import Apply, Ref
from viewlet.names import FreshNames
from viewlet.schema import Catalog

COUNT_COLUMN = "count"
_LONGEST_STEM = 38


@dataclass
class PlannedMap:
    """A map and its columns so far. Definitions are over base relations and nested maps."""

    name: str
    stem: str
    """What maps over this one are called after."""
    keys: tuple[str, ...]
    columns: dict[str, Expr] = field(default_factory=dict)
    own_names: dict[str, str] = field(default_factory=dict)
    """The definitions' variables by their canonical names."""
    by_values: dict[str, str] = field(default_factory=dict)
    """Column names by the text of the values that they sum."""
    is_inner: bool = False
    """Whether it holds an inner view: definitions of other maps then read it by its name."""
    touched: Expr | None = None
    is_apart: bool = False
    """Whether no other map may stand for it, nor it for others: see `Maps.add_inner`."""
    """Which rows a batch touches, of a map whose rows are replaced; over maps and buffers."""
    plan: Plan = Plan.RECURSIVE
    refreshes: str | None = None
    """The view whose read computes it; None if triggers keep it current."""
    is_reevaluated: bool = False
    """Whether batches compute it anew from what is kept of relations."""
    trees: dict[str, Expr] = field(default_factory=dict)
    """Columns over the messages of a view tree (tree_maps.py), as far as they have one."""


class Maps:
    """All maps of a plan, by name and by skeleton, and which relations each depends on.

    Views' maps have the views' names; all others get theirs around those and the relations'.
    """

    def __init__(self, catalog: Catalog, views: Iterable[str] = ()) -> None:
        self._catalog = catalog
        self._names = FreshNames(relation.name for relation in catalog)
        self._view_maps = {view: self._names.fresh(view) for view in views}
        self._changes: dict[str, str] = {}
        self.by_name: dict[str, PlannedMap] = {}
        self._by_skeleton: dict[str, PlannedMap] = {}
        self.unplanned: list[tuple[PlannedMap, str]] = []
        """Columns that were asked for and have no statements yet."""
        self._depends: dict[tuple[str, str], frozenset[str]] = {}
        self._relations: dict[tuple[str, str], Counter[str]] = {}
        self.plan = Plan.RECURSIVE
        """The plan of the maps that are asked for next."""

    def __iter__(self) -> Iterator[PlannedMap]:
        return iter(self.by_name.values())

    def allocate(self, keys: Names, factors: Iterable[Expr], tree: Expr | None = None) -> MapRef:
        """The map column that holds Sum[keys](product of factors), made if it is not there.

        `tree` is the same over the messages of a view tree. Joins are shared within a plan, and
        with equal trees: what a view needs then does not depend on the views beside it.
        """
        factors = factors_of(product_of(*factors))
        values = [f for f in factors if is_value(f)]
        skeleton = product_of(*(f for f in factors if not is_value(f)))
        form = canonical(skeleton, keys)
        ordered = tuple(sorted(keys, key=lambda name: int(form.names[name][1:])))
        identity = f"[{', '.join(form.names[k] for k in ordered)}] {form.text}"
        if self.plan is not Plan.RECURSIVE and _joins(skeleton):
            shape = _shape(tree, form.names) if tree is not None else ""
            identity += f" {self.plan.value} {shape}"
        planned = self._by_skeleton.get(identity)
        if planned is None:
            stem = self._names.fresh(self._stem(skeleton), ("m_{}",))
            planned = PlannedMap(f"m_{stem}", stem, ordered, plan=self.plan)
            planned.is_reevaluated = self._reevaluates and _joins(skeleton)
            planned.own_names = {short: name for name, short in form.names.items()}
            self._by_skeleton[identity] = planned
            self.by_name[planned.name] = planned
        own = {name: planned.own_names[short] for name, short in form.names.items()}
        text = " * ".join(sorted(to_text(rename(value, own)) for value in values))
        if text not in planned.by_values:
            column = _column_name(planned, [rename(value, own) for value in values])
            planned.by_values[text] = column
            definition = schedule(rename(product_of(*factors), own))
            planned.columns[column] = project(planned.keys, definition)
            if tree is not None:
                planned.trees[column] = project(planned.keys, rename(tree, own))
            self.unplanned.append((planned, column))
        return MapRef(planned.name, planned.by_values[text], ordered)

    def add_view(self, name: str, keys: tuple[str, ...], columns: dict[str, Expr]) -> PlannedMap:
        """The map of a user's view: named after it, whatever its columns are made of."""
        ordered = {column: schedule(definition) for column, definition in columns.items()}
        planned = PlannedMap(self._view_maps[name], name, keys, ordered, plan=self.plan)
        planned.is_reevaluated = self._reevaluates
        self.by_name[planned.name] = planned
        self.unplanned += [(planned, column) for column in columns]
        return planned

    @property
    def _reevaluates(self) -> bool:
        return self.plan is Plan.REEVALUATED

    def change(self, map: str) -> str:
        """The buffer that holds the change of a map in the running trigger."""
        if map not in self._changes:
            self._changes[map] = self._names.fresh(f"d_{map}")
        return self._changes[map]

    def changed(self, buffer: str) -> str:
        """The map whose change a buffer holds."""
        return next(map for map, name in self._changes.items() if name == buffer)

    def add_inner(
        self, keys: tuple[str, ...], body: Expr, definition: Expr, *, is_shared: bool
    ) -> PlannedMap:
        """The map of an inner view: `body` over relations and inner views, or `definition` over
        nested maps. It is named after what it holds, so that one name means the same in every plan.

        What another view is made from is not shared: whoever else reads it must do so before it
        changes, and what is made from it afterwards.
        """
        form = canonical(body, keys)
        order = ", ".join(form.names.get(key, "") for key in keys)
        plan = "" if self.plan is Plan.RECURSIVE else f" {self.plan.value}"
        plan += "" if is_shared else " apart"
        digest = hashlib.md5(f"[{order}] {form.text}{plan}".encode()).hexdigest()[:10]
        name = f"m_joined_{digest}"
        if name not in self.by_name:
            columns = {COUNT_COLUMN: schedule(definition)}
            stem = self._names.fresh(f"joined_{digest}", ("m_{}",))
            planned = PlannedMap(
                name, stem, keys, columns, is_inner=True, is_apart=not is_shared, plan=self.plan
            )
            planned.is_reevaluated = self._reevaluates
            self.by_name[name] = planned
            self.unplanned.append((planned, COUNT_COLUMN))
        return self.by_name[name]

    def is_inner(self, expr: Expr) -> bool:
        """Whether the expression reads the rows of an inner view, as others read a relation's."""
        planned = self.by_name.get(expr.name) if isinstance(expr, MapRef) else None
        return planned is not None and planned.is_inner

    def depends(self, expr: Expr) -> frozenset[str]:
        """The relations whose changes change the expression, through nested maps too."""
        names = {name for name in relations(expr) if not self._catalog[name].static}
        for name, column in map_columns(expr):
            if name in self.by_name:
                names |= self._column_depends(name, column)
        return frozenset(names)

    def _column_depends(self, name: str, column: str) -> frozenset[str]:
        if (name, column) not in self._depends:
            definition = self.by_name[name].columns[column]
            self._depends[name, column] = self.depends(definition)
        return self._depends[name, column]

    def relation_counts(self, *definitions: Expr) -> Counter[str]:
        """How often each relation stands in definitions, those of nested maps included."""
        counts: Counter[str] = Counter()
        for node in (node for definition in definitions for node in walk(definition)):
            if isinstance(node, Rel):
                counts[node.name] += 1
            elif isinstance(node, MapRef) and self._is_nested(node.name):
                counts += self._column_relations(node.name, node.column)
        return counts

    def _column_relations(self, name: str, column: str) -> Counter[str]:
        if (name, column) not in self._relations:
            definition = self.by_name[name].columns[column]
            self._relations[name, column] = self.relation_counts(definition)
        return self._relations[name, column]

    def _is_nested(self, name: str) -> bool:
        """Whether a name is that of a map which definitions stand for."""
        return name in self.by_name and not self.by_name[name].is_inner

    def inline(self, expr: Expr) -> Expr:
        """The expression over base relations and inner views: nested maps as what they hold."""
        fresh = FreshVariables(all_names(expr))

        def rule(node: Expr) -> Expr:
            if not isinstance(node, MapRef) or not self._is_nested(node.name):
                return node
            planned = self.by_name[node.name]
            definition = self.inline(planned.columns[node.column])
            names = {name: fresh.fresh(name) for name in sorted(all_names(definition))}
            names |= dict(zip(planned.keys, node.keys, strict=True))
            return rename(definition, names)

        return schedule(transform(expr, rule))

    def _stem(self, skeleton: Expr) -> str:
        """The relations and maps of a join, cut where that becomes long."""
        atoms = [n.name for n in walk(skeleton) if isinstance(n, Rel | MapRef)]
        stems = [self.by_name[name].stem if name in self.by_name else name for name in atoms]
        return "_".join(dict.fromkeys(stems))[:_LONGEST_STEM].rstrip("_")


def _joins(skeleton: Expr) -> bool:
    return sum(isinstance(factor, Rel | MapRef) for factor in factors_of(skeleton)) > 1


def _shape(tree: Expr, names: Mapping[str, str]) -> str:
    """Which relations and messages a node joins, under canonical names."""
    atoms = (factor for factor in factors_of(tree) if isinstance(factor, Rel | MapRef))
    texts = (f"{atom.name}({','.join(names[n] for n in atom.arguments)})" for atom in atoms)
    return " ".join(sorted(texts))


def is_value(factor: Expr) -> bool:
    """Values and sums of values: what a map adds up, as against which rows it adds up.

    {not(is_null(x))} counts the x that are not NULL, and is a value too: SUM(x) and COUNT(x)
    are columns of the map that counts the rows.
    """
    return _is_not_null_test(factor) if isinstance(factor, Cond) else is_scalar_sum(factor)


def _is_not_null_test(factor: Cond) -> bool:
    if isinstance(factor.scalar, Apply) and factor.scalar.function == "not":
        (inner,) = factor.scalar.arguments
        return isinstance(inner, Apply) and inner.function == "is_null"
    return False


def _column_name(planned: PlannedMap, values: list[Expr]) -> str:
    if not values:
        return COUNT_COLUMN
    stem = "sum"
    if len(values) == 1 and isinstance(values[0], Value) and isinstance(values[0].scalar, Ref):
        stem = f"sum_{values[0].scalar.name}"
    return FreshNames(planned.columns).fresh(stem)
