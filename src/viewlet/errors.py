"""The one family of errors that viewlet raises.

Everything a user can do wrong ends in a `ViewletError`. An error that comes from a text (SQL, a
program, a linear-algebra script) carries the place in that text; an error that has an obvious
next step carries it as a hint. `str(error)` is what a user should read, nothing else is needed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """A place in a source text; line and column count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class ViewletError(Exception):
    """Base of the family: what went wrong, where, and what to write instead.

    >>> try:
    ...     db.view("w")
    ... except viewlet.ViewletError as error:
    ...     print(error)
    there is no view w
    hint: there are: v
    """

    def __init__(
        self, message: str, *, position: Position | None = None, hint: str | None = None
    ) -> None:
        self.message = message
        self.position = position
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        prefix = f"{self.position}: " if self.position else ""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"{prefix}{self.message}{hint}"


class ParseError(ViewletError):
    """The text is not in the language."""


class ResolutionError(ViewletError):
    """A name that is unknown, ambiguous or already taken."""


class TypingError(ViewletError):
    """An expression or a value that does not have the type its place asks for."""


class UnsupportedError(ViewletError):
    """A construct that the language has but viewlet does not maintain."""


class DataError(ViewletError):
    """Rows that cannot be taken: wrong shape, wrong type, or a delete of what is not there."""


class RangeError(DataError):
    """A number left the range of its type; the batch was undone."""


@dataclass(frozen=True)
class RangeFailure:
    """A call that raises a RangeError with a fixed text: what compiled functions can do as well."""

    message: str
    hint: str | None = None

    def __call__(self) -> None:
        raise RangeError(self.message, hint=self.hint)


class ProgramError(ViewletError):
    """An internal stage produced a program that its checker rejects."""


class CanceledError(ViewletError):
    """A query that somebody asked to end."""


class MissingLibraryError(ViewletError):
    """A library that an extra of viewlet brings is not installed."""


class StateError(ViewletError):
    """State on disk or on a worker that cannot be used as it is."""
