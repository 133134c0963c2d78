"""What docs/benchmarks.md says of Spark: rows of `viewlet bench spark` -> Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from viewlet_bench.output import Row, markdown
from viewlet_bench.scaling import QUERIES, best_workers

TARGETS = {"q1": 20, "q3": 15, "q18": 15, "q17": 10, "q7": 10, "q6": 8}
"""Times faster than Spark SQL that we want to be."""


def section(rows: Sequence[Row]) -> str:
    """The parts that were measured, one after the other."""
    parts = ["## Spark"]
    for part, (text, lines) in PARTS.items():
        mine = [row for row in rows if row["part"] == part and not row.get("error")]
        if mine:
            parts += [text, markdown([lines(row) for row in mine])]
    if any(row["part"] == "weak" for row in rows):
        parts.append(_model(rows))
    return "\n\n".join(parts)


def _refresh(row: Row) -> Row:
    return {
        "query": row["query"],
        "rows in": "DataFrames" if row["engine"].endswith("frames") else "the driver",
        "batch": row["batch"],
        "refresh ms": row["p50_ms"],
        "Spark SQL ms": row["reference_ms"],
        "times faster": row["ratio"],
        "target": TARGETS.get(row["query"]),
        "kernels ms": row["kernel_ms"],
        "empty jobs ms": row["empty_ms"],
        "above both ms": row["overhead_ms"],
        "jobs": row["jobs"],
        "stages": row["stages"],
        "MB": row["memory_mb"],
        "equal": row["equal"],
    }


def _levels(row: Row) -> Row:
    return {
        "program of Q3": row["engine"].removeprefix("spark/"),
        "refresh ms": row["p50_ms"],
        "times faster than naive": row["ratio"],
        "jobs": row["jobs"],
        "stages": row["stages"],
        "bytes shuffled": row["bytes_shuffled"],
    }


def _growth(row: Row) -> Row:
    return {
        "query": row["query"],
        "batch": row["batch"],
        "ms, a tenth of the state": row["reference_ms"],
        "ms": row["p50_ms"],
        "growth": row["growth"],
    }


def _counts(row: Row) -> Row:
    return {
        "query": row["query"],
        "jobs": row["jobs"],
        "stages": row["stages"],
        "in the paper": f"{row['paper_jobs']}/{row['paper_stages']}",
        "ms": row["p50_ms"],
    }


def _machine(row: Row) -> Row:
    return {
        "job ms": 1e3 * row["job"],
        "stage ms": 1e3 * row["stage"],
        "task ms": 1e3 * row["task"],
        "block ms": 1e3 * row["block"],
        "MB/s of a worker": row["bandwidth"] / 2**20,
    }


def _work(row: Row) -> Row:
    return {
        "query": row["query"],
        "jobs": row["jobs"],
        "stages": row["stages"],
        "tasks, fixed ms": 1e3 * row["fixed"],
        "ns a row": 1e9 * row["per_row"],
        "bytes moved a row": row["moved"],
        "copied to each worker": row["copied"],
        "gathered from each": row["collected"],
    }


def _check(row: Row) -> Row:
    return {
        "query": row["query"],
        "executors": row["workers"],
        "batch": row["batch"],
        "measured ms": row["p50_ms"],
        "model ms": row["reference_ms"],
        "model / measured": row["ratio"],
        "error": f"{100 * (row['ratio'] - 1):+.0f} %",
    }


def _model(rows: Sequence[Row]) -> str:
    lines = []
    for query in QUERIES:
        mine = [row for row in rows if row["part"] == "weak" and row["query"] == query]
        if mine:
            shown = {f"{r['workers']} workers": r["p50_ms"] for r in mine if r["workers"] >= 50}
            best = max(mine, key=lambda row: float(row["tuples_per_s"]))
            peak = {"best at": best_workers(rows, query), "tuples/s there": best["tuples_per_s"]}
            lines.append({"query": query, **shown, **peak})
    return "\n\n".join(
        [
            "Predicted milliseconds of a batch of 100,000 rows for each worker (weak scaling):",
            markdown(lines),
            "![weak scaling beside Figure 9](images/bench/weak.svg)",
            "Strong scaling, the same batch over more and more workers:",
            "![strong scaling beside Figure 10](images/bench/strong.svg)",
            "The dots are what the text of paper 000, section 6.2, says of its 100 servers and "
            "Spark 1.6. The model leaves out stragglers, which cost the paper 1.5 to 3 times a "
            "stage, and predicts this machine's processor, so that it flatters us most where the "
            "paper's shuffles waited for disks and the network.",
        ]
    )


PARTS = {
    "refresh": (
        "A batch changes all relations of the query. Spark SQL recomputes the view over tables "
        "cached in memory; both take turns in one session on local[2]. viewlet knows how many "
        "rows the tables have (`viewlet.Hints`), which Spark SQL knows of its own:",
        _refresh,
    ),
    "levels": ("Q3 with less and with more of the distributed optimizer (Figure 13):", _levels),
    "overhead": ("What a refresh takes above its kernels and above empty jobs:", _refresh),
    "growth": ("Ten times the state, the same batches:", _growth),
    "counts": (
        "Jobs and stages of a batch, counted by Spark, and in Table 3; no table is known to be "
        "small:",
        _counts,
    ),
    "machine": (
        "The scaling model (`viewlet_bench/scaling.py`): this machine's Spark,",
        _machine,
    ),
    "work": ("what the queries ask of it,", _work),
    "check": ("and real executors on this machine, each with one core, beside the model:", _check),
}
"""Part -> the sentence above its table, and a row of the table."""
