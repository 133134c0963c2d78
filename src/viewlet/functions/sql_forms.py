"""How SQL writes a function, and which types go in and come out.

The frontend reads these as data: it finds a function by what SQL calls it, converts the arguments
to what the parameters accept, and gives the result its type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from viewlet.functions.scalars import ScalarExpr
from viewlet.schema import Kind, Type


class Accepts(Enum):
    """What a parameter takes: numbers as they are, or without DOUBLE, or all as DOUBLE; ..."""

    NUMBER = auto()
    EXACT = auto()
    DOUBLE = auto()
    INTEGER = auto()
    TEXT = auto()
    DATE = auto()
    TIMESTAMP = auto()


@dataclass(frozen=True)
class Parameter:
    """`default` stands for an argument that is not given; an optional one is then left out.

    `constant` says what the argument is, where it must be known before any row is.
    """

    accepts: Accepts
    default: ScalarExpr | None = None
    is_optional: bool = False
    constant: str = ""


NUMBER, EXACT, DOUBLE = (
    Parameter(Accepts.NUMBER),
    Parameter(Accepts.EXACT),
    Parameter(Accepts.DOUBLE),
)
INTEGER, TEXT = Parameter(Accepts.INTEGER), Parameter(Accepts.TEXT)
DATE, TIMESTAMP = Parameter(Accepts.DATE), Parameter(Accepts.TIMESTAMP)

ScalarRule = Callable[[Sequence[ScalarExpr], Sequence[Type]], ScalarExpr]
TypeRule = Callable[[Sequence[ScalarExpr], Sequence[Type]], Type]
"""(arguments, their types) -> the scalar, and its type"""


@dataclass(frozen=True)
class SqlCall:
    """f(a, b). A keyword that belongs to the call follows the name: DATE_TRUNC MONTH, TRIM BOTH.

    Where several functions have one name, the first whose parameters accept the arguments is meant.
    `scalar` makes the call where it is not simply the function of the arguments. `duckdb` are
    macros that give DuckDB the same meaning, for ad-hoc queries; none where it has it.
    """

    spellings: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    result: Type | TypeRule
    scalar: ScalarRule | None = None
    duckdb: tuple[str, ...] = ()


@dataclass(frozen=True)
class SqlCast:
    """CAST between kinds of types. `constants` are arguments that the two types give."""

    kinds: tuple[tuple[Kind, Kind], ...]
    constants: Callable[[Type, Type], tuple[ScalarExpr, ...]] = lambda source, target: ()


@dataclass(frozen=True)
class SqlSyntax:
    """An operator or a special form, which the frontend knows by its syntax: a + b, CASE."""

    form: str
    duckdb: tuple[str, ...] = ()


@dataclass(frozen=True)
class Internal:
    """A function that SQL has no name for; `use` says what it is there for."""

    use: str


SqlForm = SqlCall | SqlCast | SqlSyntax | Internal


def type_of_first(arguments: Sequence[ScalarExpr], types: Sequence[Type]) -> Type:
    """The result has the type of the first argument."""
    return types[0]
