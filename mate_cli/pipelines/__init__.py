"""Whole jobs: a training run, and the chain of PointR's stages."""
