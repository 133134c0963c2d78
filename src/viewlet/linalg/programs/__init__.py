"""Ready-made programs: the analytics of thesis 6.4, with the vocabulary of their users."""

from viewlet.linalg.programs.graphs import PageRank, Reachability
from viewlet.linalg.programs.iterative import (
    Jacobi,
    PowerIteration,
    general_form,
    matrix_power,
    sum_of_powers,
)
from viewlet.linalg.programs.regression import GradientDescent, LeastSquares, Ridge

__all__ = [
    "GradientDescent",
    "Jacobi",
    "LeastSquares",
    "PageRank",
    "PowerIteration",
    "Reachability",
    "Ridge",
    "general_form",
    "matrix_power",
    "sum_of_powers",
]
