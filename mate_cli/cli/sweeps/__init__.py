"""Sweeps of `mate train -m`: jobs, optuna searches, and the summary of results."""
