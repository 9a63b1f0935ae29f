"""Sweeps of `mate train -m`: jobs in separate processes, optuna searches, and the summary of results."""
