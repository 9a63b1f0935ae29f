"""Metrics: one per file."""
