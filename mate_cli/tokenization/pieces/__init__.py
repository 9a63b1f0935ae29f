"""From texts to word pieces and back; each distinct text is split once."""
