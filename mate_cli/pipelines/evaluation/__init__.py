"""Evaluation of trained weights and of answers, with prediction files."""
