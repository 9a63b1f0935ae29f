"""TabFact."""
