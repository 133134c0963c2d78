"""What a program will do, as text: triggers, ranks and what each strategy costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from viewlet.linalg import cost
from viewlet.linalg import expr as ex
from viewlet.linalg.expr import Expr, Matrix
from viewlet.linalg.plan import Estimate, MaintenancePlan
from viewlet.linalg.traverse import children

if TYPE_CHECKING:
    from viewlet.linalg.live import Live
    from viewlet.linalg.program import Program


def explain_program(
    program: Program, *, changing: Sequence[str] | None, rank: int, model: str
) -> str:
    """Triggers and estimates of a program that has not started."""
    estimates = program.plans("auto", model, changing=changing, rank=rank)
    maintained = [e for e in estimates if e.plan.strategy != "reevaluation"]
    moving = [m for m in program.inputs if changing is None or m.name in changing]
    lines = ["program", *_indent(str(program)), ""]
    lines += _triggers(maintained[0].plan, moving, rank)
    lines += _estimates(estimates, rank, _form(program), {})
    return "\n".join(lines)


def explain_live(live: Live) -> str:
    """The chosen plan, with estimates beside measured times."""
    plan = live.plan
    lines = [f"plan {plan}", *_indent(str(plan.views)), ""]
    inputs = plan.views.inputs
    if plan.strategy != "reevaluation":
        lines += _triggers(plan, list(inputs), 1)
    measured = {}
    for matrix in inputs:
        median = live.stats.median((matrix.name,))
        if median is not None:
            estimate = plan.update_seconds({matrix: 1})
            lines.append(
                f"update of {matrix.name}: estimated {_time(estimate)}, measured {_time(median)} "
                f"(median of {len(live.stats.seconds[(matrix.name,)])})"
            )
            measured[str(plan)] = median
    lines += _estimates(live.candidates, 1, "", measured)
    s = live.stats
    lines.append(
        f"{s.updates} updates: {s.incremental} incremental, {s.reevaluations} re-evaluated, "
        f"{s.repairs} repairs, {s.recompressions} recompressions"
    )
    return "\n".join(lines)


def _triggers(plan: MaintenancePlan, inputs: Sequence[Matrix], rank: int) -> list[str]:
    lines = []
    for matrix in inputs:
        if not plan.views.affected_by({matrix}):
            continue
        trigger = plan.trigger({matrix: rank}).trigger
        lines += str(trigger).splitlines()
        ranks = [
            f"{m.name} {'dense' if (r := trigger.rank(m.name)) is None else r}"
            for m in trigger.deltas
        ]
        lines += [f"  ranks: {', '.join(ranks)}", ""]
    return lines


def _estimates(
    estimates: Sequence[Estimate], rank: int, form: str, measured: dict[str, float]
) -> list[str]:
    lines = [f"estimated time per rank-{rank} update, and state"]
    for e in estimates:
        growth = cost.table_6_2(form, e.plan.strategy, e.plan.views.model)
        beside = f"  measured {_time(measured[str(e.plan)])}" if str(e.plan) in measured else ""
        lines.append(
            f"  {e.plan!s:<28}{_time(e.seconds):>10}{e.memory / 2**20:>10.1f} MB"
            f"{beside}  {growth}".rstrip()
        )
    return lines


def _form(program: Program) -> str:
    """Which columns of Table 6.2 apply: to powers or to the general form."""
    stack: list[Expr] = [e for _, e in program.statements]
    form = ""
    while stack:
        e = stack.pop()
        if isinstance(e, ex.Recurrence):
            return "general"
        if isinstance(e, ex.Power | ex.PowerSum):
            form = "powers"
        stack.extend(children(e))
    return form


def _indent(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def _time(seconds: float) -> str:
    if seconds >= 1.0:
        return f"{seconds:.2f} s"
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.0f} us"
