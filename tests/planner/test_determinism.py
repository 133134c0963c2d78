"""A view compiles to one program, whatever order Python's sets have in this process.

Kernels are cached by the digest of their source and checkpoints by that of their program: a
program that changed from one start to the next would compile anew and refuse its checkpoint.
"""

import os
import subprocess
import sys

NAMED = (("tpch", "q9"), ("tpch", "q20"), ("tpch", "q21"), ("tpcds", "q46"), ("tpcds", "q68"))

COMPILE = f"""
from viewlet.distributed import compile_all, distributed_text
from viewlet_bench.workload import compiled
from viewlet.kernels.jit import compile_program
from viewlet.program.text import program_text

for workload, query in {NAMED}:
    program = compiled(workload, query).program
    print(program_text(program))
    print(compile_program(program).source)
    print(distributed_text(compile_all(compiled(workload, query, keyed=False).program)))
"""


def test_the_hash_seed_of_a_process_changes_nothing():
    started = [_compile(seed) for seed in (1, 2, 3)]
    written = [child.communicate(timeout=300)[0] for child in started]
    assert all(child.returncode == 0 for child in started)
    assert "def on_lineitem" in written[0]
    assert written[1:] == written[:1] * 2


def _compile(seed: int) -> "subprocess.Popen[str]":
    python = {"PYTHONHASHSEED": str(seed), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COMPILE]
    return subprocess.Popen(
        command, env={**os.environ, **python}, stdout=subprocess.PIPE, text=True
    )
