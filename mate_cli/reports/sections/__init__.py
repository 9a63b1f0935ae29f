"""The sections of a comparison that are tables or figures, shown by every renderer."""
