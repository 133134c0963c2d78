"""Trigger programmes to native code. Imports program and storage."""
