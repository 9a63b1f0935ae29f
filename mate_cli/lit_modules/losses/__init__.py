"""Losses, by what they are of."""
