"""Benchmarks of attention backends and encoders, and their inputs, timing and records."""
