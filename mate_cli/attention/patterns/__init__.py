"""Definitions: one boolean mask per file."""
