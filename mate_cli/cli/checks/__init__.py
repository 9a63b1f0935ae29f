"""Checks of a run before it begins, and what it will cost."""
