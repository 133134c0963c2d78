"""The verifier refuses every way in which a distributed program can be ill formed."""

import pytest

from tests.distributed.test_text import EXAMPLE
from viewlet.distributed import parse_distributed
from viewlet.distributed.check import check
from viewlet.errors import ProgramError


def test_accepts_the_example() -> None:
    check(parse_distributed(EXAMPLE))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("place m dist(a)\n", "", "m has no place"),
        ("place m dist(a)", "place m dist(b)", "columns that it does not have"),
        ("place m dist(a)", "place m random", "cannot be spread"),
        ("batch random", "batch replicated", "a batch arrives"),
        ("batch random", "batch local", "Δr is not on the distributed side|r is not on"),
        ("r_r_1 := repart[a](s_r_1)", "r_r_1 := scatter[a](s_r_1)", "which is not there"),
        ("r_r_1 := repart[a](s_r_1)", "r_r_1 := repart[*](s_r_1)", "r_r_1 is placed"),
        ("r_r_3 := gather(s_r_1)", "r_r_3 := gather(n)", "which is not there"),
        ("r_r_3 := gather(s_r_1)", "m := repart[a](s_r_1)", "fills a buffer"),
        ("r_r_3 := gather(s_r_1)", "r_r_3 := gather(x)", "unknown map x"),
        ("    r_r_1 := repart[a](s_r_1)\n", "", "read before it is filled"),
        ("m[a] += r_r_1[a].* | count: r_r_1[a]", "m[a] += r_r_2[a].* | count: 1", "replicated"),
        ("m[a] += r_r_1[a].* | count: r_r_1[a]", "m[b] += r_r_1[a].* | count: 1", "not bound"),
        ("m[a] += r_r_1[a].* | count: r_r_1[a]", "m[a] += r_r_1[a].* | x: 1", "no column x"),
        ("m[a] += r_r_1[a].* | count: r_r_1[a]", "m[] += r_r_1[a].* | count: 1", "1 keys"),
        ("m[a] += r_r_1[a].*", "m[a] += r_r_1[a].* * r_r_3[a].*", "not on the distributed"),
        ("m[a] += r_r_1[a].* |", "m[a] += s_r_1[a].* |", "no presence"),
        ("    n[] += r_r_2[a]\n  distributed:", "  distributed:", "updated differently"),
        ("n[] += r_r_2[a]\n  distributed:", "m[a] += r_r_2[a]\n  distributed:", "not on the local"),
    ],
)
def test_refuses(old: str, new: str, message: str) -> None:
    assert old in EXAMPLE
    program = parse_distributed(EXAMPLE.replace(old, new, 1))
    with pytest.raises(ProgramError, match=message):
        check(program)
