"""Paper 000 Figure 4: a transformer over a transformer is one."""

import pytest

from viewlet.distributed.simplify import compose
from viewlet.distributed.text import operation_text, parse_distributed

PROGRAM = """
relation r(a: INTEGER not null)
map m[a: int, b: int](x: int, y: int)
place m dist(a)
map l[a: int, b: int](x: int, y: int)
place l local
transfers
buffer p[a: int, b: int](x: int, y: int)
place p dist(b)
buffer q[a: int, b: int](x: int, y: int)
place q dist(a)
buffer g[a: int, b: int](x: int, y: int)
place g local
buffer e[a: int, b: int](x: int, y: int)
place e replicated
buffer s[a: int, b: int](x: int, y: int)
place s dist(a)
on r:
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("p := repart[b](m) q := repart[a](p)", "q := repart[a](m)"),
        ("p := scatter[b](l) q := repart[a](p)", "q := scatter[a](l)"),
        ("p := repart[b](m) g := gather(p)", "g := gather(m)"),
        ("g := gather(m) q := scatter[a](g)", "q := repart[a](m)"),
        # Gather(Scatter(q)) has no transformer: it stays as it is.
        ("p := scatter[b](l) g := gather(p)", "g := gather(p)"),
        # Replicated contents would be sent by every worker.
        ("e := repart[*](m) g := gather(e)", "g := gather(e)"),
    ],
)
def test_composition(before: str, after: str) -> None:
    assert composed(f"  local: {before}")[-1] == after


def test_what_is_materialized_is_not_copied() -> None:
    copy = "  distributed: s[a, b] += m[a, b].* | x: m[a, b].x, y: m[a, b].y\n"
    assert composed(copy + "  local: p := repart[b](s)")[-1] == "p := repart[b](m)"


@pytest.mark.parametrize(
    "statement",
    [
        "s[a, b] += m[a, b].* | x: m[a, b].y, y: m[a, b].x",  # other columns
        "s[a, b] += m[b, a].* | x: m[b, a].x, y: m[b, a].y",  # other keys
        "s[a, b] += m[a, b].* * {a < 3} | x: m[a, b].x, y: m[a, b].y",
    ],
)
def test_what_is_changed_is_kept(statement: str) -> None:
    found = composed(f"  distributed: {statement}\n  local: p := repart[b](s)")
    assert found[-1] == "p := repart[b](s)"


def test_a_source_that_changes_in_between_is_kept() -> None:
    text = """  local: p := repart[b](m)
  distributed: m[a, b] += m[a, b].* | x: 1, y: 1
  local: q := repart[a](p)"""
    assert composed(text)[-1] == "q := repart[a](p)"


def test_an_update_of_a_lasting_map_is_no_copy() -> None:
    text = """  local: q := repart[a](l)
  distributed: m[a, b] += q[a, b].* | x: q[a, b].x, y: q[a, b].y
  local: g := gather(m)"""
    assert composed(text)[-1] == "g := gather(m)"


def composed(blocks: str) -> list[str]:
    program = parse_distributed(PROGRAM + blocks)
    operations = [o for block in program.triggers[0].blocks for o in block.operations]
    maps = {m.name: m for m in program.maps}
    buffers = {m.name for m in program.buffers}
    return [" ".join(operation_text(o).split()) for o in compose(operations, maps, buffers)]
