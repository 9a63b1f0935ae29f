"""Spider: questions about databases, each to be answered by a query."""
