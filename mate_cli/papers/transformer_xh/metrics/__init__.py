"""Scores of answers with their evidence."""
