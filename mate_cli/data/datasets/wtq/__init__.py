"""WikiTableQuestions."""
