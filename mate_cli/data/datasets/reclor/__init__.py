"""ReClor: reading with options."""
