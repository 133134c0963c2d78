"""`viewlet run`: a pipeline's sources, views and sinks, batch by batch, until it is stopped.

A run has a directory. Whatever happens, the next run with it goes on from the last checkpoint in
it: rows are neither lost nor counted twice, and files of changes are written exactly once. Ctrl-C
(or SIGTERM) finishes the batch at hand, takes a checkpoint and ends; a second Ctrl-C ends at once,
and the next run does the last batches again.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO, TypeVar

from viewlet.errors import ResolutionError, StateError, ViewletError
from viewlet.extras import require
from viewlet.frontend.syntax import did_you_mean
from viewlet.interfaces.definitions import Definitions
from viewlet.interfaces.progress import Progress
from viewlet.interfaces.stopping import stopping
from viewlet.pipeline.pipeline_text import Endpoint, Pipeline, SinkOf, parse_pipeline
from viewlet.pipeline.sinks import MODES, SINKS, Sink
from viewlet.pipeline.sources import SOURCES

Format = TypeVar("Format")

ENGINES = ("spark", "local")
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class ProcessedBatch:
    """One atomic batch that was processed."""

    batch: int
    rows: int
    seconds: float


class SinkFailedError(Exception):
    """The views have a batch that a sink has not: only a replay can bring them together."""


class PipelineRun(Protocol):
    """A pipeline on an engine."""

    def step(self) -> ProcessedBatch | None:
        """Process what is new as one batch; None where nothing is."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing can come any more."""
        ...

    def checkpoint(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class RunSettings:
    """What the command line says beside the pipeline."""

    engine: str = "spark"
    once: bool = False
    every: float = 30.0
    restart: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Spark session that is made."""


def run_file(file: Path, text: str, directory: Path, settings: RunSettings) -> None:
    """Run a pipeline to its end; errors of the family are for the caller to show."""
    pipeline = checked_pipeline(text)
    check_endpoints(pipeline, settings.engine)
    if settings.engine == "spark":
        require("pyspark", "viewlet run", "say --engine local")
    progress = Progress(file.name, sys.stderr)
    with progress, ExitStack() as opened:
        progress.say(f"engine {settings.engine}; state in {directory}")
        run = _make(pipeline, directory, settings, progress)
        opened.callback(run.close)
        # Only now: a SparkContext takes SIGINT for itself when it is made.
        with stopping() as stop:
            try:
                _loop(run, settings, progress, stop)
            except Exception:
                if not stop.is_set():
                    raise
                # A service manager sends its signal to all processes, so Spark's may have ended in
                # the middle of a batch. It does not count, and a bad one fails in the next run too.
                opened.pop_all()
                with suppress(Exception):
                    run.close()
                progress.end("stopped in the middle of a batch; run it again to go on")


def _make(
    pipeline: Pipeline, directory: Path, settings: RunSettings, progress: Progress
) -> PipelineRun:
    if settings.engine == "spark":
        from viewlet.pipeline.run_spark import SparkRun

        return SparkRun(pipeline, directory, settings, progress)
    from viewlet.pipeline.run_local import LocalRun

    return LocalRun(pipeline, directory, settings, progress)


def _loop(
    run: PipelineRun, settings: RunSettings, progress: Progress, stop: threading.Event
) -> None:
    saved = time.monotonic()
    unsaved = False
    try:
        while not stop.is_set():
            step = run.step()
            if step is not None:
                progress.step(step.batch, step.rows, step.seconds)
                unsaved = True
            if unsaved and time.monotonic() - saved > settings.every:
                run.checkpoint()
                saved, unsaved = time.monotonic(), False
            if step is None:
                if run.ended:
                    break
                stop.wait(POLL_SECONDS)
    except SinkFailedError as failure:
        raise failure.__cause__ or failure from None
    except ViewletError:
        run.checkpoint()  # the batch that failed is not in it
        raise
    run.checkpoint()
    progress.end("stopped; run it again to go on" if stop.is_set() else "all sources are read")


# --- the pipeline's text --------------------------------------------------------------------------


def checked_pipeline(text: str) -> Pipeline:
    """Parsed, every view resolved against what stands before it; nothing is run."""
    pipeline = parse_pipeline(text)
    definitions = Definitions()
    for declaration in pipeline.relations:
        definitions.add_relation(declaration)
    for view in pipeline.views:
        definitions.add_view(view)
    if pipeline.sinks:
        return pipeline
    everywhere = tuple(
        SinkOf(view.name, Endpoint("console", None, view.position)) for view in pipeline.views
    )
    return Pipeline(
        pipeline.relations, pipeline.sources, pipeline.fillings, pipeline.views, everywhere
    )


def fingerprint(pipeline: Pipeline) -> str:
    """Changes with whatever the state depends on; sinks may change between runs."""
    parts = [declaration.text for declaration in pipeline.relations]
    parts += [f"{source.relation} {source.endpoint.format}" for source in pipeline.sources]
    parts += [filling.text.strip() for filling in pipeline.fillings]
    parts += [view.text for view in pipeline.views]
    words = "\0".join(" ".join(part.split()) for part in parts)
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def check_endpoints(pipeline: Pipeline, engine: str) -> None:
    """Refuse formats, paths and options that cannot work, before anything runs."""
    if engine not in ENGINES:
        raise ResolutionError(
            f"there is no engine {engine}", hint=f"engines are {', '.join(ENGINES)}"
        )
    for source in pipeline.sources:
        _check_source(source.endpoint, engine)
    for sink in pipeline.sinks:
        _check_sink(sink.endpoint, engine)


def _check_source(endpoint: Endpoint, engine: str) -> None:
    format = _format_of(endpoint, SOURCES, "source", engine)
    _check_path(endpoint, endpoint.format == "kafka" if format is None else format.needs_path)
    if format is not None:
        _check_options(endpoint, format.options)


def _format_of(
    endpoint: Endpoint, formats: Mapping[str, Format], kind: str, engine: str
) -> Format | None:
    """The format among those of viewlet; None for one of Spark's, which other engines refuse."""
    format = formats.get(endpoint.format)
    if format is None and engine == "local":
        raise ResolutionError(
            f"the local engine has no {kind} {endpoint.format}",
            position=endpoint.position,
            hint=f"{kind}s are {', '.join(formats)}; others need --engine spark",
        )
    return format


def _check_path(endpoint: Endpoint, is_needed: bool) -> None:
    if is_needed and endpoint.path is None:
        raise ResolutionError(
            f"{endpoint.format} needs a path",
            position=endpoint.position,
            hint=f"{endpoint.format} 'path'",
        )


def _check_options(endpoint: Endpoint, allowed: Sequence[str]) -> None:
    """Options of what viewlet reads and writes itself; those of Spark's formats go to Spark."""
    for name in endpoint.options:
        if name.lower() not in (option.lower() for option in allowed):
            raise ResolutionError(
                f"{endpoint.format} has no option {name}",
                position=endpoint.position,
                hint=did_you_mean(name, allowed),
            )


def _check_sink(endpoint: Endpoint, engine: str) -> None:
    format = _format_of(endpoint, SINKS, "sink", engine)
    _check_path(endpoint, format is None or format.needs_path)
    mode = endpoint.option("mode")
    if mode is not None and mode not in MODES:
        raise ResolutionError(
            f"there is no mode {mode}",
            position=endpoint.position,
            hint=f"modes are {', '.join(MODES)}",
        )
    if format is not None and format.options is not None:
        _check_options(endpoint, format.options)


def make_sink(sink: SinkOf, out: TextIO) -> Sink:
    """The sinks that need no Spark."""
    with located(sink.endpoint):
        mode = sink.endpoint.option("mode") or "changes"
        return SINKS[sink.endpoint.format].make(sink, mode, out)


@contextmanager
def located(endpoint: Endpoint) -> Iterator[None]:
    """Errors get the endpoint's position in the pipeline."""
    try:
        yield
    except ViewletError as error:
        raise type(error)(error.message, position=endpoint.position, hint=error.hint) from None


def check_fingerprint(pipeline: Pipeline, saved: str, directory: Path) -> None:
    """Refuse to go on with the state of another pipeline."""
    if saved != fingerprint(pipeline):
        raise StateError(
            f"the tables, views or sources are not those that {directory} was written with",
            hint="run with --restart to begin anew, or with another --checkpoint",
        )
