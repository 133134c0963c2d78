"""Incremental linear algebra: matrices that stay current (thesis chapter 6, LINVIEW).

import viewlet.linalg as la
A = la.matrix("A", n, n)
live = la.program(C=la.power(A, 16)).start({"A": a0})
live.update("A", u, v)          # A += u v^T
live["C"]
"""

from viewlet.linalg.errors import SingularMatrixError
from viewlet.linalg.expr import Expr, block, eye, inv, iterate, matrix, power, power_sum, zeros
from viewlet.linalg.live import Live
from viewlet.linalg.program import Program, program

__all__ = [
    "Expr",
    "Live",
    "Program",
    "SingularMatrixError",
    "block",
    "eye",
    "inv",
    "iterate",
    "matrix",
    "power",
    "power_sum",
    "program",
    "zeros",
]
