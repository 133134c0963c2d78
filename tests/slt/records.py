"""A file of sqllogictest -> its records.

    statement ok | error [text]
    SQL up to an empty line

    query TYPES [nosort | rowsort | valuesort] [label]
    SQL
    ----
    values, one on a line or a row on a line

Loops, modes and whatever else products have added are records of their own, which nobody runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Record:
    """`kind` is statement, query, or the word that a record of another kind begins with."""

    kind: str
    line: int
    words: tuple[str, ...]
    sql: str = ""
    expected: tuple[str, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()

    @property
    def must_fail(self) -> bool:
        """Whether a statement or query is one that has to be refused."""
        return bool(self.words) and self.words[0] == "error"

    def applies_to(self, product: str) -> bool:
        """By the lines `onlyif` and `skipif` before it."""
        return all((name == product) == (word == "onlyif") for word, name in self.conditions)


@dataclass
class _Reader:
    lines: list[str]
    at: int = 0
    conditions: list[tuple[str, str]] = field(default_factory=list)

    def records(self) -> Iterator[Record]:
        """All records; after `halt` none."""
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            self.at += 1
            if not line or line.startswith("#"):
                continue
            kind, *words = line.split()
            if kind == "halt":
                return
            if kind in ("onlyif", "skipif"):
                self.conditions.append((kind, words[0] if words else ""))
                continue
            yield self._record(kind, words)
            self.conditions = []

    def _record(self, kind: str, words: list[str]) -> Record:
        start = self.at
        sql: list[str] = []
        expected: list[str] = []
        if kind in ("statement", "query"):
            part = sql
            while self.at < len(self.lines) and self.lines[self.at].strip():
                line = self.lines[self.at]
                self.at += 1
                if line.strip() == "----":
                    part = expected
                else:
                    part.append(line)
        text = "\n".join(sql).strip().rstrip(";")
        return Record(kind, start, tuple(words), text, tuple(expected), tuple(self.conditions))


def read_records(path: Path) -> list[Record]:
    """The records of a file, in order."""
    return list(_Reader(path.read_text(encoding="utf-8").splitlines()).records())
