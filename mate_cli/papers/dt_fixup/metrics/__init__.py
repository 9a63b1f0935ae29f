"""Scores of queries."""
