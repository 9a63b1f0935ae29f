"""Sweeps: jobs, each in a process of its own, and what became of them."""
