"""A long search for wrong answers: python -m tests.oracle.hunt FIRST LAST [naive|planner] [engine]

Prints every failing seed with a case made small; what it finds belongs into regressions/.
"""

from __future__ import annotations

import sys
import traceback
from random import Random

import duckdb
from tests.oracle.generate import Generator
from tests.oracle.harness import Case, run_case
from tests.oracle.naive import compile_naively
from tests.oracle.reduce import reduce_case

from viewlet.errors import UnsupportedError

SIZES = (7, 7, 1, 7, 100)


def outcome(case: Case, naive: bool, engine: str = "interpreter") -> str:
    """ "" where all is well, else the first line of what is wrong."""
    try:
        run_case(case, engine, compile_naively if naive else None)
    except duckdb.Error as error:
        return f"skip duckdb: {str(error).splitlines()[0]}"
    except UnsupportedError as error:
        return f"skip unsupported: {error.message}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    naive = len(sys.argv) > 3 and sys.argv[3] == "naive"
    engine = sys.argv[4] if len(sys.argv) > 4 else "interpreter"
    skipped: dict[str, int] = {}
    for seed in range(first, last):
        case = Generator(Random(seed), Random(seed)).case(SIZES[seed % len(SIZES)])
        found = outcome(case, naive, engine)
        if found.startswith("skip"):
            skipped[found] = skipped.get(found, 0) + 1
        elif found:
            report(seed, case, found, naive, engine)
    for reason, count in sorted(skipped.items(), key=lambda item: -item[1]):
        print(count, reason)


def report(seed: int, case: Case, found: str, naive: bool, engine: str) -> None:
    kind = found.split(":")[0]
    small = reduce_case(case, lambda c: outcome(c, naive, engine).startswith(kind))
    print(f"=== seed {seed}: {outcome(small, naive, engine)}\n  " + ";\n  ".join(small.tables))
    print(f"  {small.select}\n  {small.batches}")
    if not naive:
        print(f"  recomputed naively: {outcome(small, True) or 'right'}")
    try:
        run_case(small, engine, compile_naively if naive else None)
    except Exception as error:
        print("  " + "\n  ".join(str(error).splitlines()[-2:]))
        if kind != "Mismatch":
            print("  " + "".join(traceback.format_tb(error.__traceback__)[-1:]).strip())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
