"""The command line: subcommands, configuration, sweeps and help texts."""
