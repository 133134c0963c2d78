"""CREATE MATERIALIZED VIEW v WITH (plan = 'tree') AS ...: how a view is maintained."""

from __future__ import annotations

from sqlglot import exp

from viewlet.calculus.query import Plan
from viewlet.errors import ResolutionError
from viewlet.frontend.syntax import fault


def plan_of(tree: exp.Create) -> Plan | None:
    """WITH (plan = 'recursive' | 'tree' | 'classical' | 'reevaluated').

    None leaves the choice between the first two to the planner.
    """
    properties = tree.args.get("properties")
    for part in properties.expressions if properties is not None else ():
        if isinstance(part, exp.Property) and part.name.lower() == "plan":
            value = part.args.get("value")
            plans = {plan.value: plan for plan in Plan}
            name = value.name.lower() if isinstance(value, exp.Literal | exp.Var) else ""
            if name not in plans:
                raise fault(
                    ResolutionError,
                    f"there is no plan {part.args['value'].sql(dialect='postgres')}",
                    part,
                    f"write {' or '.join(repr(plan) for plan in plans)}",
                )
            return plans[name]
    return None


def is_strict(tree: exp.Create) -> bool:
    """WITH (strict = true): a view of which batches would recompute something is an error."""
    properties = tree.args.get("properties")
    for part in properties.expressions if properties is not None else ():
        if isinstance(part, exp.Property) and part.name.lower() == "strict":
            value = part.args.get("value")
            if not isinstance(value, exp.Boolean):
                raise fault(ResolutionError, "strict is true or false", part, "write strict = true")
            return bool(value.this)
    return False
