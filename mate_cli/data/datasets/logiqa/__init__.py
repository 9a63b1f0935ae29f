"""LogiQA: reading with options."""
