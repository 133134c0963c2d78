"""What a checkpoint of Spark says of itself: its commits, read without a session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from viewlet.engine.durable.sealed import unseal
from viewlet.engine.partitions.batch_ids import source_text
from viewlet.engine.partitions.commit_log import CommitLog
from viewlet.engine.partitions.store import Store

SUMMARY_FILE = "spark.json"
"""Beside the definitions: which program is the current one."""

PROGRAM_PREFIX = "program-"


def read_metadata(directory: str) -> dict[str, Any]:
    """Which program a checkpoint is of, and its hints; DamagedFile or ValueError if not whole."""
    store = Store(directory)
    name = store.root.rpartition("/")[2]
    metadata: dict[str, Any] = json.loads(unseal(SUMMARY_FILE, store.get(SUMMARY_FILE), name))
    return metadata


def checkpoint_summary(root: str, directory: str) -> Iterator[str]:
    """Lines about the program that a checkpoint of a database names."""
    number = read_metadata(directory)["program"]
    log = CommitLog(Store(Store(root).below(f"{PROGRAM_PREFIX}{number}")))
    newest, unreadable = log.newest()
    if newest is None:
        yield f"program {number}: no rows have come"
    else:
        yield (
            f"program {number}: version {newest.version}, {len(newest.chains)} partitions, "
            f"driver {newest.epoch}"
        )
        yield f"written by {newest.writer}"
        saved = log.saved(newest)
        if saved is not None:
            since = newest.version - saved[0]
            yield f"driver's state of version {saved[0]}, {len(saved[1]):,} bytes; {since} since"
        for source, (batch, version) in sorted(newest.batches.last.items()):
            yield f"batches of {source_text(source)}: to {batch}, which made version {version}"
    for problem in unreadable:
        yield f"damaged: {problem}"
