"""The text of `viewlet run`: SQL with endpoints, where rows come from and changes go to.

    CREATE TABLE | STREAM name (columns) FROM endpoint [WITH (option = value, ...)]
    CREATE MATERIALIZED VIEW name AS query
    INSERT INTO endpoint [WITH (option = value, ...)] query

    endpoint  'file, folder or pattern'           its format is its ending
              csv | json | parquet | arrow 'file, folder or pattern'
              socket 'host:port'
              kafka 'topic'
              console | webhook 'url' | TABLE name                          (where changes go)
              name ['path']                       any other format that Spark knows

A query that is not just SELECT * FROM a view becomes a view of its own. INSERT INTO a table that
the pipeline declares, and COPY, fill tables once, before the first rows come. An endpoint is found
by its tokens, because no dialect has these clauses; what remains is parsed as everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from viewlet.errors import ParseError, Position, ResolutionError, UnsupportedError
from viewlet.frontend.parse import SourceText, split, statement_of, view_of
from viewlet.frontend.statements import (
    Copy,
    CreateRelation,
    CreateView,
    Insert,
    InsertSelect,
    Select,
    Statement,
)
from viewlet.frontend.syntax import did_you_mean

SUFFIXES = {
    "csv": "csv",
    "tbl": "tbl",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "arrow": "arrow",
    "feather": "arrow",
}
"""File endings and the formats that they stand for."""


@dataclass(frozen=True)
class Endpoint:
    """Where rows come from or go to; options keep the spelling that the user gave them."""

    format: str
    path: str | None
    position: Position
    options: Mapping[str, str] = field(default_factory=dict)

    def option(self, name: str) -> str | None:
        """An option by its name, however it is capitalized."""
        return next((v for k, v in self.options.items() if k.lower() == name.lower()), None)

    def without(self, *names: str) -> dict[str, str]:
        """The other options, for whoever reads the format."""
        return {k: v for k, v in self.options.items() if k.lower() not in names}

    def integer_option(self, name: str, default: int) -> int:
        """An option that counts something."""
        text = self.option(name)
        if text is None:
            return default
        if not text.isdigit():
            raise ResolutionError(f"{name} is {text!r}", hint="write a whole number")
        return int(text)

    def __str__(self) -> str:
        return f"{self.format} '{self.path}'" if self.path is not None else self.format


@dataclass(frozen=True)
class SourceOf:
    """The endpoint that a relation's rows come from."""

    relation: str
    endpoint: Endpoint


@dataclass(frozen=True)
class SinkOf:
    """The endpoint that a view's changes go to."""

    view: str
    endpoint: Endpoint


@dataclass(frozen=True)
class Filling:
    """INSERT or COPY into a declared table, run once; errors in `text` have the file's lines."""

    statement: Insert | InsertSelect | Copy
    text: str


@dataclass(frozen=True)
class Pipeline:
    """What a pipeline's text says, each kind in the order of the text."""

    relations: tuple[CreateRelation, ...]
    sources: tuple[SourceOf, ...]
    fillings: tuple[Filling, ...]
    views: tuple[CreateView, ...]
    sinks: tuple[SinkOf, ...]


def parse_pipeline(text: str) -> Pipeline:
    """A pipeline's text -> its parts; the first error, with its position, ends it."""
    reader = _Reader(SourceText(text))
    for tokens in split(reader.source):
        reader.read(tokens)
    if not reader.views:
        raise ParseError(
            "the pipeline has no view",
            hint="add CREATE MATERIALIZED VIEW ... AS SELECT ...",
        )
    return Pipeline(
        tuple(reader.relations),
        tuple(reader.sources),
        tuple(reader.fillings),
        tuple(reader.views),
        tuple(reader.sinks),
    )


def parse_definitions(text: str) -> list[Statement]:
    """The statements of any SQL file: a pipeline's without endpoints, sinks' queries as views."""
    reader = _Reader(SourceText(text))
    statements: list[Statement] = []
    for tokens in split(reader.source):
        if _is_relation(tokens):
            reader.read(tokens)
            statements.append(reader.relations[-1])
        elif reader.is_sink(tokens):
            before = len(reader.views)
            reader.read(tokens)
            statements += reader.views[before:]
        else:
            statement = statement_of(reader.source, tokens)
            statements.append(statement)
            if isinstance(statement, CreateView):
                reader.views.append(statement)
    return statements


class _Reader:
    """Statements go in one by one, the parts of the pipeline come together."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.relations: list[CreateRelation] = []
        self.sources: list[SourceOf] = []
        self.fillings: list[Filling] = []
        self.views: list[CreateView] = []
        self.sinks: list[SinkOf] = []

    def read(self, tokens: list[Token]) -> None:
        if _is_relation(tokens):
            self._relation(tokens)
        elif self.is_sink(tokens):
            self._sink(tokens)
        else:
            self._other(tokens)

    # Sources.

    def _relation(self, tokens: list[Token]) -> None:
        """CREATE TABLE r (...) FROM endpoint WITH (...) -> CREATE TABLE r (...), endpoint"""
        end = _closing(tokens)
        clause_tokens = tokens[end + 1 :]
        if end < 0:
            start = next((t for t in tokens if t.token_type is TokenType.FROM), None)
            if start is not None:
                raise self._error(
                    ParseError, "the columns are missing", start, "write (a INT, ...) before FROM"
                )
        clauses = _Clauses(self.source, clause_tokens)
        endpoint = clauses.source() if clause_tokens else None
        head = tokens if endpoint is None else tokens[: end + 1]
        declaration = statement_of(self.source, head)
        assert isinstance(declaration, CreateRelation)
        if endpoint is None:
            self.relations.append(declaration)
            return
        static = endpoint.option("static")
        if static is not None:
            declaration = self._static(declaration, static, endpoint)
        self.relations.append(declaration)
        endpoint = replace(endpoint, options=endpoint.without("static"))
        self.sources.append(SourceOf(declaration.relation.name, endpoint))

    def _static(
        self, declaration: CreateRelation, static: str, endpoint: Endpoint
    ) -> CreateRelation:
        if static.lower() not in ("true", "false"):
            raise ParseError(
                f"static is {static!r}", position=endpoint.position, hint="write true or false"
            )
        if static.lower() == "false":
            return declaration
        if declaration.relation.is_stream:
            raise UnsupportedError(
                "a stream cannot be static", position=declaration.position, hint="use CREATE TABLE"
            )
        relation = replace(declaration.relation, static=True)
        return replace(
            declaration, relation=relation, text=f"{declaration.text} WITH (static = true)"
        )

    # Sinks.

    def is_sink(self, tokens: list[Token]) -> bool:
        """INSERT INTO an endpoint, and not a table of the pipeline."""
        if _words(tokens[:2]) != ["INSERT", "INTO"] or len(tokens) < 3:
            return False
        target = tokens[2]
        if target.token_type is TokenType.STRING or target.text.upper() == "TABLE":
            return True
        if len(tokens) > 3 and tokens[3].token_type is TokenType.STRING:
            return True
        declared = {declaration.relation.name for declaration in self.relations}
        return target.text.lower() not in declared and target.text.lower() == "console"

    def _sink(self, tokens: list[Token]) -> None:
        clauses = _Clauses(self.source, tokens[2:])
        endpoint, query_tokens = clauses.sink()
        if not query_tokens:
            raise self._error(
                ParseError, "the query is missing", tokens[-1], "add SELECT * FROM a view"
            )
        query = statement_of(self.source, query_tokens)
        if not isinstance(query, Select):
            raise ParseError(
                f"a sink takes a query, not {query_tokens[0].text.upper()}", position=query.position
            )
        name = _star_source(query.select)
        view_names = [view.name for view in self.views]
        if name is None:
            name = f"sink_{len(self.sinks) + 1}"
            self.views.append(view_of(query, name))
        elif name not in view_names:
            raise ResolutionError(
                f"there is no view {name} before this statement",
                position=query.position,
                hint=did_you_mean(name, view_names),
            )
        self.sinks.append(SinkOf(name, endpoint))

    # Other statements.

    def _other(self, tokens: list[Token]) -> None:
        statement = statement_of(self.source, tokens)
        if isinstance(statement, CreateView):
            self.views.append(statement)
        elif isinstance(statement, Insert | InsertSelect | Copy):
            declared = [declaration.relation.name for declaration in self.relations]
            if statement.table not in declared:
                raise ResolutionError(
                    f"there is no table {statement.table}",
                    position=statement.position,
                    hint=did_you_mean(
                        statement.table, [*declared, "console", "webhook", *SUFFIXES.values()]
                    ),
                )
            text = self.source.text[tokens[0].start : tokens[-1].end + 1]
            start = self.source.position(tokens[0].start)
            padding = "\n" * (start.line - 1) + " " * (start.column - 1)
            self.fillings.append(Filling(statement, padding + text))
        else:
            raise UnsupportedError(
                f"{tokens[0].text.upper()} has no place in a pipeline",
                position=statement.position,
                hint="a pipeline has CREATE TABLE, STREAM and MATERIALIZED VIEW, INSERT INTO and "
                "COPY",
            )

    def _error(
        self, kind: type[ParseError], message: str, token: Token, hint: str | None = None
    ) -> ParseError:
        return kind(message, position=self.source.position(token.start), hint=hint)


class _Clauses:
    """The tokens of FROM endpoint WITH (options), or of endpoint WITH (options) query."""

    def __init__(self, source: SourceText, tokens: Sequence[Token]) -> None:
        self._source = source
        self._tokens = list(tokens)
        self._at = 0

    def source(self) -> Endpoint | None:
        """[FROM endpoint] [WITH (...)]; None if neither names a format."""
        if self._is("FROM"):
            self._at += 1
            endpoint = self._endpoint("FROM")
        elif self._options_follow():
            position = self._position()
            endpoint = Endpoint("", None, position, self._options())
            if endpoint.option("format") is None:
                return None  # WITH (static = true) is the table's own
        else:
            raise self._unexpected("write FROM and where the rows come from")
        if self._at < len(self._tokens):
            raise self._unexpected("a statement ends with ;")
        return self._with_format(endpoint)

    def sink(self) -> tuple[Endpoint, list[Token]]:
        if self._is("TABLE"):
            position = self._position()
            self._at += 1
            endpoint = Endpoint("table", self._dotted(), position)
            if self._options_follow():
                endpoint = replace(endpoint, options=self._options())
        else:
            endpoint = self._endpoint("INSERT INTO")
        return self._with_format(endpoint), self._tokens[self._at :]

    def _endpoint(self, after: str) -> Endpoint:
        """'path' | format ['path'], then the options."""
        position = self._position()
        format, path = "", None
        token = self._next(f"after {after} a format and a path are missing", "write csv 'path'")
        if token.token_type is TokenType.STRING:
            path = token.text
        elif _NAME.fullmatch(token.text):
            quoted = token.token_type is TokenType.IDENTIFIER
            format = token.text if quoted else token.text.lower()
            if self._at < len(self._tokens):
                following = self._tokens[self._at]
                if following.token_type is TokenType.STRING:
                    path = following.text
                    self._at += 1
        else:
            self._at -= 1
            raise self._unexpected("write a format and a path, as in csv 'path'")
        options = self._options() if self._options_follow() else {}
        return Endpoint(format, path, position, options)

    def _with_format(self, endpoint: Endpoint) -> Endpoint:
        """'x.csv' -> csv 'x.csv'; WITH (format = 'json') says it where the ending does not."""
        if endpoint.format:
            return endpoint
        format = endpoint.option("format")
        if format is not None:
            path = endpoint.path if endpoint.path is not None else endpoint.option("path")
            return Endpoint(format, path, endpoint.position, endpoint.without("format", "path"))
        suffix = PurePosixPath(endpoint.path or "").suffix.lower().lstrip(".")
        if suffix not in SUFFIXES:
            raise ParseError(
                f"the format of '{endpoint.path}' is not known",
                position=endpoint.position,
                hint="write it before the path, as in csv 'path'",
            )
        return replace(endpoint, format=SUFFIXES[suffix])

    def _options_follow(self) -> bool:
        following = self._tokens[self._at : self._at + 2]
        return _words(following) == ["WITH", "("]

    def _options(self) -> dict[str, str]:
        """WITH (name = value, a.b = 'text', 'name' = true)"""
        self._at += 2
        options: dict[str, str] = {}
        while not self._is(")"):
            start = self._position()
            name = self._dotted()
            if name.lower() in (option.lower() for option in options):
                raise ParseError(f"option {name} is given twice", position=start)
            if not self._is("="):
                raise self._unexpected(f"write {name} = 'value'")
            self._at += 1
            options[name] = self._value(name)
            if self._is(","):
                self._at += 1
            elif not self._is(")"):
                raise self._unexpected("options are separated by commas and end with )")
        self._at += 1
        return options

    def _value(self, name: str) -> str:
        sign = ""
        if self._is("-"):
            sign = "-"
            self._at += 1
        token = self._next(f"the value of {name} is missing", f"write {name} = 'value'")
        if token.text in (",", ")"):
            self._at -= 1
            raise self._unexpected(f"write {name} = 'value'")
        return sign + token.text

    def _dotted(self) -> str:
        """a.b.c or a quoted name"""
        token = self._next("a name is missing", None)
        if not (token.token_type is TokenType.STRING or _NAME.fullmatch(token.text)):
            self._at -= 1
            raise self._unexpected("a name is needed here")
        name = token.text
        while self._is("."):
            self._at += 1
            name += "." + self._next("a name is missing after the dot", None).text
        return name

    def _is(self, word: str) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].text.upper() == word

    def _next(self, missing: str, hint: str | None) -> Token:
        if self._at == len(self._tokens):
            raise ParseError(missing, position=self._position(), hint=hint)
        self._at += 1
        return self._tokens[self._at - 1]

    def _position(self) -> Position:
        """Of the next token, or of the last one's end."""
        if self._at < len(self._tokens):
            return self._source.position(self._tokens[self._at].start)
        last = self._tokens[-1].end + 1 if self._tokens else 0
        return self._source.position(last)

    def _unexpected(self, hint: str) -> ParseError:
        if self._at < len(self._tokens):
            message = f"unexpected {self._tokens[self._at].text!r}"
        else:
            message = "the statement ends too early"
        return ParseError(message, position=self._position(), hint=hint)


_NAME = re.compile(r"[A-Za-z_][\w.-]*")


def _words(tokens: Sequence[Token]) -> list[str]:
    return [token.text.upper() for token in tokens]


def _is_relation(tokens: Sequence[Token]) -> bool:
    words = _words(tokens[:4])
    return words[0] == "CREATE" and ("TABLE" in words or "STREAM" in words)


def _closing(tokens: Sequence[Token]) -> int:
    """Where the first parenthesis closes; -1 if FROM comes before one, else the last token."""
    depth = 0
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return at
        elif token.token_type is TokenType.FROM and depth == 0:
            return -1
    return len(tokens) - 1


def _star_source(select: exp.Expr) -> str | None:
    """SELECT * FROM v -> v"""
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        return None
    clauses = {name for name, value in select.args.items() if value}
    source = select.args.get("from_")
    if not isinstance(select.expressions[0], exp.Star) or clauses != {"expressions", "from_"}:
        return None
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or table.alias or table.args.get("joins"):
        return None
    return table.name
