"""Attention patterns, which define the mask, and attention backends, which compute the attention."""
