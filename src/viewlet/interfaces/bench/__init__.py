"""Workloads of `viewlet bench`, one module each."""
