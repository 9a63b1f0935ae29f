"""Corpora for pre-training, of tables with texts: sources, shards, and removal of evaluation tables."""
