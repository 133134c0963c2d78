"""Matrix expressions: the language of linear algebra programs (thesis 6.2).

An expression is an immutable, interned tree: two equal expressions are the same object, so that
common subexpressions meet by identity and every later pass may use expressions as dictionary keys.
Build expressions through the operators and the functions at the end of this module; they
normalize, and they are the only place where shapes are checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from viewlet.errors import TypingError
from viewlet.linalg.chain import Shape

_INTERNED: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
_E = TypeVar("_E", bound="Expr")


class Expr:
    """A matrix-valued expression with a fixed shape.

    >>> A, B = la.matrix("A", 3, 2), la.matrix("B", 3, 2)
    >>> (A.T @ B + 2 * la.eye(2)).shape
    (2, 2)
    """

    __slots__ = ("__weakref__", "shape")
    __array_ufunc__ = None  # numpy arrays leave the operators to us, and we explain what to do

    shape: Shape

    def __add__(self, other: object) -> Expr:
        return sum_of((self, _operand(other, "+")))

    def __sub__(self, other: object) -> Expr:
        return sum_of((self, scale(-1.0, _operand(other, "-"))))

    def __neg__(self) -> Expr:
        return scale(-1.0, self)

    def __matmul__(self, other: object) -> Expr:
        return product_of((self, _operand(other, "@")))

    def __mul__(self, other: object) -> Expr:
        return scale(_scalar(other), self)

    def __rmul__(self, other: object) -> Expr:
        return scale(_scalar(other), self)

    def __radd__(self, other: object) -> Expr:
        return _operand(other, "+") + self

    def __rsub__(self, other: object) -> Expr:
        return _operand(other, "-") - self

    def __rmatmul__(self, other: object) -> Expr:
        return _operand(other, "@") @ self

    def __truediv__(self, other: object) -> Expr:
        return scale(1.0 / _scalar(other), self)

    def __pow__(self, exponent: int) -> Expr:
        return inv(self) if exponent == -1 else power(self, exponent)

    @property
    def T(self) -> Expr:
        """The transpose, as NumPy writes it."""
        return transpose(self)

    def __str__(self) -> str:
        from viewlet.linalg.expr_text import text

        return text(self)

    def __repr__(self) -> str:
        return f"<{self}: {self.shape[0]} x {self.shape[1]}>"


class Matrix(Expr):
    """A named matrix: an input of the program or a view that it maintains."""

    __slots__ = ("name",)
    name: str


class Factor(Expr):
    """A delta of a trigger: U_B, V_B, D_T; its second dimension may be a rank."""

    __slots__ = ("name",)
    name: str


class Identity(Expr):
    """The identity matrix."""

    __slots__ = ()


class Zero(Expr):
    """The matrix of zeros."""

    __slots__ = ()


class Sum(Expr):
    """The sum of the terms."""

    __slots__ = ("terms",)
    terms: tuple[Expr, ...]


class Product(Expr):
    """The product of the factors, in their order."""

    __slots__ = ("factors",)
    factors: tuple[Expr, ...]


class Scale(Expr):
    """A number times a matrix."""

    __slots__ = ("coefficient", "operand")
    coefficient: float
    operand: Expr


class Transpose(Expr):
    """Rows and columns exchanged."""

    __slots__ = ("operand",)
    operand: Expr


class Inverse(Expr):
    """The inverse of a square matrix."""

    __slots__ = ("operand",)
    operand: Expr


class Block(Expr):
    """A matrix put together from a grid of blocks."""

    __slots__ = ("rows",)
    rows: tuple[tuple[Expr, ...], ...]


class Woodbury(Expr):
    """-G (I + Q^T G)^-1 with G = E^-1 P: the left factor of the delta of E^-1 under P Q^T.

    For one column it is Sherman-Morrison's -(E^-1 u) / (1 + v^T E^-1 u) (thesis 6.3.1).
    """

    __slots__ = ("g", "q")
    g: Expr
    q: Expr


class Power(Expr):
    """base^k; an iterative model decides how it is computed (Table 6.1)."""

    __slots__ = ("base", "k")
    base: Expr
    k: int


class PowerSum(Expr):
    """I + base + ... + base^(k-1) (Table 6.1)."""

    __slots__ = ("base", "k")
    base: Expr
    k: int


class Recurrence(Expr):
    """T_k of T_(i+1) = a T_i + b, from T_0 = start (Table 6.1, general form)."""

    __slots__ = ("a", "b", "k", "start")
    a: Expr
    b: Expr
    start: Expr
    k: int


def _intern(kind: type[_E], shape: Shape, **fields: Any) -> _E:
    key = (kind, shape, *fields.values())
    interned = _INTERNED.get(key)
    if interned is None:
        interned = object.__new__(kind)
        interned.shape = shape
        for name, value in fields.items():
            setattr(interned, name, value)
        _INTERNED[key] = interned
    return interned  # type: ignore[return-value]


def _operand(value: object, operator: str) -> Expr:
    if isinstance(value, Expr):
        return value
    raise TypingError(
        f"{operator} needs two matrix expressions, got {type(value).__name__}",
        hint="name the array with la.matrix('M', rows, columns) and pass its value to start()",
    )


def _scalar(value: Any) -> float:
    if isinstance(value, Expr) or np.ndim(value):
        raise TypingError(
            "* multiplies a matrix by a number", hint="write A @ B for the product of matrices"
        )
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypingError(f"cannot scale a matrix by {value!r}", hint="use a number") from None
    if not math.isfinite(number):
        raise TypingError(f"cannot scale a matrix by {number}", hint="use a finite number")
    return number


def _dimension(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise TypingError(f"{what} must be a positive integer, got {value!r}")
    return int(value)


def matrix(name: str, rows: int, columns: int = 1) -> Matrix:
    """A named input matrix; one column makes it a vector.

    >>> la.matrix("A", 2, 3).shape, la.matrix("x", 2).shape
    ((2, 3), (2, 1))
    """
    if not name.isidentifier():
        raise TypingError(f"{name!r} cannot name a matrix", hint="use letters, digits and _")
    return _intern(Matrix, (_dimension(rows, "rows"), _dimension(columns, "columns")), name=name)


def factor(name: str, rows: int, columns: int) -> Factor:
    """A thin matrix of a factored delta, by its name."""
    return _intern(Factor, (rows, columns), name=name)


def eye(n: int) -> Expr:
    """The n x n identity.

    >>> la.eye(3).shape
    (3, 3)
    """
    n = _dimension(n, "the size of an identity")
    return _intern(Identity, (n, n))


def zeros(rows: int, columns: int) -> Expr:
    """
    >>> la.zeros(2, 3).shape
    (2, 3)
    """
    return _intern(Zero, (rows, columns))


def sum_of(terms: Iterable[Expr]) -> Expr:
    """Flatten, drop zeros, collect equal terms: A + (B + A) -> 2 A + B."""
    collected: dict[Expr, float] = {}
    shape: Shape | None = None
    for term in terms:
        for coefficient, part in _scaled_terms(term):
            if shape is not None and part.shape != shape:
                raise TypingError(
                    f"cannot add a {_dims(shape)} and a {_dims(part.shape)} matrix",
                    hint="both sides of + and - must have the same shape",
                )
            shape = part.shape
            if not isinstance(part, Zero):
                collected[part] = collected.get(part, 0.0) + coefficient
    if shape is None:
        raise TypingError("a sum needs at least one term")
    scaled_terms = tuple(scale(c, part) for part, c in collected.items() if c != 0.0)
    if not scaled_terms:
        return zeros(*shape)
    return scaled_terms[0] if len(scaled_terms) == 1 else _intern(Sum, shape, terms=scaled_terms)


def _scaled_terms(term: Expr) -> Iterable[tuple[float, Expr]]:
    if isinstance(term, Sum):
        for part in term.terms:
            yield from _scaled_terms(part)
    elif isinstance(term, Scale):
        yield term.coefficient, term.operand
    else:
        yield 1.0, term


def product_of(factors: Iterable[Expr]) -> Expr:
    """Flatten, pull scalars to the front, drop identities: (2 A) (I B) -> 2 (A B)."""
    flat: list[Expr] = []
    coefficient = 1.0
    all_factors = tuple(factors)
    for left, right in pairwise(all_factors):
        if left.shape[1] != right.shape[0]:
            raise TypingError(
                f"cannot multiply {_dims(left.shape)} by {_dims(right.shape)}",
                hint="the columns of the left factor must equal the rows of the right one",
            )
    shape = (all_factors[0].shape[0], all_factors[-1].shape[1])
    for part in all_factors:
        if isinstance(part, Scale):
            coefficient *= part.coefficient
            part = part.operand
        if isinstance(part, Zero):
            return zeros(*shape)
        if isinstance(part, Identity):
            continue
        flat.extend(part.factors if isinstance(part, Product) else (part,))
    if not flat:
        return scale(coefficient, eye(shape[0]))
    core = flat[0] if len(flat) == 1 else _intern(Product, shape, factors=tuple(flat))
    return scale(coefficient, core)


def scale(coefficient: float, operand: Expr) -> Expr:
    """c (d E) -> (c d) E;  1 E -> E;  0 E -> 0;  c (A + B) -> c A + c B."""
    if isinstance(operand, Scale):
        coefficient, operand = coefficient * operand.coefficient, operand.operand
    if coefficient == 0.0 or isinstance(operand, Zero):
        return zeros(*operand.shape)
    if coefficient == 1.0:
        return operand
    if isinstance(operand, Sum):
        return _intern(
            Sum, operand.shape, terms=tuple(scale(coefficient, part) for part in operand.terms)
        )
    return _intern(Scale, operand.shape, coefficient=coefficient, operand=operand)


@lru_cache(maxsize=1 << 14)
def transpose(e: Expr) -> Expr:
    """Push transposition to the leaves: (A B)^T -> B^T A^T;  (E^T)^T -> E.

    Equal expressions are one object, and what is shared is transposed once: a product of sums that
    contain each other would else take time exponential in its depth.
    """
    match e:
        case Transpose():
            return e.operand
        case Identity():
            return e
        case Zero():
            return zeros(e.shape[1], e.shape[0])
        case Sum():
            return sum_of(transpose(t) for t in e.terms)
        case Product():
            return product_of(transpose(f) for f in reversed(e.factors))
        case Scale():
            return scale(e.coefficient, transpose(e.operand))
        case Block():
            return block([[transpose(row[j]) for row in e.rows] for j in range(len(e.rows[0]))])
        case Power():
            return power(transpose(e.base), e.k)
        case PowerSum():
            return power_sum(transpose(e.base), e.k)
        case _:
            return _intern(Transpose, (e.shape[1], e.shape[0]), operand=e)


def inv(e: Expr) -> Expr:
    """The inverse of a square matrix.

    >>> live = la.program(C=la.inv(la.matrix("A", 2, 2))).start({"A": 2 * np.eye(2)})
    >>> np.allclose(live["C"], 0.5 * np.eye(2))
    True
    """
    _require_square(e, "an inverse")
    if isinstance(e, Identity):
        return e
    return e.operand if isinstance(e, Inverse) else _intern(Inverse, e.shape, operand=e)


def block(rows: Sequence[Sequence[Expr]]) -> Expr:
    """A matrix from a grid of blocks, as numpy.block.

    >>> la.block([[la.eye(2), la.zeros(2, 3)]]).shape
    (2, 5)
    """
    grid = tuple(tuple(row) for row in rows)
    if not grid or not grid[0] or any(len(row) != len(grid[0]) for row in grid):
        raise TypingError("a block matrix needs rows of equal length")
    for row in grid:
        for j, cell in enumerate(row):
            if cell.shape[0] != row[0].shape[0] or cell.shape[1] != grid[0][j].shape[1]:
                raise TypingError(
                    f"a {_dims(cell.shape)} block does not fit its row and column of blocks"
                )
    if len(grid) == 1 and len(grid[0]) == 1:
        return grid[0][0]
    shape = (sum(row[0].shape[0] for row in grid), sum(cell.shape[1] for cell in grid[0]))
    return _intern(Block, shape, rows=grid)


def power(e: Expr, k: int) -> Expr:
    """e^k for k >= 0.

    >>> live = la.program(C=la.power(la.matrix("A", 2, 2), 3)).start({"A": 2 * np.eye(2)})
    >>> np.array(live["C"])
    array([[8., 0.],
           [0., 8.]])
    """
    _require_square(e, "a power")
    if isinstance(k, bool) or not isinstance(k, int) or k < 0:
        raise TypingError(f"the exponent must be a whole number of at least 0, got {k!r}")
    if k == 0:
        return eye(e.shape[0])
    return e if k == 1 else _intern(Power, e.shape, base=e, k=k)


def power_sum(e: Expr, k: int) -> Expr:
    """I + e + ... + e^(k-1).

    >>> live = la.program(S=la.power_sum(la.matrix("A", 1, 1), 4)).start({"A": np.array([[2.0]])})
    >>> np.array(live["S"])
    array([[15.]])
    """
    _require_square(e, "a sum of powers")
    k = _dimension(k, "the number of powers")
    return eye(e.shape[0]) if k == 1 else _intern(PowerSum, e.shape, base=e, k=k)


def iterate(a: Expr, start: Expr, k: int, b: Expr | None = None) -> Expr:
    """T_k of T_(i+1) = a T_i + b with T_0 = start.

    >>> A, x = la.matrix("A", 2, 2), la.matrix("x", 2)
    >>> live = la.program(y=la.iterate(A, x, 3)).start({"A": 2 * np.eye(2), "x": np.ones(2)})
    >>> np.array(live["y"]).ravel()
    array([8., 8.])
    """
    _require_square(a, "an iteration")
    b = zeros(*start.shape) if b is None else b
    if a.shape[1] != start.shape[0] or b.shape != start.shape:
        raise TypingError(
            f"T <- A T + B does not fit: A is {_dims(a.shape)}, T is {_dims(start.shape)}, "
            f"B is {_dims(b.shape)}",
            hint="A must be n x n and both T and B n x p",
        )
    k = _dimension(k, "the number of iterations")
    return _intern(Recurrence, start.shape, a=a, b=b, start=start, k=k)


def woodbury(g: Expr, q: Expr) -> Expr:
    """-G (I + Q^T G)^-1: what an inverse changes by, next to its own factors."""
    return _intern(Woodbury, g.shape, g=g, q=q)


def _require_square(e: Expr, what: str) -> None:
    if e.shape[0] != e.shape[1]:
        raise TypingError(f"{what} needs a square matrix, got {_dims(e.shape)}")


def _dims(shape: Shape) -> str:
    return f"{shape[0]} x {shape[1]}"
