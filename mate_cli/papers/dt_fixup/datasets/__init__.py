"""Datasets of questions about databases and of multiple-choice questions."""
