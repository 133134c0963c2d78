"""What only the Spark engine can do, for the database: DataFrames in, changes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from viewlet.engine.contract import Engine
from viewlet.errors import DataError, UnsupportedError
from viewlet.interfaces.database_state import DatabaseState
from viewlet.schema import shown_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from viewlet.engine.spark.batch_changes import BatchChanges
    from viewlet.engine.spark.frame_columns import RowWeights
    from viewlet.engine.spark.spark_engine import SparkEngine

    FrameChange = tuple[str, DataFrame] | tuple[str, DataFrame, int | str]


class FrameBatch:
    """A batch of DataFrames that was applied: what `apply_spark` and a called sink return.

    `version` numbers the states of a database on Spark, also after a restart; None where a batch
    that was repeated is no longer the newest of its query. `is_repeated`: it had been applied
    before, and nothing was done. `rows` are those that were read of the DataFrames.

    >>> batch = db.apply_spark([("r", spark.createDataFrame([(7, 1)], "a INT, b INT"))])
    >>> batch.changes("v").collect()
    [Row(a=7, total=1, _weight=1)]
    """

    def __init__(self, state: DatabaseState, changes: BatchChanges, rows: int = 0) -> None:
        self._state = state
        self._changes = changes
        self.rows = rows

    @property
    def version(self) -> int | None:
        """The number of the state that it made."""
        return self._changes.version

    @property
    def is_repeated(self) -> bool:
        """Whether it had been applied before."""
        return self._changes.is_repeated

    def changes(self, view: str) -> DataFrame:
        """What it did to a view: the view's columns and `_weight`, negative for rows gone.

        It can be asked until the thread that applied it applies another; batches of other threads
        may come meanwhile.
        """
        with self._state.lock:
            self._state.definitions.view(view)
            return self._changes.of(view)

    def __repr__(self) -> str:
        again = ", repeated" if self.is_repeated else ""
        return f"<FrameBatch: version {self.version}{again}>"


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


def repartition(state: DatabaseState) -> None:
    """Have the engine place its maps anew."""
    if state.engine_name != "spark":
        raise UnsupportedError(
            f"the engine {state.engine_name} keeps everything in this process",
            hint='only connect(engine="spark") has partitions',
        )
    state.refuse_while_delivering()
    frames_engine(state.engine, state.engine_name).repartition()


def frame_change(change: FrameChange) -> tuple[str, DataFrame, RowWeights]:
    """A change with the weights of its rows."""
    from viewlet.engine.spark.frame_columns import row_weights

    if not isinstance(change, tuple | list) or len(change) not in (2, 3):
        raise DataError(
            f"{shown_value(change)} is not a change",
            hint='give ("r", frame), ("r", frame, -1) or ("r", frame, "column of weights")',
        )
    name, frame, weight = change if len(change) == 3 else (*change, 1)
    return name, frame, row_weights(weight)


def refuse_frame(state: DatabaseState, name: str) -> None:
    """Rows of a DataFrame do not pass the driver: nothing can look at them there."""
    if state.timed.concern(name):
        what = f"the rows of a DataFrame cannot be compared with NOW(), as views over {name} do"
    elif state.constraints.concern(name):
        what = f"the rows of a DataFrame cannot be held to the constraints of {name}"
    else:
        return
    raise UnsupportedError(
        f"{what}: they do not pass the driver", hint=f'say db.insert("{name}", frame.toArrow())'
    )
