"""Kept figures -> docs/benchmarks.md. Nothing is measured here and no figure is written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from viewlet_bench import plots, spark_page
from viewlet_bench.output import Row, cell, markdown
from viewlet_bench.targets import BATCH_TARGETS, DBTOASTER_BATCH, SINGLE_TARGETS

Rows = Sequence[Row]
RowsByPart = Mapping[str, list[Row]]


def page(rows: RowsByPart, about: Row) -> str:
    """The whole page; a part that was never measured is left out."""
    parts = [_head(about)]
    for name, section in SECTIONS.items():
        if rows.get(name):
            heading, _, text = section(rows[name]).partition("\n\n")
            links = [picture.link for picture in plots.pictures(name, rows[name])]
            parts += [heading, *links, text]
    return "\n\n".join(parts)


def _head(about: Row) -> str:
    return f"""# Benchmarks

Written by `make bench` (`python -m viewlet_bench.report`) from the figures in
`benchmarks/`; measured {about["date"]} on {about["cores"]} cores of {about["processor"]},
Python {about["python"]}, llvmlite {about["llvmlite"]}, Numba {about["numba"]},
DuckDB {about["duckdb"]}, PySpark {about["pyspark"]}.

How to read them. All rows lie in memory as coded columns before anything is timed; relations come
round-robin, batch by batch, through a new engine that keeps the view and all of its auxiliary maps.
*tuples/s* counts the engine's time only. *single* runs one trigger per tuple in a native loop. A
measurement stops after its time limit; a figure in *italics* is the rate up to there. A stream that
ends before is replayed up to four times while time is left, and the fastest pass counts. Against
DuckDB: how many times longer it takes to evaluate the query again (in memory, all cores, filling
its tables not counted) than to maintain the view with one batch, as a mean over the stream and, *at
the end*, over full tables. Where both answers were compared, they were equal unless the table says
otherwise. *per probe* is tuples per processor-second over random probes per processor-second of a
fixed native loop that runs beside each measurement: a figure that a slower machine hardly
changes."""


def views(title: str, targets: bool, note: str = "") -> Callable[[Rows], str]:
    """A section of throughput, latency and re-evaluation tables for one workload of views."""

    def section(rows: Rows) -> str:
        queries = list(dict.fromkeys(row["query"] for row in rows))
        sizes = list(dict.fromkeys(row["batch"] for row in rows))
        by_measurement = {(row["query"], row["batch"]): row for row in rows}
        lines = []
        for query in queries:
            mine = {
                size: by_measurement[query, size]
                for size in sizes
                if (query, size) in by_measurement
            }
            lines.append(_throughput(query, mine, targets))
        parts = [
            f"## {title}",
            f"Scale factor {rows[0]['sf']:g}{note}. Tuples per second by batch size:",
            markdown(lines),
        ]
        latencies = [_latency(row) for row in _thousands(rows)]
        if latencies:
            parts.append("Latency of a batch, re-evaluation by DuckDB, state and start:")
            parts.append(markdown(latencies))
        wrong = [f"{r['query']} ({r['batch']})" for r in rows if r.get("equal") is False]
        if wrong:
            parts.append(f"Answers that differ from DuckDB's: {', '.join(wrong)}.")
        memory = next((row for row in _thousands(rows) if row["query"] == "q3"), None)
        if memory is not None and targets:
            parts.append(
                f"Q3 keeps {memory['records']:,} records in {memory['memory_mb']:.0f} MB: "
                f"{memory['memory_mb'] / memory['raw_mb']:.2f} times the bytes of their keys and "
                "values at 8 bytes each; indexes, undo log and free room are the rest."
            )
        return "\n\n".join(parts)

    return section


def _throughput(query: str, mine: Mapping[int | str, Row], targets: bool) -> Row:
    shown = {
        _size(size): cell(row["tuples_per_s"])
        if row["complete"]
        else f"*{cell(row['tuples_per_s'])}*"
        for size, row in mine.items()
    }
    batches = [row for size, row in mine.items() if size != "single"]
    best = max(batches, key=lambda row: float(row["tuples_per_s"]), default=None)
    line: Row = {"query": query, **shown}
    if targets:
        single = mine.get("single")
        line["target single"] = SINGLE_TARGETS.get(query)
        line["of it"] = _share(single, SINGLE_TARGETS.get(query))
        line["DBToaster batch"] = DBTOASTER_BATCH.get(query)
        line["target batch"] = BATCH_TARGETS.get(query)
        line["best of target"] = _share(best, BATCH_TARGETS.get(query))
    line["per probe"] = best["ratio_to_calibration"] if best else None
    return line


def _share(row: Row | None, target: float | None) -> str | None:
    return None if row is None or target is None else f"{row['tuples_per_s'] / target:.2f}x"


def _size(size: int | str) -> str:
    return size if isinstance(size, str) else f"{size:,}"


def _thousands(rows: Rows) -> list[Row]:
    """The rows that the tables of latency and re-evaluation show: batches of 1,000."""
    return [row for row in rows if row["batch"] == 1000]


def _latency(row: Row) -> Row:
    ratio, end = row.get("ratio"), row.get("ratio_end")
    return {
        "query": row["query"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "DuckDB ms": row.get("reference_ms"),
        "times faster": ratio,
        "at the end": end,
        "maps": row["maps"],
        "MB": row["memory_mb"],
        "bytes a record": row["bytes_per_row"],
        "read ms": row["read_ms"],
        "plan s": row["plan_s"],
        "start cold s": row.get("cold_s"),
        "start cached s": row.get("cached_s"),
    }


def growth(title: str) -> Callable[[Rows], str]:
    """The section of a workload at two scales."""

    def section(rows: Rows) -> str:
        first = rows[0]["reference"].removeprefix("viewlet at ")
        lines = [
            {
                "query": row["query"],
                f"ms at {first}": row.get("reference_ms"),
                f"ms at {row['sf']:g}": row["p50_ms"],
                "growth": row["growth"],
                "in processor time": row["growth_cpu"],
                "": row.get("note"),
            }
            for row in rows
        ]
        return "\n\n".join(
            [
                f"## {title}",
                f"Time of a 1,000-row batch over a state of scale {first} and {rows[0]['sf']:g}; "
                "the batches are the same mix of relations at both.",
                markdown(lines),
            ]
        )

    return section


def ratios(title: str, note: str, belongs: Callable[[Row], bool]) -> Callable[[Rows], str]:
    """A section for figures that stand beside those of another engine, row by row."""

    def section(rows: Rows) -> str:
        lines = [
            {
                "query": row["query"],
                "engine": row["engine"],
                "ms": row["p50_ms"],
                "against": row["reference"],
                "times as fast": row["ratio"],
                "target": row.get("target"),
            }
            for row in rows
            if belongs(row)
        ]
        return "\n\n".join([f"## {title}", note, markdown(lines)])

    return section


SECTIONS: dict[str, Callable[[Rows], str]] = {
    "tpch": views("TPC-H", targets=True),
    "tpch_growth": growth("TPC-H: growth of the state"),
    "tpcds": views("TPC-DS", targets=False),
    "finance": views(
        "Order book", targets=True, note=" (1 is 46,000 resting orders, and changes to them come)"
    ),
    "finance_growth": growth("Order book: growth of the state"),
    "spark": spark_page.section,
    "linalg": ratios(
        "Linear algebra",
        "`viewlet bench linalg`: one refresh by the strategy that viewlet chooses, and by the best "
        "other one. All strategies are in [its own guide](linalg.md).",
        plots.automatic,
    ),
    "signals": ratios(
        "Signals",
        "`viewlet bench signals`: medians of turns; more is in [its own guide](signals.md).",
        plots.compared,
    ),
}
"""Part -> what the page says of it, in this order."""
