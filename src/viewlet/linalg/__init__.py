"""Incremental linear algebra: matrices that stay current (thesis chapter 6, LINVIEW).

import viewlet.linalg as la
A = la.matrix("A", n, n)
live = la.program(C=la.power(A, 16)).start({"A": a0})
live.update("A", u, v)          # A += u v^T
live["C"]
"""

from viewlet.linalg.errors import SingularMatrixError
from viewlet.linalg.expr import Expr, block, eye, inv, iterate, matrix, power, power_sum, zeros
from viewlet.linalg.factorizations import QR, Cholesky, TruncatedSVD
from viewlet.linalg.live import Live
from viewlet.linalg.program import Program, program
from viewlet.linalg.programs import (
    GradientDescent,
    Jacobi,
    LeastSquares,
    PageRank,
    PowerIteration,
    Reachability,
    Ridge,
    general_form,
    matrix_power,
    sum_of_powers,
)

__all__ = [
    "QR",
    "Cholesky",
    "Expr",
    "GradientDescent",
    "Jacobi",
    "LeastSquares",
    "Live",
    "PageRank",
    "PowerIteration",
    "Program",
    "Reachability",
    "Ridge",
    "SingularMatrixError",
    "TruncatedSVD",
    "block",
    "eye",
    "general_form",
    "inv",
    "iterate",
    "matrix",
    "matrix_power",
    "power",
    "power_sum",
    "program",
    "sum_of_powers",
    "zeros",
]
