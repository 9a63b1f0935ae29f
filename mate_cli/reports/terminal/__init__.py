"""A comparison, and jobs that are watched, in the terminal."""
