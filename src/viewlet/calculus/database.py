"""The Database that `evaluate` asks, made of one reader for each kind of atom.

    R(x)      relations(R)
    ΔR(x)     deltas(R)
    m[k].c    maps(m, c)
    m[k].*    every key that some column of m has, with weight 1

A reader is called each time that an atom is met; functools.cache around it remembers what is
costly to read and does not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from viewlet.calculus.evaluate import Database, evaluate
from viewlet.calculus.expr import PRESENCE, Delta, Expr, MapRef, Rel
from viewlet.calculus.ring import Gmr
from viewlet.errors import ProgramError

RelationReader = Callable[[str], Gmr]
ColumnReader = Callable[[str, str], Gmr]


class Atoms:
    """Implements `evaluate.Database`; an atom of a kind without a reader is a ProgramError.

    `columns` names the value columns of a map.
    """

    def __init__(
        self,
        *,
        relations: RelationReader | None = None,
        deltas: RelationReader | None = None,
        maps: ColumnReader | None = None,
        columns: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        self._relations = relations
        self._deltas = deltas
        self._maps = maps
        self._columns = columns

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        """The rows of an atom with their weights."""
        if isinstance(atom, MapRef):
            if self._maps is not None and atom.column != PRESENCE:
                return self._maps(atom.name, atom.column)
            if self._maps is not None and self._columns is not None:
                return _present(self._maps(atom.name, c) for c in self._columns(atom.name))
            raise ProgramError(f"map {atom.name} is read where there are no maps")
        if isinstance(atom, Delta):
            if self._deltas is not None:
                return self._deltas(atom.name)
            raise ProgramError(f"the batch of {atom.name} is read where there is none")
        if self._relations is not None:
            return self._relations(atom.name)
        raise ProgramError(f"relation {atom.name} is read where only maps are")


class DefinedMaps:
    """A Database with maps that it computes from their definitions, each at its first use.

    `definitions` has the keys and the expression of each map, which may read the maps before it.
    """

    def __init__(
        self, database: Database, definitions: Mapping[str, tuple[tuple[str, ...], Expr]]
    ) -> None:
        self._database = database
        self._definitions = definitions
        self._contents: dict[str, Gmr] = {}

    def contents(self, atom: Rel | Delta | MapRef) -> Gmr:
        """The rows of an atom with their weights."""
        if not isinstance(atom, MapRef) or atom.name not in self._definitions:
            return self._database.contents(atom)
        if atom.name not in self._contents:
            keys, expr = self._definitions[atom.name]
            self._contents[atom.name] = evaluate(expr, keys, self)
        return self._contents[atom.name]


def _present(columns: Iterable[Gmr]) -> Gmr:
    return Gmr((key, 1) for key in {key for column in columns for key, _ in column.items()})
