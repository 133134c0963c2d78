"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples every time: a suite that passed passes again. HYPOTHESIS_PROFILE=default looks
# for others; what it finds becomes a test of its own.
settings.register_profile("same", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
