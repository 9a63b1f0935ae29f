"""What is printed: tables, questions and names of files come from strangers, and none of them may steer a terminal."""
