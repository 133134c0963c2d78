"""What the fields of a node hold, read from their types, and tables of rules by class.

A node class is a dataclass under `node`. A field of type `Variable` names a variable, one of type
`ScalarExpr` is a scalar, one of a node type is a part, and each may come in a tuple; everything
else is data. Walks, renamings and the canonical form read this and name no class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from viewlet.functions import ScalarExpr

T = TypeVar("T")
N = TypeVar("N", bound="HasFields")


class Role(Enum):
    """What a field of a node holds."""

    VARIABLE = "variable"
    SCALAR = "scalar"
    PART = "part"
    DATA = "data"


Variable = Annotated[str, Role.VARIABLE]
"""The type of a field that names a variable."""


@dataclass(frozen=True)
class Field:
    """A field of a node class; `many` where it is a tuple of such things."""

    name: str
    role: Role
    many: bool


class HasFields:
    """The base of all node classes."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __getstate__(self) -> dict[str, Any]:
        """A pickle has the fields alone: a remembered hash of names is another one elsewhere."""
        return {field.name: getattr(self, field.name) for field in self.FIELDS}


@dataclass_transform(frozen_default=True)
def node(cls: type[N]) -> type[N]:
    """A frozen dataclass that knows its fields' roles and computes its hash once.

    Nodes are shared, and looked up often.
    """
    node_class = dataclass(frozen=True)(cls)
    compute: Callable[[N], int] = node_class.__hash__

    def cached(self: N) -> int:
        cached_hash: int | None = self.__dict__.get("_hash")
        if cached_hash is None:
            cached_hash = compute(self)
            self.__dict__["_hash"] = cached_hash
        return cached_hash

    node_class.__hash__ = cached  # type: ignore[assignment, method-assign]
    hints = get_type_hints(node_class, include_extras=True)
    node_class.FIELDS = tuple(
        _field(each.name, hints[each.name])
        for each in fields(node_class)  # type: ignore[arg-type]
    )
    return node_class


def _field(name: str, hint: Any) -> Field:
    many = get_origin(hint) is tuple
    if many:
        hint = get_args(hint)[0]
    if Role.VARIABLE in getattr(hint, "__metadata__", ()):
        return Field(name, Role.VARIABLE, many)
    if hint == ScalarExpr:
        return Field(name, Role.SCALAR, many)
    is_part = isinstance(hint, type) and issubclass(hint, HasFields)
    return Field(name, Role.PART if is_part else Role.DATA, many)


class _Remembered(Generic[N, T]):
    """An attribute of nodes that is computed when it is first asked for, and then in the node."""

    def __init__(self, name: str, function: Callable[[N], T]) -> None:
        self._name = name
        self._function = function

    def __get__(self, node: N, kind: type[N]) -> T:
        value = node.__dict__[self._name] = self._function(node)
        return value


def remembered(function: Callable[[N], T]) -> Callable[[N], T]:
    """A function of a node that is computed once for each node, and kept with it.

    What becomes of it is a getter that runs no Python: planning asks a million times.
    """
    name = f"_{function.__module__}_{function.__name__}".replace(".", "_")
    setattr(HasFields, name, _Remembered(name, function))
    return attrgetter(name)


class Rules(dict[type, T], Generic[T]):
    """One operation's rule for each class of nodes; nodes.py fills all of them."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def __missing__(self, kind: type) -> T:
        raise TypeError(f"{kind.__name__} has no {self._operation}: see viewlet/calculus/nodes.py")
