"""Trigger programs as native code: loops, their Python source, and its compilation."""
