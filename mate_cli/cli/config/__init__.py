"""Compose, resolve and validate configurations from overrides, and explain errors in them."""
