"""Losses: one per file."""
