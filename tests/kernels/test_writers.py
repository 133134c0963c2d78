"""Every node of the loop language has one writer, which is seen when the package is imported."""

from __future__ import annotations

import pytest

from viewlet.kernels import access, block_source
from viewlet.kernels import loop_nodes as ir
from viewlet.kernels.emit import register_writers


def test_a_node_without_a_writer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = dict(block_source._WRITERS)
    del registered[ir.Walk]
    monkeypatch.setattr(block_source, "_WRITERS", {})
    with pytest.raises(TypeError, match=r"no writer for nodes of the loop language: Walk$"):
        register_writers(registered)
    assert not block_source._WRITERS


def test_a_node_with_two_writers_is_refused() -> None:
    registered = dict(block_source._WRITERS)
    with pytest.raises(TypeError, match=r"two writers for nodes of the loop language: Let$"):
        register_writers({ir.Let: access.write_get})
    assert registered == block_source._WRITERS
