"""Fit a table into an input: choose rows, columns and cells, shorten cells, and say what was left out."""
