"""How many rows each relation is expected to bring until the next refresh (paper 002, section 2).

    complete   none will come any more
    told       what somebody said: `db.expect`
    learned    from the refreshes so far: the mean of the last ones, or the last one times the ratio
               at which they have grown or gone down, whichever has been right more often

A prediction decides what is kept, never what an answer is: a wrong one costs time or memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_REMEMBERED = 8
"""Refreshes whose arrivals are remembered."""


@dataclass(frozen=True)
class Prediction:
    """Rows that are expected, and how it is known."""

    rows: float
    reason: str


@dataclass
class Arrivals:
    """What a relation has brought between refreshes, and which guess fits that."""

    rows: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    _errors: dict[str, float] = field(default_factory=dict)

    def add(self, count: float) -> None:
        """So many rows came between the last two refreshes."""
        for name, guess in self._guesses().items():
            self._errors[name] = 0.5 * self._errors.get(name, 0.0) + abs(guess - count)
        self.rows.append(count)

    def prediction(self) -> Prediction | None:
        """What is expected next; None where nothing has come yet."""
        guesses = self._guesses()
        if not guesses:
            return None
        name = min(guesses, key=lambda guess: self._errors.get(guess, 0.0))
        return Prediction(guesses[name], f"{name} of {len(self.rows)} refreshes")

    def _guesses(self) -> dict[str, float]:
        """mean: (x1 + ... + xn) / n;  trend: xn * (x2 + ... + xn) / (x1 + ... + xn-1)"""
        if not self.rows:
            return {}
        rows = list(self.rows)
        guesses = {"mean": sum(rows) / len(rows)}
        before = sum(rows[:-1])
        if before:
            guesses["trend"] = rows[-1] * sum(rows[1:]) / before
        return guesses


@dataclass
class _Expectation:
    rows: float
    until: float | None
    seen: dict[str, float] = field(default_factory=dict)
    """How many of them each view has applied."""

    def left(self, view: str) -> float:
        """What a view has still to see of it."""
        return max(self.rows - self.seen.get(view, 0.0), 0.0)


class Predictions:
    """What is expected of the relations of one database."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the time in seconds, in which expectations end."""
        self._now = now
        self._expectations: dict[str, _Expectation] = {}
        self._arrivals: dict[tuple[str, str], Arrivals] = {}
        self.complete: frozenset[str] = frozenset()

    def expect(self, relation: str, rows: float, within: float | None) -> None:
        """Somebody says that so many rows will come, within so many seconds."""
        until = None if within is None else self._now() + within
        self._expectations[relation] = _Expectation(rows, until)

    def saw(self, view: str, relation: str, rows: int) -> None:
        """A refresh of a view has applied so many rows of a relation."""
        self._arrivals.setdefault((view, relation), Arrivals()).add(rows)
        expectation = self._expectations.get(relation)
        if expectation is not None:
            expectation.seen[view] = expectation.seen.get(view, 0.0) + rows

    def of(self, view: str, relation: str) -> Prediction | None:
        """What a relation will bring until the view's next refresh; None if nobody knows."""
        if relation in self.complete:
            return Prediction(0.0, "complete")
        expectation = self._expectations.get(relation)
        is_valid = expectation is not None and (
            expectation.until is None or expectation.until > self._now()
        )
        if expectation is not None and is_valid and expectation.left(view) > 0.0:
            return Prediction(expectation.left(view), "told")
        arrivals = self._arrivals.get((view, relation))
        return arrivals.prediction() if arrivals is not None else None

    def changing(self, view: str, relations: Iterable[str]) -> dict[str, float]:
        """The relations that are expected to change before the next refresh, with their rows.

        Where nothing is expected of any, each that is not complete may: 1 row stands for that.
        """
        open_relations = [r for r in relations if r not in self.complete]
        predictions = {r: self.of(view, r) for r in open_relations}
        expected = {r: p.rows for r, p in predictions.items() if p is not None and p.rows >= 0.5}
        unknown = [r for r, p in predictions.items() if p is None]
        if not expected or unknown:
            expected |= dict.fromkeys(unknown or open_relations, 1.0)
        return expected
