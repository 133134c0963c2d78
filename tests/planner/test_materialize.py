"""The materialisation rules of Figure 3.1 and our own, each on the smallest query that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planner.support import compile_text
from viewlet.program.text import statement_text

FOLDER = Path(__file__).parents[1] / "fixtures/materialize"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_rule(path: Path) -> None:
    before, after = path.read_text().split("\n->\n")
    relations, changes, query = before.split("\n")
    program = compile_text(query, relations.removeprefix("relations: "))
    trigger = program.trigger(changes.removeprefix("changes: "))
    assert trigger is not None
    found = "\n".join(statement_text(statement).strip() for statement in trigger.statements)
    assert found == after.strip()
