"""Reader of SQA."""
