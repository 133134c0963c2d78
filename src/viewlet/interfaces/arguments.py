"""What a user gives a method, checked: names, SQL text, paths and callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from viewlet.errors import ParseError, ResolutionError, StateError
from viewlet.schema import check_text, shown_value


def name_of(given: Any, kind: str) -> str:
    """The name of a relation or view, as it is."""
    if not isinstance(given, str):
        raise ResolutionError(
            f"{shown_value(given)} is not the name of a {kind}", hint="names are strings"
        )
    return given


def sql_of(given: Any) -> str:
    """The text of statements, as it is."""
    if not isinstance(given, str):
        raise ParseError(f"{shown_value(given)} is not SQL", hint="give the text as a string")
    try:
        check_text(given)
    except UnicodeEncodeError as error:
        raise ParseError(f"the text is not Unicode: {error}") from None
    if "\0" in given:
        raise ParseError("the text has a NUL character", hint="leave it out")
    return given


def path_of(given: Any) -> str:
    """The path of a directory, or the URI of one."""
    try:
        path = os.fspath(given)
        if not isinstance(path, str) or not path or "\0" in path:
            raise TypeError
        os.fsencode(path)
    except Exception:  # that of a PathLike of the user's among them
        raise StateError(
            f"{shown_value(given)} is not a path", hint="give a string or a pathlib.Path"
        ) from None
    return path


def callback_of(given: Any) -> Callable[..., object]:
    """A function of one batch."""
    if not callable(given):
        raise ResolutionError(
            f"{shown_value(given)} cannot be called", hint="give a function of one batch"
        )
    function: Callable[..., object] = given
    return function
