"""Who is right where an engine and DuckDB differ over floats: the definition, whose sums are exact.

DuckDB adds floats in an order of its own and rounds on the way, and a condition may hang on that.
"""

from __future__ import annotations

from contextlib import suppress

import duckdb
from tests.oracle.harness import Batch, Case, Mismatch, Row, compare, is_ordered
from tests.oracle.running_oracle import RunningOracle

import viewlet
from viewlet.interfaces.database import Database

ROUNDED = ("CORR", "COVAR", "REGR_", "STDDEV", "VAR_POP", "VARIANCE")
"""Aggregates that DuckDB sums up in DOUBLE whatever their arguments are."""


class HuntAnswers:
    """The answers to some cases, one view each, over the rows that are there."""

    def __init__(self, cases: list[Case]) -> None:
        self.cases = cases
        self._oracle = RunningOracle(cases[0].relations(), [case.select for case in cases])
        self._interpreters: dict[int, Database] = {}
        self._exact: dict[int, list[Row]] = {}

    def apply(self, batch: Batch) -> set[int]:
        """Which cases read what the batch changes."""
        changed = self._oracle.apply(batch)
        for at in changed:
            self._exact.pop(at, None)
        return changed

    def check(self, at: int, rows: list[Row], number: int) -> bool:
        """Mismatch where the rows are wrong; whether the definition had to decide."""
        case = self.cases[at]
        ordered = is_ordered(case.select)
        if at in self._exact:  # it has decided already for these rows
            compare(rows, self._exact[at], case, number, ordered)
            return True
        with suppress(duckdb.OutOfRangeException):  # it has no STDDEV of infinities
            try:
                compare(rows, self._oracle.answer(at), case, number, ordered)
                return False
            except Mismatch:
                if not _has_doubles(case):
                    compare(rows, self._oracle.fresh_answer(at), case, number, ordered)
                    return False
        compare(rows, self.exact(at), case, number, ordered)
        return True

    def exact(self, at: int) -> list[Row]:
        """The answer of the definition, from all rows at once."""
        if at not in self._exact:
            if at not in self._interpreters:
                self._interpreters[at] = _interpreter(self.cases[at])
            db, rows = self._interpreters[at], self._oracle.present()
            db.apply(viewlet.Change(name, [row], weight) for name, row, weight in rows)
            self._exact[at] = [tuple(row) for row in db.view("v").rows()]
            # Empty again for the next time: to create the view takes longest.
            db.apply(viewlet.Change(name, [row], -weight) for name, row, weight in rows)
        return self._exact[at]

    def close(self) -> None:
        self._oracle.close()
        for db in self._interpreters.values():
            db.close()


def _interpreter(case: Case) -> Database:
    db = viewlet.connect(engine="interpreter")
    for text in case.tables:
        db.execute(text)
    db.execute(f"CREATE VIEW v AS {case.select}")
    return db


def _has_doubles(case: Case) -> bool:
    """Whether a column, or an aggregate that DuckDB computes in DOUBLE, is in the case."""
    texts = [*case.tables, case.select]
    return any(word in text for text in texts for word in ("DOUBLE", *ROUNDED))
