"""PostgreSQL's dialect with the words of viewlet, as sqlglot reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.helper import seq_get
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import TokenType

from viewlet.frontend.intervals import WRITTEN
from viewlet.frontend.syntax import COMMA


def _date_diff(arguments: list[exp.Expr]) -> exp.DateDiff:
    """DATE_DIFF('hour', a, b), whose unit stands first"""
    unit, first, last = (seq_get(arguments, k) for k in range(3))
    return exp.DateDiff(this=last, expression=first, unit=unit)


class ViewletParser(PostgresParser):
    """Marks what the tree alone does not tell: which joins are commas, and where a join stands."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **PostgresParser.FUNCTIONS,
        "EVERY": exp.LogicalAnd.from_arg_list,
        **dict.fromkeys(("DATE_DIFF", "DATEDIFF"), _date_diff),
        "REGEXP_MATCHES": exp.RegexpLike.from_arg_list,
        "DATE_BIN": lambda arguments: exp.Anonymous(this="DATE_BIN", expressions=arguments),
        "TO_CHAR": lambda arguments: exp.Anonymous(this="TO_CHAR", expressions=arguments),
    }

    def _warn_unsupported(self) -> None:
        """What sqlglot cannot read becomes an error here, which says it once."""

    def _parse_join(self, *args: Any, **options: Any) -> exp.Join | None:
        first = self._curr
        join = super()._parse_join(*args, **options)
        if join is not None and first is not None:
            join.meta[COMMA] = first.token_type is TokenType.COMMA
            join.meta["start"] = first.start
        return join

    def _parse_interval(self, *args: Any, **options: Any) -> Any:
        string = self._next if self._curr and self._curr.text.upper() == "INTERVAL" else None
        interval = super()._parse_interval(*args, **options)
        if isinstance(interval, exp.Interval) and string is not None and self._prev is string:
            interval.meta[WRITTEN] = string.text
        return interval

    def _parse_property(self) -> Any:
        first = self._curr
        if first is not None and first.text.lower() == "strict" and self._next is not None:
            # A word of Snowflake's on its own, and the name of an option of ours.
            self._advance(2)
            value = self._parse_primary() or self._parse_boolean() or exp.var("nothing")
            parsed: Any = exp.Property(this=exp.var("strict"), value=value)
        else:
            parsed = super()._parse_property()
        for option in parsed if isinstance(parsed, list) else [parsed]:
            if isinstance(option, exp.Expr) and first is not None:
                option.meta["start"] = first.start
        return parsed


class ViewletDialect(Postgres):
    """PostgreSQL's dialect with the words of ours."""

    Parser = ViewletParser

    class Tokenizer(Postgres.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{
                word: kind
                for word, kind in Postgres.Tokenizer.KEYWORDS.items()
                # The rest of these would be one string.
                if word not in ("REFRESH", "SHOW", "EXPLAIN")
            },
            "LONG": TokenType.BIGINT,
        }
