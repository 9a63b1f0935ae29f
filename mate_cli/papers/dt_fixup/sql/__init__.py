"""SQL queries on databases: representation, parsing, writing, comparison and execution."""
