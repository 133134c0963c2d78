"""Distributed programs print and parse back; bad text is refused with its position."""

import pytest

from tests.distributed.streams import program_of
from viewlet.distributed import (
    Level,
    compile_distributed,
    distributed_text,
    parse_distributed,
)
from viewlet.errors import ParseError

EXAMPLE = """\
relation r(a: INTEGER not null, b: INTEGER)

map m[a: int](count: int)
place m dist(a)
map n[](value: int)
place n replicated

transfers
buffer s_r_1[a: int](value: int)
place s_r_1 random
buffer r_r_1[a: int](value: int)
place r_r_1 dist(a)
buffer r_r_2[a: int](value: int)
place r_r_2 replicated
buffer r_r_3[a: int](value: int)
place r_r_3 local

batch random

on r:
  distributed:
    s_r_1[a] += Δr(a, b)
  local:
    r_r_1 := repart[a](s_r_1)
    r_r_2 := repart[*](s_r_1)
    r_r_3 := gather(s_r_1)
    n[] += r_r_2[a]
  distributed:
    m[a] += r_r_1[a].* | count: r_r_1[a]
    n[] += r_r_2[a]
"""


def test_prints_as_it_is_read() -> None:
    assert distributed_text(parse_distributed(EXAMPLE)) == EXAMPLE


@pytest.mark.parametrize("query", ["tpch/q3", "tpch/q11", "tpch/q15", "tpch/q22", "finance/mst"])
@pytest.mark.parametrize("level", [Level.NAIVE, Level.FULL])
def test_compiled_programs_parse_back(query: str, level: Level) -> None:
    program = compile_distributed(program_of(query), level=level)
    assert parse_distributed(distributed_text(program)) == program


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("place m dist(a)", "place m somewhere", "unknown location"),
        ("repart[a]", "shuffle[a]", "expected scatter, repart or gather"),
        ("repart[a]", "repart", "expected '['"),
        ("batch random", "hello", "expected relation"),
    ],
)
def test_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("[", r"\[")) as caught:
        parse_distributed(EXAMPLE.replace(old, new, 1))
    assert caught.value.position is not None
