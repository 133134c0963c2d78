"""How long published queries take to plan, from their text to the optimized program, and how many
maps a wide join keeps. Processor time, in one warm process, as multiples of the machine's pace."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

import pytest

from tests.oracle.test_tpcds import QUERIES, SCHEMA
from tests.pace import slack
from viewlet.pipeline.compile_file import compile_text
from viewlet.program.ir import Program
from viewlet_bench.workload import queries, query_text, schema_text

MOST_SECONDS = 2.0
SECONDS = {"q66": 4.0}
"""Queries that take longer: of 73 sums over two table expressions that have 24 each."""
MEDIAN_SECONDS = 0.3
MAPS_FOR_A_RELATION = 3
FULL_CHAIN_SECONDS = 1.0


def job_texts() -> Iterator[tuple[str, str]]:
    for name in queries("job"):
        yield name, schema_text("job") + query_text("job", name)


def tpcds_texts() -> Iterator[tuple[str, str]]:
    for name, query in QUERIES.items():
        yield name, f"{SCHEMA};\nCREATE MATERIALIZED VIEW v AS {query};"


def planned(text: str) -> tuple[Program, float]:
    start = time.process_time()
    _, program = compile_text(text)
    return program, time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("texts", [job_texts, tpcds_texts])
def test_published_queries_plan_in_time(texts: Callable[[], Iterator[tuple[str, str]]]) -> None:
    planned(next(iter(texts()))[1])
    seconds: dict[str, float] = {}
    paces: list[float] = [slack()]
    for name, text in texts():
        seconds[name] = planned(text)[1]
        paces.append(slack())
    pace = max(paces)
    late = {
        name: spent
        for name, spent in seconds.items()
        if spent > SECONDS.get(name, MOST_SECONDS) * pace
    }
    assert not late, f"at pace {pace:.1f}"
    assert statistics.median(seconds.values()) <= MEDIAN_SECONDS * pace


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), [*job_texts()], ids=queries("job"))
def test_a_wide_join_keeps_few_maps(name: str, text: str) -> None:
    program, _ = planned(text)
    joined = 1 + text.rsplit("FROM", 1)[1].split("WHERE")[0].count(",")
    assert len(program.state) <= MAPS_FOR_A_RELATION * joined


def full_chain(length: int) -> str:
    tables = "\n".join(f"CREATE TABLE t{i} (k INT, v INT);" for i in range(length))
    chain = " ".join(f"FULL JOIN t{i} ON t{i}.k = t{i - 1}.k" for i in range(1, length))
    return f"{tables}\nCREATE MATERIALIZED VIEW v AS SELECT t0.v, COUNT(*) AS n FROM t0 {chain} "


@pytest.mark.slow
def test_a_chain_of_full_joins_plans_in_time() -> None:
    text = full_chain(10) + "GROUP BY t0.v;"
    planned(full_chain(3) + "GROUP BY t0.v;")
    pace = slack()
    _, spent = planned(text)
    assert spent <= FULL_CHAIN_SECONDS * max(pace, slack())
