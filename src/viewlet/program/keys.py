"""What declared keys say about maps: how many records an access can meet.

A map holds Sum[k](R(..) * S(..) * ...). Where some of its keys determine a row of every relation
that the others come from, through declared keys, they determine the record. Engines and
passes take this as a hint for order and layout and never for granted: within a batch that replaces
rows, two records can stand where one is expected.
"""

from __future__ import annotations

from collections.abc import Iterable

from viewlet.calculus.expr import (
    Binder,
    Cond,
    Delta,
    Expr,
    MapRef,
    Rel,
    Sum,
    factors_of,
    walk,
)
from viewlet.calculus.scope import NONE, Names, inputs, outputs
from viewlet.program.ir import Map, Program, Statement


class Keys:
    """Answers from the declared keys of a program's relations; see schedule.Costs."""

    def __init__(self, program: Program) -> None:
        self._relations = {relation.name: relation for relation in program.relations}
        self._maps = {map.name: map for map in program.maps}
        self._factors = {map.name: self._definition(map) for map in program.maps}
        self._closures: dict[tuple[str, Names], bool] = {}

    def knows(self, map: str) -> bool:
        """Whether the program has such a map."""
        return map in self._maps

    def is_single(self, factor: Expr, bound: Names) -> bool:
        """At most one record of a map has these values of its bound keys."""
        if not isinstance(factor, MapRef) or factor.name not in self._maps:
            return False
        map = self._maps[factor.name]
        own = {mine for mine, name in zip(map.key_names, factor.keys, strict=True) if name in bound}
        return self.determine(factor.name, frozenset(own))

    def determine(self, map: str, own: Names) -> bool:
        """Whether some keys of a map, by its own names, determine the others."""
        visit = (map, own)
        if visit not in self._closures:
            every = frozenset(self._maps[map].key_names)
            self._closures[visit] = every <= self._closure(map, own)
        return self._closures[visit]

    def determinant(self, map: str, among: Names | None = None) -> Names:
        """A smallest part of the keys, or of those among them, that determines all; else all."""
        determinant = frozenset(self._maps[map].key_names) if among is None else among
        if not self.determine(map, determinant):
            return frozenset(self._maps[map].key_names)
        for name in sorted(determinant, reverse=True):
            if self.determine(map, determinant - {name}):
                determinant -= {name}
        return determinant

    def filters(self, factor: Expr) -> int:
        """How many conditions a map's rows meet: the more, the fewer records it has."""
        if not isinstance(factor, MapRef):
            return 0
        return sum(isinstance(f, Cond) for f in self._factors[factor.name])

    def distance(self, factor: Expr, bound: Names, placed: list[Expr]) -> int:
        """How many records a slice may meet, as a guess from what binds it.

        0 for a part of its own relation's key, 1 for the key of something that the loop runs over
        already (rows that refer to it), 2 for any other column.
        """
        touched = outputs(factor) & bound
        if isinstance(factor, MapRef):
            own = dict(zip(self._maps[factor.name].key_names, factor.keys, strict=True))
            for atom in self._factors[factor.name]:
                if isinstance(atom, Rel):
                    parts = {own.get(name, "") for name in self._key(atom)}
                    if parts & touched:
                        return 0
        keys = [self._placed_key(atom) for atom in placed]
        return 1 if any(key and key <= touched for key in keys) else 2

    def small_groups(self, statements: Iterable[Statement]) -> dict[str, set[frozenset[int]]]:
        """For each map the positions of keys whose groups are few records wherever they are met:
        some statement meets them beside a row whose declared key they are.
        """
        groups_by_map: dict[str, set[frozenset[int]]] = {}
        for statement in statements:
            exprs = (statement.loop, *(update for _, update in statement.updates))
            atoms = [node for expr in exprs for node in walk(expr)]
            keys = self._referred(atoms)
            for atom in atoms:
                if isinstance(atom, MapRef):
                    groups = (key for key in keys if key <= {*atom.keys})
                    positions = {frozenset(map(atom.keys.index, key)) for key in groups}
                    groups_by_map.setdefault(atom.name, set()).update(positions)
        return groups_by_map

    def _referred(self, atoms: Iterable[Expr]) -> set[Names]:
        """The declared keys, by the variables that stand for them, of all that is looked into."""
        references: set[Names] = set()
        for atom in atoms:
            if isinstance(atom, Delta):
                references.add(self._key(atom))
            elif isinstance(atom, MapRef) and atom.name in self._maps:
                own = dict(zip(self._maps[atom.name].key_names, atom.keys, strict=True))
                relations = (f for f in self._factors[atom.name] if isinstance(f, Rel))
                keys = [self._key(f) for f in relations]
                references |= {frozenset(own[n] for n in key) for key in keys if key <= own.keys()}
        return references - {NONE}

    def _placed_key(self, atom: Expr) -> Names:
        if isinstance(atom, Delta):
            return self._key(atom)
        if not isinstance(atom, MapRef) or self._is_constant(atom.name):
            return NONE
        own = dict(zip(self._maps[atom.name].key_names, atom.keys, strict=True))
        return frozenset(own[name] for name in self.determinant(atom.name))

    def _is_constant(self, map: str) -> bool:
        atoms = [f for f in self._factors[map] if isinstance(f, Rel)]
        atom_relations = [self._relations.get(atom.name) for atom in atoms]
        return bool(atom_relations) and all(
            relation is not None and relation.static for relation in atom_relations
        )

    def _key(self, atom: Rel | Delta) -> Names:
        """The variables at the relation's key; none where the program is a part that has maps
        over relations which it never sees, as one side of a distributed program is.
        """
        relation = self._relations.get(atom.name)
        if relation is None:
            return NONE
        variables = dict(zip(relation.names, atom.variables, strict=True))
        return frozenset(variables[column] for column in relation.key)

    def _closure(self, map: str, names: Names) -> Names:
        """All variables of a map's definition that the names determine."""
        waiting = list(self._factors[map])
        progress = True
        while progress:
            progress = False
            for factor in list(waiting):
                if isinstance(factor, Rel):
                    key = self._key(factor)
                    follows = bool(key) and key <= names
                elif isinstance(factor, Binder):
                    follows = inputs(factor) <= names
                else:
                    follows = False
                if follows:
                    waiting.remove(factor)
                    names |= outputs(factor)
                    progress = True
        return names

    def _definition(self, map: Map) -> tuple[Expr, ...]:
        """The factors of what a map holds; a buffer holds a part of what its map does."""
        original = map if map.change_of is None else self._maps.get(map.change_of, map)
        if original.key_names != map.key_names or not original.columns:
            return ()
        definition = original.columns[0].definition
        while isinstance(definition, Sum):
            definition = definition.body
        if definition is None or any(isinstance(node, Delta | MapRef) for node in walk(definition)):
            return ()
        return factors_of(definition)
