"""JOIN s FOR SYSTEM_TIME AS OF PROCTIME(): rows as s had them when the other row came.

Of a static table, which cannot change while views use it, these are the rows that it has. A view
that follows its tables would change old answers with s, so that other tables are refused.
"""

from __future__ import annotations

from sqlglot import exp

from viewlet.errors import UnsupportedError
from viewlet.frontend.syntax import fault
from viewlet.schema import Relation

_AS_OF = "as of arrival"


def mark_temporal_joins(tree: exp.Expr) -> None:
    """Take FOR SYSTEM_TIME AS OF PROCTIME() off the tables, and remember where it was."""
    for version in list(tree.find_all(exp.Version)):
        moment, table = version.expression, version.parent
        is_arrival = isinstance(moment, exp.Anonymous) and moment.name.upper() == "PROCTIME"
        if is_arrival and isinstance(table, exp.Table) and version.text("kind") == "AS OF":
            table.set("version", None)
            table.meta[_AS_OF] = True


def check_temporal_join(table: exp.Table, relation: Relation) -> None:
    """A table as of arrival must be one that does not change."""
    if table.meta_get(_AS_OF) and not relation.static:
        raise fault(
            UnsupportedError,
            f"{relation.name} as of arrival is not supported: views follow its changes",
            table,
            f"declare {relation.name} WITH (static = true), or leave FOR SYSTEM_TIME out",
        )
