"""Products under construction: what FROM and WHERE become before they are summed up.

A block is a bag of rows in the form of a sum of branches. A branch is a product of factors with
`bindings`, scalars that stand for variables which the branch does not bind itself:

    R LEFT JOIN S ON p   [R * S * {p}]  and  [R * (n := Sum[](S' * {p'})) * {n = 0}; s_x -> NULL]
    A UNION ALL B        [A; u -> a]  and  [B; u -> b]

Everything that is multiplied to a branch later has the bindings put in first, so that what cannot
hold for NULLs folds to 0 and the branch goes. Branches stay apart until `summed` adds them up.
"""

from __future__ import annotations

import heapq
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
    fold,
    free_variables,
    physical_type,
    substitute,
)
from viewlet.schema import Physical


class Variables:
    """The names of one view: makes fresh ones and knows which can hold NULL.

    `nulled` variables are bound to NULL in some branch of the block that they come from, whatever
    their column was declared as.
    """

    def __init__(self) -> None:
        self._used_names: set[str] = {COUNT}
        self._next_numbers: dict[str, int] = {}
        self.nullable: dict[str, bool] = {COUNT: False}
        self.nulled: set[str] = set()
        self.doubles: set[str] = set()

    def fresh(self, hint: str, *, nullable: bool = False, double: bool = False) -> str:
        """A variable named after the hint that nothing else is named."""
        base = re.sub(r"\W", "_", hint, flags=re.ASCII) or "x"
        if not re.match(r"[A-Za-z_]", base):
            base = f"x_{base}"
        name, number = base, self._next_numbers.get(base, 2)
        while name in self._used_names or name in FUNCTIONS or name in _RESERVED:
            name, number = f"{base}_{number}", number + 1
        self._next_numbers[base] = number
        self._used_names.add(name)
        self.nullable[name] = nullable
        if double:
            self.doubles.add(name)
        return name

    def is_double(self, scalar: ScalarExpr) -> bool:
        """Whether a number is surely a DOUBLE: `doubles` are columns declared so."""
        names = free_variables(scalar)
        types = {n: Physical.FLOAT if n in self.doubles else Physical.INT for n in names}
        return physical_type(scalar, types) is Physical.FLOAT

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
    """A bag of rows with named columns, each a scalar over the branches' variables.

    `group` are the scalars that GROUP BY names, where more columns of a group follow from them.
    """

    branches: tuple[Branch, ...]
    columns: tuple[tuple[str, Typed], ...]
    group: tuple[ScalarExpr, ...] | None = None


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
    extended_branches = (_extended_branch(variables, branch, factors) for branch in branches)
    return tuple(branch for branch in extended_branches if branch is not None)


def _extended_branch(
    variables: Variables, branch: Branch, factors: Sequence[Expr]
) -> Branch | None:
    product_factors = list(branch.factors)
    own = branch.own
    for factor in factors:
        placed = settle(variables, factor, branch.bindings, own)
        if placed == ZERO:
            return None
        product_factors += factors_of(placed)
        own |= outputs(placed)
    return Branch(tuple(product_factors), branch.bindings)


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

    def leave(scalar: Apply, parts: Sequence[ScalarExpr]) -> ScalarExpr:
        return _without_null_test(variables, scalar, tuple(parts), own)

    return fold(scalar, lambda leaf: leaf, leave)


def _without_null_test(
    variables: Variables, scalar: Apply, parts: tuple[ScalarExpr, ...], own: Names
) -> ScalarExpr:
    if scalar.function == "==" and NULL in parts:
        other = parts[0] if parts[1] == NULL else parts[1]
        test = apply("is_null", other)
        if not isinstance(test, Apply):
            return test
        return _without_null_test(variables, test, test.arguments, own)
    if scalar.function in ("is_null", "is_true") and not variables.can_be_null(parts[0], own):
        return parts[0] if scalar.function == "is_true" else Const(False)
    if scalar.function == "coalesce":
        parts = tuple(p for p in parts if p != NULL) or (NULL,)
        first_not_null = next(
            (i for i, p in enumerate(parts) if not variables.can_be_null(p, own)), len(parts) - 1
        )
        parts = parts[: first_not_null + 1]
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
                    factors.append(not_null(left))
                part = apply("==", left, right)
        elif isinstance(part, Apply) and part.function == "not":
            test = part.arguments[0]
            if isinstance(test, Apply) and test.function == "is_null":
                factors += not_null_tests(variables, test.arguments[0], own)
                continue
        factors.append(cond(part))
    return product_of(*dict.fromkeys(factors))


def not_null(scalar: ScalarExpr) -> Expr:
    """{not(is_null(scalar))}"""
    return cond(apply("not", apply("is_null", scalar)))


def not_null_tests(variables: Variables, scalar: ScalarExpr, own: Names) -> list[Expr]:
    """{not(is_null(a + b))} -> {not(is_null(a))} * {not(is_null(b))}, only for what can be NULL"""
    tests: dict[Expr, None] = {}
    pending = [scalar]
    while pending:
        part = pending.pop()
        if isinstance(part, Apply) and FUNCTIONS[part.function].nulls is STRICT:
            pending += reversed(part.arguments)
        elif variables.can_be_null(part, own):
            tests[not_null(part)] = None
    return list(tests)


def product(factors: Iterable[Expr]) -> Expr:
    """The factors in an order that binds before it uses: relations as they come, then lifts, and
    each condition, with what it implies, as soon as nothing that it needs is still to come."""
    all_factors = with_implied([f for part in factors for f in factors_of(part)])
    pending = [(f, inputs(f), outputs(f), _rank(f)) for f in all_factors]
    binders: dict[str, set[int]] = {}
    for at, (_, _, bound_names, _) in enumerate(pending):
        for name in bound_names:
            binders.setdefault(name, set()).add(at)
    waiting: dict[str, list[int]] = {}
    missing = [0] * len(pending)
    for at, (_, needs, _, _) in enumerate(pending):
        for name in needs:
            if binders.get(name, set()) - {at}:
                waiting.setdefault(name, []).append(at)
                missing[at] += 1
    ready = [(rank, at) for at, (_, _, _, rank) in enumerate(pending) if not missing[at]]
    heapq.heapify(ready)
    placed: list[Expr] = []
    while ready:
        factor, _, bound_names, _ = pending[heapq.heappop(ready)[1]]
        placed.append(factor)
        for name in bound_names:
            for at in waiting.pop(name, ()):
                missing[at] -= 1
                if not missing[at]:
                    heapq.heappush(ready, (pending[at][3], at))
    assert len(placed) == len(pending), "factors wait for each other"
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
    references: dict[ScalarExpr, ScalarExpr] = {}
    assigned: dict[str, ScalarExpr] = {}
    for name, column in columns:
        scalar = column.scalar
        if scalar in references:
            continue
        if isinstance(scalar, Ref) and all(
            scalar.name in names or scalar.name in branch.bindings
            for names, branch in zip(own, branches, strict=True)
        ):
            references[scalar] = scalar
            assigned[scalar.name] = scalar
        elif _is_fixed(scalar, own, branches):
            references[scalar] = scalar
        else:
            variable = variables.fresh(name)
            references[scalar] = Ref(variable)
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
        unassigned = {k: v for k, v in branch.bindings.items() if k not in values}
        bound.append(Branch((*branch.factors, *(e for e in extra if e != ONE)), unassigned))
    return tuple(bound), [Typed(references[c.scalar], c.type) for _, c in columns], tuple(assigned)


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
        name: variables.fresh(
            name,
            nullable=variables.nullable.get(name, False),
            double=name in variables.doubles,
        )
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
