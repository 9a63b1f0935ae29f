"""Synthetic questions about the tables of HybridQA."""
