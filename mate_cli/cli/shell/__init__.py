"""What the terminal is told: help, and what a word can be completed to."""
