"""The time of a database: what NOW() is in its views.

By default that is the time of the machine, in UTC. A clock that is set stands still until it is
set again or advanced, which is how tests and replays have any time they like. Time never goes
backward: rows that have ended are not kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from viewlet.errors import DataError
from viewlet.schema import shown_value

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class DatabaseClock:
    """`db.clock`: `now`, `set`, `advance`, `follow`."""

    def __init__(self) -> None:
        self._set: int | None = None
        self._least = 0
        self._ticked: Callable[[], None] = lambda: None

    def connect(self, ticked: Callable[[], None]) -> None:
        """`ticked` makes of a new time what it makes of rows; its errors take the time back."""
        self._ticked = ticked

    def load(self, microseconds: int, *, is_set: bool) -> None:
        """Go on from the time that a database was closed at."""
        self._least = max(self._least, microseconds)
        if is_set:
            self._set = self._least

    def reading(self) -> tuple[int, bool]:
        """Microseconds since 1970, and whether the clock was set."""
        if self._set is not None:
            return self._set, True
        self._least = max(self._least, time.time_ns() // 1000)
        return self._least, False

    def now(self) -> datetime:
        """What NOW() is.

        >>> db.clock.set("2026-01-01 12:00:00")
        >>> db.clock.now()
        datetime.datetime(2026, 1, 1, 12, 0)
        """
        return _EPOCH + self.reading()[0] * _MICROSECOND

    def set(self, moment: datetime | str) -> None:
        """Go to a moment, and stand there: a batch in which rows begin and end.

        >>> db.clock.set("2026-01-01 12:00:00")
        """
        self._go(_microseconds(moment))

    def advance(self, by: timedelta | float) -> None:
        """Go on by a time, or by so many seconds, and stand there.

        >>> db.clock.set("2026-01-01 12:00:00")
        >>> db.clock.advance(90)
        >>> db.clock.now()
        datetime.datetime(2026, 1, 1, 12, 1, 30)
        """
        is_number = isinstance(by, int | float) and not isinstance(by, bool)
        if not (isinstance(by, timedelta) or (is_number and by == by and abs(by) < 1e11)):
            raise DataError(f"{shown_value(by)} is not a time", hint="give a timedelta, or seconds")
        span = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._go(self.reading()[0] + span // _MICROSECOND)

    def follow(self) -> None:
        """Go with the time of the machine again, from when that is not behind.

        >>> db.clock.follow()
        """
        before = self._set
        self._least, self._set = self.reading()[0], None
        self._settle(before)

    def _go(self, microseconds: int) -> None:
        now, _ = self.reading()
        before = self._set
        if before is not None and microseconds < before:
            raise DataError(
                f"the clock is at {self.now()}, and cannot go back",
                hint="rows that have ended are gone: begin with another database",
            )
        if before is None and self._has_ticked() and microseconds < now:
            raise DataError(
                f"the clock is at {self.now()}, and cannot go back",
                hint="set it before views that read NOW() are made",
            )
        self._set = microseconds
        self._settle(before)

    _has_ticked: Callable[[], bool] = staticmethod(lambda: False)

    def is_bound_by(self, has_ticked: Callable[[], bool]) -> None:
        """`has_ticked`: whether rows depend on the time already."""
        self._has_ticked = has_ticked

    def _settle(self, before: int | None) -> None:
        try:
            self._ticked()
        except BaseException:
            self._set = before
            raise


def _microseconds(moment: datetime | str) -> int:
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
        if parsed.tzinfo is not None:
            parsed = parsed.astimezone(UTC).replace(tzinfo=None)
        return (parsed - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise DataError(
            f"{shown_value(moment)} is not a moment",
            hint="give a datetime, or text as '2026-01-01 12:00:00'",
        ) from None
