"""Corpora of tables with texts, for pre-training."""
