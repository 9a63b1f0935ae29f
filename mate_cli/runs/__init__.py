"""Training runs: folders, records, configuration, checkpoints, loggers and processes."""
