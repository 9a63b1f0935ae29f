"""A finished run or a checkpoint at work: answer questions about own tables and databases, read states in own code."""
