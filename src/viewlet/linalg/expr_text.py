"""Matrix expressions as program text."""

from __future__ import annotations

from viewlet.linalg.chain import Tree, associate
from viewlet.linalg.expr import (
    Block,
    Expr,
    Factor,
    Identity,
    Inverse,
    Matrix,
    Power,
    PowerSum,
    Product,
    Recurrence,
    Scale,
    Sum,
    Transpose,
    Woodbury,
    Zero,
    scale,
    transpose,
)


def text(e: Expr) -> str:
    """The expression as program text; `parse` reads back what a program may contain."""
    match e:
        case Matrix() | Factor():
            return e.name
        case Identity():
            return f"eye({e.shape[0]})"
        case Zero():
            return f"zeros({e.shape[0]}, {e.shape[1]})"
        case Sum():
            out = text(e.terms[0])
            for term in e.terms[1:]:
                negative = isinstance(term, Scale) and term.coefficient < 0
                shown = text(scale(-1.0, term)) if negative else text(term)
                out += f" {'-' if negative else '+'} {shown}"
            return out
        case Scale():
            inner = _atom(e.operand)
            return f"-{inner}" if e.coefficient == -1.0 else f"{e.coefficient:g} * {inner}"
        case Product():
            return _grouped(e)
        case Transpose():
            return f"{_atom(e.operand)}^T"
        case Inverse():
            return f"inv({text(e.operand)})"
        case Block():
            return "[ " + "; ".join("  ".join(_atom(c) for c in row) for row in e.rows) + " ]"
        case Woodbury():
            return f"-{_atom(e.g)} (I + {_atom(transpose(e.q))} {_atom(e.g)})^-1"
        case Power():
            return f"{_atom(e.base)}^{e.k}"
        case PowerSum():
            return f"powersum({text(e.base)}, {e.k})"
        case Recurrence():
            return f"iterate({text(e.a)}, {text(e.b)}, {text(e.start)}, {e.k})"
    raise TypeError(f"no text for {type(e).__name__}")


def _grouped(e: Product) -> str:
    """The factors with the parentheses of the order in which they are multiplied."""

    def shown(tree: Tree) -> str:
        if isinstance(tree, int):
            return _atom(e.factors[tree])
        return f"({shown(tree[0])} {shown(tree[1])})"

    return shown(associate(tuple(f.shape for f in e.factors)))[1:-1]


def _atom(e: Expr) -> str:
    bare = isinstance(e, Matrix | Factor | Identity | Zero | Inverse | Block | PowerSum)
    bare = bare or isinstance(e, Recurrence)
    bare = bare or (isinstance(e, Transpose) and isinstance(e.operand, Matrix | Factor))
    return text(e) if bare else f"({text(e)})"
