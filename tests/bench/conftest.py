"""Rows of tpcgen-cli are made once for a test session, and never in the user's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def cache(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data goes to the session's directory; kernels stay where they are cached already."""
    monkeypatch.setattr("viewlet_bench.data.data_directory", lambda: data_home, raising=True)
    assert os.access(data_home, os.W_OK)
    yield data_home
