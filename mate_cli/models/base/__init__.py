"""What every network is made from: the encoder of tables, its sizes, its output, and the work that it is."""
