"""Which types the parameters of a statement have: those of what they are compared with or put into.

    WHERE id = $1                     the type of id
    INSERT INTO r (a, b) VALUES ($1, $2)   those of a and b
    LIMIT $1                          BIGINT
    $1::DATE, CAST($1 AS DATE)        DATE
    name = ANY($1)                    VARCHAR[]

Clients that send values in binary ask for this before they do. What nothing says a type of is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError

from viewlet.frontend.catalog_text import parameters_of, with_parameters

MARK = "viewlet_parameter"
Columns = Mapping[str, str]
"""The types of a relation's columns, as SQL writes them."""

_OID_LIST = re.compile(r"\$(\d{1,5})\s*::\s*(?:pg_catalog\.)?oid\[\]", re.IGNORECASE)
"""A list of oids, which sqlglot cannot read."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_TEXTS = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.DPipe, exp.SimilarTo)
_NUMBERS = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")


def parameter_types(text: str, relations: Mapping[str, Columns]) -> list[str | None]:
    """The type of each parameter from $1 on, as SQL writes it; with [] where it is an array."""
    count = parameters_of(text)
    types: list[str | None] = [None] * count
    for oids in _OID_LIST.finditer(text):
        if 1 <= int(oids.group(1)) <= count:
            types[int(oids.group(1)) - 1] = "OID[]"
    marked = with_parameters(text, [f"{MARK}({number + 1})" for number in range(count)])
    try:
        trees = Postgres().parser().parse(Postgres().tokenize(marked), marked)
    except (SqlglotError, RecursionError):
        return types
    for tree in trees:
        if tree is None:
            continue
        scope = _Scope(tree, relations)
        for node in tree.find_all(exp.Anonymous):
            if node.name.lower() == MARK and node.expressions:
                at = int(node.expressions[0].name) - 1
                types[at] = types[at] or scope.type_around(node)
    return types


class _Scope:
    """The columns that a statement can name, whichever of its parts names them."""

    def __init__(self, tree: exp.Expr, relations: Mapping[str, Columns]) -> None:
        self._tree = tree
        self._by_alias: dict[str, Columns] = {}
        for table in tree.find_all(exp.Table):
            columns = relations.get(table.name) or relations.get(table.name.lower())
            if columns is not None:
                self._by_alias[table.alias_or_name.lower()] = columns
        self._target: list[str] = []
        if isinstance(tree, exp.Insert):
            into = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
            columns = relations.get(into.name) or relations.get(into.name.lower()) or {}
            named = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
            names = [name.name for name in named] or list(columns)
            self._target = [_of(columns, name) or "VARCHAR" for name in names]
            self._by_alias["excluded"] = columns

    def column(self, column: exp.Column) -> str | None:
        """Of a relation, or what a subquery calls so."""
        named = self._by_alias.get(column.table.lower())
        if named is not None:
            return _of(named, column.name)
        known = (_of(columns, column.name) for columns in self._by_alias.values())
        return next(filter(None, known), None) or self._renamed(column.name)

    def _renamed(self, name: str) -> str | None:
        for alias in self._tree.find_all(exp.Alias):
            is_itself = isinstance(alias.this, exp.Column) and alias.this.name == name
            if alias.alias == name and not is_itself and not alias.this.find(exp.Alias):
                return self.type_of(alias.this)
        return None

    # --- what a place wants -----------------------------------------------------------------------

    def type_around(self, node: exp.Expr) -> str | None:
        """The type that the place of an expression has."""
        parent = node.parent
        if parent is None:
            return None
        if isinstance(parent, exp.Cast):
            return _type_text(parent)
        if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
            return "BIGINT"
        if isinstance(parent, exp.Any | exp.All):
            return self._array_around(parent)
        if isinstance(parent, (*_COMPARISONS, exp.Between, exp.In, exp.Coalesce, exp.Nullif)):
            return self._first_known(parent, node)
        if isinstance(parent, _TEXTS):
            return "VARCHAR"
        if isinstance(parent, exp.And | exp.Or | exp.Not | exp.Where | exp.Having):
            return "BOOLEAN"
        if isinstance(parent, _ARITHMETIC):
            return self._first_known(parent, node) or self.type_around(parent)
        if isinstance(parent, exp.Paren | exp.Neg | exp.If | exp.Case | exp.Alias):
            return self._first_known(parent, node) or self.type_around(parent)
        return self._type_in_row(parent, node)

    def _type_in_row(self, parent: exp.Expr, node: exp.Expr) -> str | None:
        """In a row of VALUES, or in the SELECT list of an INSERT."""
        rows = parent.parent
        is_row = isinstance(parent, exp.Tuple) and isinstance(rows, exp.Values)
        is_list = isinstance(parent, exp.Select) and isinstance(rows, exp.Insert)
        if (is_row and isinstance(rows.parent if rows else None, exp.Insert)) or is_list:
            for at, each in enumerate(parent.expressions):
                if each is node and at < len(self._target):
                    return self._target[at]
        if isinstance(parent, exp.Tuple) and isinstance(rows, exp.In | exp.EQ):
            other = rows.this
            if isinstance(other, exp.Tuple) and other is not parent:
                pairs = zip(other.expressions, parent.expressions, strict=False)
                return next((self.type_of(each) for each, own in pairs if own is node), None)
        return self.type_around(parent) if isinstance(parent, exp.Tuple) else None

    def _array_around(self, node: exp.Expr) -> str | None:
        kind = self._first_known(node.parent, node) if node.parent is not None else None
        return None if kind is None else f"{kind}[]"

    def _first_known(self, parent: exp.Expr, node: exp.Expr) -> str | None:
        others = (each for each in parent.iter_expressions() if each is not node)
        return next(filter(None, map(self.type_of, others)), None)

    # --- what an expression is --------------------------------------------------------------------

    def type_of(self, node: exp.Expr) -> str | None:
        """The type of an expression, as far as its own shape and its columns say it."""
        if isinstance(node, exp.Column):
            return self.column(node)
        if isinstance(node, exp.Cast):
            return _type_text(node)
        for kinds, decide in _RULES:
            if isinstance(node, kinds):
                return decide(self, node)
        return None

    def first(self, node: exp.Expr) -> str | None:
        """The first type that a part of an expression has."""
        return next(filter(None, map(self.type_of, node.iter_expressions())), None)

    def widest(self, node: exp.Expr) -> str | None:
        """Of numbers the widest type."""
        kinds = [self.type_of(each) for each in node.iter_expressions()]
        ranks = [_NUMBERS.index(kind) for kind in kinds if kind in _NUMBERS]
        return _NUMBERS[max(ranks)] if ranks else next(filter(None, kinds), None)

    def total(self, node: exp.Expr) -> str | None:
        """SUM: of whole numbers a longer one."""
        kind = self.type_of(node.this)
        return "BIGINT" if kind == "INTEGER" else kind


def _literal(scope: _Scope, node: exp.Expr) -> str | None:
    if node.is_string:
        return None
    return "INTEGER" if node.is_int else "DECIMAL"


_RULES: Sequence[tuple[tuple[type, ...], Callable[[_Scope, exp.Expr], str | None]]] = (
    ((exp.Literal,), _literal),
    ((exp.Boolean, *_COMPARISONS, exp.And, exp.Or, exp.Not, exp.Is), lambda *_: "BOOLEAN"),
    ((exp.Count,), lambda *_: "BIGINT"),
    ((exp.Sum,), _Scope.total),
    ((exp.Avg, exp.Extract, exp.Sqrt, exp.Ln, exp.Exp), lambda *_: "DOUBLE"),
    ((exp.Length,), lambda *_: "INTEGER"),
    ((exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Concat, exp.DPipe), lambda *_: "VARCHAR"),
    (_ARITHMETIC, _Scope.widest),
    ((exp.Min, exp.Max, exp.Coalesce, exp.Case, exp.If, exp.Paren, exp.Neg, exp.Abs), _Scope.first),
)


def _of(columns: Columns, name: str) -> str | None:
    kind = columns.get(name) or columns.get(name.lower())
    return None if kind is None else kind.partition("(")[0]


def _type_text(cast: exp.Cast) -> str:
    return cast.to.sql("postgres").upper()
