"""Terminal output: tables, questions and names of files come from strangers, and none may steer a terminal."""
