"""Signals beside streams: sampling, filters and spectra over many keys, online and offline.

import viewlet.signals as sg
q = sg.source(key="sensor", time="t", value="v").sample(100, interpolate=sg.linear(300))
q.run(table)                          # a finished table
live = q.start(); live.push(batch)    # a stream, in batches of any size
"""

from viewlet.signals.frames import Framed
from viewlet.signals.interpolation import (
    Interpolation,
    constant,
    interpolation,
    last,
    linear,
    quadratic,
    step,
)
from viewlet.signals.live import Live
from viewlet.signals.operators.aggregates import Aggregate
from viewlet.signals.query import Signal, Stream, Uniform, source
from viewlet.signals.runnable import Query
from viewlet.signals.sliding import PipelineOperator, sliding_dft

__all__ = [
    "Aggregate",
    "Framed",
    "Interpolation",
    "Live",
    "PipelineOperator",
    "Query",
    "Signal",
    "Stream",
    "Uniform",
    "constant",
    "interpolation",
    "last",
    "linear",
    "quadratic",
    "sliding_dft",
    "source",
    "step",
]
