"""Functional payloads (thesis 7.3.2): values as functions of time, kept symbolic until sampled.

A functional signal is an ordinary signal whose payload columns are arguments, plus one function
(t, e) -> value in its schema. Operators combine functions, never values; `sample` evaluates them
over whole columns. A function per event is the special case whose argument is the function's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from viewlet.errors import DataError

Payload = Callable[[Any, Any], Any]


def table_of_functions(table: dict[str, Callable[[Any], Any]], column: str) -> Payload:
    """value(t, e) = table[e.column](t), evaluated once per function over all its times."""

    def function(t: Any, e: Any) -> Any:
        names = np.asarray(e[column])
        distinct, which = np.unique(names, return_inverse=True)
        parts = []
        for number, name in enumerate(distinct):
            if str(name) not in table:
                raise DataError(
                    f"an event names the function {name}", hint=f"there are {', '.join(table)}"
                )
            parts.append(np.asarray(table[str(name)](t[which == number])))
        out = np.zeros(len(t), np.result_type(np.float64, *parts))
        for number, part in enumerate(parts):
            out[which == number] = part
        return {"value": out}

    return function


def combine_functions(
    left: Payload | None, right: Payload | None, operate: Callable[[Any, Any], Any]
) -> Payload | None:
    """The function of a binary operation; None when neither side is functional.

    Both sides' arguments are the columns left.x and right.x of the join.
    """
    if left is None and right is None:
        return None
    left, right = left or identity, right or identity

    def function(t: Any, e: Any) -> Any:
        return operate(_value(left(t, e.left)), _value(right(t, e.right)))

    return function


def identity(t: Any, e: Any) -> Any:
    """The value of a signal without a function: its payload, constant over the event."""
    return {name: e[name] for name in e}


def _value(value: Any) -> Any:
    """The only channel of a value; a functional operation is on single channels."""
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise DataError(
            f"a functional operation on channels {', '.join(value)}", hint="select one channel"
        )
    return next(iter(value.values()))
