"""Hybrider: what links a question to a table's cells and passages, and what each of its stages learns from."""
