"""Pipelines: a SQL file with its sources and sinks, and `viewlet run`."""
