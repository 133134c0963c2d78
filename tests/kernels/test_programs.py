"""Every program: the same maps as the interpreter after every batch, in both shapes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.harness import Pair
from tests.kernels.programs import ALL

from viewlet.native.switch import is_enabled


def agree(name: str, single: bool) -> None:
    pair = Pair(ALL[name], single=single)
    for seed in range(3):
        pair.run(seed)


@pytest.mark.parametrize("name", ALL)
def test_batches_agree_with_interpreter(name: str) -> None:
    agree(name, single=False)


@pytest.mark.parametrize("name", ["join", "nested", "ranges"])
def test_single_tuples_agree_with_interpreter(name: str) -> None:
    agree(name, single=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({*ALL} - {"join", "nested", "ranges"}))
def test_more_single_tuples_agree_with_interpreter(name: str) -> None:
    agree(name, single=True)


@pytest.mark.skipif(not is_enabled(), reason="this is that run")
def test_agrees_without_native_code() -> None:
    """The switch is read when functions are decorated, so this needs a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "VIEWLET_NATIVE": "0"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
