"""How long a call takes and how much memory, on which machine, and how long all of it will take."""
