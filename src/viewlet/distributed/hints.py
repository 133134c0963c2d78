"""What a user, or a running database, knows of maps and tables better than the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from viewlet.distributed.location import Dist, Location, location_of
from viewlet.errors import ResolutionError
from viewlet.program.ir import Program

PLACEMENTS = ("analysis", "heuristic")


@dataclass(frozen=True)
class Hints:
    """What the user knows better.

    `maps`         a map's or view's location, also as explain writes it: dist(a), replicated, local
    `tables`       the column by which maps that have it are partitioned first, for each table
    `statistics`   about how many rows each table has or will have
    `records`      about how many records a map or view has or will have
    `replicate_below`   what has fewer rows than this may be on the driver or on every node, where
                        that is cheaper
    `placement`    "analysis" takes the cheapest placement of all, "heuristic" the one by keys

    >>> hints = viewlet.Hints(statistics={"supplier": 10_000, "orders": 1_500_000})
    >>> hints.small
    ['supplier']
    """

    maps: Mapping[str, Location | str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[str, int] = field(default_factory=dict)
    replicate_below: int = 200_000
    records: Mapping[str, int] = field(default_factory=dict)
    placement: str = "analysis"

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            raise ResolutionError(
                f"there is no placement {self.placement}", hint=f"say {' or '.join(PLACEMENTS)}"
            )

    @property
    def small(self) -> list[str]:
        """The tables that are known to be small, smallest first.

        >>> viewlet.Hints(statistics={"part": 400, "nation": 25}, replicate_below=100).small
        ['nation']
        """
        rows = sorted((rows, table) for table, rows in self.statistics.items())
        return [table for size, table in rows if size < self.replicate_below]

    def place(self, name: str) -> Location | None:
        """The location that a map was given.

        >>> viewlet.Hints(maps={"m": "dist(a, b)"}).place("m")
        Dist(columns=('a', 'b'))
        """
        location = self.maps.get(name)
        return location_of(location) if isinstance(location, str) else location

    def plain(self) -> dict[str, Any]:
        """The arguments that make this again, as JSON has them.

        >>> viewlet.Hints(statistics={"supplier": 10_000}).plain()["statistics"]
        {'supplier': 10000}
        """
        return asdict(self) | {
            "maps": {name: str(location) for name, location in self.maps.items()}
        }


def hints_about(program: Program, hints: Hints) -> Hints:
    """Without the hints for maps and tables that the program does not have, or not yet."""
    maps = {m.name for m in program.maps}
    tables = {relation.name for relation in program.relations}
    return replace(
        hints,
        maps={name: location for name, location in hints.maps.items() if name in maps},
        tables={name: column for name, column in hints.tables.items() if name in tables},
    )


def check_hints(program: Program, hints: Hints) -> None:
    """ResolutionError for hints about what the program does not have."""
    maps = {m.name: m for m in program.maps}
    for name in hints.maps:
        if name not in maps:
            raise ResolutionError(f"a partitioning hint names {name}, which is not kept")
        location = hints.place(name)
        if isinstance(location, Dist) and not {*location.columns} <= {*maps[name].key_names}:
            raise ResolutionError(
                f"{name} cannot be partitioned by {', '.join(location.columns)}",
                hint=f"its key is ({', '.join(maps[name].key_names)})",
            )
    relations = {relation.name: relation for relation in program.relations}
    for name, column in hints.tables.items():
        if name not in relations:
            raise ResolutionError(f"a partitioning hint names table {name}, which is unknown")
        relations[name].column(column)
