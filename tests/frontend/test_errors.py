"""Bad statements: each gives one error, of the right kind, at the right place, with a way out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.frontend.test_features import CATALOG

from viewlet import errors
from viewlet.errors import ViewletError
from viewlet.frontend.lower import lower_view
from viewlet.frontend.parse import parse
from viewlet.frontend.statements import CreateView


class Case(NamedTuple):
    text: str
    kind: str
    line: int
    column: int
    message: str
    hint: str


def read_cases() -> list[Case]:
    text = (Path(__file__).parent / "errors.sql").read_text().partition("\n\n")[2]
    found = re.findall(r"(?s)(.*?)\n--! (\w+) (\d+):(\d+) \| ([^\n]*) \| ([^\n]*)\n\n", text)
    return [Case(t, k, int(line), int(col), m, h) for t, k, line, col, m, h in found]


CASES = read_cases()


def attempt(text: str) -> None:
    views: dict[str, CreateView] = {}
    for statement in parse(text):
        if isinstance(statement, CreateView):
            lower_view(statement, CATALOG, views)
            views[statement.name] = statement


def test_there_are_enough() -> None:
    assert len(CASES) >= 440
    assert len({case.text for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.text)
def test_error(case: Case) -> None:
    with pytest.raises(ViewletError) as caught:
        attempt(case.text)
    error = caught.value
    assert type(error) is getattr(errors, case.kind)
    assert error.position is not None
    assert (error.position.line, error.position.column) == (case.line, case.column)
    assert error.message == case.message
    assert (error.hint or "-") == case.hint
