"""`viewlet bench tpch`: the queries of TPC-H as published, over rows of tpcgen-cli."""

from __future__ import annotations

from viewlet_bench.feed import GeneratedTables, RowSource
from viewlet_bench.views import COLUMNS, OPTIONS, ViewBench
from viewlet_bench.workload import CompiledQuery

__all__ = ["COLUMNS", "OPTIONS", "run"]


def _rows(compiled: CompiledQuery, sf: float) -> RowSource:
    return GeneratedTables("tpch", sf, (*compiled.static, *compiled.streamed))


run = ViewBench("tpch", _rows, 0.01, ("q6", "q1", "q3", "q12", "q14", "q18")).run
