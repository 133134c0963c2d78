"""A stage's work at one site; and the first stage of a batch where it needs no state.

Most triggers begin by pre-aggregating what came: stage 0 reads the batch, fills buffers that no
other stage sees, and sends them on. That *opening* needs no partition. It runs where the rows are:

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
from viewlet.runtime.batching import Batch
from viewlet.runtime.chunks import (
    Columns,
    Message,
    Rows,
    nodes_of,
    received_batch,
    split,
    with_codes,
    with_texts,
)
from viewlet.runtime.program import DRIVER
from viewlet.runtime.site import Site
from viewlet.runtime.stages import SitePlan, StagePlan, TriggerPlan
from viewlet.runtime.strings import Dictionary
from viewlet.storage.columns import MemoryArrays

_STRINGS = 1 << 18  # so many, and the dictionary of an opening is begun anew


class Opening:
    """The first stages of a programme's triggers in one process, with its constant maps."""

    def __init__(self, plan: SitePlan, constants: Message) -> None:
        self._plan = plan
        self._constants = constants
        self._site = self._fresh()

    def _fresh(self) -> Site:
        site = Site(self._plan, MemoryArrays(), Dictionary())
        site.begin(logged=False)
        receive(site, [self._constants])
        return site

    def run(
        self, trigger: TriggerPlan, parts: Sequence[Columns], partitions: int
    ) -> dict[int, Message]:
        """Some rows of the batch -> what stage 0 sends: a message for each node that gets any."""
        if len(self._site.dictionary) > _STRINGS:
            self._site = self._fresh()
        site = self._site
        site.clear_buffers()  # a run that failed may have left something
        sent = run_stage(site, trigger.jobs[0].stages[0], batches_of(parts, site), partitions)
        site.clear_buffers()
        return sent


def run_stage(
    site: Site, plan: StagePlan, batches: Mapping[str, Batch], partitions: int
) -> dict[int, Message]:
    """The stage's kernels, and what leaves the site then."""
    for piece in plan.pieces:
        batch = None
        if piece.relation is not None:
            batch = batches.get(piece.relation) or _empty_batch(site, piece.kernel)
        site.run(piece, batch)
    return _sent(site, plan.routes, partitions)


def receive(site: Site, messages: Iterable[Message]) -> None:
    """Add the rows that came, with the codes of this site's dictionary."""
    for message in messages:
        for rows in message.rows:
            site.add(rows.target, with_codes(rows, site.dictionary))


def batches_of(parts: Sequence[Columns], site: Site) -> dict[str, Batch]:
    """The batch of each relation, with the codes of the programme's dictionary."""
    found: dict[str, list[Columns]] = {}
    for part in parts:
        found.setdefault(part.relation, []).append(part)
    return {
        name: received_batch(same, site.dictionary, site.used(name)) for name, same in found.items()
    }


def _empty_batch(site: Site, kernel: str) -> Batch:
    width = len(site.plan.module.program.relation(kernel).columns)
    nothing = np.zeros(0, np.int64)
    return Batch([nothing] * width, [None] * width, nothing, coded=True)


def _sent(site: Site, routes: Sequence[Route], partitions: int) -> dict[int, Message]:
    """What leaves a site by these routes: a message for each node that gets anything."""
    sent: dict[int, Message] = {}
    for route in routes:
        for node, rows in routed(site, route, partitions):
            sent.setdefault(node, Message()).rows.append(rows)
    return sent


def routed(site: Site, route: Route, partitions: int) -> list[tuple[int, Rows]]:
    """A relation's rows by destination; the driver is DRIVER."""
    words, layout = site.rows(route.source), site.pools[route.source].layout
    if not len(words):
        return []
    strings = site.dictionary.strings
    found: list[tuple[int, Rows]] = []
    if route.by:
        texts = site.hashes.of(site.dictionary)
        places = nodes_of(words, layout, route.by, partitions, texts)
        for node, part in split(words, places, partitions):
            found.append((node, with_texts(route.target, part, layout, strings)))
    if route.everywhere or route.driver:
        rows = with_texts(route.target, words, layout, strings)
        if route.everywhere:
            found += [(node, rows) for node in range(partitions)]
        if route.driver:
            found.append((DRIVER, rows))
    return found
