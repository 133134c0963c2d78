"""Statements that a client has prepared, by messages or in SQL; both have one set of names.

PREPARE p (INT) AS SELECT * FROM r WHERE a = $1;  EXECUTE p (5)  ->  SELECT * FROM r WHERE a = (5)
DEALLOCATE p;  DEALLOCATE ALL
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from viewlet.errors import ParseError, ResolutionError
from viewlet.frontend.catalog_text import is_prepare, parameters_of, with_parameters
from viewlet.frontend.parameter_types import parameter_types
from viewlet.frontend.value_lists import ListedValue, LiteralKind, listed_values
from viewlet.server.pg_messages import MAX_PARAMETERS
from viewlet.server.pg_parameters import literal
from viewlet.server.pg_types import UNKNOWN, plain_name, wire_oid

ColumnTypes = Callable[[], Mapping[str, Mapping[str, str]]]
"""The types of every relation's columns, as they are now."""

_NAME = r'("(?:[^"]|"")+"|\w+)'
_PREPARE = re.compile(rf"PREPARE\s+{_NAME}\s*(?:\((.*?)\))?\s*\bAS\b\s*(.*)$", re.I | re.S)
_EXECUTE = re.compile(rf"EXECUTE\s+{_NAME}\s*(?:\((.*)\))?\s*$", re.I | re.S)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+(?:PREPARE\s+)?{_NAME}\s*$", re.I)
_CAN_BE_PREPARED = ("SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE")


@dataclass(frozen=True)
class Prepared:
    """A statement with the types of its parameters: as its client, or their place, says."""

    text: str
    oids: tuple[int, ...]
    """0 where neither says one."""


class PreparedStatements:
    """Those of one session, by their names."""

    def __init__(self, column_types: ColumnTypes) -> None:
        self._column_types = column_types
        self._known: dict[str, Prepared] = {}

    def put(self, name: str, text: str, declared: Sequence[int]) -> None:
        """A statement under a name, in place of the one that had it."""
        count = 0 if is_prepare(text) else parameters_of(text)
        if count > MAX_PARAMETERS:
            raise ParseError(f"a statement has at most {MAX_PARAMETERS} parameters")
        oids = [*declared, *[0] * (count - len(declared))]
        if not all(oid not in (0, UNKNOWN) for oid in oids[:count]):
            for at, kind in enumerate(parameter_types(text, self._column_types())):
                if oids[at] in (0, UNKNOWN):
                    oids[at] = wire_oid(kind) if kind else 0
        self._known[name] = Prepared(text, tuple(oids))

    def __getitem__(self, name: str) -> Prepared:
        if name not in self._known:
            raise _missing(name)
        return self._known[name]

    def drop(self, name: str) -> None:
        """Forget one, if it is there."""
        self._known.pop(name, None)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    # --- as statements of SQL ---------------------------------------------------------------------

    def prepare(self, text: str) -> None:
        """PREPARE name (types) AS statement"""
        match = _PREPARE.match(text)
        if match is None:
            raise ParseError(
                "PREPARE is not understood", hint="PREPARE p (INT) AS SELECT ... WHERE a = $1"
            )
        name, types, statement = plain_name(match.group(1)), match.group(2) or "", match.group(3)
        if name in self._known:
            raise ResolutionError(
                f"there is a prepared statement {name} already", hint=f"DEALLOCATE {name}"
            )
        if (statement.split(None, 1) or [""])[0].upper() not in _CAN_BE_PREPARED:
            raise ParseError(
                "only statements that read or change rows can be prepared",
                hint=", ".join(_CAN_BE_PREPARED),
            )
        declared = [wire_oid(kind.text.upper()) for kind in listed_values(types)]
        self.put(name, statement, declared)

    def text_of(self, text: str) -> str:
        """EXECUTE name (values) -> the statement with the values in their places."""
        match = _EXECUTE.match(text.strip())
        if match is None:
            raise ParseError("EXECUTE is not understood", hint="EXECUTE p (1, 'a')")
        name = plain_name(match.group(1))
        prepared = self[name]
        values = listed_values(match.group(2) or "")
        if len(values) != len(prepared.oids):
            raise ParseError(
                f"{name} has {len(prepared.oids)} parameters, and EXECUTE gives {len(values)}"
            )
        literals = [_written(value, oid) for value, oid in zip(values, prepared.oids, strict=True)]
        return with_parameters(prepared.text, literals)

    def deallocate(self, text: str) -> str:
        """DEALLOCATE name, or ALL; the words that the client gets back."""
        match = _DEALLOCATE.match(text)
        if match is None:
            raise ParseError("DEALLOCATE is not understood", hint="DEALLOCATE p, DEALLOCATE ALL")
        if match.group(1).upper() == "ALL":
            self.clear()
            return "DEALLOCATE ALL"
        name = plain_name(match.group(1))
        if name not in self._known:
            raise _missing(name)
        self.drop(name)
        return "DEALLOCATE"


def _missing(name: str) -> ResolutionError:
    return ResolutionError(f"there is no prepared statement {name[:60]!r}")


def _written(value: ListedValue, oid: int) -> str:
    """What stands for a parameter: literals as if a client had sent them, others as they are."""
    if value.kind is LiteralKind.NULL:
        return literal(None, oid, 0)
    if value.kind is LiteralKind.STRING or (oid and value.kind is LiteralKind.NUMBER):
        return literal(value.content.encode(), oid, 0)
    return f"({value.text})"
