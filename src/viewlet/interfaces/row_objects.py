"""Rows as objects of a dataclass: its fields are taken from the columns of their names."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar

from viewlet.errors import DataError, TypingError

Model = TypeVar("Model")


def objects(model: type[Model], columns: Sequence[str], rows: Iterable[Any]) -> list[Model]:
    """Each row as an object; a value of another type than its field's is a DataError."""
    if not isinstance(model, type) or not is_dataclass(model):
        raise TypingError(
            f"{getattr(model, '__name__', repr(model))} is no dataclass",
            hint="put @dataclasses.dataclass above the class whose objects the rows are to be",
        )
    try:
        hints = typing.get_type_hints(model)
    except NameError as problem:
        raise TypingError(
            f"the annotations of {model.__name__} cannot be read: {problem}",
            hint="define the class, and import its types, at the top of a module",
        ) from None
    taken: list[tuple[str, int, tuple[type, ...]]] = []
    for field in fields(model):
        if not field.init:
            continue
        if field.name in columns:
            allowed = value_types(hints[field.name])
            taken.append((field.name, columns.index(field.name), allowed))
        elif _is_required(field):
            raise TypingError(
                f"{model.__name__} has a field {field.name}, and the view no such column",
                hint=f"its columns are {', '.join(columns)}",
            )
    make: Callable[..., Model] = model
    made = []
    for row in rows:
        values = {}
        for name, position, allowed in taken:
            value = row[position]
            if allowed and not _fits(value, allowed):
                better = _better_annotation(value, allowed)
                raise DataError(
                    f"{model.__name__}.{name} is {_shown(allowed)}, and a row has {value!r}",
                    hint=f"annotate the field as {better}, or CAST the column",
                )
            values[name] = value
        made.append(make(**values))
    return made


def value_types(hint: Any) -> tuple[type, ...]:
    """The classes of an annotation; none where it says nothing that can be checked."""
    if isinstance(hint, type) and not typing.get_origin(hint):
        return (hint,)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [value_types(part) for part in typing.get_args(hint)]
        return sum(parts, ()) if all(parts) else ()
    origin = typing.get_origin(hint)
    return (origin,) if isinstance(origin, type) else ()


def _fits(value: Any, allowed: tuple[type, ...]) -> bool:
    """Whether a value is of one of the classes; True is no number."""
    if isinstance(value, bool):
        return bool in allowed or object in allowed
    return isinstance(value, allowed) or (isinstance(value, int) and float in allowed)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _shown(allowed: tuple[type, ...]) -> str:
    return " | ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)


def _better_annotation(value: Any, allowed: tuple[type, ...]) -> str:
    if value is None:
        return f"{_shown(allowed)} | None"
    return type(value).__name__
