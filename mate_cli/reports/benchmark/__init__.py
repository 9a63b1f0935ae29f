"""What a benchmark measured: tables, figures, a page and the terminal."""
