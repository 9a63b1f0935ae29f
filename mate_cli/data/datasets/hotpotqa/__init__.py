"""HotpotQA: questions that need two pages of Wikipedia."""
