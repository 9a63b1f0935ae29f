"""Tables of datasets and users: reading, numbers, texts, answers and labels."""
