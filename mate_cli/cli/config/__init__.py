"""From overrides to a resolved and checked configuration."""
