"""Reader of WikiTableQuestions."""
