"""Releases of questions about documents."""
