"""How long the views of a folder of SQL texts take to plan, and how many maps they keep.

    python benchmarks/plan_texts.py FOLDER [NAME ...]

FOLDER has schema.sql and one SELECT in each other file, as the published texts of the Join Order
Benchmark and of TPC-DS are. What viewlet does not support is named and passed over.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from viewlet.errors import ViewletError
from viewlet.interfaces.definitions import Definitions
from viewlet.pipeline.compile_file import compile_text
from viewlet.planner.viewlets import plan_choice
from viewlet.program.ir import Program


def planned(schema: str, select: str) -> tuple[Definitions, Program]:
    """The view of one text, from SQL to its program."""
    return compile_text(f"{schema};\nCREATE MATERIALIZED VIEW v AS {select.strip().rstrip(';')};")


def main(folder: Path, names: list[str]) -> None:
    schema = (folder / "schema.sql").read_text().strip().rstrip(";")
    spent: list[float] = []
    for path in sorted(folder.glob("*.sql"), key=lambda p: (len(p.stem), p.stem)):
        if path.stem == "schema" or (names and path.stem not in names):
            continue
        start = time.process_time()
        try:
            definitions, program = planned(schema, path.read_text())
        except ViewletError as error:
            print(f"{path.stem:6} refused: {error.message}")
            continue
        spent.append(time.process_time() - start)
        catalog = definitions.planning_catalog()
        plan = plan_choice(catalog, definitions.queries()[0]).plan.value
        statements = sum(len(trigger.statements) for trigger in program.triggers)
        counts = f"{len(program.state):3} maps {statements:4} statements"
        print(f"{path.stem:6} {spent[-1]:6.2f} s {counts} {plan}", flush=True)
    print(f"{len(spent)} planned, median {statistics.median(spent):.2f} s, most {max(spent):.2f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
