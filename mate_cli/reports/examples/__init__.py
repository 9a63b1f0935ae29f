"""One example in the terminal: its table, its tokens, and texts that are read side by side."""
