"""From a question and a table to flat arrays of tokens."""
