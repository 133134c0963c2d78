"""Jobs, stages and blocks of TPC-H: at most those of paper 000 Table 3 and Figure 5."""

import pytest

from tests.distributed.streams import TPCH, program_of
from viewlet.distributed import Level, compile_batch, compile_distributed, explain
from viewlet.distributed.cost import count, worst
from viewlet.distributed.ir import Transfer
from viewlet.distributed.jobs import jobs_of
from viewlet.distributed.location import LOCAL
from viewlet.distributed.text import parse_distributed

TABLE_3 = {
    "q1": (1, 1),
    "q2": (1, 3),
    "q3": (1, 3),
    "q4": (1, 2),
    "q5": (2, 5),
    "q6": (1, 1),
    "q7": (3, 6),
    "q8": (2, 6),
    "q9": (3, 7),
    "q10": (1, 3),
    "q11": (2, 4),
    "q12": (1, 2),
    "q13": (2, 4),
    "q14": (1, 2),
    "q15": (1, 3),
    "q16": (3, 5),
    "q17": (1, 2),
    "q18": (1, 3),
    "q19": (1, 2),
    "q20": (1, 3),
    "q21": (2, 4),
    "q22": (2, 3),
}


@pytest.mark.parametrize("query", TPCH)
def test_at_most_table_3(query: str) -> None:
    """The most expensive trigger; no view is ever transferred, deltas only."""
    source = program_of(query)
    program = compile_distributed(source)
    jobs, stages = TABLE_3[query.removeprefix("tpch/")]
    found = worst(program)
    assert found.jobs <= jobs and found.stages <= stages
    lasting = {m.name for m in source.maps if not m.buffer}
    for trigger in program.triggers:
        operations = [o for block in trigger.blocks for o in block.operations]
        assert not [o for o in operations if isinstance(o, Transfer) and o.source in lasting]


@pytest.mark.parametrize("query", TPCH)
def test_one_batch_over_all_relations_is_one_job_within_table_3(query: str) -> None:
    source = program_of(query)
    relations = [trigger.relation for trigger in source.triggers]
    found = count(compile_batch(source, relations).triggers[0])
    assert found.jobs == 1
    assert found.stages <= TABLE_3[query.removeprefix("tpch/")][1]


def test_q3_fuses_to_two_local_and_two_distributed_blocks() -> None:
    """Paper 000 Figure 5: one batch over all three relations, which arrives on the driver."""
    relations = ["lineitem", "orders", "customer"]
    source = program_of("tpch/q3")
    apart = compile_batch(source, relations, level=Level.SIMPLIFIED, batch=LOCAL)
    fused = compile_batch(source, relations, level=Level.FUSED, batch=LOCAL)
    before, after = count(apart.triggers[0]), count(fused.triggers[0])
    assert (after.local_blocks, after.distributed_blocks) == (2, 2)
    assert before.local_blocks + before.distributed_blocks >= 22
    assert (after.jobs, after.stages) == (1, 2)


def test_levels_cost_less_and_less() -> None:
    """Paper 000 Figure 13 in counts: fewer blocks by fusion, fewer transfers by CSE."""
    source = program_of("tpch/q3")
    relations = ["lineitem", "orders", "customer"]
    naive, simplified, fused, full = (
        count(compile_batch(source, relations, level=level).triggers[0]) for level in Level
    )
    assert naive.stages >= simplified.stages > fused.stages == full.stages == 3
    assert naive.transfers >= simplified.transfers == fused.transfers > full.transfers


def test_a_scatter_that_waits_for_a_gather_begins_a_job() -> None:
    program = parse_distributed("""
relation r(a: INTEGER not null)
map m[a: int](value: int)
place m dist(a)
map l[](value: int)
place l local
transfers
buffer s[](value: int)
place s random
buffer g[](value: int)
place g local
buffer b[](value: int)
place b replicated
batch random
on r:
  distributed:
    s[] += Δr(a)
  local:
    g := gather(s)
    l[] += g[]
    b := scatter[*](l)
  distributed:
    m[a] := m[a].* | value: b[]
""")
    first, second = jobs_of(program.triggers[0])
    assert [len(job.stages) for job in (first, second)] == [1, 1]
    assert len(first.after) == 1
    assert count(program.triggers[0]).rounds == 2


def test_explain_names_places_jobs_and_stages() -> None:
    text = explain(compile_distributed(program_of("tpch/q3")))
    assert "map q3[lineitem_l_orderkey, orders_o_orderdate, orders_o_shippriority] dist(" in text
    assert "on orders: jobs 1, stages 3, rounds 2" in text
    assert "repart after stage 1" in text
    assert "stage 2, on every worker" in text
    assert "gather after stage 0" in explain(compile_distributed(program_of("tpch/q6")))
