"""How far a batch goes for a view, and where it is cut for views that are finished on read.

eager    triggers keep the view itself
values   what triggers would compute anew with every batch is computed on read instead, from the
         maps that are there anyway (program/frontier.py)
leaves   triggers keep maps of one relation each, and of nested values; the view is joined from
         them on read: paper 004's cut at the first grouping
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from viewlet.calculus.expr import Expr, MapRef, Rel
from viewlet.calculus.scope import Names, outputs, visible


class Frontier(Enum):
    """Up to where a batch's work goes, for one view."""

    EAGER = "eager"
    VALUES = "values"
    LEAVES = "leaves"

    @property
    def is_on_read(self) -> bool:
        """Whether a read has something left to do."""
        return self is not Frontier.EAGER


EVERYTHING_EAGER: Mapping[str, Frontier] = MappingProxyType({})


def joined_variables(factors: list[Expr]) -> Names:
    """R(a, b) * S(b, c) * {a < 3}  ->  b

    As if they were bound already, the atoms do not hang together: each gets a map of its own, with
    the conditions and values over its other variables.
    """
    atoms = [factor for factor in factors if isinstance(factor, Rel | MapRef)]
    uses = Counter(name for atom in atoms for name in outputs(atom))
    return frozenset(name for name, number in uses.items() if number > 1)


def used_variables(factors: Iterable[Expr]) -> Names:
    """R(a, b, c) * S(b, d) * {a < 3} * d  ->  a, b, d

    As if they were bound already, what is kept of an atom are its rows, in the columns that are
    used; conditions, values and joins are computed from those.
    """
    uses = Counter(name for factor in factors for name in visible(factor))
    return frozenset(name for name, number in uses.items() if number > 1)
