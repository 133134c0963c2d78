"""The command line: viewlet demo, run, serve, explain, inspect, bench, --version."""

from __future__ import annotations

import difflib
import json
import signal
import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import viewlet
from viewlet.errors import ResolutionError, ViewletError
from viewlet.extras import extras_of, require
from viewlet.interfaces.stopping import terminate

app = typer.Typer(
    name="viewlet",
    help="Answers that stay fresh: incremental views in process and on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class ExplainStage(StrEnum):
    """What `explain` can show."""

    sql = "sql"
    calculus = "calculus"
    plan = "plan"
    program = "program"
    distributed = "distributed"
    kernels = "kernels"


class Format(StrEnum):
    """How `explain` shows it."""

    text = "text"
    json = "json"
    svg = "svg"


WORKLOADS = (
    "tpch", "tpcds", "job", "finance", "ingest", "outlet", "maintenance", "spark", "linalg",
    "signals", "nexmark",
)  # fmt: skip


def _workloads(begun: str) -> list[str]:
    """What the shell can complete a workload to."""
    return [name for name in WORKLOADS if name.startswith(begun)]


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"viewlet {viewlet.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Answers that stay fresh: incremental views in process and on Spark."""


@app.command()
def explain(
    file: Annotated[Path, typer.Argument(help="CREATE TABLE, STREAM and VIEW statements.")],
    stage: Annotated[
        ExplainStage, typer.Option(help="Which stage to print.")
    ] = ExplainStage.program,
    format: Annotated[
        Format, typer.Option(help="Text that reads back, JSON, or a picture of the program.")
    ] = Format.text,
) -> None:
    """Show what the views of a SQL file, or of a pipeline, become.

    \b
    Examples:
        viewlet explain views.sql --stage calculus
        viewlet explain views.sql --format svg > views.svg
    """
    from viewlet.interfaces.explain import explain_all, explain_as, explain_json
    from viewlet.pipeline.compile_file import compile_text

    definitions, program = compile_text(_text_of(file), keyed=stage is not ExplainStage.distributed)
    if not definitions.queries():
        raise ResolutionError(
            f"{file} has no view to explain", hint="add CREATE MATERIALIZED VIEW ... AS SELECT ..."
        )
    if format is Format.svg:
        typer.echo(explain_as(program, stage.value, "svg"), nl=False)
        return
    text = explain_all(definitions, program, stage.value)
    if format is Format.json:
        report = {"stage": stage.value, "text": text, **explain_json(program)}
        typer.echo(json.dumps(report, indent=2))
    else:
        typer.echo(text, nl=False)


class RunEngine(StrEnum):
    """Where `run` and `demo` keep their views."""

    spark = "spark"
    local = "local"


@app.command()
def demo(
    engine: Annotated[RunEngine, typer.Option(help="Where the views live.")] = RunEngine.spark,
    seconds: Annotated[float, typer.Option(min=0, help="How long it runs.")] = 60.0,
    seed: Annotated[int, typer.Option(help="Of the made-up orders and bids.")] = 7,
) -> None:
    """Watch four views stay current over a stream of made-up orders and bids.

    \b
    Examples:
        viewlet demo
        viewlet demo --engine local --seconds 20
    """
    require("viewlet_bench", "viewlet demo")
    from viewlet_bench.demo.loop import demo as run_demo

    run_demo(engine.value, seconds, seed)


@app.command()
def run(
    pipeline: Annotated[Path, typer.Argument(help="Sources, views and sinks in SQL.")],
    engine: Annotated[RunEngine, typer.Option(help="Where the views live.")] = RunEngine.spark,
    once: Annotated[
        bool, typer.Option("--once", help="Process what is there now, then end.")
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Directory of the run's state.", show_default="PIPELINE.state"),
    ] = None,
    every: Annotated[float, typer.Option(min=0, help="Seconds between two checkpoints.")] = 30.0,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Begin anew: forget the checkpoint and written changes."),
    ] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of the Spark session; may be repeated."),
    ] = None,
) -> None:
    """Keep the views of a pipeline current; Ctrl-C saves, and the next run goes on.

    \b
    A pipeline in one file:
        CREATE STREAM sales (shop INT, price DECIMAL(12,2)) FROM csv 'incoming';
        CREATE MATERIALIZED VIEW totals AS
            SELECT shop, SUM(price) AS total FROM sales GROUP BY shop;
        INSERT INTO parquet 'totals' SELECT * FROM totals;
        INSERT INTO console SELECT * FROM totals;

    \b
    Examples:
        viewlet run shop.sql
        viewlet run shop.sql --engine local --once
        viewlet run shop.sql --conf spark.master=spark://host:7077
    """
    from viewlet.pipeline.run import RunSettings, run_file

    directory = checkpoint or pipeline.with_suffix(".state")
    settings = RunSettings(engine.value, once, every, restart, _settings(conf or []))
    run_file(pipeline, _text_of(pipeline), directory, settings)


@app.command()
def inspect(
    checkpoint: Annotated[str, typer.Argument(help="The directory of a database's checkpoint.")],
) -> None:
    """Show what a checkpoint holds; nothing is changed, and no Spark is started.

    \b
    Examples:
        viewlet inspect state
    """
    from viewlet.interfaces.inspection import inspected

    for line in inspected(checkpoint):
        typer.echo(line)


@app.command()
def serve(
    source: Annotated[
        str | None,
        typer.Argument(help="A database on disk, or a file of SQL; nothing is an empty database."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of HTTP; 0 is any.")] = 8080,
    pg_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Of the PostgreSQL wire; none without it.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar="VIEWLET_TOKEN", help="What clients must know; the wire's password."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="For TLS: a PEM file.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Answer SELECT alone.")] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Let SQL read files of this machine.")
    ] = False,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes of one batch of rows.")] = 64 * 2**20,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of one answer.")] = 100_000,
    max_seconds: Annotated[float, typer.Option(min=0.01, help="Time of one query.")] = 10.0,
    demo: Annotated[
        bool, typer.Option("--demo", help="The demo's views, over a stream of made-up orders.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Log no requests.")] = False,
) -> None:
    """Serve a database over HTTP and over the PostgreSQL wire.

    \b
    Examples:
        viewlet serve --demo
        viewlet serve shop.viewlet --pg-port 5433
        VIEWLET_TOKEN=... viewlet serve shop.viewlet --host 0.0.0.0 --certificate c.pem --key k.pem
    """
    with extras_of("viewlet serve"):
        from viewlet.server.serve import log_to_stderr, open_database
        from viewlet.server.serve import serve as serve_database
        from viewlet.server.settings import ServeSettings
    doors = (host, port, pg_port, token, certificate, key, read_only, files)
    settings = ServeSettings(*doors, max_body, max_rows, max_seconds)
    settings.check()
    if not quiet:
        log_to_stderr()
    with open_database(source, settings) as database, ExitStack() as stack:
        if demo:
            require("viewlet_bench", "viewlet serve --demo")
            from viewlet_bench.demo.feeding import feeding

            stack.enter_context(feeding(database))
        serve_database(database, settings, typer.echo)


@app.command()
def bench(
    workload: Annotated[
        str,
        typer.Argument(help=f"One of {', '.join(WORKLOADS)}.", autocompletion=_workloads),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small run, within 45 s.")] = False,
    sf: Annotated[float | None, typer.Option(help="Scale factor of the data.")] = None,
    queries: Annotated[str | None, typer.Option(help="Only these, as q1,q3.")] = None,
    batch: Annotated[
        str | None, typer.Option(help="Batch sizes, as single,1,100,1000,10000,100000.")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Also re-evaluate after every batch in: duckdb.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Limit of each measurement.")] = None,
    growth: Annotated[
        str | None, typer.Option(help="Time of a batch at two scales of the state, as 0.1,1.")
    ] = None,
    startup: Annotated[
        bool, typer.Option("--startup", help="Also start new processes, cold and cached.")
    ] = False,
    parts: Annotated[
        str | None,
        typer.Option(
            "--parts",
            "--only",
            help="Of spark: refresh,levels,overhead,growth,scaling,counts. "
            "Of signals: pure,grouped,growth,hopping,spark.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the rows to this file.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Fail where a figure of this JSON file was better.")
    ] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Also write them as a Markdown table.")
    ] = None,
) -> None:
    """Measure a workload and print a table.

    \b
    Examples:
        viewlet bench tpch --quick
        viewlet bench tpch --sf 1 --queries q1,q3 --batch 1000 --against duckdb
        viewlet bench linalg --json rows.json
    """
    if workload not in WORKLOADS:
        raise ResolutionError(
            f"there is no workload {workload}", hint=f"workloads are {', '.join(WORKLOADS)}"
        )
    require("viewlet_bench", "viewlet bench")
    from viewlet_bench.command import BenchFiles, measure

    options = {
        "sf": sf,
        "queries": _listed(queries),
        "batches": _listed(batch),
        "against": against,
        "seconds": seconds,
        "growth": None if growth is None else [_number(text) for text in growth.split(",")],
        "startup": startup or None,
        "parts": _listed(parts),
    }
    chosen = {name: value for name, value in options.items() if value is not None}
    measure(workload, quick, chosen, BenchFiles(json_file, markdown_file, compare))


def _settings(arguments: list[str]) -> dict[str, str]:
    """KEY=VALUE of --conf."""
    settings = {}
    for text in arguments:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise ResolutionError(
                f"--conf {text} is no setting of Spark", hint="write --conf spark.NAME=VALUE"
            )
        settings[key] = value
    return settings


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ResolutionError(f"{text} is no number", hint="--growth 0.1,1") from None


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        near = difflib.get_close_matches(file.name, _neighbors(file), n=1)
        hint = f"did you mean {file.with_name(near[0])}?" if near else "name a file of SQL text"
        raise ViewletError(f"cannot read {file}: {reason}", hint=hint) from None


def _neighbors(file: Path) -> list[str]:
    """The SQL files beside a file that cannot be read."""
    return [path.name for path in file.parent.glob("*.sql") if path != file]


def main() -> None:
    """Run the command line; an error of the family is one message and exit code 1."""
    signal.signal(signal.SIGTERM, terminate)
    try:
        app()
    except ViewletError as error:
        typer.echo(f"viewlet: {error}", err=True)
        sys.exit(1)
    except OSError as error:  # a disk that is full, a folder that may not be read
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"viewlet: {where}{error.strerror or error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
