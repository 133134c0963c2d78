"""Where maps are kept: the primary-key heuristic, statistics, hints and replication."""

import json

import pytest

from tests.distributed.streams import program_of
from viewlet.distributed import Hints, compile_all, compile_distributed
from viewlet.distributed.cost import count, worst
from viewlet.distributed.hints import hints_about
from viewlet.distributed.location import LOCAL, REPLICATED, Dist
from viewlet.distributed.placement import partition
from viewlet.errors import ResolutionError

TPCH_ROWS = {
    "lineitem": 6_000_000,
    "orders": 1_500_000,
    "partsupp": 800_000,
    "part": 200_000,
    "customer": 150_000,
    "supplier": 10_000,
}


def test_the_key_of_the_largest_table() -> None:
    """orders refers to customer, so orderkey wins over custkey (paper 000 section 6.2)."""
    places = partition(program_of("tpch/q3"))
    assert places["q3"] == Dist(("lineitem_l_orderkey",))
    assert places["m_orders_lineitem"] == Dist(("lineitem_l_orderkey",))
    assert places["m_customer"] == Dist(("orders_o_custkey",))


def test_no_key_stays_on_the_driver() -> None:
    assert partition(program_of("tpch/q1"))["q1"] == LOCAL
    assert partition(program_of("tpch/q6"))["q6"] == LOCAL


def test_static_tables_are_replicated() -> None:
    assert partition(program_of("tpch/q5"))["m_nation_region"] == REPLICATED


def test_a_driver_in_the_middle_of_a_batch_is_avoided() -> None:
    """Q15's maximum stands beside maps by suppkey: local it would cost another job."""
    program = program_of("tpch/q15")
    assert partition(program)["m_lineitem_2"] == REPLICATED
    local = compile_distributed(program, Hints(maps={"m_lineitem_2": LOCAL}))
    assert count(local.trigger("lineitem")).jobs == 2
    assert count(compile_distributed(program).trigger("lineitem")).jobs == 1


def test_a_join_elsewhere_makes_a_column_a_key() -> None:
    """lineitem alone stands in m_lineitem, but l_suppkey is joined with supplier's key."""
    assert partition(program_of("tpch/q15"))["m_lineitem"] == Dist(("lineitem_l_suppkey_2",))


def test_columns_that_nested_sums_hide_come_last() -> None:
    places = partition(program_of("tpch/q21"))
    assert places["m_lineitem"] == Dist(("l1_l_orderkey",))


def test_a_map_and_its_buffer_are_together() -> None:
    places = partition(program_of("tpch/q20"))
    assert places["d_m_lineitem"] == places["m_lineitem"]


def test_statistics_and_hints_decide() -> None:
    program = program_of("tpch/q9")
    name = "m_partsupp"
    by_part, by_supplier = (Dist((key,)) for key in program.map(name).key_names)
    assert partition(program, Hints(statistics=TPCH_ROWS))[name] == by_part
    few_parts = {**TPCH_ROWS, "part": 1}
    assert partition(program, Hints(statistics=few_parts))[name] == by_supplier
    hinted = Hints(tables={"partsupp": "ps_suppkey"}, statistics=TPCH_ROWS)
    assert partition(program, hinted)[name] == by_supplier
    assert partition(program, Hints(maps={name: LOCAL}))[name] == LOCAL


def test_small_tables_are_replicated_on_request_and_save_rounds() -> None:
    program = program_of("tpch/q5")
    hints = Hints(statistics=TPCH_ROWS, replicate_below=20_000, placement="heuristic")
    places = compile_distributed(program, hints).locations
    assert places["m_supplier"] == REPLICATED
    assert isinstance(places["m_customer"], Dist)
    saved = count(compile_distributed(program, hints).trigger("lineitem")).stages
    assert saved < count(compile_distributed(program).trigger("lineitem")).stages
    assert worst(compile_distributed(program, hints)).jobs == 1


def test_small_tables_beside_static_ones_count_too() -> None:
    places = partition(program_of("tpch/q7"), copied=frozenset({"supplier"}))
    assert places["m_nation_supplier"] == REPLICATED


def test_small_tables_are_partitioned_where_copies_save_nothing() -> None:
    """Q13 has its orders where their customer is."""
    program = program_of("tpch/q13")
    hints = Hints(statistics=TPCH_ROWS, placement="heuristic")
    assert compile_all(program, hints) == compile_all(program)


def test_rows_of_some_tables_only_do_not_rank_them() -> None:
    """10,000 suppliers are not more than the lineitems, of which nobody said how many."""
    program = program_of("tpch/q7")
    hints = Hints(statistics={"supplier": 10_000}, replicate_below=0)
    assert partition(program, hints) == partition(program)


def test_hints_as_text_and_for_a_part_of_what_will_be() -> None:
    hints = Hints(maps={"q3": "dist(a, b)", "m": REPLICATED, "x": "local"}, tables={"r": "a"})
    assert (hints.place("q3"), hints.place("x")) == (Dist(("a", "b")), LOCAL)
    again = Hints(**json.loads(json.dumps(hints.plain())))
    assert [again.place(name) for name in hints.maps] == [Dist(("a", "b")), REPLICATED, LOCAL]
    about = hints_about(program_of("tpch/q3"), hints)
    assert (set(about.maps), about.tables) == ({"q3"}, {})


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        (Hints(maps={"q3": "somewhere"}), "no location somewhere"),
        (Hints(maps={"q3": "random"}), "no location random"),
        (Hints(maps={"nothing": LOCAL}), "nothing, which is not kept"),
        (Hints(maps={"q3": Dist(("x",))}), "its key is"),
        (Hints(tables={"nothing": "a"}), "table nothing"),
        (Hints(tables={"orders": "nothing"}), "no column nothing"),
    ],
)
def test_wrong_hints(hints: Hints, message: str) -> None:
    with pytest.raises(ResolutionError, match=message):
        compile_distributed(program_of("tpch/q3"), hints)
