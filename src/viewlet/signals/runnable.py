"""What every query can do: be explained, run over a finished table, or follow a live stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from viewlet.signals import offline, saved_query, tables
from viewlet.signals.executor import OperatorPlan
from viewlet.signals.live import Live, cores
from viewlet.signals.operators.base import Node, Schema

Self = TypeVar("Self", bound="Query")


class Query:
    """A plan that can be explained, run over a finished table, or started over a live stream.

    >>> sensors = sg.source(key="sensor", time="t", value="v")
    >>> sensors.sample(2).select(lambda e: 2 * e.v).run(readings)["v"]
    array([0., 4., 8.])
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def schema(self) -> Schema:
        """What its output is: events, samples or frames, and with which columns."""
        return self.node.schema

    def explain(self) -> str:
        """The plan as text, inputs before users."""
        return OperatorPlan(self.node).text()

    def run(self, table: Any = None, /, *, lanes: int | None = None, **named: Any) -> Any:
        """The result for a finished input, as the same kind of table.

        One input goes by position, several by source name. Rows of a key come in time order. A
        Spark DataFrame is grouped over its cluster and gives a DataFrame.
        """
        plan = OperatorPlan(self.node)
        tables_by_source = Live(plan).by_source(table, named)
        kind = tables.kind_of(next(iter(tables_by_source.values())))
        if kind == "spark":
            from viewlet.signals.spark_query import run_dataframes

            return run_dataframes(plan, tables_by_source)
        return offline.run_table(plan, tables_by_source, lanes or cores(), kind)

    def start(self, *, lanes: int = 1) -> Live:
        """A live run of the query in this process."""
        return Live(OperatorPlan(self.node), lanes)

    def restore(self, path: str | Path) -> Live:
        """A live run that goes on where `Live.save` wrote it."""
        plan = OperatorPlan(self.node)
        return Live.load(plan, *saved_query.load(Path(path), plan.fingerprint))

    def start_spark(self, spark: Any = None, **options: Any) -> Any:
        """A live run over a Spark cluster, its state kept on the executors between batches."""
        from viewlet.signals.spark_query import SparkLive

        return SparkLive(self.node, spark, **options)

    def _same(self: Self, node: Node) -> Self:
        return type(self)(node)
