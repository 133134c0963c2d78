"""What has been compiled for one database is not compiled again for the next one.

A hunt runs the same views on several engines, restarts them, and changes modes back and forth: the
same queries give the same program and the same kernels. Without this most of its time goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from viewlet.engine.local import trigger_engine
from viewlet.planner import viewlets


@contextmanager
def shared_compilations() -> Iterator[None]:
    """Programs by catalog and queries, kernels by program, as long as the context lasts."""
    programs = _remembered(
        viewlets.compile_program,
        lambda catalog, queries, keyed=True, frontiers={}: (
            tuple(catalog),
            tuple(queries),
            keyed,
            tuple(frontiers.items()),
        ),
    )
    modules = _remembered(
        trigger_engine.compile_program, lambda program, keep_buffers=False: (program, keep_buffers)
    )
    with ExitStack() as patches:
        patches.enter_context(patch.object(viewlets, "compile_program", programs))
        patches.enter_context(patch.object(trigger_engine, "compile_program", modules))
        yield


def _remembered(compiles: Callable[..., Any], key_of: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[Any, Any] = {}

    def remembered(*arguments: Any, **options: Any) -> Any:
        key = key_of(*arguments, **options)
        if key not in known:
            known[key] = compiles(*arguments, **options)
        return known[key]

    return remembered
