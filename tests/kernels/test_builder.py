"""Every node of the calculus has loops, which is seen when the package is imported."""

from __future__ import annotations

import pytest
from tests.kernels.programs import NESTED

from viewlet.calculus.expr import Exists
from viewlet.errors import ProgramError
from viewlet.kernels import builder
from viewlet.kernels.loops import build_loops, register_builders
from viewlet.program.text import parse_program


def test_a_node_without_loops_is_refused_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    registered = dict(builder._BUILDERS)
    del registered[Exists]
    monkeypatch.setattr(builder, "_BUILDERS", {})
    with pytest.raises(TypeError, match=r"no loops for nodes of the calculus: Exists$"):
        register_builders(registered)
    assert not builder._BUILDERS


def test_a_node_of_somebody_else_is_refused_where_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(builder._BUILDERS, Exists)
    with pytest.raises(ProgramError, match=r"no loops for Exists\(d\[a\]\.count\)"):
        build_loops(parse_program(NESTED))
