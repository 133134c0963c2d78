"""Delta derivation and factored deltas (thesis 6.3, 6.3.1 to 6.3.3, Algorithm 6.3).

Every rule gives the change of an expression as a sum of products of tall matrices,
  dE = L_1 R_1^T + L_2 R_2^T + ...  =  [ L_1 L_2 ... ] [ R_1 R_2 ... ]^T  =  U V^T.

  A          (changed)   U_A V_A^T
  E1 + E2                dE1 + dE2
  c E                    c dE
  E^T                    (dE)^T:  L and R change places
  E1 E2                  dE1 E2 + (E1 + dE1) dE2
  E^-1       (view W)    -(W U) (I + V^T W U)^-1 (W^T V)^T, Woodbury

The textbook rule for E1 E2 has three monomials, dE1 E2 + E1 dE2 + dE1 dE2, and triples the rank
at each squaring: 3, 9, 27 for A^2, A^4, A^8. The last two share the right factor of dE2, so they
are extracted into one, and the ranks are 2, 4, 8. Several changed matrices need no rule of their
own: each rule reads the old value of what it multiplies and adds the change of it.

A delta may also be dense (hybrid evaluation, 6.4.3): one matrix D instead of U V^T.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from viewlet.linalg import expr as ex
from viewlet.linalg.expr import Expr, Factor, Matrix
from viewlet.linalg.lower import View, Views
from viewlet.linalg.traverse import children, leaves, rebuild

Pair = tuple[Expr, Expr]


@dataclass(frozen=True)
class Factored:
    """dM = u v^T."""

    u: Expr
    v: Expr

    @property
    def rank(self) -> int:
        """The number of columns of its factors."""
        return self.u.shape[1]


@dataclass(frozen=True)
class Dense:
    """dM = d, one matrix."""

    d: Expr


Delta = Factored | Dense
Deltas = Mapping[Matrix, Delta]


@dataclass(frozen=True)
class Assignment:
    """A factor of a delta, and what it is computed from."""

    target: Factor
    value: Expr

    def __str__(self) -> str:
        return f"{self.target.name} := {self.value};"


@dataclass(frozen=True)
class Trigger:
    """What happens ON UPDATE of some inputs: assignments of factors, then the += of each view."""

    inputs: tuple[Matrix, ...]
    assignments: tuple[Assignment, ...]
    deltas: dict[Matrix, Delta]  # in the order of application; the inputs first

    unkept: frozenset[Matrix] = frozenset()  # views whose delta is only passed on

    def rank(self, name: str) -> int | None:
        """The rank of a view's factored delta, None for a dense one."""
        for matrix, change in self.deltas.items():
            if matrix.name == name:
                return change.rank if isinstance(change, Factored) else None
        return 0

    def applied_to(self, stored: set[Matrix]) -> Trigger:
        """The same trigger for a state that holds only these matrices."""
        return replace(self, unkept=frozenset(self.deltas.keys() - stored))

    def updates(self) -> Iterator[tuple[Matrix, Delta]]:
        """The += statements, in order."""
        return ((m, delta) for m, delta in self.deltas.items() if m not in self.unkept)

    def __str__(self) -> str:
        by = ", ".join(f"(u_{m.name}, v_{m.name})" for m in self.inputs)
        lines = [f"ON UPDATE {', '.join(m.name for m in self.inputs)} BY {by}:"]
        lines += [f"  {a}" for a in self.assignments]
        for matrix, change in self.updates():
            if isinstance(change, Factored):
                lines.append(f"  {matrix.name} += {change.u} {ex.transpose(change.v)};")
            else:
                lines.append(f"  {matrix.name} += {change.d};")
        return "\n".join(lines)


def derive(views: Views, ranks: Mapping[Matrix, int], dense: set[Matrix] | None = None) -> Trigger:
    """Algorithm 6.3 for updates of the given ranks to the given inputs.

    `dense` names the views whose delta is kept as one matrix.
    """
    dense = dense or set()
    symmetric = symmetric_views(views)
    deltas: dict[Matrix, Delta] = {}
    for matrix, rank in ranks.items():
        rows, columns = matrix.shape
        deltas[matrix] = Factored(
            ex.factor(f"u_{matrix.name}", rows, rank), ex.factor(f"v_{matrix.name}", columns, rank)
        )
    assignments: list[Assignment] = []
    for view in views.views:
        delta = _view_delta(view, deltas, assignments, symmetric, as_dense=view.matrix in dense)
        if delta is not None:
            deltas[view.matrix] = delta
    return Trigger(tuple(ranks), tuple(assignments), deltas)


def symmetric_views(views: Views) -> set[Expr]:
    """The views that equal their transposes by definition: X^T X + c I, and inverses of such."""
    symmetric: set[Expr] = set()
    for view in views.views:
        e = view.definition
        inner = e.operand if isinstance(e, ex.Inverse) else e
        square = inner.shape[0] == inner.shape[1]
        if square and _untransposed(ex.transpose(inner), symmetric) is inner:
            symmetric.add(view.matrix)
    return symmetric


def _untransposed(e: Expr, symmetric: set[Expr]) -> Expr:
    """W^T -> W for symmetric W, so that W^T V and W U can share a pass over W."""
    if isinstance(e, ex.Transpose):
        return e.operand if e.operand in symmetric else e
    kids = children(e)
    if not kids or not symmetric:
        return e
    return rebuild(e, [_untransposed(kid, symmetric) for kid in kids])


def _view_delta(
    view: View,
    deltas: Deltas,
    assignments: list[Assignment],
    symmetric: set[Expr],
    *,
    as_dense: bool,
) -> Delta | None:
    name = view.matrix.name
    if deltas.keys().isdisjoint(leaves(view.definition)):
        return None

    def assign(prefix: str, value: Expr) -> Expr:
        value = _untransposed(value, symmetric)
        if isinstance(value, Factor):
            return value  # copy propagation
        target = ex.factor(f"{prefix}_{name}", *value.shape)
        assignments.append(Assignment(target, value))
        return target

    if isinstance(view.definition, ex.Inverse):
        pairs = factored_delta(view.definition.operand, deltas)
        if not pairs:
            return None
        p, q = _stack(pairs)
        g = assign("G", ex.product_of((view.matrix, p)))
        return Factored(
            assign("U", ex.woodbury(g, q)),
            assign("V", ex.product_of((ex.transpose(view.matrix), q))),
        )
    if as_dense:
        change = dense_delta(view.definition, deltas)
        return None if change is None else Dense(assign("D", change))
    pairs = factored_delta(view.definition, deltas)
    if not pairs:
        return None
    u, v = _stack(pairs)
    return Factored(assign("U", u), assign("V", v))


def _stack(pairs: list[Pair]) -> Pair:
    return ex.block([[left for left, _ in pairs]]), ex.block([[right for _, right in pairs]])


def factored_delta(e: Expr, deltas: Deltas) -> list[Pair]:
    """The pairs (L, R) with dE = sum of L R^T; none if E does not change."""
    match e:
        case Matrix():
            change = deltas.get(e)
            if change is None:
                return []
            if isinstance(change, Factored):
                return [(change.u, change.v)]
            if e.shape[0] < e.shape[1]:
                return [(ex.eye(e.shape[0]), ex.transpose(change.d))]
            return [(change.d, ex.eye(e.shape[1]))]
        case ex.Transpose():
            return [(right, left) for left, right in factored_delta(e.operand, deltas)]
        case ex.Scale():
            return [
                (ex.scale(e.coefficient, left), right)
                for left, right in factored_delta(e.operand, deltas)
            ]
        case ex.Sum():
            return _extract([pair for term in e.terms for pair in factored_delta(term, deltas)])
        case ex.Product():
            return _product_delta(e, deltas)
        case ex.Block():
            return _block_delta(e, deltas)
        case _:
            return []


def _product_delta(e: ex.Product, deltas: Deltas) -> list[Pair]:
    """d(E1 E2) = dE1 E2 + (E1 + dE1) dE2, over the factors from the left."""
    left, right = e.factors[0], ex.product_of(e.factors[1:])
    of_left, of_right = factored_delta(left, deltas), factored_delta(right, deltas)
    pairs = [(u, ex.product_of((ex.transpose(right), v))) for u, v in of_left]
    for u2, v2 in of_right:
        terms = [ex.product_of((left, u2))]
        terms += [ex.product_of((u1, ex.transpose(v1), u2)) for u1, v1 in of_left]
        pairs.append((ex.sum_of(terms), v2))
    return _extract(pairs)


def _extract(pairs: list[Pair]) -> list[Pair]:
    """Common factors (thesis 6.3.3): L1 R^T + L2 R^T -> (L1 + L2) R^T, and the same on the left."""
    by_right: dict[Expr, Expr] = {}
    for left, right in pairs:
        by_right[right] = ex.sum_of((by_right[right], left)) if right in by_right else left
    by_left: dict[Expr, Expr] = {}
    for right, left in by_right.items():
        by_left[left] = ex.sum_of((by_left[left], right)) if left in by_left else right
    return [
        (left, right)
        for left, right in by_left.items()
        if not isinstance(left, ex.Zero) and not isinstance(right, ex.Zero)
    ]


def _block_delta(e: ex.Block, deltas: Deltas) -> list[Pair]:
    """The delta of a cell, moved to its place: [0; L; 0] [0; R; 0]^T."""
    heights = [row[0].shape[0] for row in e.rows]
    widths = [cell.shape[1] for cell in e.rows[0]]
    pairs = []
    for i, row in enumerate(e.rows):
        for j, cell in enumerate(row):
            pairs += [
                (_in_column(left, i, heights), _in_column(right, j, widths))
                for left, right in factored_delta(cell, deltas)
            ]
    return _extract(pairs)


def _in_column(part: Expr, at: int, sizes: list[int]) -> Expr:
    rank = part.shape[1]
    return ex.block([[part if i == at else ex.zeros(n, rank)] for i, n in enumerate(sizes)])


def dense_delta(e: Expr, deltas: Deltas) -> Expr | None:
    """dE as one expression; products with factored deltas stay in chains, never multiplied out."""
    match e:
        case Matrix():
            change = deltas.get(e)
            if change is None:
                return None
            if isinstance(change, Dense):
                return change.d
            return ex.product_of((change.u, ex.transpose(change.v)))
        case ex.Transpose():
            inner = dense_delta(e.operand, deltas)
            return None if inner is None else ex.transpose(inner)
        case ex.Scale():
            inner = dense_delta(e.operand, deltas)
            return None if inner is None else ex.scale(e.coefficient, inner)
        case ex.Sum():
            parts = [d for term in e.terms if (d := dense_delta(term, deltas)) is not None]
            return ex.sum_of(parts) if parts else None
        case ex.Product():
            left, right = e.factors[0], ex.product_of(e.factors[1:])
            of_left, of_right = dense_delta(left, deltas), dense_delta(right, deltas)
            terms = []
            if of_left is not None:
                after = right if of_right is None else ex.sum_of((right, of_right))
                terms.append(ex.product_of((of_left, after)))
            if of_right is not None:
                terms.append(ex.product_of((left, of_right)))
            return ex.sum_of(terms) if terms else None
        case ex.Block():
            cells = [[dense_delta(cell, deltas) for cell in row] for row in e.rows]
            if all(d is None for row in cells for d in row):
                return None
            return ex.block(
                [
                    [ex.zeros(*old.shape) if d is None else d for old, d in zip(a, b, strict=True)]
                    for a, b in zip(e.rows, cells, strict=True)
                ]
            )
        case _:
            return None
