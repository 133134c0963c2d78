"""A minute of the soak: `make soak` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engine.spark.soak import soak

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_minute(tmp_path: Path) -> None:
    lives, _, _ = soak(tmp_path, 1, seed=7)
    assert lives > 1
