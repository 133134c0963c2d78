"""Trigger programmes: their parts, text, checker, optimiser and interpreter."""
