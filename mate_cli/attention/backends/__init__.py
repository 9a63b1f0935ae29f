"""Attention backends, one implementation per file."""
