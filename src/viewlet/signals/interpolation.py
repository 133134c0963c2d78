"""Interpolation policies (thesis 7.4.2): a function of the last few reference points, and a window.

`within` is the largest distance (ticks, or a duration as "1s") between the reference points that
may be used together; points further apart belong to different pieces of the signal. None means no
limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from viewlet.errors import TypingError
from viewlet.signals.clock import Duration, ticks_of


@dataclass(frozen=True)
class Interpolation:
    """
    >>> sg.linear(within=600).kind
    'linear'
    """

    kind: str
    points: int
    within: Duration | None = None
    value: complex = 0.0
    function: Callable[[Any, Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        _, (ticks,) = ticks_of("ns" if not isinstance(self.within, int) else None, self.within)
        if ticks is not None and ticks <= 0:
            raise TypingError(
                f"the interpolation window is {self.within}", hint="use a positive time or None"
            )

    @property
    def reach(self) -> int | None:
        """`within` as ticks, once `in_ticks` has made it that."""
        assert self.within is None or isinstance(self.within, int)
        return self.within

    def in_ticks(self, unit: str | None) -> tuple[str | None, Interpolation]:
        """The same with `within` in ticks, and the unit that the query counts in from here on."""
        unit, (ticks,) = ticks_of(unit, self.within)
        return unit, replace(self, within=ticks)

    def __str__(self) -> str:
        inside = "" if self.within is None else f"within={self.within}"
        return f"{self.kind}({inside})"


def constant(value: complex, within: Duration | None = None) -> Interpolation:
    """Missing samples between two reference points are `value`.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(1, 0, sg.constant(9.0, within=10)).run(readings)["v"]
    array([0., 9., 2., 9., 4.])
    """
    return Interpolation("constant", 2, within, value)


def last(within: Duration | None = None) -> Interpolation:
    """The last value, held for at most `within` even when no further event comes.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(1, 0, sg.last(within=3)).run(readings)["v"]
    array([0., 0., 2., 2., 4., 4., 4., 4.])
    """
    return Interpolation("last", 1, within)


def step(within: Duration | None = None) -> Interpolation:
    """Zero order: between two reference points the earlier one's value.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(1, 0, sg.step(within=10)).run(readings)["v"]
    array([0., 0., 2., 2., 4.])
    """
    return Interpolation("step", 2, within)


def linear(within: Duration | None = None) -> Interpolation:
    """First order: the line through the two reference points around the sample.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(1, 0, sg.linear(within=10)).run(readings)["v"]
    array([0., 1., 2., 3., 4.])
    """
    return Interpolation("linear", 2, within)


def quadratic(within: Duration | None = None) -> Interpolation:
    """Second order: the parabola through the last three reference points.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(1, 0, sg.quadratic(within=10)).run(readings)["v"]
    array([0., 2., 3., 4.])
    """
    return Interpolation("quadratic", 3, within)


def interpolation(
    function: Callable[[Any, Any, Any], Any], points: int = 2, within: Duration | None = None
) -> Interpolation:
    """A policy of your own: function(t, times, values) -> values at t.

    It is called for all missing samples at once: t has shape (n,), times and values (n, points),
    oldest reference point first; t lies between the last two.

    >>> mean = sg.interpolation(lambda t, times, values: values.mean(axis=0), within=10)
    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(1, 0, mean).run(readings)["v"]
    array([0., 1., 2., 3., 4.])
    """
    if points < 2:
        raise TypingError(
            f"an interpolation from {points} points", hint="use at least the two around a sample"
        )
    return Interpolation("user", points, within, function=function)
