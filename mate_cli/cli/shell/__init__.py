"""Help for the terminal, and completion of words."""
