"""Fits tables into a token budget: selects rows, columns and cells, truncates cells, and counts the truncation."""
