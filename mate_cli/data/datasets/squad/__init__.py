"""SQuAD: questions about paragraphs of Wikipedia."""
