"""Scalar SQL expressions -> typed scalars.

`Scalars` knows operators and functions; what columns, subqueries and aggregates mean depends on
where an expression stands, so subclasses answer those in `leaf`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from viewlet.errors import (
    ParseError,
    RangeError,
    ResolutionError,
    TypingError,
    UnsupportedError,
)
from viewlet.frontend.casts import cast
from viewlet.frontend.intervals import Interval, interval_literal
from viewlet.frontend.refusals import refused_node
from viewlet.frontend.scalar_functions import FUNCTION_RULES, Functions
from viewlet.frontend.syntax import fault, spine_of, sql_of
from viewlet.frontend.time_calls import spans
from viewlet.frontend.types import (
    FALSE_VALUE,
    NULL_VALUE,
    TRUE_VALUE,
    Typed,
    aligned,
    arithmetic,
    as_number,
    common_type,
    comparison,
    convert,
    declared,
    division,
    is_text_constant,
    meeting_type,
    number_literal,
    shift,
    text_as,
)
from viewlet.functions import (
    NULL,
    Apply,
    Const,
    ScalarExpr,
    apply,
    evaluate,
    free_variables,
)
from viewlet.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, VARCHAR, Kind

COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


class Scalars(Functions):
    """Lowers one expression at a time; `lower` is the entry."""

    def leaf(self, node: exp.Expr) -> Typed | None:
        """A column, subquery or aggregate, as the clause around it reads them; None for others."""
        raise NotImplementedError

    def lower(self, node: exp.Expr) -> Typed:
        """An expression of SQL as a typed scalar, by the rule of its kind."""
        leaf = self.leaf(node)
        if leaf is not None:
            return leaf
        rule = _RULES.get(type(node))
        if rule is None:
            raise refused_node(node)
        return _in_range(rule(self, node), node)

    # Literals.

    def literal(self, node: exp.Literal) -> Typed:
        """'text' and 1.50"""
        if node.is_string:
            return Typed(Const(node.name), VARCHAR)
        return number_literal(node.name)

    def interval(self, node: exp.Interval) -> Typed:
        """An interval by itself is refused: it has no type."""
        raise fault(
            UnsupportedError,
            "an interval can only be added to or subtracted from a date",
            node,
            "write d + INTERVAL '3' MONTH",
        )

    # Operators.

    def chain(self, node: exp.Binary) -> Typed:
        """a + b * 2 - c, one operator after the other from the left."""
        spine = spine_of(node, _ARITHMETIC)
        value: Typed | None = None
        for at in reversed(range(len(spine) - 1)):
            value = self.leaf(spine[at])
            if value is not None:
                spine = spine[at + 1 :]
                break
        for part in spine:
            value = _in_range(self._operated(part, value), part)
        assert value is not None
        return value

    def _operated(self, node: exp.Binary, left: Typed | None) -> Typed:
        """One operator; `left` is its left side where that is lowered already."""
        operator = _ARITHMETIC[type(node)]
        if operator in "+-":
            shifted = self._shifted(operator, left, node)
            if shifted is not None:
                return shifted
        a = self.lower(node.left) if left is None else left
        b = self.lower(node.right)
        dated = _date_arithmetic(operator, a, b, node)
        if dated is not None:
            return dated
        a, b = _numbers_from_text(a, b, node)
        what = f"operator {operator}"
        a, b = as_number(a, node.left, what), as_number(b, node.right, what)
        return arithmetic(operator, a, b, node)

    def _shifted(self, operator: str, left: Typed | None, node: exp.Binary) -> Typed | None:
        """date +- interval, interval + date"""
        interval = _interval(node.right)
        if interval is not None:
            by = interval if operator == "+" else interval.negated()
            return shift(self.lower(node.left) if left is None else left, by, node)
        if operator == "+" and left is None and (interval := _interval(node.left)) is not None:
            return shift(self.lower(node.right), interval, node)
        return None

    def divide(self, node: exp.Div) -> Typed:
        """a / b"""
        a, b = _numbers_from_text(self.lower(node.left), self.lower(node.right), node)
        return division(as_number(a, node.left, "/"), as_number(b, node.right, "/"))

    def modulo(self, node: exp.Mod) -> Typed:
        """MOD(a, b) and a % b"""
        a, b = self.number(node.this, "MOD"), self.number(node.expression, "MOD")
        target = common_type([a.type, b.type], node, "MOD")
        return Typed(
            apply("mod", convert(a, target, node).scalar, convert(b, target, node).scalar), target
        )

    def integer_division(self, node: exp.Binary) -> Typed:
        """a DIV b: the quotient without its fraction"""
        a, b = self.number(node.left, "DIV"), self.number(node.right, "DIV")
        if DOUBLE in (a.type, b.type):
            raise fault(TypingError, "DIV needs exact numbers", node, "use / or CAST")
        a, b = aligned(a, b, node, "DIV")
        return Typed(apply("div", a.scalar, b.scalar), BIGINT)

    def negate(self, node: exp.Neg) -> Typed:
        """-x; of a column of INTEGER it is BIGINT, as all arithmetic is"""
        value = self.number(node.this, "-")
        is_integer = value.type.kind is Kind.INTEGER and not isinstance(value.scalar, Const)
        return Typed(apply("neg", value.scalar), BIGINT if is_integer else value.type)

    def compare(self, node: exp.Binary) -> Typed:
        """a < b and the like, of values or of rows"""
        left, right = node.left, node.right
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            return self._compare_rows(node, left, right)
        lengths = spans(self.lower, left, right)
        a, b = lengths if lengths is not None else (self.lower(left), self.lower(right))
        return comparison(COMPARISONS[type(node)], a, b, node)

    def _compare_rows(self, node: exp.Binary, left: exp.Tuple, right: exp.Tuple) -> Typed:
        """(a, b) = (c, d) -> a = c AND b = d;  (a, b) < (c, d) -> a < c OR (a = c AND b < d)"""
        if len(left.expressions) != len(right.expressions):
            raise fault(UnsupportedError, "rows compare at equal length only", node)
        if not isinstance(node, exp.EQ | exp.NEQ):
            return self._order_rows(node, left, right)
        same = TRUE_VALUE.scalar
        for a, b in zip(left.expressions, right.expressions, strict=True):
            same = apply("and", same, comparison("=", self.lower(a), self.lower(b), node).scalar)
        return Typed(apply("not", same) if isinstance(node, exp.NEQ) else same, BOOLEAN)

    def _order_rows(self, node: exp.Binary, left: exp.Tuple, right: exp.Tuple) -> Typed:
        operator = COMPARISONS[type(node)]
        result: ScalarExpr | None = None
        for a, b in reversed(list(zip(left.expressions, right.expressions, strict=True))):
            first, second = self.lower(a), self.lower(b)
            if result is None:
                result = comparison(operator, first, second, node).scalar
            else:
                before = comparison(operator[0], first, second, node).scalar
                same = comparison("=", first, second, node).scalar
                result = apply("or", before, apply("and", same, result))
        assert result is not None
        return Typed(result, BOOLEAN)

    def both(self, node: exp.Connector) -> Typed:
        """a AND b AND c, all terms at once"""
        name = "and" if isinstance(node, exp.And) else "or"
        spine = spine_of(node, (type(node),))
        terms = [spine[0].left, *(part.right for part in spine)]
        truths = [self.boolean(term, name.upper()).scalar for term in terms]
        return Typed(apply(name, *truths), BOOLEAN)

    def negation(self, node: exp.Not) -> Typed:
        """NOT a"""
        return Typed(apply("not", self.boolean(node.this, "NOT").scalar), BOOLEAN)

    def between(self, node: exp.Between) -> Typed:
        """a BETWEEN [SYMMETRIC] b AND c"""
        value = self.lower(node.this)
        low, high = self.lower(node.args["low"]), self.lower(node.args["high"])

        def inside(a: Typed, b: Typed) -> ScalarExpr:
            above, below = comparison(">=", value, a, node), comparison("<=", value, b, node)
            return apply("and", above.scalar, below.scalar)

        if node.args.get("symmetric"):
            return Typed(apply("or", inside(low, high), inside(high, low)), BOOLEAN)
        return Typed(inside(low, high), BOOLEAN)

    def is_test(self, node: exp.Is) -> Typed:
        """IS NULL, IS TRUE, IS FALSE"""
        test = node.expression
        if isinstance(test, exp.Null):
            return _negated(node, apply("is_null", self.lower(node.this).scalar))
        if isinstance(test, exp.Boolean):
            value = self.boolean(node.this, "IS").scalar
            return _negated(node, apply("is_true", value if test.this else apply("not", value)))
        raise fault(UnsupportedError, f"{sql_of(node)} is not supported", node)

    def same(self, node: exp.Binary) -> Typed:
        """IS NOT DISTINCT FROM, and its negation"""
        a, b = aligned(self.lower(node.left), self.lower(node.right), node, "IS DISTINCT FROM")
        equal = apply("==", a.scalar, b.scalar)
        return Typed(apply("not", equal) if isinstance(node, exp.NullSafeNEQ) else equal, BOOLEAN)

    def in_list(self, node: exp.In) -> Typed:
        """a IN (b, c, ...) and (a, b) IN ((c, d), ...)"""
        if not node.expressions:
            hint = "write FALSE, or TRUE for NOT IN, where nothing is in the list"
            raise fault(ParseError, "IN has an empty list", node, hint)
        if isinstance(node.this, exp.Tuple):
            arms = [exp.EQ(this=node.this.copy(), expression=e) for e in node.expressions]
            result = FALSE_VALUE.scalar
            for arm in arms:
                result = apply("or", result, self.compare(arm).scalar)
            return Typed(result, BOOLEAN)
        value = self.lower(node.this)
        choices = [self.lower(choice) for choice in node.expressions]
        if len(choices) == 1:
            return comparison("=", value, choices[0], node)
        target = meeting_type([value, *choices], node, "IN")
        listed = dict.fromkeys(convert(v, target, node).scalar for v in choices)
        return Typed(apply("in", convert(value, target, node).scalar, *listed), BOOLEAN)

    def like(self, node: exp.Expr) -> Typed:
        """a LIKE b [ESCAPE c]; without ESCAPE a backslash is the escape character"""
        escape: ScalarExpr = Const("\\")
        if isinstance(node, exp.Escape):
            escape, node = self.text(node.expression, "ESCAPE").scalar, node.this
        name = "ilike" if isinstance(node, exp.ILike) else "like"
        value = self.text(node.this, "LIKE").scalar
        pattern = self.text(node.expression, "LIKE").scalar
        if NULL in (escape, pattern):
            pattern = NULL
        elif escape != Const("\\") or isinstance(pattern, Const):
            pattern = _with_backslashes(pattern, escape, node)
        return _negated(node, apply(name, value, pattern))

    def concatenation(self, node: exp.Expr) -> Typed:
        """a || b, where NULL gives NULL; CONCAT skips NULLs"""
        parts = node.expressions
        if isinstance(node, exp.DPipe):
            spine = spine_of(node, (exp.DPipe,))
            parts = [spine[0].left, *(part.right for part in spine)]
        values = [cast(self.lower(part), VARCHAR, part).scalar for part in parts]
        if not isinstance(node, exp.DPipe):
            values = [apply("coalesce", value, Const("")) for value in values]
        return Typed(apply("concat", *values), VARCHAR)

    # CASE and its relatives.

    def case(self, node: exp.Case) -> Typed:
        """CASE [a] WHEN b THEN c ... ELSE d END"""
        tests = []
        for branch in node.args["ifs"]:
            if node.this is None:
                tests.append(self.boolean(branch.this, "WHEN").scalar)
            else:
                pair = comparison("=", self.lower(node.this), self.lower(branch.this), branch)
                tests.append(pair.scalar)
        nodes = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        values = [self.lower(then) for then in nodes]
        values.append(self.lower(default) if default is not None else NULL_VALUE)
        target = meeting_type(values, node, "CASE")
        position_nodes = [*nodes, default if default is not None else node]
        converted = [
            convert(v, target, at).scalar for v, at in zip(values, position_nodes, strict=True)
        ]
        pairs = [part for pair in zip(tests, converted[:-1], strict=True) for part in pair]
        return Typed(apply("case", *pairs, converted[-1]), target)

    def conditional(self, node: exp.If) -> Typed:
        """IF(test, a, b)"""
        default = node.args.get("false")
        values = [
            self.lower(node.args["true"]),
            self.lower(default) if default is not None else NULL_VALUE,
        ]
        target = meeting_type(values, node, "IF")
        then, other = (convert(v, target, node).scalar for v in values)
        return Typed(apply("case", self.boolean(node.this, "IF").scalar, then, other), target)

    def choice(self, node: exp.Expr) -> Typed:
        """COALESCE, GREATEST and LEAST: several values of one type"""
        name = type(node).__name__.lower()
        nodes = [node.this, *node.expressions]
        values = [self.lower(part) for part in nodes]
        target = meeting_type(values, node, name.upper())
        parts = [convert(v, target, at).scalar for v, at in zip(values, nodes, strict=True)]
        if len(parts) == 1:
            return Typed(parts[0], target)
        return Typed(apply(f"{name}_known" if name != "coalesce" else name, *parts), target)

    def nullif(self, node: exp.Nullif) -> Typed:
        """NULLIF(a, b)"""
        left, right = self.lower(node.this), self.lower(node.expression)
        same = comparison("=", left, right, node)
        return Typed(apply("case", same.scalar, NULL_VALUE.scalar, left.scalar), left.type)

    def casting(self, node: exp.Cast) -> Typed:
        """CAST(a AS type)"""
        return cast(self.lower(node.this), declared(node.to), node)


def _in_range(value: Typed, node: exp.Expr) -> Typed:
    """A constant that could not be computed is an error here, where its place is known."""
    if isinstance(value.scalar, Apply) and not free_variables(value.scalar):
        try:
            evaluate(value.scalar, {})
        except RangeError as error:
            raise fault(RangeError, error.message, node, error.hint) from None
    return value


def _negated(node: exp.Expr, test: ScalarExpr) -> Typed:
    """a NOT LIKE b and a IS NOT NULL are marks on the node."""
    return Typed(apply("not", test) if node.args.get("negate") else test, BOOLEAN)


def _interval(node: exp.Expr) -> Interval | None:
    while isinstance(node, exp.Paren):
        node = node.this
    return interval_literal(node) if isinstance(node, exp.Interval) else None


def _date_arithmetic(operator: str, a: Typed, b: Typed, node: exp.Expr) -> Typed | None:
    """date +- days, days + date, date - date"""
    integer_kinds = (Kind.INTEGER, Kind.BIGINT)
    if operator == "-" and a.type == b.type == DATE:
        return Typed(apply("-", a.scalar, b.scalar), INTEGER)
    if operator in "+-" and a.type == DATE and b.type.kind in integer_kinds:
        days = b.scalar if operator == "+" else apply("neg", b.scalar)
        return Typed(apply("date_add_days", a.scalar, days), DATE)
    if operator == "+" and b.type == DATE and a.type.kind in integer_kinds:
        return Typed(apply("date_add_days", b.scalar, a.scalar), DATE)
    if operator == "-" and Kind.TIMESTAMP in (a.type.kind, b.type.kind):
        raise fault(
            UnsupportedError,
            "a difference of timestamps is an interval, which no column can have",
            node,
            "write EXTRACT(EPOCH FROM a - b) or DATE_DIFF('second', b, a)",
        )
    return None


def _numbers_from_text(a: Typed, b: Typed, node: exp.Expr) -> tuple[Typed, Typed]:
    """A string constant beside a number is read as one."""
    if is_text_constant(a) and b.type.is_number:
        return text_as(a, b.type, node), b
    if is_text_constant(b) and a.type.is_number:
        return a, text_as(b, a.type, node)
    return a, b


def _with_backslashes(pattern: ScalarExpr, escape: ScalarExpr, node: exp.Expr) -> ScalarExpr:
    """LIKE 'a!%' ESCAPE '!' -> LIKE 'a\\%'; with ESCAPE '' every character is itself"""
    if not isinstance(pattern, Const) or not isinstance(escape, Const):
        raise fault(UnsupportedError, "ESCAPE needs constants", node)
    character = str(escape.value)
    if len(character) > 1:
        raise fault(TypingError, "ESCAPE takes one character", node)
    out, is_escaped = [], False
    for each in str(pattern.value):
        if is_escaped:
            out.append("\\" + each)
            is_escaped = False
        elif each == character:
            is_escaped = True
        else:
            out.append("\\\\" if each == "\\" else each)
    if is_escaped:
        raise fault(
            TypingError,
            "the pattern of LIKE ends with its escape character",
            node,
            f"write {character * 2} for the character itself",
        )
    return Const("".join(out))


_RULES: Mapping[type[exp.Expr], Callable[..., Typed]] = {
    **FUNCTION_RULES,
    exp.Anonymous: Functions.call,
    exp.Literal: Scalars.literal,
    exp.Boolean: lambda self, node: TRUE_VALUE if node.this else FALSE_VALUE,
    exp.Null: lambda self, node: NULL_VALUE,
    exp.Paren: lambda self, node: self.lower(node.this),
    exp.Interval: Scalars.interval,
    exp.Div: Scalars.divide,
    exp.IntDiv: Scalars.integer_division,
    exp.Mod: Scalars.modulo,
    exp.Neg: Scalars.negate,
    exp.Not: Scalars.negation,
    exp.Between: Scalars.between,
    exp.Is: Scalars.is_test,
    exp.NullSafeEQ: Scalars.same,
    exp.NullSafeNEQ: Scalars.same,
    exp.In: Scalars.in_list,
    exp.Like: Scalars.like,
    exp.ILike: Scalars.like,
    exp.Escape: Scalars.like,
    exp.DPipe: Scalars.concatenation,
    exp.Concat: Scalars.concatenation,
    exp.Case: Scalars.case,
    exp.If: Scalars.conditional,
    exp.Coalesce: Scalars.choice,
    exp.Greatest: Scalars.choice,
    exp.Least: Scalars.choice,
    exp.Nullif: Scalars.nullif,
    exp.Cast: Scalars.casting,
    **dict.fromkeys((exp.And, exp.Or), Scalars.both),
    **dict.fromkeys(_ARITHMETIC, Scalars.chain),
    **dict.fromkeys(COMPARISONS, Scalars.compare),
}


class Constants(Scalars):
    """Expressions of literals only, as in VALUES."""

    def leaf(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Column):
            raise fault(ResolutionError, f"{sql_of(node)} is not a constant", node)
        return None
