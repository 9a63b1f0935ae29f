"""Subcommands of `mate`, one per module."""
