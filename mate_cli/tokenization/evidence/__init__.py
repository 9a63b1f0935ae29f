"""Evidence: texts that answer a question together, the nodes of a graph, and how they relate."""
