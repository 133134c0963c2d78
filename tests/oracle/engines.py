"""Which engines the oracle judges in this process.

Native code takes seconds to compile for each query, so that random queries run on the local engine
as the same kernels uncompiled: with VIEWLET_NATIVE=0 the oracle's tests are about that engine.
tests/conformance starts them so in a process of its own, and runs a sample compiled.
"""

from viewlet.native.switch import is_enabled

UNJITTED = not is_enabled()
ENGINES = ("local",) if UNJITTED else ("interpreter",)
"""Engines that must agree with DuckDB on everything that is generated."""
