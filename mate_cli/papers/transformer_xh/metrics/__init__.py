"""Metrics of answers and supporting sentences."""
