"""Products under construction: what FROM and WHERE become before they are summed up.

A block is a bag of rows in the form of a sum of branches. A branch is a product of factors with
`bindings`, scalars that stand for variables which the branch does not bind itself:

    R LEFT JOIN S ON p   [R * S * {p}]  and  [R * (n := Sum[](S' * {p'})) * {n = 0}; s_x -> NULL]
    A UNION ALL B        [A; u -> a]  and  [B; u -> b]

Everything that is multiplied to a branch later has the bindings put in first, so that what cannot
hold for NULLs folds to 0 and the branch goes. Branches stay apart until `summed` adds them up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from viewlet.calculus.expr import (
    ONE,
    ZERO,
    Add,
    Assign,
    Binder,
    Cond,
    Expr,
    Value,
    assign,
    cond,
    factors_of,
    product_of,
    sum_of,
    sum_over,
    transform,
    value_of,
)
from viewlet.calculus.query import COUNT
from viewlet.calculus.rewrite import rename
from viewlet.calculus.scope import Names, all_names, inputs, outputs
from viewlet.frontend.conditions import with_common_conjuncts_outside, with_implied
from viewlet.frontend.types import Typed
from viewlet.functions import (
    FUNCTIONS,
    NULL,
    STRICT,
    Apply,
    Const,
    Ref,
    ScalarExpr,
    apply,
    can_be_null,
    conjuncts,
    free_variables,
    substitute,
)


class Variables:
    """The names of one view: makes fresh ones and knows which can hold NULL.

    `nulled` variables are bound to NULL in some branch of the block that they come from, whatever
    their column was declared as.
    """

    def __init__(self) -> None:
        self._taken: set[str] = {COUNT}
        self.nullable: dict[str, bool] = {COUNT: False}
        self.nulled: set[str] = set()

    def fresh(self, hint: str, *, nullable: bool = False) -> str:
        """A variable named after the hint that nothing else is named."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII) or "x"
        if not re.match(r"[A-Za-z_]", base):
            base = f"x_{base}"
        name, number = base, 2
        while name in self._taken or name in FUNCTIONS or name in _RESERVED:
            name, number = f"{base}_{number}", number + 1
        self._taken.add(name)
        self.nullable[name] = nullable
        return name

    def can_be_null(self, scalar: ScalarExpr, own: Names | None = None) -> bool:
        """Whether a scalar can be NULL; `own` are variables that the branch at hand binds itself,
        where being nulled in another branch does not matter."""
        loose = self.nulled if own is None else self.nulled - own
        nullable = {n: self.nullable[n] or n in loose for n in free_variables(scalar)}
        return can_be_null(scalar, nullable)


_RESERVED = frozenset(("min", "max", "Sum", "Exists", "TRUE", "FALSE", "NULL", "inf", "nan"))


@dataclass(frozen=True)
class Branch:
    """One product of a block."""

    factors: tuple[Expr, ...] = ()
    bindings: Mapping[str, ScalarExpr] = field(default_factory=dict)

    @property
    def own(self) -> Names:
        """The variables that its factors give."""
        return frozenset[str]().union(*(outputs(f) for f in self.factors))

    def resolve(self, scalar: ScalarExpr) -> ScalarExpr:
        """The scalar with names replaced by what this branch binds to them."""
        return substitute(scalar, self.bindings)


@dataclass(frozen=True)
class Table:
    """A bag of rows with named columns, each a scalar over the branches' variables."""

    branches: tuple[Branch, ...]
    columns: tuple[tuple[str, Typed], ...]


UNIT = (Branch(),)
"""The block of no FROM: one row without columns."""


def crossed(left: Sequence[Branch], right: Sequence[Branch]) -> tuple[Branch, ...]:
    """(a + b) * (c + d) -> a * c + a * d + b * c + b * d"""
    return tuple(
        Branch((*a.factors, *b.factors), {**a.bindings, **b.bindings}) for a in left for b in right
    )


def extended(
    variables: Variables, branches: Iterable[Branch], factors: Sequence[Expr]
) -> tuple[Branch, ...]:
    """Every branch times the factors, without the branches that become 0."""
    found = (_extended_branch(variables, branch, factors) for branch in branches)
    return tuple(branch for branch in found if branch is not None)


def _extended_branch(
    variables: Variables, branch: Branch, factors: Sequence[Expr]
) -> Branch | None:
    kept = list(branch.factors)
    own = branch.own
    for factor in factors:
        placed = settle(variables, factor, branch.bindings, own)
        if placed == ZERO:
            return None
        kept += factors_of(placed)
        own |= outputs(placed)
    return Branch(tuple(kept), branch.bindings)


def settle(
    variables: Variables, expr: Expr, bindings: Mapping[str, ScalarExpr], own: Names
) -> Expr:
    """Put the bindings into a factor and fold what they decide."""

    def rule(node: Expr) -> Expr:
        if isinstance(node, Value):
            return value_of(_scalar(node.scalar))
        if isinstance(node, Assign):
            return assign(node.variable, _scalar(node.scalar))
        if isinstance(node, Cond):
            return condition(variables, _scalar(node.scalar), own)
        return node

    def _scalar(scalar: ScalarExpr) -> ScalarExpr:
        return without_null_tests(variables, substitute(scalar, bindings), own)

    return transform(expr, rule)


def without_null_tests(variables: Variables, scalar: ScalarExpr, own: Names) -> ScalarExpr:
    """is_null(x) -> FALSE and is_true(x) -> x where x cannot be NULL;  x == NULL -> is_null(x)"""
    if not isinstance(scalar, Apply):
        return scalar
    parts = tuple(without_null_tests(variables, a, own) for a in scalar.arguments)
    if scalar.function == "==" and NULL in parts:
        other = parts[0] if parts[1] == NULL else parts[1]
        return without_null_tests(variables, apply("is_null", other), own)
    if scalar.function in ("is_null", "is_true") and not variables.can_be_null(parts[0], own):
        return parts[0] if scalar.function == "is_true" else Const(False)
    if scalar.function == "coalesce":
        parts = tuple(p for p in parts if p != NULL) or (NULL,)
        known = next(
            (i for i, p in enumerate(parts) if not variables.can_be_null(p, own)), len(parts) - 1
        )
        parts = parts[: known + 1]
        if len(parts) == 1:
            return parts[0]
    return apply(scalar.function, *parts)


def condition(variables: Variables, scalar: ScalarExpr, own: Names) -> Expr:
    """A condition as factors: conjuncts apart, equalities of columns as sameness.

    {a = b} -> {a == b}                       a or b cannot be NULL
    {a = b} -> {not(is_null(a))} * {a == b}   both can
    """
    factors = []
    for part in conjuncts(with_common_conjuncts_outside(scalar)):
        if isinstance(part, Apply) and part.function == "=":
            left, right = part.arguments
            if isinstance(left, Ref) and isinstance(right, Ref):
                if variables.can_be_null(left, own) and variables.can_be_null(right, own):
                    factors.append(cond(apply("not", apply("is_null", left))))
                part = apply("==", left, right)
        elif isinstance(part, Apply) and part.function == "not":
            test = part.arguments[0]
            if isinstance(test, Apply) and test.function == "is_null":
                factors += known(variables, test.arguments[0], own)
                continue
        factors.append(cond(part))
    return product_of(*dict.fromkeys(factors))


def known(variables: Variables, scalar: ScalarExpr, own: Names) -> list[Expr]:
    """{not(is_null(a + b))} -> {not(is_null(a))} * {not(is_null(b))}, only for what can be NULL"""
    if not variables.can_be_null(scalar, own):
        return []
    if isinstance(scalar, Apply) and FUNCTIONS[scalar.function].nulls is STRICT:
        return [test for a in scalar.arguments for test in known(variables, a, own)]
    return [cond(apply("not", apply("is_null", scalar)))]


def product(factors: Iterable[Expr]) -> Expr:
    """The factors in an order that binds before it uses: relations as they come, then lifts, and
    each condition, with what it implies, as soon as nothing that it needs is still to come."""
    given = with_implied([f for part in factors for f in factors_of(part)])
    pending = [(f, inputs(f), outputs(f), _rank(f)) for f in given]
    placed: list[Expr] = []
    bound: Names = frozenset()
    while pending:
        ready = []
        for at, (_, needs, _, rank) in enumerate(pending):
            later = (gives for i, (_, _, gives, _) in enumerate(pending) if i != at)
            missing = needs - bound
            if not any(missing & gives for gives in later):
                ready.append((rank, at))
        _, at = min(ready)
        factor, _, gives, _ = pending.pop(at)
        placed.append(factor)
        bound |= gives
    return product_of(*placed)


def _rank(factor: Expr) -> int:
    """Conditions before relations before lifts before values, among those that are ready."""
    if isinstance(factor, Cond):
        return 0
    if isinstance(factor, Value | Add):
        return 3
    return 2 if isinstance(factor, Binder) or not outputs(factor) else 1


def summed(
    variables: Variables, keys: Iterable[str], branches: Iterable[Branch], *factors: Expr
) -> Expr:
    """Sum[keys] over the branches, each times the factors."""
    keys = tuple(keys)
    return sum_of(
        *(
            sum_over(keys, product(branch.factors))
            for branch in extended(variables, branches, factors)
        )
    )


def keyed(
    variables: Variables, branches: Sequence[Branch], columns: Sequence[tuple[str, Typed]]
) -> tuple[tuple[Branch, ...], list[Typed], tuple[str, ...]]:
    """Make variables of the columns, for use as keys: the branches bind them all afterwards.

    A plain column is its variable already, a constant or a value from outside needs none, an
    expression is assigned to a fresh variable. Returns the branches, each column as a reference to
    its variable (or the constant), and the key variables, each once, in order.
    """
    own = [branch.own for branch in branches]
    known: dict[ScalarExpr, ScalarExpr] = {}
    assigned: dict[str, ScalarExpr] = {}
    for name, column in columns:
        scalar = column.scalar
        if scalar in known:
            continue
        if isinstance(scalar, Ref) and all(
            scalar.name in names or scalar.name in branch.bindings
            for names, branch in zip(own, branches, strict=True)
        ):
            known[scalar] = scalar
            assigned[scalar.name] = scalar
        elif _is_fixed(scalar, own, branches):
            known[scalar] = scalar
        else:
            variable = variables.fresh(name)
            known[scalar] = Ref(variable)
            assigned[variable] = scalar
    bound = []
    for branch, names in zip(branches, own, strict=True):
        values = {
            variable: without_null_tests(variables, branch.resolve(scalar), names)
            for variable, scalar in assigned.items()
        }
        for variable, value in values.items():
            if variables.can_be_null(value, names):
                variables.nullable[variable] = True
        extra = [assign(variable, value) for variable, value in values.items()]
        rest = {k: v for k, v in branch.bindings.items() if k not in values}
        bound.append(Branch((*branch.factors, *(e for e in extra if e != ONE)), rest))
    return tuple(bound), [Typed(known[c.scalar], c.type) for _, c in columns], tuple(assigned)


def _is_fixed(scalar: ScalarExpr, own: Sequence[Names], branches: Sequence[Branch]) -> bool:
    """Constants and what comes from outside: one value for all rows of the block."""
    needs = free_variables(scalar)
    return not any(needs & names for names in own) and not any(
        needs & b.bindings.keys() for b in branches
    )


def renamed(variables: Variables, branch: Branch) -> Branch:
    """A copy of a branch whose own variables are all fresh, nested ones included, for use beside
    the original; `bindings` follow."""
    local = branch.own
    for factor in branch.factors:
        local |= all_names(factor) - inputs(factor)
    mapping = {
        name: variables.fresh(name, nullable=variables.nullable.get(name, False))
        for name in sorted(local)
    }
    for name, twin in mapping.items():
        if name in variables.nulled:
            variables.nulled.add(twin)
    refs: dict[str, ScalarExpr] = {name: Ref(twin) for name, twin in mapping.items()}
    return Branch(
        tuple(rename(factor, mapping) for factor in branch.factors),
        {
            **{name: substitute(s, refs) for name, s in branch.bindings.items()},
            **refs,
        },
    )
