"""Programs: named expressions over matrices, to be started or explained (thesis chapter 6)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from viewlet.errors import DataError, ResolutionError, TypingError
from viewlet.linalg import expr as ex
from viewlet.linalg import updates
from viewlet.linalg.array_engine import ArrayEngine
from viewlet.linalg.arrays import Array, Sparse
from viewlet.linalg.delta import Trigger
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.live import Live
from viewlet.linalg.lower import Statement
from viewlet.linalg.parse import parse_program
from viewlet.linalg.plan import Estimate, MaintenancePlan, rank_plans
from viewlet.linalg.traverse import leaves

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TOLERANCE = 1e-9
TRIAL_RATIO = 2.5  # plans whose estimate is within this of the best are tried before one is chosen
TRIAL_LIMIT = 5
TRIAL_TURNS = 5


class Program:
    """Statements over inputs; immutable. Make one with `la.program`.

    >>> prog = la.program(C=la.matrix("A", 2, 2) @ la.matrix("B", 2, 2))
    >>> [matrix.name for matrix in prog.inputs]
    ['A', 'B']
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        inputs: Sequence[Matrix],
        outputs: Sequence[str] | None = None,
    ) -> None:
        self.statements = tuple(statements)
        self.inputs = tuple(inputs)
        names = [name for name, _ in self.statements]
        for name in outputs or ():
            if name not in names:
                raise ResolutionError(
                    f"unknown output {name!r}", hint=f"the statements are: {', '.join(names)}"
                )
        self.outputs = tuple(outputs) if outputs is not None else None

    def __str__(self) -> str:
        return "\n".join(f"{name} := {definition};" for name, definition in self.statements)

    def __repr__(self) -> str:
        return f"<Program {'; '.join(str(self).splitlines())}>"

    def plans(
        self,
        strategy: str = "auto",
        model: str = "auto",
        *,
        changing: Sequence[str] | None = None,
        rank: int = 1,
        values: Mapping[Matrix, Array | Sparse] | None = None,
    ) -> list[Estimate]:
        """The plans that strategy and model allow, with estimates, cheapest first."""
        return rank_plans(
            self.statements,
            self.inputs,
            self.outputs,
            strategy=strategy,
            model=model,
            changing=self._changing(changing),
            rank=rank,
            sizes=values,
        )

    def _changing(self, names: Sequence[str] | None) -> list[Matrix] | None:
        if names is None:
            return None
        input_by_name = {m.name: m for m in self.inputs}
        for name in names:
            if name not in input_by_name:
                raise ResolutionError(
                    f"unknown input {name!r}", hint=f"the inputs are: {', '.join(input_by_name)}"
                )
        return [input_by_name[name] for name in names]

    def trigger(
        self, *names: str, strategy: str = "incremental", model: str = "exponential", rank: int = 1
    ) -> Trigger:
        """The trigger for updates of the named inputs."""
        best = self.plans(strategy, model, rank=rank)[0].plan
        return best.trigger(dict.fromkeys(self._changing(names) or self.inputs, rank)).trigger

    def start(
        self,
        values: Mapping[str, Any],
        engine: str = "local",
        *,
        strategy: str = "auto",
        model: str = "auto",
        changing: Sequence[str] | None = None,
        rank: int = 1,
        tolerance: float = DEFAULT_TOLERANCE,
        spark: SparkSession | None = None,
        partitions: int | None = None,
        layout: str = "auto",
        checkpoint: str | None = None,
    ) -> Live:
        """Evaluate the program and keep it current.

        changing and rank say which updates to expect; `strategy="auto"` chooses for them. The
        last four arguments concern engine="spark" only.
        """
        inputs = self._values(values)
        estimates = self.plans(strategy, model, changing=changing, rank=rank, values=inputs)
        if engine == "local":
            chosen = self._start_local(estimates, inputs, tolerance, strategy, changing, rank)
            return Live(chosen, estimates)
        if engine == "spark":
            from viewlet.linalg.spark_engines import start_engine

            chosen_on_spark = start_engine(
                estimates[0].plan,
                inputs,
                tolerance=tolerance,
                spark=spark,
                partitions=partitions,
                layout=layout,
                checkpoint=checkpoint,
            )
            return Live(chosen_on_spark, estimates)
        raise TypingError(f"unknown engine {engine!r}", hint="use 'local' or 'spark'")

    def _values(self, values: Mapping[str, Any]) -> dict[Matrix, Array | Sparse]:
        input_names = {m.name for m in self.inputs}
        for name in values:
            if name not in input_names:
                raise ResolutionError(
                    f"unknown input {name!r}",
                    hint=f"the inputs are: {', '.join(sorted(input_names))}",
                )
        for matrix in self.inputs:
            if matrix.name not in values:
                raise DataError(
                    f"no value for the input {matrix.name}",
                    hint=f"pass {matrix.name!r}: an array of shape {matrix.shape}",
                )
        return {m: updates.as_input(m, values[m.name]) for m in self.inputs}

    def _start_local(
        self,
        estimates: list[Estimate],
        values: dict[Matrix, Array | Sparse],
        tolerance: float,
        strategy: str,
        changing: Sequence[str] | None,
        rank: int,
    ) -> ArrayEngine:
        """Start the cheapest plan; close calls are decided by a trial with empty updates."""
        best = estimates[0].seconds
        close = [e.plan for e in estimates if e.seconds <= TRIAL_RATIO * best][:TRIAL_LIMIT]

        def engine(plan: MaintenancePlan, inputs: dict[Matrix, Array | Sparse]) -> ArrayEngine:
            return ArrayEngine(plan, inputs, tolerance=tolerance, adaptive=strategy == "auto")

        if len(close) == 1:
            return engine(close[0], values)
        moving = list(self._changing(changing) or self.inputs)
        tried = [engine(plan, _copies(values)) for plan in close]
        # In turns, and the best of each: what disturbs one turn does not decide.
        turns = [[_trial(e, moving, rank) for e in tried] for _ in range(TRIAL_TURNS)]
        chosen = tried[int(np.argmin(np.min(turns, axis=0)))]
        chosen.stats = type(chosen.stats)()
        return chosen

    def explain(
        self, *, changing: Sequence[str] | None = None, rank: int = 1, model: str = "auto"
    ) -> str:
        """The trigger of the cheapest plan, its factored deltas and ranks, and all estimates."""
        from viewlet.linalg.explain import explain_program

        return explain_program(self, changing=changing, rank=rank, model=model)


def _copies(values: Mapping[Matrix, Array | Sparse]) -> dict[Matrix, Array | Sparse]:
    return {matrix: value.copy() for matrix, value in values.items()}


def _trial(engine: ArrayEngine, moving: Sequence[Matrix], rank: int) -> float:
    """Time one update of each moving input by zero: full work, no change."""
    start = time.perf_counter()
    for matrix in moving:
        u = np.zeros((matrix.shape[0], rank), order="F")
        v = np.zeros((matrix.shape[1], rank), order="F")
        engine.apply({matrix: (u, v)})
    return time.perf_counter() - start


def program(
    source: str | None = None,
    /,
    *,
    inputs: Mapping[str, tuple[int, int] | Matrix] | None = None,
    outputs: Sequence[str] | None = None,
    **definitions: Expr,
) -> Program:
    """A program from text with declared inputs, or from named expressions.

    la.program("B := A * A; C := B * B;", inputs={"A": (n, n)})
    la.program(C=la.power(A, 16))

    >>> prog = la.program("C := A * A;", inputs={"A": (2, 2)})
    >>> np.array(prog.start({"A": 2 * np.eye(2)})["C"])
    array([[4., 0.],
           [0., 4.]])
    """
    if source is not None:
        if definitions:
            raise TypingError("give a program as text or as expressions, not both")
        declared = {
            name: shape if isinstance(shape, Matrix) else ex.matrix(name, *shape)
            for name, shape in (inputs or {}).items()
        }
        return Program(parse_program(source, declared), list(declared.values()), outputs)
    if not definitions:
        raise TypingError("a program needs at least one result", hint="la.program(C=A @ A)")
    matrices: dict[str, Matrix] = {}
    for name, definition in definitions.items():
        if not isinstance(definition, Expr):
            raise TypingError(f"{name} is not a matrix expression")
        for leaf in leaves(definition):
            assert isinstance(leaf, Matrix)
            if matrices.setdefault(leaf.name, leaf) is not leaf:
                raise TypingError(f"{leaf.name} is used with two different shapes")
    for name in definitions:
        if name in matrices:
            raise ResolutionError(f"{name} names both an input and a result")
    ordered = sorted(matrices.values(), key=lambda m: m.name)
    return Program(list(definitions.items()), ordered, outputs)
