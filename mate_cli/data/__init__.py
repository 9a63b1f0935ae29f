"""Datasets as their authors ship them, corpora for pre-training, and how both become batches."""
