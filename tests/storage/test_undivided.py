"""Ctrl-C while a map grows: it comes when the map is whole again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest

from viewlet.schema import Physical
from viewlet.storage import pool
from viewlet.storage.absorb import absorb
from viewlet.storage.columns import KeyField, Layout, MemoryArrays
from viewlet.storage.undivided import undivided


@pytest.fixture(autouse=True)
def _python_handles_interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_signals_wait_for_the_end() -> None:
    done = False
    with pytest.raises(KeyboardInterrupt), undivided():
        os.kill(os.getpid(), signal.SIGINT)
        done = True
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_leaves_a_growing_map_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout("m", (KeyField(Physical.INT, False),), (Physical.INT,), ())
    made = pool.Pool(layout, MemoryArrays(), np.zeros(layout.descriptor_words, np.int64), False)
    made.create()
    rows = np.stack([np.arange(1000), np.ones(1000, np.int64)], axis=1)

    def interrupted(*arguments: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return rehash(*arguments)

    rehash = pool.rehash
    monkeypatch.setattr(pool, "rehash", interrupted)
    with pytest.raises(KeyboardInterrupt):
        absorb(made, rows)
    monkeypatch.undo()
    there = made.table()[made.live(), 0]
    assert len(there), "nothing had come in"
    full = np.stack([there, np.zeros_like(there)], axis=1)
    assert (made.find(full) == made.live()).all()
