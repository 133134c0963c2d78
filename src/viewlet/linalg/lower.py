"""From statements to views: every matrix that a trigger maintains (thesis 6.5).

Passes, in the order in which one walk applies them:
  unfold      powers, sums of powers and recurrences by the iterative model (Table 6.1)
  repeat      A B A B is (A B)^2, so that B = A A; C = B B costs two products as a user expects
  chain       a product of several factors is associated at the least cost
  materialize an operand of a product or inverse that holds a product or inverse becomes a view
  share       equal expressions share one view (CSE); C := B makes C another name for B
  prune       views that no output needs are dropped

A product that is narrow inside, (m x k)(k x n) with 2 k (m + n) < m n, stays factored wherever it
is an operand: the teleport term of PageRank is two vectors, never a full matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from viewlet.linalg import expr as ex
from viewlet.linalg.chain import Tree, associate
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.models import Model, Unfolding
from viewlet.linalg.traverse import children, leaves, rebuild

Statement = tuple[str, Expr]


@dataclass(frozen=True)
class View:
    """A maintained matrix; `iterate` marks the T_i of a recurrence, which hybrid keeps dense."""

    matrix: Matrix
    definition: Expr
    iterate: bool = False

    def __str__(self) -> str:
        return f"{self.matrix.name} := {self.definition};"


@dataclass(frozen=True)
class Views:
    """A lowered program: views in an order that respects use, and what each output reads."""

    model: Model
    inputs: tuple[Matrix, ...]
    views: tuple[View, ...]
    outputs: dict[str, Matrix] = field(hash=False)

    def affected_by(self, changed: set[Matrix]) -> tuple[View, ...]:
        """The views that depend on the changed matrices, directly or not."""
        dirty: set[Expr] = set(changed)
        result = []
        for view in self.views:
            if not dirty.isdisjoint(leaves(view.definition)):
                dirty.add(view.matrix)
                result.append(view)
        return tuple(result)

    def __str__(self) -> str:
        return "\n".join(str(view) for view in self.views)


def lower(
    statements: Sequence[Statement],
    inputs: Sequence[Matrix],
    model: Model,
    outputs: Sequence[str] | None = None,
) -> Views:
    """Lower a program under one iterative model; all statements are outputs unless told."""
    walk = _Lowering(model, inputs, {name for name, _ in statements})
    for name, definition in statements:
        walk.statement(name, definition)
    output_names = [name for name, _ in statements] if outputs is None else list(outputs)
    named = {name: walk.names[name] for name in output_names}
    return Views(model, tuple(inputs), _prune(walk.views, set(named.values())), named)


def _prune(views: Sequence[View], needed: set[Matrix]) -> tuple[View, ...]:
    live: set[Expr] = set(needed)
    needed_views = []
    for view in reversed(views):
        if view.matrix in live:
            live |= leaves(view.definition)
            needed_views.append(view)
    return tuple(reversed(needed_views))


class _Lowering:
    def __init__(self, model: Model, inputs: Sequence[Matrix], reserved: set[str]) -> None:
        self.model = model
        self.views: list[View] = []
        self.names: dict[str, Matrix] = {m.name: m for m in inputs}
        self.reserved = reserved | set(self.names)
        self.shared: dict[Expr, Matrix] = {}
        self.unfoldings: dict[Expr, Unfolding] = {}

    def statement(self, name: str, definition: Expr) -> None:
        lowered = self.lower(definition, top=True, name=name)
        self.names[name] = self.define(name, lowered, exact_name=True)

    def define(
        self, name: str, definition: Expr, *, exact_name: bool = False, iterate: bool = False
    ) -> Matrix:
        if isinstance(definition, Matrix):
            return definition
        shared_view = self.shared.get(definition)
        if shared_view is None:
            if not exact_name:
                name = self.fresh(name)
            shared_view = ex.matrix(name, *definition.shape)
            self.shared[definition] = shared_view
            self.views.append(View(shared_view, definition, iterate))
        return shared_view

    def fresh(self, stem: str) -> str:
        name, count = stem, 1
        while name in self.reserved:
            count += 1
            name = f"{stem}_{count}"
        self.reserved.add(name)
        return name

    def lower(self, e: Expr, *, top: bool, name: str | None = None) -> Expr:
        """Rewrite e so that products and inverses stand only where a view may hold them.

        top: e is the right side of a view, or a term of it; a product may stay there. Otherwise
        e is an operand, and what holds a product that is not narrow becomes a view of its own.
        """
        match e:
            case Matrix():
                return self.names.get(e.name, e)
            case ex.Power() | ex.PowerSum() | ex.Recurrence():
                return self.unfold(e, name if top else None)
            case ex.Inverse():
                lowered = ex.inv(self.lower(e.operand, top=False))
                return lowered if top and name else self.define("W", lowered)
            case ex.Product():
                repeated = _repetition(e)
                if repeated is not None:
                    return self.unfold(repeated, name if top else None)
                lowered = self.chain([self.lower(f, top=False) for f in e.factors])
            case _:
                lowered = rebuild(e, [self.lower(kid, top=True) for kid in children(e)])
        if not top and _holds_wide_product(lowered):
            return self.define("M", lowered)
        return lowered

    def chain(self, parts: Sequence[Expr]) -> Expr:
        flat: list[Expr] = []
        coefficient = 1.0
        for part in parts:
            if isinstance(part, ex.Scale):
                coefficient *= part.coefficient
                part = part.operand
            flat.extend(part.factors if isinstance(part, ex.Product) else (part,))

        def build(tree: Tree, outer: bool) -> Expr:
            if isinstance(tree, int):
                return flat[tree]
            product = ex.product_of((build(tree[0], False), build(tree[1], False)))
            if outer or not isinstance(product, ex.Product) or is_narrow(product):
                return product
            return self.define("M", product)

        return ex.scale(coefficient, build(associate(tuple(f.shape for f in flat)), True))

    def unfold(self, e: ex.Power | ex.PowerSum | ex.Recurrence, name: str | None) -> Expr:
        base = self.lower(e.a if isinstance(e, ex.Recurrence) else e.base, top=False)

        def define(stem: str, definition: Expr) -> Expr:
            if name is not None and stem == f"{_STEMS[type(e)]}{e.k}":
                iterate = isinstance(e, ex.Recurrence)
                return self.define(name, definition, exact_name=True, iterate=iterate)
            if not _holds_wide_product(definition):
                return definition  # such as S_2 = A + I: cheaper to apply than to maintain
            return self.define(stem, definition, iterate=stem.startswith("T"))

        if base not in self.unfoldings:
            self.unfoldings[base] = Unfolding(self.model, base, define)
        unfolding = self.unfoldings[base]
        unfolding.define = define
        match e:
            case ex.Power():
                return unfolding.power(e.k)
            case ex.PowerSum():
                return unfolding.power_sum(e.k)
            case _:
                start, b = self.lower(e.start, top=False), self.lower(e.b, top=False)
                return unfolding.recurrence(start, b, e.k)


_STEMS: dict[type[Expr], str] = {ex.Power: "P", ex.PowerSum: "S", ex.Recurrence: "T"}


def _repetition(e: ex.Product) -> ex.Power | None:
    """A B A B -> (A B)^2 and A A A -> A^3; A A stays the product that it is."""
    count = len(e.factors)
    for width in range(1, count // 2 + 1):
        times = count // width
        if times * width != count or count < 3 or e.factors != e.factors[:width] * times:
            continue
        base = ex.product_of(e.factors[:width])
        if base.shape[0] == base.shape[1]:
            power = ex.power(base, times)
            assert isinstance(power, ex.Power)
            return power
    return None


def is_narrow(e: ex.Product) -> bool:
    """(m x k)(k x n) costs less as two factors than as a matrix."""
    m, n = e.shape
    tree = associate(tuple(f.shape for f in e.factors))
    assert not isinstance(tree, int)
    k = e.factors[_last(tree[0])].shape[1]
    return 2 * k * (m + n) < m * n


def _last(tree: Tree) -> int:
    return tree if isinstance(tree, int) else _last(tree[1])


def _holds_wide_product(e: Expr) -> bool:
    if isinstance(e, ex.Product):
        return not is_narrow(e)
    if isinstance(e, ex.Inverse):
        return True
    return any(_holds_wide_product(kid) for kid in children(e))
