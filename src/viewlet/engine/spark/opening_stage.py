"""A stage's work at one node; and the first stage of a batch where it needs no state.

Most triggers begin by pre-aggregating what came (paper 000 section 3.3): stage 0 reads the batch,
fills buffers that no other stage sees, and sends them on. That *opening* needs no partition. It
runs where the rows are:

    rows in the driver's memory   on the driver; what it makes is scattered to stage 1
    rows of a DataFrame           in the tasks that read the DataFrame; one shuffle to stage 1

so that neither way costs a stage of its own, and a view whose state is all on the driver (TPC-H Q1
and Q6) is refreshed without any job in the first case. Nothing of it is logged: what it made is the
input of stage 1, and that is in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from viewlet.distributed.jobs import Route
from viewlet.engine.partitions.partition_program import DRIVER
from viewlet.engine.spark.chunks import (
    Columns,
    Message,
    Rows,
    nodes_of,
    received_batch,
    split,
    with_codes,
    with_texts,
)
from viewlet.engine.spark.node import SparkNode
from viewlet.engine.spark.stages import NodePlan, StagePlan, TriggerPlan
from viewlet.engine.values.batching import Batch
from viewlet.engine.values.strings import Dictionary
from viewlet.storage.columns import MemoryArrays

_STRINGS = 1 << 18  # so many, and the dictionary of an opening is begun anew


class Opening:
    """The first stages of a program's triggers in one process, with its constant maps."""

    def __init__(self, plan: NodePlan, constants: Message) -> None:
        self._plan = plan
        self._constants = constants
        self._node = self._fresh()

    def _fresh(self) -> SparkNode:
        node = SparkNode(self._plan, MemoryArrays(), Dictionary())
        node.begin(logged=False)
        receive(node, [self._constants])
        return node

    def run(
        self, trigger: TriggerPlan, parts: Sequence[Columns], partitions: int
    ) -> dict[int, Message]:
        """Some rows of the batch -> what stage 0 sends: a message for each node that gets any."""
        if len(self._node.dictionary) > _STRINGS:
            self._node = self._fresh()
        node = self._node
        node.clear_buffers()  # a run that failed may have left something
        sent = run_stage(node, trigger.jobs[0].stages[0], batches_of(parts, node), partitions)
        node.clear_buffers()
        return sent


def run_stage(
    node: SparkNode, plan: StagePlan, batches: Mapping[str, Batch], partitions: int
) -> dict[int, Message]:
    """The stage's kernels, and what leaves the node then."""
    for piece in plan.pieces:
        batch = None
        if piece.relation is not None:
            batch = batches.get(piece.relation) or _empty_batch(node, piece.kernel)
        node.run(piece, batch)
    return _sent(node, plan.routes, partitions)


def receive(node: SparkNode, messages: Iterable[Message]) -> None:
    """Add the rows that came, with the codes of this node's dictionary."""
    for message in messages:
        for rows in message.rows:
            node.add(rows.target, with_codes(rows, node.dictionary))


def batches_of(parts: Sequence[Columns], node: SparkNode) -> dict[str, Batch]:
    """The batch of each relation, with the codes of the program's dictionary."""
    by_relation: dict[str, list[Columns]] = {}
    for part in parts:
        by_relation.setdefault(part.relation, []).append(part)
    return {
        name: received_batch(same, node.dictionary, node.used(name))
        for name, same in by_relation.items()
    }


def _empty_batch(node: SparkNode, kernel: str) -> Batch:
    width = len(node.plan.module.program.relation(kernel).columns)
    nothing = np.zeros(0, np.int64)
    return Batch([nothing] * width, [None] * width, nothing, coded=True)


def _sent(node: SparkNode, routes: Sequence[Route], partitions: int) -> dict[int, Message]:
    """What leaves a node by these routes: a message for each node that gets anything."""
    sent: dict[int, Message] = {}
    for route in routes:
        for target, rows in routed(node, route, partitions):
            sent.setdefault(target, Message()).rows.append(rows)
    return sent


def routed(node: SparkNode, route: Route, partitions: int) -> list[tuple[int, Rows]]:
    """A relation's rows by destination; the driver is DRIVER."""
    words, layout = node.rows(route.source), node.pools[route.source].layout
    if not len(words):
        return []
    strings = node.dictionary.strings
    sent: list[tuple[int, Rows]] = []
    if route.by:
        texts = node.hashes.of(node.dictionary)
        targets = nodes_of(words, layout, route.by, partitions, texts)
        for target, part in split(words, targets, partitions):
            sent.append((target, with_texts(route.target, part, layout, strings)))
    if route.everywhere or route.driver:
        rows = with_texts(route.target, words, layout, strings)
        if route.everywhere:
            sent += [(target, rows) for target in range(partitions)]
        if route.driver:
            sent.append((DRIVER, rows))
    return sent
