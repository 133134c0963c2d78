"""The error family says what, where and what next, in that order."""

from viewlet.errors import Position, ViewletError


def test_message_carries_place_and_hint() -> None:
    error = ViewletError("unknown column x", position=Position(3, 7), hint="did you mean y?")
    assert str(error) == "line 3, column 7: unknown column x\nhint: did you mean y?"


def test_message_alone() -> None:
    assert str(ViewletError("no")) == "no"
