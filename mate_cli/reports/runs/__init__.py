"""Run folders that are read from disk, of finished and of running runs."""
