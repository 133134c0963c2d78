"""What an engine wants of a relation's rows: which columns, and strings as which codes."""

from __future__ import annotations

from dataclasses import dataclass

from viewlet.engine.values.batch_memory import BatchMemory
from viewlet.engine.values.string_codes import StringCodes


@dataclass(frozen=True)
class Intake:
    """`columns` are the positions that something reads or keeps, None for all of them: others are
    checked and then left empty. `strings` gives codes, None leaves strings as Python has them.
    `buffers` has memory for columns that are not read any more once the batch is applied."""

    columns: frozenset[int] | None = None
    strings: StringCodes | None = None
    buffers: BatchMemory | None = None

    def reads(self, position: int) -> bool:
        """Whether the values of a column are wanted."""
        return self.columns is None or position in self.columns


EVERYTHING = Intake()
"""All columns, strings as Python has them."""
