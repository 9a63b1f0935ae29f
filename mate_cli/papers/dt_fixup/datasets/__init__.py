"""Releases of questions about databases and about texts with options."""
