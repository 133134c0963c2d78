"""Trigger program -> distributed program (paper 000 section 4, thesis chapter 5).

Read in this order: location (where things are), ir (what runs), text and check, interpret (what it
does, on simulated nodes), then the compiler: placement, items, transformers, simplify, single,
redundancy, unions, statement_blocks, compile; jobs and cost say what a cluster runs and what that
costs. No Spark here; imports the base modules, calculus and program only.
"""

from viewlet.distributed.compile import Level, compile_all, compile_batch, compile_distributed
from viewlet.distributed.cost import explain
from viewlet.distributed.hints import Hints
from viewlet.distributed.interpret import SimulatedCluster
from viewlet.distributed.ir import DistributedProgram
from viewlet.distributed.text import distributed_text, parse_distributed

__all__ = [
    "DistributedProgram",
    "Hints",
    "Level",
    "SimulatedCluster",
    "compile_all",
    "compile_batch",
    "compile_distributed",
    "distributed_text",
    "explain",
    "parse_distributed",
]
