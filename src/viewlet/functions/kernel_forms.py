"""How kernels compute a function: Python source over the source of its arguments.

A value that is NULL has some value of its type all the same (0), so that code can compute on; the
test for NULL is a second source beside the value. Kernels are compiled (viewlet.native), so that
what they call is a function in the compiler's part of Python: one of `PROVIDED`, or one that the
record brings along, written here as plain Python and compiled where kernels are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from viewlet.functions.scalars import ScalarExpr
from viewlet.schema import Physical

BOOL, INT, FLOAT, STR = Physical.BOOL, Physical.INT, Physical.FLOAT, Physical.STR


@dataclass(frozen=True)
class Code:
    """Source of a value and of its NULL test, None where it is never NULL.

    `truth` is the source that is true where a condition is TRUE, if that is shorter than both.
    """

    value: str
    null: str | None
    physical: Physical
    truth: str | None = None

    @property
    def where_true(self) -> str:
        """Source that is true where a condition is TRUE, and neither FALSE nor NULL."""
        if self.truth is not None:
            return self.truth
        if self.null is None:
            return self.value
        return FALSE if self.null == TRUE else all_true(inverse(self.null), self.value)

    @property
    def where_false(self) -> str:
        """Source that is true where a condition is FALSE."""
        if self.null == TRUE:
            return FALSE
        null = FALSE if self.null is None else self.null
        return all_true(inverse(null), inverse(self.value))

    def as_kind(self, physical: Physical) -> Code:
        """The same value for a choice whose branches have one representation."""
        if self.null == TRUE:
            zero = {FLOAT: "0.0", BOOL: FALSE}.get(physical, "0")
            return Code(zero, self.null, physical)
        if physical is FLOAT and self.physical is INT:
            return Code(f"float({self.value})", self.null, physical)
        return self


@dataclass(frozen=True)
class Source:
    """`write` joins the arguments' source, given the representation of the result.

    `accepts_text`: arguments may be strings, as their codes; with `orders_text` as their ranks in
    the order of all strings. Where it does not, a function of strings is remembered.
    `split` gives an equal scalar that nests less deeply, None where the arguments are few.
    """

    write: Callable[[Sequence[Code], Physical], Code]
    natives: tuple[Callable[..., Any], ...] = ()
    templates: tuple[str, ...] = ()
    accepts_text: bool = False
    orders_text: bool = False
    split: Callable[[tuple[ScalarExpr, ...]], ScalarExpr | None] | None = None

    def unknown_names(self, natives: Container[str]) -> set[str]:
        """What the templates call that no kernel can."""
        named = re.findall(r"[A-Za-z_]\w*", " ".join(self.templates))
        return {name for name in named if name not in PROVIDED and name not in natives}


@dataclass(frozen=True)
class Rewritten:
    """The function as a scalar of others."""

    expand: Callable[[tuple[ScalarExpr, ...]], ScalarExpr]


@dataclass(frozen=True)
class Remembered:
    """A function that makes or reads strings: Python computes it once for all equal arguments."""


REMEMBERED = Remembered()

KernelForm = Source | Rewritten | Remembered

PROVIDED = frozenset(("plus", "minus", "times", "float", "abs", "min", "max", "if", "else", "not"))
"""What every kernel can call: exact arithmetic of 64 bits, which raises, and Python's own."""


F = TypeVar("F", bound=Callable[..., Any])


def c_function(symbol: str) -> Callable[[F], F]:
    """Marks a function of doubles: compiled code calls C's (or LLVM's) function of this name."""

    def mark(function: F) -> F:
        function.c_symbol = symbol  # type: ignore[attr-defined]
        return function

    return mark


def expression(
    value: str,
    *,
    of_floats: str | None = None,
    null: str | None = None,
    natives: tuple[Callable[..., Any], ...] = (),
) -> Source:
    """Source with {0}, {1}, ... for the arguments; NULL where one is, or where `null` holds."""

    def write(parts: Sequence[Code], physical: Physical) -> Code:
        values = [part.value for part in parts]
        template = of_floats if of_floats is not None and physical is FLOAT else value
        inherited = any_of(*(part.null for part in parts))
        own = null.format(*values) if null is not None else None
        return Code(template.format(*values), any_of(inherited, own), physical)

    templates = (value, of_floats or "", null or "")
    return Source(write, natives, tuple(re.sub(r"\{\d\}", "", text) for text in templates))


# Conditions as source. What is certain folds: machine code has no `and` of a truth and a number.

TRUE, FALSE = "True", "False"


def any_of(*tests: str | None) -> str | None:
    """One test out of several that may be absent; None where all are."""
    present = list(dict.fromkeys(test for test in tests if test is not None))
    return any_true(*present) if present else None


def any_true(*tests: str) -> str:
    """a or b or ...:  FALSE or a -> a,  TRUE or a -> TRUE"""
    return _joined(tests, "or", absorbing=TRUE, neutral=FALSE)


def all_true(*tests: str) -> str:
    """a and b and ...:  TRUE and a -> a,  FALSE and a -> FALSE"""
    return _joined(tests, "and", absorbing=FALSE, neutral=TRUE)


def _joined(tests: Sequence[str], connective: str, absorbing: str, neutral: str) -> str:
    if absorbing in tests:
        return absorbing
    open_tests = [test for test in tests if test != neutral]
    if not open_tests:
        return neutral
    if len(open_tests) == 1 and not open_tests[0].startswith("not "):
        return open_tests[0]
    return "(" + f" {connective} ".join(open_tests) + ")"


def inverse(test: str) -> str:
    """not a:  not TRUE -> FALSE. For one of several tests: without parentheses of its own."""
    return {TRUE: FALSE, FALSE: TRUE}.get(test, f"not {test}")
