"""Cases that were wrong once, replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.oracle.engines import ENGINES
from tests.oracle.harness import REGRESSIONS, Case, run_case


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", sorted(REGRESSIONS.glob("*.json")), ids=lambda path: path.stem)
def test_replay(path: Path, engine: str) -> None:
    run_case(Case.load(path), engine)
