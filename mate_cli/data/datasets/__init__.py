"""Datasets, each in a folder with a reader and a `release.json` that describes the release."""
