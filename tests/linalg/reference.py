"""Helpers that compare a live program with its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from viewlet.linalg import expr as ex
from viewlet.linalg.expr import Expr
from viewlet.linalg.program import Program
from viewlet.linalg.traverse import children


def evaluate(e: Expr, values: dict[str, Any]) -> Any:
    """What an expression means: the slow definition, in plain NumPy."""
    if isinstance(e, ex.Matrix):
        value = values[e.name]
        return value.toarray() if sparse.issparse(value) else np.asarray(value)
    parts = [evaluate(kid, values) for kid in children(e)]
    match e:
        case ex.Identity():
            return np.eye(e.shape[0])
        case ex.Zero():
            return np.zeros(e.shape)
        case ex.Sum():
            return sum(parts[1:], parts[0])
        case ex.Scale():
            return e.coefficient * parts[0]
        case ex.Product():
            return np.linalg.multi_dot(parts)
        case ex.Transpose():
            return parts[0].T
        case ex.Inverse():
            return np.linalg.inv(parts[0])
        case ex.Power():
            return np.linalg.matrix_power(parts[0], e.k)
        case ex.PowerSum():
            return sum(np.linalg.matrix_power(parts[0], i) for i in range(e.k))
        case ex.Recurrence():
            a, b, t = parts
            for _ in range(e.k):
                t = a @ t + b
            return t
        case ex.Block():
            width = len(e.rows[0])
            return np.block([parts[i : i + width] for i in range(0, len(parts), width)])
    raise TypeError(e)


def reference(program: Program, values: dict[str, Any]) -> dict[str, Any]:
    """All results of a program, evaluated from scratch."""
    known = dict(values)
    for name, definition in program.statements:
        known[name] = evaluate(definition, known)
    return {name: known[name] for name, _ in program.statements}


def relative(got: Any, want: Any) -> float:
    size = float(np.linalg.norm(want))
    gap = float(np.linalg.norm(np.asarray(got) - want))
    return gap / size if size else gap
