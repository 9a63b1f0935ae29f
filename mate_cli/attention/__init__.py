"""Attention: patterns define what may be seen, backends compute it."""
