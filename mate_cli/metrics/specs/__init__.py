"""What metrics say of themselves, and the names that scores are logged under."""
