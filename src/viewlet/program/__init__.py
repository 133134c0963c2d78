"""Trigger programs: their parts, text, checker, optimizer and interpreter."""
