"""Heads: scores of cells, classes and aggregations from the states of a network."""
