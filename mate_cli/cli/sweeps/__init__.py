"""Sweeps: jobs, each in a separate process, and the summary of their results."""
