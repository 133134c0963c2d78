"""Small random databases, so that rewrites are judged by meaning and not only by shape."""

from __future__ import annotations

import random
from collections.abc import Mapping

from viewlet.calculus.database import Atoms
from viewlet.calculus.evaluate import evaluate
from viewlet.calculus.expr import Delta, Expr, Rel, walk
from viewlet.calculus.ring import Gmr
from viewlet.calculus.schedule import schedule
from viewlet.calculus.scope import all_names, outputs


class World(Atoms):
    """Contents for every relation and delta that an expression mentions."""

    def __init__(self, seed: int, *expressions: Expr) -> None:
        super().__init__(
            relations=lambda name: self.contents_of[name],
            deltas=lambda name: self.contents_of["Δ" + name],
        )
        self._random = random.Random(seed)
        self.contents_of: dict[str, Gmr] = {}
        for expr in expressions:
            for node in walk(expr):
                if isinstance(node, Rel):
                    self._fill(node.name, len(node.variables), allow_negative=False)
                elif isinstance(node, Delta):
                    self._fill(node.name, len(node.variables), allow_negative=False)
                    self._fill("Δ" + node.name, len(node.variables), allow_negative=True)

    def _fill(self, name: str, width: int, allow_negative: bool) -> None:
        if name in self.contents_of:
            return
        found = Gmr()
        for _ in range(self._random.randint(0, 9)):
            row = tuple(self._random.choice([None, 1, 2, 3, 4]) for _ in range(width))
            found.add(row, self._random.choice([1, 1, 2]))
        if allow_negative:
            for row, weight in list(self.contents_of[name[1:]].items()):
                if self._random.random() < 0.4:
                    found.add(row, -weight)
        self.contents_of[name] = found

    def after(self, relation: str) -> World:
        """The same world once the batch has been applied."""
        later = World(0)
        later.contents_of = dict(self.contents_of)
        merged = self.contents_of[relation].copy()
        for row, weight in self.contents_of["Δ" + relation].items():
            merged.add(row, weight)
        later.contents_of[relation] = merged
        return later


def parameters(*expressions: Expr) -> Mapping[str, int]:
    """Values for the trigger parameters, the variables that start with @."""
    names = {name for expr in expressions for name in all_names(expr) if name.startswith("@")}
    return {name: 1 + number % 3 for number, name in enumerate(sorted(names))}


def meaning(expr: Expr, world: World, keys: frozenset[str] | None = None) -> Gmr:
    bound = parameters(expr)
    shown = outputs(expr) - bound.keys() if keys is None else keys
    ordered = schedule(expr, frozenset(bound))
    return evaluate(ordered, tuple(sorted(shown)), world, bound)
