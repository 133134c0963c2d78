"""Queries of PostgreSQL's catalogs, as its clients write them -> the same for DuckDB.

    pg_catalog.pg_class c           -> pg.pg_class c
    information_schema.tables       -> info.tables
    pg_catalog.format_type(a, b)    -> format_type(a, b)
    x OPERATOR(pg_catalog.~) y      -> REGEXP_MATCHES(x, y)
    x COLLATE pg_catalog.default    -> x
    'v'::regclass                   -> regclass_oid('v')
    typreceive != 0                 -> typreceive <> '-'
    '{a,b}'::text[]                 -> CAST(['a', 'b'] AS TEXT[])
    c.oid::regclass                 -> regclass_name(c.oid)

The schemas pg and info, and the functions, are made by whoever runs the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from viewlet.errors import ParseError
from viewlet.frontend.parse import SourceText, split

_COLLATION = re.compile(r"""\s+COLLATE\s+(pg_catalog\.)?("?default"?|"?C"?)(?!\w)""", re.IGNORECASE)
_OID_LIST = re.compile(r"::(\s*)(?:pg_catalog\.)?oid\[\]", re.IGNORECASE)
"""A list of oids, which sqlglot cannot read."""
_PIECES = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
    | \$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$ | \$(?P<number>\d{1,5})""",
    re.DOTALL | re.VERBOSE,
)
"""What may have a $n inside that is none, and what is one; sqlglot reads $1,$2 as a string."""
_OWN_NAMES = ("current_catalog", "user", "session_user", "current_role")
"""Words that are values in PostgreSQL; the database and its one user have the same name."""
_FUNCTION_COLUMNS = r"typ(input|output|receive|send|modin|modout|analyze)"
SCHEMAS = {"pg_catalog": "pg", "information_schema": "info"}


def catalog_text(text: str, catalogs: Collection[str], relations: Collection[str]) -> str | None:
    """The query for DuckDB; None if it reads `relations`, or a table that no catalog has.

    `catalogs` are the tables of pg_catalog. A query of no table at all is one of catalogs.
    """
    text = _OID_LIST.sub(r"::\1bigint[]", _COLLATION.sub("", text))
    try:
        trees = Postgres().parser().parse(Postgres().tokenize(text), text)
    except (SqlglotError, RecursionError):
        return None
    if len(trees) != 1 or not isinstance(tree := trees[0], exp.Query):
        return None
    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name, schema = table.name.lower(), table.db.lower()
        if isinstance(table.this, exp.Func):
            table.set("db", None)
            alias = table.args.get("alias")
            is_set = isinstance(table.this, exp.GenerateSeries | exp.StringToArray)
            if is_set and alias is not None and not alias.columns:  # its column has the same name
                alias.set("columns", [alias.this.copy()])
        elif schema in SCHEMAS or (not schema and name in catalogs and name not in relations):
            table.set("db", exp.to_identifier(SCHEMAS.get(schema, "pg")))
            table.set("catalog", None)
        elif name not in own:
            return None
    for column in tree.find_all(exp.Column):
        if column.db.lower() in SCHEMAS:
            column.set("db", None)
    _name_columns(tree)
    try:
        return DuckDB().generate(tree.transform(_rewritten))
    except (SqlglotError, RecursionError) as error:
        raise ParseError(f"the query of catalogs cannot be read: {error}") from None


def _name_columns(tree: exp.Query) -> None:
    """SELECT f(x), 1 -> SELECT f(x) AS f, 1 AS "?column?", as PostgreSQL names them."""
    for select in (tree.selects if isinstance(tree, exp.Select) else ())[:]:
        if isinstance(select, exp.Alias | exp.Column | exp.Star):
            continue
        named = select.expression if isinstance(select, exp.Dot) else select
        named = named.this if isinstance(named, exp.Cast) else named
        name = named.name if isinstance(named, exp.Anonymous | exp.Column) else ""
        if not name and isinstance(named, exp.Func) and not isinstance(named, exp.Binary):
            name = named.sql_name().lower()
        select.replace(exp.alias_(select.copy(), name or "?column?", quoted=True))


def _rewritten(node: exp.Expr) -> exp.Expr:
    """A node that is replaced is not walked into, so its parts are rewritten here."""
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        return node.expression.transform(_rewritten)
    if isinstance(node, exp.Operator):
        operator = str(node.args.get("operator") or "")
        left, right = (part.transform(_rewritten) for part in (node.this, node.expression))
        match = exp.RegexpLike(this=left, expression=right)
        return exp.not_(match) if operator.rpartition(".")[2].startswith("!") else match
    if isinstance(node, exp.Anonymous) and node.name.lower() == "json_build_object":
        node.set("this", "json_object")
    if isinstance(node, exp.EQ | exp.NEQ) and _is_function_column(node.this):
        if isinstance(node.expression, exp.Literal) and node.expression.name == "0":
            node.set("expression", exp.Literal.string("-"))
        return node
    if isinstance(node, exp.Cast):
        return _cast(node)
    if isinstance(node, exp.CurrentUser | exp.SessionUser | exp.CurrentCatalog):
        return exp.Literal.string("viewlet")
    if isinstance(node, exp.CurrentTimestamp | exp.CurrentDate):
        is_date = isinstance(node, exp.CurrentDate)
        return exp.Anonymous(this="today" if is_date else "now", expressions=[])
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in _OWN_NAMES:
        return exp.Literal.string("viewlet")
    return node


def _is_function_column(node: exp.Expr) -> bool:
    """Whether a column of pg_type names a function; 0 and - are none."""
    return isinstance(node, exp.Column) and bool(re.fullmatch(_FUNCTION_COLUMNS, node.name, re.I))


def _cast(node: exp.Cast) -> exp.Expr:
    if node.to.is_type(exp.DType.ARRAY) and node.this.is_string:
        items = [
            item.strip(' "') for item in node.this.name.strip("{} ").split(",") if item.strip()
        ]
        node.set("this", exp.array(*map(exp.Literal.string, items)))
        return node
    kind = node.to.sql("postgres").upper().rpartition(".")[2].strip('"')
    if kind in ("REGCLASS", "REGTYPE", "REGPROC", "REGNAMESPACE"):
        is_name = isinstance(node.this, exp.Literal) and node.this.is_string
        name = f"{kind.lower()}_{'oid' if is_name else 'name'}"
        return exp.Anonymous(this=name, expressions=[node.this.transform(_rewritten)])
    if kind in ("NAME", "CHAR", "INT2VECTOR", "OIDVECTOR", "PG_NODE_TREE", "ACLITEM", "TEXT"):
        node.set("to", exp.DataType.build("text"))
    elif kind in ("OID", "XID", "REGROLE"):
        node.set("to", exp.DataType.build("uinteger", dialect="duckdb"))
    elif "PG_CATALOG" in node.to.sql("postgres").upper():
        node.set("to", exp.DataType.build(kind.lower(), dialect="postgres", udt=True))
    return node


def parameters_of(text: str) -> int:
    """The highest $n of a text."""
    return max((number for number, _, _ in _occurrences(text)), default=0)


def with_parameters(text: str, literals: Sequence[str]) -> str:
    """$n -> the n-th literal, outside of strings and comments."""
    for number, start, end in reversed(_occurrences(text)):
        if not 1 <= number <= len(literals):
            raise ParseError(f"there is no parameter ${number}")
        text = f"{text[:start]}{literals[number - 1]}{text[end:]}"
    return text


def _occurrences(text: str) -> list[tuple[int, int, int]]:
    """Number, start and end of each parameter."""
    occurrences = []
    for piece in _PIECES.finditer(text):
        if piece.group("number"):
            occurrences.append((int(piece.group("number")), piece.start(), piece.end()))
    return occurrences


def is_prepare(text: str) -> bool:
    """Whether it is PREPARE, whose parameters are not those of the statement itself."""
    return re.match(r"\s*PREPARE\b", text, re.IGNORECASE) is not None


def statement_texts(text: str) -> list[str]:
    """The statements of a text, each where it was: what is before it is blank."""
    parts = []
    occurrences = _occurrences(text)
    named = text
    for _, start, _ in occurrences:  # as names: a list of parameters may be read as a string
        named = f"{named[:start]}_{named[start + 1 :]}"
    for tokens in split(SourceText(named)):
        start, end = tokens[0].start, tokens[-1].end + 1
        if any(start <= at < end for _, at, _ in occurrences) and not is_prepare(text[start:end]):
            split(SourceText(text))  # which says that they have no values
        parts.append(re.sub(r"[^\n]", " ", text[:start]) + text[start:end])
    return parts


def without_public(text: str) -> str:
    """public.v, "public"."v" -> v, where it was."""
    for tokens in split(SourceText(text)):
        for token, dot in pairwise(tokens):
            if dot.token_type is TokenType.DOT and token.text.lower() == "public":
                width = dot.end + 1 - token.start
                text = f"{text[: token.start]}{' ' * width}{text[dot.end + 1 :]}"
    return text
