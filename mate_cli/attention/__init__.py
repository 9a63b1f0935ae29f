"""Attention patterns define masks, and attention backends compute attention."""
