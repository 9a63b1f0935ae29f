"""Reader of TabFact."""
