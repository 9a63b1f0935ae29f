"""Computations: one implementation per file."""
