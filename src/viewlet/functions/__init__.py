"""Scalar expressions, and one record for each function that they may call.

scalars      constants, variables, functions of scalars; walks over them
record       what is known of a function, and the check that nothing of it is missing
forms        sql_forms, kernel_forms, vector_forms, trends: the shapes that its parts have
evaluation   scalars made, simplified, typed and evaluated by the records
themes       arithmetic, bits, rounding, exponentials, spreads, comparison, logic, choice, text,
             text_parts, regular, dates,
             date_text, calendar, casts: the functions

To add a function, write its record in the file of its theme, and a line in the table of
tests/functions/calls.py: the tests compare it on all engines. CBRT in exponentials.py is a short
one to copy.

NULL follows SQL: a strict function of NULL is NULL; AND, OR and NOT are three-valued; only the
functions whose rule for NULL says so look at it themselves.
"""

from viewlet.functions import (
    arithmetic,
    bits,
    calendar,
    casts,
    choice,
    comparison,
    date_text,
    dates,
    exponentials,
    logic,
    regular,
    rounding,
    spreads,
    text,
    text_parts,
)
from viewlet.functions.conversions import as_double, scale_up
from viewlet.functions.dates import DAY
from viewlet.functions.evaluation import (
    apply,
    can_be_null,
    can_fail,
    can_refuse,
    demands_one_row,
    evaluate,
    physical_type,
    result_type,
    settles,
    substitute,
)
from viewlet.functions.record import (
    CALLS,
    FUNCTIONS,
    NATIVES,
    STRICT,
    ScalarFunction,
    duckdb_macros,
)
from viewlet.functions.scalar_text import format_constant, format_scalar
from viewlet.functions.scalars import (
    FALSE,
    NULL,
    TRUE,
    Apply,
    Const,
    Ref,
    ScalarExpr,
    conjuncts,
    fold,
    free_variables,
)
from viewlet.functions.sql_forms import SqlCall, SqlCast, SqlSyntax

THEMES = (
    arithmetic,
    bits,
    calendar,
    comparison,
    logic,
    choice,
    rounding,
    exponentials,
    spreads,
    text,
    date_text,
    dates,
    date_text,
    casts,
    regular,
    text_parts,
)
"""The modules with the functions; importing them takes the records in."""

INFIX = {
    name: (name, record.infix) for name, record in FUNCTIONS.items() if record.infix is not None
}
"""Functions that are written between their arguments: the symbol, and how tightly it binds."""

__all__ = [
    "CALLS",
    "DAY",
    "FALSE",
    "FUNCTIONS",
    "INFIX",
    "NATIVES",
    "NULL",
    "STRICT",
    "THEMES",
    "TRUE",
    "Apply",
    "Const",
    "Ref",
    "ScalarExpr",
    "ScalarFunction",
    "SqlCall",
    "SqlCast",
    "SqlSyntax",
    "apply",
    "as_double",
    "can_be_null",
    "can_fail",
    "can_refuse",
    "conjuncts",
    "demands_one_row",
    "duckdb_macros",
    "evaluate",
    "fold",
    "format_constant",
    "format_scalar",
    "free_variables",
    "physical_type",
    "result_type",
    "scale_up",
    "settles",
    "substitute",
]
