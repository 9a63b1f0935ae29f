"""TyDi QA, gold passages: questions that were asked without seeing the text."""
