"""When a database is saved: on request, and on Spark with every change of its definitions.

There, batches are durable by themselves; what they mean must be as well. Definitions that could
not be written yet are due: no batch is taken before they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import TypeVar

from viewlet.errors import StateError
from viewlet.frontend.maintenance_options import NO_OPTIONS, ViewOption, with_options
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateRelation, CreateView
from viewlet.interfaces.arguments import path_of
from viewlet.interfaces.database_state import DatabaseState
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.progress import waiting
from viewlet.interfaces.saved_database import (
    DatabaseContents,
    SavedDatabase,
    read_checkpoint,
    write_checkpoint,
)
from viewlet.interfaces.view_maintenance import ViewMaintenance

Definition = TypeVar("Definition")


class Checkpoints:
    """The directory of one database, and whether what it has is the newest definitions."""

    def __init__(self, state: DatabaseState, directory: str | None) -> None:
        self._state = state
        self._directory = directory
        self._follows_definitions = state.engine_name == "spark" and directory is not None
        self.is_due = False
        self.maintenance: ViewMaintenance
        self.write_own: Callable[[], str] | None = None
        """How a database on disk writes its snapshot."""

    def write(self, directory: str | PathLike[str] | None = None) -> str:
        """Save everything to this directory, or to the database's own; where it lies."""
        self._state.refuse_while_delivering()
        if directory is None and self.write_own is not None:
            with self._state.lock:
                return self._noted(self.write_own())
        chosen = self._directory if directory is None else path_of(directory)
        if chosen is None:
            raise StateError(
                "no directory to write the checkpoint to",
                hint='say connect(checkpoint="dir") or checkpoint("dir")',
            )
        state = self._state
        with state.lock, waiting(f"writing a checkpoint to {chosen}"):
            written = write_checkpoint(chosen, self.contents())
            self.is_due = False
            return self._noted(written)

    def _noted(self, written: str) -> str:
        if self._state.history is not None:
            self._state.history.add_checkpoint(self._state.version, written)
        return written

    def contents(self) -> DatabaseContents:
        """What is to be saved now."""
        state = self._state
        return DatabaseContents(
            state.engine_name,
            state.version,
            state.definitions,
            state.engine,
            *self.maintenance.save(),
        )

    def write_if_due(self) -> None:
        """Before a change: what the directory must have first."""
        if self.is_due:
            self.write()

    def follow_definitions(self) -> None:
        """After a change of definitions."""
        self.is_due = self._follows_definitions
        self.write_if_due()

    def restore(self, root: str) -> None:
        """Take definitions and state from the newest checkpoint in a directory."""
        self.restore_saved(read_checkpoint(root))

    def restore_saved(self, saved: SavedDatabase) -> None:
        """Take definitions and state from a checkpoint that was read and checked."""
        state = self._state
        with state.lock:
            definitions = _definitions_of(saved)
            self.maintenance.load_choices(saved.maintenance)
            modes = self.maintenance.modes(definitions)
            program = self.maintenance.compile(definitions, modes)
            state.engine.load(
                program, definitions.stored_tables(), saved.directory, definitions.ended()
            )
            self.maintenance.intermittent.took(program, modes)
            self.maintenance.adopt(definitions, modes)
            self.maintenance.load_pending(saved.pending)
            if self._follows_definitions:
                # The engine may have gone on since: any stream may have brought rows.
                definitions.saw_rows(
                    name
                    for name, declaration in definitions.relations.items()
                    if declaration.relation.is_stream
                )
            state.define(definitions)
            state.version = saved.version
            self.maintenance.intermittent.free_complete()


def _definitions_of(saved: SavedDatabase) -> Definitions:
    definitions = Definitions()
    for text in saved.relations:
        definitions.add_relation(_only(text, CreateRelation))
    definitions.epochs.update(saved.epochs)
    definitions.complete = frozenset(saved.complete)
    for text, epochs in saved.views:
        definitions.add_view(_only(text, CreateView), epochs)
    for name, about in saved.maintenance.items():
        options = [ViewOption(option, value, None) for option, value in about["options"].items()]
        made = definitions.views[name]
        definitions.views[name] = replace(made, options=with_options(NO_OPTIONS, options))
    return definitions


def _only(text: str, kind: type[Definition]) -> Definition:
    """The one statement of a text, which must be of a kind."""
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], kind):
        raise StateError(f"a checkpoint has a statement that is no definition: {text:.80}")
    return statements[0]
