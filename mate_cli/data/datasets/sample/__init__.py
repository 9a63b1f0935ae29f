"""The sample dataset that comes with the package."""
