"""Readers of pre-trained weights: one per origin."""
