"""`viewlet inspect`: what a checkpoint holds, read and not changed."""

from __future__ import annotations

from collections.abc import Iterator

from viewlet.engine.durable.sealed import DamagedFile
from viewlet.engine.partitions.store import shown
from viewlet.interfaces.saved_database import damaged, read_checkpoint


def inspected(directory: str) -> Iterator[str]:
    """Lines about the newest checkpoint of a directory: definitions, and on Spark its commits."""
    saved = read_checkpoint(directory)
    yield f"{shown(saved.directory)}: engine {saved.engine}"
    for text in (*saved.relations, *(text for text, _ in saved.views)):
        yield " ".join(text.split()).rstrip(";") + ";"
    if saved.engine == "spark":
        from viewlet.engine.spark.checkpoint_summary import checkpoint_summary

        try:
            yield from checkpoint_summary(directory, saved.directory)
        except (DamagedFile, ValueError) as problem:
            raise damaged(shown(directory), problem) from None
