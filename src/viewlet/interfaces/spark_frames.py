"""What only the Spark engine can do, for the database: DataFrames in, changes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from viewlet.calculus.query import Query
from viewlet.engine.contract import Engine, Weighted
from viewlet.engine.values.arrow import to_arrow
from viewlet.engine.values.batching import batch_of
from viewlet.errors import UnsupportedError
from viewlet.schema import Column, Relation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from viewlet.engine.spark.spark_engine import SparkEngine


def frames_engine(engine: Engine, name: str) -> SparkEngine:
    """The engine, if it takes DataFrames."""
    if name != "spark":
        raise UnsupportedError(
            f"the engine {name} does not take DataFrames",
            hint='say connect(engine="spark"), or give frame.toArrow() to insert',
        )
    from viewlet.engine.spark.spark_engine import SparkEngine

    assert isinstance(engine, SparkEngine)
    return engine


def session_of(engine: Engine) -> SparkSession:
    """The session of the engine, or the one that is active or made for other engines."""
    from viewlet.engine.partitions.session import spark_session

    return spark_session(getattr(engine, "spark", None))


def jobs_and_stages(engine: Engine, name: str) -> tuple[int, int]:
    """What Spark ran for the last batch, from its own books; nothing on other engines."""
    if name != "spark":
        return 0, 0
    metrics = frames_engine(engine, name).metrics()
    return metrics.jobs, metrics.stages


def check_frame(frame: DataFrame, relation: Relation) -> None:
    """Refuse a DataFrame whose columns do not fit the relation."""
    from viewlet.engine.spark.dataframes import check_frame as check

    check(frame, relation)


def changes_arrow(query: Query, changes: Weighted) -> pa.Table:
    """Changed rows with their weights as a column."""
    import pyarrow as pa

    shape = Relation(query.name, tuple(Column(c.name, c.type, True) for c in query.columns))
    batch = batch_of(shape, changes)
    weights: Any = batch.weights.copy()
    batch.weights[:] = 1
    table = to_arrow([(c.name, c.type) for c in query.columns], batch)
    return table.append_column("_weight", pa.array(weights, pa.int64()))
