"""Identifiers of a program's kernels: each stands for one thing, and reads like its name.

    module     on_R, each_R            the functions of a trigger
               map_M, records_M, ...   what every function calls the parts of a map
    function   row_a                   the columns of the rows of the batch
               s_b_1, total_2, ...     variables and sums
               at3, r5, ...            what the writer of the source needs in between

Names of users are not identifiers: they may hold anything, be as long as one likes, and be equal
once what Python does not allow is left out. So all of these come from one allocator
(viewlet.names), which also knows the words of Python and what kernels import.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import unicodedata

from viewlet.kernels import native_functions
from viewlet.names import Forms, FreshNames

LONGEST = 48
"""Characters of a user's name that an identifier shows; names of functions are names of files."""

MAP_PARTS: Forms = (
    "map_{}",
    "records_{}",
    "marks_{}",
    "logging_{}",
    "slots_{}",
    "mask_{}",
    "tags_{}",
)
"""What a function calls the parts of a map's descriptor (kernels.prologue)."""

TRIGGER_FUNCTIONS: Forms = ("on_{}", "each_{}")

LOCAL: Forms = ("{}", "{}_null", "{}_in", "{}_some")
"""A local with those that may stand beside it: is it NULL; of a border, whether any key meets its
condition and whether its own does."""

SERIES = ("column", "nulls", "table", "gaps", "text")
"""column_0, ... of the batch; lookup tables over strings; string constants (kernels.prologue)."""

WORDS = (
    *("state", "control", "step", "last", "start", "skip", "done"),
    *("row", "weight", "low", "high", "weights", "ranks", "zero"),
    *("chosen", "following", "count", "nth", "later", "soon"),
    *("root", "border"),
)
"""The locals that every function may have."""

HEAD = '''"""Kernels of one program; made by viewlet.kernels, not to be edited."""

from math import inf, nan

from viewlet.kernels.native_functions import *
from viewlet.native.compiled import compiled
from viewlet.storage.arithmetic import minus, plus, times, weighed
from viewlet.storage.doubles import (
    beyond_limit,
    element_of,
    element_plus,
    element_product,
    element_times,
    element_value,
    gathering_loss,
    gather,
    gathered,
    gathered_value,
    is_some,
    load_element,
    load_lower,
    no_element,
    plainly_gathered,
)
from viewlet.storage.hashmap import (
    find,
    find_group,
    hash_words,
    likely,
    numbers_in,
    tag_bits,
)
from viewlet.storage.memory import (
    float_bits,
    load,
    load_byte,
    load_float,
    load_half,
    order_of,
    prefetch,
    store,
    store_half,
    workspace,
)
from viewlet.storage.multimap import (
    add_element,
    add_int,
    clear_buffer,
    clear_column,
    mark_of,
    refresh_trees,
    refuse_null_key,
    upsert,
)
from viewlet.storage.tree_layout import lower_of
from viewlet.storage.tree_sums import int_total
from viewlet.storage.ordered_index import find_root, first_counted, next_counted, only_root

'''
"""The first lines of every module of kernels: what they call."""


def identifier(name: str) -> str:
    """A user's name as a part of an identifier; equal ones may come from names that differ.

    Python reads identifiers in the normal form KC, so that is how they are written.
    """
    plain = unicodedata.normalize("NFKC", name)[:LONGEST]
    return "".join(c if f"_{c}".isidentifier() else "_" for c in plain)


class KernelNames:
    """The identifiers of one module of kernels."""

    def __init__(self) -> None:
        self._module = FreshNames((*_IMPORTED, *dir(builtins), *keyword.kwlist, *WORDS))
        self._module.reserve_series(SERIES)
        self._maps: dict[str, str] = {}
        self._triggers: dict[str, str] = {}
        self._descents: dict[tuple[str, int], str] = {}

    def map(self, name: str) -> str:
        """What the parts of a map are called after: M of map_M, records_M and so on."""
        if name not in self._maps:
            self._maps[name] = self._module.fresh(identifier(name), MAP_PARTS)
        return self._maps[name]

    def trigger(self, relation: str) -> str:
        """What the functions of a trigger are called after."""
        if relation not in self._triggers:
            self._triggers[relation] = self._module.fresh(identifier(relation), TRIGGER_FUNCTIONS)
        return self._triggers[relation]

    def descent(self, kind: str, number: int) -> str:
        """What the function is called that is the n-th descent in an ordered index."""
        if (kind, number) not in self._descents:
            self._descents[kind, number] = self._module.fresh(f"{kind}_at_{number}")
        return self._descents[kind, number]

    def scope(self) -> FreshNames:
        """The locals of a trigger."""
        return self._module.inner()


def _imported() -> set[str]:
    """All that the first lines make known to the module."""
    names = {*vars(native_functions)}
    for node in ast.parse(HEAD).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


_IMPORTED = _imported()
