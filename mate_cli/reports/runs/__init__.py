"""Run folders read from disk, finished or still running."""
