"""The command line: viewlet explain, bench, --version."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import viewlet
from viewlet.errors import ResolutionError, UnsupportedError, ViewletError

app = typer.Typer(
    name="viewlet",
    help="Answers that stay fresh: incremental views in process and on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


class Stage(StrEnum):
    sql = "sql"
    calculus = "calculus"
    program = "program"
    distributed = "distributed"
    kernels = "kernels"


class Format(StrEnum):
    text = "text"
    json = "json"


WORKLOADS = ("tpch", "tpcds", "finance", "spark", "linalg", "signals")


def _show_version(wanted: bool) -> None:
    if wanted:
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
    stage: Annotated[Stage, typer.Option(help="Which stage to print.")] = Stage.program,
    format: Annotated[Format, typer.Option(help="Text that reads back, or JSON.")] = Format.text,
) -> None:
    """Show what the views of a SQL file become.

    Example: viewlet explain views.sql --stage calculus
    """
    from viewlet.interfaces.explain import explain_all, explain_json
    from viewlet.interfaces.pipeline import compile_text

    definitions, program = compile_text(_text_of(file), keyed=stage is not Stage.distributed)
    text = explain_all(definitions, program, stage.value)
    if format is Format.json:
        report = {"stage": stage.value, "text": text, **explain_json(program)}
        typer.echo(json.dumps(report, indent=2))
    else:
        typer.echo(text, nl=False)


@app.command()
def bench(
    workload: Annotated[str, typer.Argument(help=f"One of {', '.join(WORKLOADS)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small run, within 45 s.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Also write the rows to this file.")
    ] = None,
) -> None:
    """Measure a workload and print a table.

    Example: viewlet bench linalg --quick --json rows.json
    """
    module = _workload(workload)
    rows = module.run(quick=quick)
    _print_table(rows)
    if json_file is not None:
        json_file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def _workload(name: str) -> Any:
    """The module of a workload, imported when it is asked for."""
    if name not in WORKLOADS:
        raise ResolutionError(
            f"there is no workload {name}", hint=f"workloads are {', '.join(WORKLOADS)}"
        )
    home = f"viewlet.interfaces.bench.{name}"
    try:
        return importlib.import_module(home)
    except ModuleNotFoundError as error:
        if error.name != home:
            raise
        raise UnsupportedError(f"workload {name} is not in this version") from None


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table()
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    Console().print(table)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ViewletError(f"cannot read {file}: {reason}") from None


def main() -> None:
    """Run the command line; an error of the family is one message and exit code 1."""
    try:
        app()
    except ViewletError as error:
        typer.echo(f"viewlet: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
