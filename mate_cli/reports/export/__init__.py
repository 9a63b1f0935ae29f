"""Exports of a comparison: JSON and CSV, LaTeX, Markdown, W&B."""
