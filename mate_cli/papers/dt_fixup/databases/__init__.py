"""Questions about user databases, for training and prediction."""
