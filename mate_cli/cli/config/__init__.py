"""How what is typed becomes a configuration."""
