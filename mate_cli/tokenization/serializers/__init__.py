"""From a question and a table to arrays of tokens: one file per encoding."""
