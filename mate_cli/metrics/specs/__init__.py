"""Declarations of metrics, and the names that scores are logged under."""
