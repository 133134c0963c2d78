"""How triggers fill what maps hold before the first row: their definitions over static tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from viewlet.calculus.expr import MapRef
from viewlet.program.ir import Map, Program


@dataclass(frozen=True)
class StaticLoader:
    """A program whose views are the initial contents of another one's maps.

    `sources` are map, column, and where the loader has it; `others` are maps and columns whose
    definitions have to be evaluated as they stand.
    """

    program: Program
    sources: tuple[tuple[Map, str, MapRef], ...]
    others: frozenset[tuple[str, str]]


StaticPlanner = Callable[[Program, Iterable[Map]], StaticLoader | None]
"""Some maps of a program -> how to fill them; None where only their definitions can say."""
