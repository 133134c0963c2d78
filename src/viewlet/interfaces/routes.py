"""Where the rows of each relation go: found once, used for every batch until definitions change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viewlet.engine.values.batching import Batch
from viewlet.engine.values.encoders import encoder
from viewlet.errors import DataError
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.stats import Timings
from viewlet.interfaces.upkeep import ViewUpkeep
from viewlet.schema import Relation, Scalar


class RelationRoute:
    """One relation: how its rows are encoded, what they are fed to, and whom they concern."""

    def __init__(
        self,
        relation: Relation,
        definitions: Definitions,
        timings: dict[str, Timings],
        upkeeps: Mapping[str, ViewUpkeep],
    ) -> None:
        self.relation = relation
        self.width = len(relation.columns)
        self.encoders = [encoder(column) for column in relation.columns]
        self.instances = definitions.instances(relation.name)
        if not relation.is_stream:
            self.instances = [relation.name]
        self.views = definitions.users_of(relation.name)
        self.static_users = self.views if relation.static else []
        self.is_complete = relation.name in definitions.complete
        self.is_closed = self.is_complete or bool(self.static_users)
        """Whether it takes no rows."""
        self.timings = [timings.setdefault(view, Timings()) for view in self.views]
        self.only = self.instances[0] if len(self.instances) == 1 else None
        self.has_rows = False
        self.batches = 0
        self.later = tuple(upkeeps[view] for view in self.views if view in upkeeps)
        """The views that do not see its rows at once."""
        self.pending = tuple(
            (upkeep, name)
            for upkeep in self.later
            for name in definitions.epochs_of(relation.name)
            if name in upkeep.pending
        )
        """Those that collect them, with what programs call the relation."""

    def collect(self, batch: Batch, number: int) -> None:
        """Keep the rows of a batch for the views that see them later."""
        for upkeep in self.later:
            upkeep.touch(number)
        for upkeep, name in self.pending:
            upkeep.collect(name, batch, number)

    def collect_row(self, row: Sequence[Any], weight: int, number: int) -> None:
        """The same for one row of a user's values."""
        for upkeep in self.later:
            upkeep.touch(number)
        if self.pending:
            encoded = self.encode(row)
            for upkeep, name in self.pending:
                upkeep.collect_row(name, encoded, weight, number)

    def encode(self, row: Sequence[Any]) -> tuple[Scalar, ...]:
        """One row of the right width; DataError says which value does not fit."""
        try:
            return tuple([code(value) for code, value in zip(self.encoders, row, strict=True)])
        except DataError as error:
            raise type(error)(
                f"row 1 for {self.relation.name}: {error.message}", hint=error.hint
            ) from None
