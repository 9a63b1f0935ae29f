"""QAMR: questions about words of single sentences."""
