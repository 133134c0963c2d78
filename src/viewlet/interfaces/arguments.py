"""What a user gives a method, checked: names, SQL text, paths and callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from viewlet.errors import ParseError, ResolutionError, StateError
from viewlet.schema import check_text, shown_value


def name_of(value: Any, kind: str) -> str:
    """The name of a relation or view, as it is."""
    if not isinstance(value, str):
        raise ResolutionError(
            f"{shown_value(value)} is not the name of a {kind}", hint="names are strings"
        )
    return value


def sql_of(value: Any) -> str:
    """The text of statements, as it is."""
    if not isinstance(value, str):
        raise ParseError(f"{shown_value(value)} is not SQL", hint="give the text as a string")
    try:
        check_text(value)
    except UnicodeEncodeError as error:
        raise ParseError(f"the text is not Unicode: {error}") from None
    if "\0" in value:
        raise ParseError("the text has a NUL character", hint="leave it out")
    return value


def path_of(value: Any) -> str:
    """The path of a directory, or the URI of one."""
    try:
        path = os.fspath(value)
        if not isinstance(path, str) or not path or "\0" in path:
            raise TypeError
        os.fsencode(path)
    except Exception:  # that of a PathLike of the user's among them
        raise StateError(
            f"{shown_value(value)} is not a path", hint="give a string or a pathlib.Path"
        ) from None
    return path


def callback_of(value: Any) -> Callable[..., object]:
    """A function of one batch."""
    if not callable(value):
        raise ResolutionError(
            f"{shown_value(value)} cannot be called", hint="give a function of one batch"
        )
    function: Callable[..., object] = value
    return function
