"""Figures: one per file."""
