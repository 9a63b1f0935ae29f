"""Schema linking: links between question words and names, and the relations of a schema."""
