"""PEP 249's exceptions, and which of them an error of viewlet's family is."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager

from viewlet import errors


class Warning(builtins.Warning):
    """Never raised; PEP 249 wants the name."""


class Error(Exception):
    """Everything that goes wrong."""


class InterfaceError(Error):
    """A cursor or connection that is used wrongly."""


class DatabaseError(Error):
    """What the database says."""


class DataError(DatabaseError):
    """A value that a column cannot have."""


class OperationalError(DatabaseError):
    """State that cannot be read or written."""


class IntegrityError(DatabaseError):
    """Rows that break a constraint, or that are not there to be deleted."""


class InternalError(DatabaseError):
    """A fault of viewlet's own."""


class ProgrammingError(DatabaseError):
    """SQL that is wrong."""


class NotSupportedError(DatabaseError):
    """SQL that viewlet has not."""


_KINDS: tuple[tuple[type[errors.ViewletError], type[DatabaseError]], ...] = (
    (errors.RangeError, DataError),
    (errors.TypingError, ProgrammingError),
    (errors.DataError, IntegrityError),
    (errors.UnsupportedError, NotSupportedError),
    (errors.ParseError, ProgrammingError),
    (errors.ResolutionError, ProgrammingError),
    (errors.ProgramError, InternalError),
    (errors.StateError, OperationalError),
)


@contextmanager
def translated() -> Iterator[None]:
    """ViewletError -> the exception of PEP 249 that it is, with the same text."""
    try:
        yield
    except errors.ViewletError as error:
        kind = next((made for known, made in _KINDS if isinstance(error, known)), DatabaseError)
        raise kind(str(error)) from error
