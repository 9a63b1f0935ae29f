"""A comparison for other programs: JSON and CSV, LaTeX, Markdown, W&B."""
