"""Heads: scores of cells, spans, classes, words and queries from the states of a network."""
