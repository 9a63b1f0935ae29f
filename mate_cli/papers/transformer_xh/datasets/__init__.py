"""Datasets of questions about documents."""
