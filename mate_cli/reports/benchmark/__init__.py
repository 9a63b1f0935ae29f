"""The results of a benchmark: tables, figures, a page and the terminal."""
