"""The order of a trigger's statements where each of several waits for another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from viewlet.calculus.expr import Delta, Expr, MapRef, product_of
from viewlet.planner.assemble import _trigger
from viewlet.planner.maps import Maps
from viewlet.program.text import statement_text


class _NamedMaps:
    """Maps of one key each, and their buffers."""

    def __init__(self, *names: str) -> None:
        self.by_name = {name: SimpleNamespace(keys=("k",)) for name in names}

    def change(self, name: str) -> str:
        return f"d_{name}"

    def changed(self, buffer: str) -> str:
        return buffer.removeprefix("d_")


def _read(name: str) -> Expr:
    return MapRef(name, "count", ("k",), buffer=name.startswith("d_"))


def test_what_reads_old_rows_beside_replaced_ones_subtracts_their_change() -> None:
    """w comes back from m as it is after the batch; v needs the change of w and m before it."""
    maps = cast("Maps", cast("Any", _NamedMaps("m", "w", "v")))
    updates = {
        "m": {"count": cast("Expr", Delta("r", ("k",)))},
        "v": {"count": product_of(_read("d_w"), _read("m"))},
    }
    touched = _read("d_m")
    replaced = {"w": {"count": (product_of(touched, _read("w")), product_of(touched, _read("m")))}}
    statements, buffers = _trigger(maps, updates, replaced, {})
    texts = [" ".join(statement_text(each).split()) for each in statements]
    targets = [each.target for each in statements]
    assert buffers == {"m", "w", "v"}
    assert targets.index("m") < targets.index("d_v") < targets.index("v")
    (into_v,) = [text for text in texts if text.startswith("d_v")]
    assert "d_w[k].count * m[k].count" in into_v
    assert "-1 * d_w[k].count * d_m[k].count" in into_v
