"""Benchmarks: commands that measure, one per file."""
