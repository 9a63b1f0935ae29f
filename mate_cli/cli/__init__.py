"""The command line: commands, configuration, sweeps, and help."""
