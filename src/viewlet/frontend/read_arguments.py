"""Which parts of a syntax tree viewlet reads. Whatever else is set in a tree is an error.

sqlglot reads the clauses of thirty dialects into arguments of its nodes. One that nobody looks at
would be a clause without effect: DELETE ... LIMIT 1 that deletes all. So every statement is walked
once, before anything is made of it, and each node must be in `READ` with every argument that is
set. A new clause is read by the lowering first, and then named here.

Parts that DuckDB evaluates (the conditions and queries inside of INSERT, DELETE and UPDATE) are not
walked: DuckDB gets their text as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlglot import exp

from viewlet.errors import ParseError
from viewlet.frontend.moments import FORMULAS
from viewlet.frontend.pair_aggregates import PAIRED
from viewlet.frontend.refusals import refused_argument, refused_node
from viewlet.frontend.scalar_functions import GRAMMATICAL
from viewlet.frontend.syntax import fault
from viewlet.functions import CALLS

_BINARY = ("this", "expression")
_QUERY = ("with_", "order", "limit", "offset")

_CLAUSES: Mapping[type[exp.Expr], tuple[str, ...]] = {
    # Statements.
    exp.Create: ("this", "kind", "expression", "exists", "properties", "replace"),
    exp.Insert: ("this", "expression", "conflict", "returning", "default"),
    exp.OnConflict: ("conflict_keys", "action", "expressions", "where"),
    exp.Delete: ("this", "using", "where", "returning"),
    exp.Update: ("this", "expressions", "from_", "where", "returning"),
    exp.Copy: ("this", "kind", "files", "params", "credentials"),
    exp.CopyParameter: _BINARY,
    exp.Credentials: (),
    # All views are materialized, and nothing is dropped that something else needs.
    exp.Drop: ("kind", "tables", "exists", "materialized", "restrict"),
    # Definitions.
    exp.Schema: ("this", "expressions"),
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.ColumnConstraint: ("this", "kind"),
    exp.NotNullColumnConstraint: ("allow_null",),
    # `include` is a node without arguments where nothing was written.
    exp.PrimaryKeyColumnConstraint: ("include",),
    exp.UniqueColumnConstraint: ("this", "include"),
    exp.CommentColumnConstraint: ("this",),
    exp.Constraint: ("this", "expressions"),
    exp.PrimaryKey: ("expressions", "include"),
    exp.CheckColumnConstraint: ("this",),
    exp.DefaultColumnConstraint: ("this",),
    # read_constraints.py looks at the options.
    exp.ForeignKey: ("expressions", "reference", "delete", "update", "options"),
    exp.Reference: ("this", "expressions", "options"),
    exp.IndexParameters: (),
    exp.Properties: ("expressions",),
    exp.Property: ("this", "value"),
    exp.MaterializedProperty: (),
    exp.DataType: ("this", "expressions", "nested"),
    exp.DataTypeParam: ("this",),
    # Queries.
    exp.Select: (
        *("expressions", "distinct", "from_", "joins", "where", "group", "having"),
        *("qualify", "windows"),
        *_QUERY,
    ),
    **dict.fromkeys(
        (exp.Union, exp.Intersect, exp.Except),
        ("this", "expression", "distinct", "by_name", *_QUERY),
    ),
    exp.Subquery: ("this", "alias", "joins", *_QUERY),
    exp.Values: ("expressions", "alias", "joins", "order", "limit", "offset"),
    # temporal_filters.py says where they may stand.
    exp.CurrentTimestamp: (),
    exp.Localtimestamp: (),
    exp.CurrentDate: (),
    exp.With: ("expressions", "recursive"),
    # MATERIALIZED says how a query is to be run, and nothing about its rows.
    exp.CTE: ("this", "alias", "materialized"),
    exp.From: ("this",),
    # ONLY leaves out tables that inherit, of which there are none.
    exp.Table: ("this", "alias", "db", "joins", "only"),
    exp.TableAlias: ("this", "columns"),
    exp.Join: ("this", "on", "side", "kind", "using", "method"),
    # `view` and `outer` are Hive's LATERAL VIEW and Oracle's APPLY.
    exp.Lateral: ("this", "alias"),
    exp.Where: ("this",),
    exp.Group: ("expressions", "all", "rollup", "cube"),
    exp.Rollup: ("expressions",),
    exp.Cube: ("expressions",),
    exp.GroupingSets: ("expressions",),
    exp.Having: ("this",),
    exp.Qualify: ("this",),
    # `over` is the word OVER.
    exp.Window: ("this", "partition_by", "order", "spec", "alias", "over"),
    exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side", "exclude"),
    exp.IgnoreNulls: ("this",),
    exp.RespectNulls: ("this",),
    **dict.fromkeys((exp.RowNumber, exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist), ()),
    exp.Ntile: ("this",),
    exp.Lag: ("this", "offset", "default"),
    exp.Lead: ("this", "offset", "default"),
    exp.FirstValue: ("this",),
    exp.LastValue: ("this",),
    exp.NthValue: ("this", "offset"),
    exp.Distinct: ("expressions", "on"),
    exp.Order: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression", "limit_options"),
    exp.Fetch: ("count", "direction", "limit_options"),
    exp.LimitOptions: ("rows", "with_ties"),
    exp.Offset: ("expression",),
    exp.Star: ("except_", "replace", "rename"),
}

_SCALARS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Alias: ("this", "alias"),
    exp.Identifier: ("this", "quoted"),
    exp.Column: ("this", "table"),
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Var: ("this",),
    exp.Paren: ("this",),
    exp.Tuple: ("expressions",),
    exp.Interval: ("this", "unit", "fraction_in_string"),
    exp.DateDiff: (*_BINARY, "unit"),
    exp.Neg: ("this",),
    exp.Not: ("this",),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv), _BINARY),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _BINARY),
    **dict.fromkeys((exp.And, exp.Or, exp.NullSafeEQ, exp.NullSafeNEQ), _BINARY),
    # `typed` and `safe` are marks of the dialect that was read.
    exp.Div: (*_BINARY, "typed"),
    exp.DPipe: (*_BINARY, "safe"),
    exp.Concat: ("expressions", "safe", "coalesce"),
    exp.Between: ("this", "low", "high", "symmetric"),
    exp.Is: (*_BINARY, "negate"),
    exp.In: ("this", "expressions", "query"),
    exp.Like: (*_BINARY, "negate"),
    exp.ILike: (*_BINARY, "negate"),
    exp.Escape: _BINARY,
    exp.Exists: ("this",),
    exp.Any: ("this",),
    exp.All: ("this",),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Coalesce: ("this", "expressions"),
    exp.Greatest: ("this", "expressions", "ignore_nulls"),
    exp.Least: ("this", "expressions", "ignore_nulls"),
    exp.Nullif: _BINARY,
    exp.Cast: ("this", "to"),
    exp.Anonymous: ("this", "expressions"),
    exp.Date: ("this",),
    exp.Extract: _BINARY,
    exp.TimestampTrunc: ("this", "unit"),
    exp.DateTrunc: ("this", "unit"),
    exp.Trim: (*_BINARY, "position"),
    exp.Log: _BINARY,
    exp.Pad: (*_BINARY, "fill_pattern", "is_left"),
    exp.StrPosition: ("this", "substr"),
    exp.Chr: ("expressions", "charset"),
    exp.SHA: ("this",),
    exp.SHA2Digest: ("this", "length"),
    exp.Initcap: _BINARY,
    exp.ConcatWs: ("expressions", "safe", "coalesce"),
    exp.Translate: ("this", "from_", "to"),
    **dict.fromkeys((exp.RegexpLike, exp.RegexpILike), (*_BINARY, "flag")),
    exp.RegexpFullMatch: (*_BINARY, "options"),
    exp.RegexpExtract: (*_BINARY, "position"),
    # `single_replace` is a mark of the dialect that was read.
    exp.RegexpReplace: (*_BINARY, "replacement", "modifiers", "single_replace"),
    # Aggregates. `big_int` is COUNT's type, which is BIGINT.
    exp.Count: ("this", "expressions", "big_int"),
    **dict.fromkeys((exp.Sum, exp.Avg, exp.Min, exp.Max), ("this",)),
    **dict.fromkeys((exp.Stddev, exp.StddevSamp, exp.StddevPop), ("this",)),
    **dict.fromkeys((exp.Variance, exp.VariancePop), ("this",)),
    **dict.fromkeys((exp.LogicalAnd, exp.LogicalOr), ("this",)),
    **dict.fromkeys((exp.AnyValue, exp.ApproxDistinct, exp.CountIf), ("this",)),
    **dict.fromkeys((exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg), ("this",)),
    **dict.fromkeys(PAIRED, _BINARY),
    exp.Grouping: ("expressions",),
    exp.Filter: _BINARY,
    exp.WithinGroup: _BINARY,
    **dict.fromkeys((exp.Median, exp.Mode, exp.First, exp.Last), ("this",)),
    **dict.fromkeys((exp.PercentileCont, exp.PercentileDisc), ("this",)),
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), _BINARY),
}


def _of_calls() -> Iterator[tuple[type[exp.Expr], tuple[str, ...]]]:
    """F(a, b): as many arguments as the function's record has parameters."""
    for name, records in CALLS.items():
        node = exp.FUNCTION_BY_NAME.get(name)
        if node is not None and node not in _SCALARS:
            most = max(len(record.sql.parameters) for record in records)  # type: ignore[union-attr]
            yield node, tuple(node.arg_types)[:most]


READ: Mapping[type[exp.Expr], frozenset[str]] = {
    node: frozenset(names) for node, names in (*_of_calls(), *_CLAUSES.items(), *_SCALARS.items())
}
"""The arguments of each kind of node that viewlet reads, or that mean nothing here."""

_MOMENT = frozenset(("this",))
"""Of an aggregate in the table of frontend.moments, whatever is added there."""

WORDS: Mapping[tuple[type[exp.Expr], str], frozenset[str]] = {
    (exp.Join, "side"): frozenset(("LEFT", "RIGHT", "FULL")),
    (exp.Join, "kind"): frozenset(("INNER", "OUTER", "CROSS", "SEMI", "ANTI")),
    (exp.Join, "method"): frozenset(("NATURAL",)),
    (exp.Fetch, "direction"): frozenset(("FIRST", "NEXT")),
    (exp.Trim, "position"): frozenset(("BOTH", "LEADING", "TRAILING")),
}
"""What the arguments that are words can say."""

_STATEMENTS = (exp.Create, exp.Insert, exp.Delete, exp.Update, exp.Copy, exp.Drop)

CHILDREN: Mapping[tuple[type[exp.Expr], str], tuple[type[exp.Expr], ...]] = {
    (exp.Table, "this"): (exp.Identifier, exp.Values),
    (exp.TableAlias, "this"): (exp.Identifier,),
    (exp.TableAlias, "columns"): (exp.Identifier,),
    (exp.CTE, "this"): (exp.Query, exp.Values),
    (exp.Any, "this"): (exp.Query, exp.Paren),
    (exp.All, "this"): (exp.Query, exp.Paren),
    (exp.PrimaryKey, "expressions"): (exp.Identifier, exp.Column),
}
"""Arguments that sqlglot lets be more than what is read from them."""


def is_set(value: Any) -> bool:
    """None, False and an empty list are what an argument is when nothing was written."""
    return value is not None and value is not False and value != []


def check_arguments(tree: exp.Expr) -> None:
    """Refuse a tree with something in it that viewlet would not read."""
    for node in tree.walk(bfs=False, prune=_is_for_duckdb):
        if not _is_for_duckdb(node):
            if isinstance(node, _STATEMENTS) and node is not tree:
                raise refused_node(node)
            check_node(node, READ.get(type(node), _MOMENT if type(node) in FORMULAS else None))


def check_node(node: exp.Expr, read: frozenset[str] | None) -> None:
    """Refuse a node that is not read, or has an argument that is not."""
    if read is None or (
        isinstance(node, exp.Anonymous)
        and node.name.upper() not in GRAMMATICAL.keys() | CALLS.keys()
    ):
        raise refused_node(node)
    if isinstance(node, exp.Identifier) and not node.name:
        raise fault(ParseError, "a name is empty", node.parent or node)
    for name, value in node.args.items():
        if isinstance(node, exp.Order) and isinstance(node.parent, exp.First | exp.Last):
            # FIRST(x ORDER BY y)
            continue
        if is_set(value) and (name not in read or not _is_read(node, name, value)):
            raise refused_argument(node, name)


def _is_read(node: exp.Expr, name: str, value: Any) -> bool:
    """Whether what is set is of a kind that the lowering expects there."""
    argument = (type(node), name)
    parts = value if isinstance(value, list) else [value]
    if argument in WORDS and not all(str(part).upper() in WORDS[argument] for part in parts):
        return False
    return argument not in CHILDREN or all(isinstance(part, CHILDREN[argument]) for part in parts)


def _is_for_duckdb(node: exp.Expr) -> bool:
    """The parts of a statement that DuckDB gets as text."""
    parent = node.parent
    if isinstance(parent, exp.Insert):
        return node.arg_key in ("expression", "returning") and not isinstance(node, exp.Values)
    if isinstance(parent, exp.Delete | exp.Update | exp.OnConflict):
        return node.arg_key in ("where", "expressions", "from_", "using", "returning")
    if isinstance(parent, exp.Tuple) and isinstance(parent.parent, exp.Values):
        return parent.find_ancestor(exp.Insert) is not None and (
            node.find(exp.Parameter, exp.Query) is not None
        )
    return False
