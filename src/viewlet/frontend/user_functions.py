"""Functions of users: a Python function with types becomes a record like those of functions/.

It is called once for each combination of values that comes, and what it gave is remembered, so
that it must give the same for the same values.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, get_type_hints

from sqlglot import exp

from viewlet.errors import DataError, RangeError, ResolutionError
from viewlet.frontend.statements import CreateView
from viewlet.functions import CALLS, FUNCTIONS
from viewlet.functions.kernel_forms import REMEMBERED
from viewlet.functions.record import STRICT, ScalarFunction, define
from viewlet.functions.sql_forms import (
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIMESTAMP,
    Parameter,
    SqlCall,
)
from viewlet.functions.trends import NOT_MONOTONE
from viewlet.functions.vector_forms import by_row
from viewlet.schema import BIGINT, VARCHAR, Column, Type, decode, encode, shown_value
from viewlet.schema import DATE as DATE_TYPE
from viewlet.schema import DOUBLE as DOUBLE_TYPE
from viewlet.schema import TIMESTAMP as TIMESTAMP_TYPE

_KINDS: dict[str, tuple[type, Parameter, Type]] = {
    "BIGINT": (int, INTEGER, BIGINT),
    "DOUBLE": (float, DOUBLE, DOUBLE_TYPE),
    "VARCHAR": (str, TEXT, VARCHAR),
    "DATE": (date, DATE, DATE_TYPE),
    "TIMESTAMP": (datetime, TIMESTAMP, TIMESTAMP_TYPE),
}
_NAME = re.compile(r"[a-z_][a-z0-9_]*")

_DEFINED: dict[str, Callable[..., Any]] = {}


def function(
    name: str,
    compute: Callable[..., Any],
    arguments: Sequence[str] | None = None,
    result: str | None = None,
) -> None:
    """Let SQL call a Python function, in all databases of this process.

    Types are SQL's names, or the annotations of the function: int, float, str, date and datetime
    are BIGINT, DOUBLE, VARCHAR, DATE and TIMESTAMP. It is NULL where an argument is. It must give
    the same for the same values, and is there before a database on disk with views that call it is
    opened.

    >>> def letter_count(text: str, character: str) -> int:
    ...     return text.count(character)
    >>> db.function("letter_count", letter_count)
    >>> db.execute("CREATE TABLE words (word VARCHAR)")
    >>> db.execute("CREATE VIEW counted AS SELECT word, letter_count(word, 'e') AS n FROM words")
    >>> db.insert("words", ("cheese",))
    1
    >>> db.view("counted").rows()
    [Counted(word='cheese', n=3)]
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name.lower()) or not callable(compute):
        raise DataError(
            f"{shown_value(name)} is not the name of a function",
            hint='say function("count_char", fn)',
        )
    known = name.lower()
    if known in _DEFINED and _code(_DEFINED[known]) == _code(compute):
        return
    spelling = name.upper()
    if spelling in CALLS or known in FUNCTIONS or spelling in exp.FUNCTION_BY_NAME:
        raise ResolutionError(
            f"there is a function {known} already",
            hint="choose another name: what views have computed with it would be wrong",
        )
    kinds = _kinds(known, compute, arguments, result)
    types = [type for _, _, type in kinds]
    define(
        ScalarFunction(
            name=known,
            meaning=_meaning(known, compute, types),
            result=types[-1].physical,
            nulls=STRICT,
            sql=SqlCall((spelling,), tuple(kind[1] for kind in kinds[:-1]), types[-1]),
            kernel=REMEMBERED,
            vector=by_row,
            monotone=NOT_MONOTONE,
            hint=f"leave such rows out with WHERE, or mend {known}",
            can_refuse=True,
        )
    )
    _DEFINED[known] = compute


def _code(compute: Callable[..., Any]) -> Any:
    """What tells whether a function that is defined again is the same."""
    code = getattr(compute, "__code__", None)
    return compute if code is None else (code.co_code, code.co_consts, code.co_names)


def _kinds(
    name: str, compute: Callable[..., Any], arguments: Sequence[str] | None, result: str | None
) -> list[tuple[type, Parameter, Type]]:
    """The types of the arguments and of the result."""
    written: list[Any] = [*(arguments or ()), result]
    if arguments is None or result is None:
        hints = get_type_hints(compute)
        names = list(inspect.signature(compute).parameters)
        if arguments is None:
            written = [*(hints.get(parameter) for parameter in names), result]
        written[-1] = hints.get("return") if result is None else result
    kinds = []
    for kind in written:
        by_name = _KINDS.get(kind.upper()) if isinstance(kind, str) else None
        by_class = next((known for known in _KINDS.values() if known[0] is kind), None)
        chosen = by_name or by_class
        if chosen is None:
            raise DataError(
                f"{shown_value(kind)} is no type of an argument or the result of {name}",
                hint=f'give arguments=["VARCHAR"], result="BIGINT"; types are {", ".join(_KINDS)}',
            )
        kinds.append(chosen)
    return kinds


def _meaning(name: str, compute: Callable[..., Any], types: Sequence[Type]) -> Callable[..., Any]:
    """The function over encoded values. What it raises is an error of the batch."""
    *taken, made = types
    column = Column(name, made, nullable=False)

    def call(*values: Any) -> Any:
        plain = [decode(value, type) for value, type in zip(values, taken, strict=True)]
        try:
            return encode(compute(*plain), column)
        except Exception as error:
            shown = ", ".join(map(shown_value, plain))
            raise RangeError(f"{name}({shown}) failed: {error}") from error

    # A record counts the parameters of its meaning.
    slots = [
        inspect.Parameter(f"a{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(len(taken))
    ]
    call.__signature__ = inspect.Signature(slots)  # type: ignore[attr-defined]
    return call


def user_functions_of(statement: CreateView) -> list[str]:
    """The functions of users that a view calls."""
    calls = statement.select.find_all(exp.Anonymous)
    return sorted({call.name.lower() for call in calls} & _DEFINED.keys())
