"""Datasets, corpora for pre-training, and the loading of both in batches."""
