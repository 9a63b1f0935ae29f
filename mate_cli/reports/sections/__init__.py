"""The parts of a comparison that are tables or figures: a file each, shown by every renderer."""
