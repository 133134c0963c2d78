"""Scalar expressions: constants, variables, and functions of scalars.

A scalar computes one encoded value (schema.py) from the values of variables. It is the leaf
language of the calculus: values, conditions and assignments hold one. Scalars are immutable and
hashable. A sum of a thousand terms is a thousand levels deep, so that nothing here goes down by
recursion: walks use `fold`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from viewlet.schema import Scalar, normalized, same

T = TypeVar("T")


@dataclass(frozen=True)
class Const:
    """A literal."""

    value: Scalar

    # 1 == 1.0 == True in Python, and these are three different constants.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Const)
            and type(self.value) is type(other.value)
            and same(self.value, other.value)
        )

    def __hash__(self) -> int:
        return hash((type(self.value), normalized(self.value)))

    def __str__(self) -> str:
        from viewlet.functions.scalar_text import format_constant

        return format_constant(self.value)


@dataclass(frozen=True)
class Ref:
    """The value of a variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Apply:
    """A function of scalars. Its hash and its variables are those of its arguments, kept."""

    function: str
    arguments: tuple[ScalarExpr, ...]
    _hash: int = field(init=False)
    _names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        names = [free_variables(argument) for argument in self.arguments]
        object.__setattr__(self, "_hash", hash((self.function, self.arguments)))
        object.__setattr__(self, "_names", frozenset[str]().union(*names))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        pending: list[tuple[object, object]] = [(self, other)]
        while pending:
            left, right = pending.pop()
            if left is right:
                continue
            if not isinstance(left, Apply) or not isinstance(right, Apply):
                if isinstance(left, Apply) or isinstance(right, Apply) or left != right:
                    return False
                continue
            if hash(left) != hash(right) or left.function != right.function:
                return False
            if len(left.arguments) != len(right.arguments):
                return False
            pending.extend(zip(left.arguments, right.arguments, strict=True))
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of strings differ from process to process.
        return Apply, (self.function, self.arguments)

    def __repr__(self) -> str:
        def leave(scalar: Apply, parts: Sequence[str]) -> str:
            listed = ", ".join(parts) + ("," if len(parts) == 1 else "")
            return f"Apply(function={scalar.function!r}, arguments=({listed}))"

        return fold(self, repr, leave)

    def __str__(self) -> str:
        from viewlet.functions.scalar_text import format_scalar

        return format_scalar(self)


ScalarExpr = Const | Ref | Apply

TRUE = Const(True)
FALSE = Const(False)
NULL = Const(None)


def fold(
    scalar: ScalarExpr,
    leaf: Callable[[Const | Ref], T],
    leave: Callable[[Apply, Sequence[T]], T],
    enter: Callable[[Apply], T | Apply | None] | None = None,
) -> T:
    """The result of a walk from the leaves up: `leave` gets a function and what its arguments gave.

    Where `enter` gives a result, that is the function's, and its arguments are not visited; where
    it gives another function, that is visited instead.
    """
    results: list[T] = []
    pending: list[tuple[ScalarExpr, bool]] = [(scalar, False)]
    while pending:
        node, is_left = pending.pop()
        if not isinstance(node, Apply):
            results.append(leaf(node))
            continue
        if is_left:
            first = len(results) - len(node.arguments)
            parts = results[first:]
            del results[first:]
            results.append(leave(node, parts))
            continue
        replacement = enter(node) if enter is not None else None
        if isinstance(replacement, Apply):
            pending.append((replacement, False))
            continue
        if replacement is not None:
            results.append(replacement)
            continue
        pending.append((node, True))
        pending.extend((argument, False) for argument in reversed(node.arguments))
    return results[0]


def free_variables(scalar: ScalarExpr) -> frozenset[str]:
    """The variables whose values the scalar needs."""
    if isinstance(scalar, Ref):
        return frozenset((scalar.name,))
    if isinstance(scalar, Apply):
        return scalar._names
    return frozenset()


def conjuncts(scalar: ScalarExpr) -> list[ScalarExpr]:
    """a and (b and c) -> [a, b, c]"""
    parts: list[ScalarExpr] = []
    pending = [scalar]
    while pending:
        part = pending.pop()
        if isinstance(part, Apply) and part.function == "and":
            pending.extend(reversed(part.arguments))
        elif part != TRUE:
            parts.append(part)
    return parts
