"""From overrides to a resolved and validated configuration."""
