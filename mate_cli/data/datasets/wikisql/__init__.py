"""WikiSQL."""
